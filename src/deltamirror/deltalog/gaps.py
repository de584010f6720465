"""Which versions are missing among those that are there, and how to say so."""

from collections.abc import Iterable, Sequence
from typing import Final

_MOST_SPELLED: Final = 5


def missing_versions(present: Iterable[int], *, first: int, last: int) -> list[range]:
    """The gaps from ``first`` to ``last``, ascending.

    >>> missing_versions([1, 2, 5], first=0, last=6)
    [range(0, 1), range(3, 5), range(6, 7)]
    """
    gaps, expected = [], first
    for version in [*sorted(each for each in present if first <= each <= last), last + 1]:
        if version > expected:
            gaps.append(range(expected, version))
        expected = version + 1
    return gaps


def spelled(gaps: Sequence[range]) -> str:
    """The gaps in words.

    >>> spelled([range(0, 1), range(3, 5)])
    'versions 0, 3 to 4'
    """
    texts = [str(gap[0]) if len(gap) == 1 else f"{gap[0]} to {gap[-1]}" for gap in gaps[:_MOST_SPELLED]]
    more = f" and {len(gaps) - _MOST_SPELLED} further gaps" if len(gaps) > _MOST_SPELLED else ""
    noun = "version" if len(gaps) == 1 and len(gaps[0]) == 1 else "versions"
    return f"{noun} {', '.join(texts)}{more}"
