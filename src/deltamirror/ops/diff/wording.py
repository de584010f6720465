"""Two values that differ, in words."""

from collections.abc import Iterable
from typing import Final

import msgspec

__all__ = ["both"]

_LONGEST: Final = 200


def both(one: object, other: object) -> str:
    """``is 1 in A and absent in B``."""
    mine, theirs = _shortened(_shown(one), _shown(other))
    return f"is {mine} in A and {theirs} in B"


def _shown(value: object) -> str:
    return "absent" if value in (None, []) else msgspec.json.encode(value).decode()


def _shortened(*texts: str) -> Iterable[str]:
    """Long texts from a little before the place where they begin to differ."""
    if max(map(len, texts)) <= _LONGEST:
        return texts
    pairs = enumerate(zip(*texts, strict=False))
    apart = next((place for place, pair in pairs if len(set(pair)) > 1), min(map(len, texts)))
    start = max(apart - _LONGEST // 4, 0)
    return [_cut(text, start) for text in texts]


def _cut(text: str, start: int) -> str:
    before, after = "…" if start else "", "…" if len(text) > start + _LONGEST else ""
    return f"{before}{text[start : start + _LONGEST]}{after}"
