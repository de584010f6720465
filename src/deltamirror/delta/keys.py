"""Keys that an object of a JSON text has twice: of the two values some readers take the first, others the last."""

import json
from collections.abc import Sequence

import msgspec

_decoder, _encoder = msgspec.json.Decoder(), msgspec.json.Encoder()
_decode, _encode = _decoder.decode, _encoder.encode


class _Repeated(Exception):
    """Carries the key out of the parser."""


def repeated_key(text: bytes | str) -> str | None:
    """A key that an object of the JSON text has twice, at any depth; None where all are distinct, or it is no JSON."""
    data = text.encode() if isinstance(text, str) else text
    try:
        if _keeps_keys(data, _encode(_decode(data))):
            return None
        json.loads(data, object_pairs_hook=_distinct)
    except _Repeated as found:
        return str(found)
    except (ValueError, RecursionError):
        return None
    return None


def have_distinct_keys(texts: Sequence[str]) -> bool:
    """Whether ``repeated_key`` finds no key in any of these JSON texts."""
    data = "\n".join(texts).encode()
    try:
        if _keeps_keys(data, _encoder.encode_lines(_decoder.decode_lines(data)).removesuffix(b"\n")):
            return True
    except (ValueError, RecursionError):
        pass
    return all(repeated_key(text) is None for text in texts)


def _keeps_keys(data: bytes, again: bytes) -> bool:
    """Whether parsing and encoding, which made ``again`` of the text, surely lost no key.

    Without a backslash, each quote begins or ends a text: a key that is lost takes two of them along.
    """
    return again == data.rstrip() or (b"\\" not in data and again.count(b'"') == data.count(b'"'))


def _distinct(pairs: Sequence[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise _Repeated(next(key for key in keys if keys.count(key) > 1))
