"""Keys that an object of a JSON text has twice: of the two values some readers take the first, others the last."""

import json
from collections.abc import Sequence

import msgspec

_decode, _encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


class _Repeated(Exception):
    """Carries the key out of the parser."""


def repeated_key(text: bytes | str) -> str | None:
    """A key that an object of the JSON text has twice, at any depth; None where all are distinct, or it is no JSON."""
    data = text.encode() if isinstance(text, str) else text
    try:
        # What parsing and encoding leave as it was has lost no key. Most texts are compact: this is the fast way.
        if _encode(_decode(data)) == data.rstrip():
            return None
        json.loads(data, object_pairs_hook=_distinct)
    except _Repeated as found:
        return str(found)
    except (ValueError, RecursionError):
        return None
    return None


def _distinct(pairs: Sequence[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise _Repeated(next(key for key in keys if keys.count(key) > 1))
