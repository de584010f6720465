"""Whether the descriptor of a deletion vector is well formed."""

import re
from dataclasses import dataclass
from typing import Final

from deltamirror.delta.actions import DeletionVector

__all__ = ["BrokenVector", "broken_vector_rule"]

_ENCODED_UUID_LENGTH: Final = 20
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS: Final = {letter: digit for digit, letter in enumerate(_Z85)}
_MAGIC: Final = "^Bg9^"
"""The number 1681511377 in four bytes, the lowest first, with which every bitmap begins."""
_is_prefix = re.compile(r"[A-Za-z0-9._/=-]*").fullmatch


@dataclass(frozen=True, slots=True)
class BrokenVector:
    """The rule that a descriptor breaks, without the name of its action, and where."""

    rule: str
    field: str
    found: object


def broken_vector_rule(vector: DeletionVector) -> BrokenVector | None:
    """The first rule that the descriptor breaks."""
    if vector.storage_type not in ("u", "i", "p"):
        return BrokenVector("storage-type", "storageType", vector.storage_type)
    if vector.size_in_bytes <= 0:
        return BrokenVector("size", "sizeInBytes", vector.size_in_bytes)
    if not _is_placed(vector):
        return BrokenVector("path", "pathOrInlineDv", vector.path_or_inline_dv)
    if vector.offset is not None and (vector.storage_type == "i" or vector.offset < 0):
        return BrokenVector("offset", "offset", vector.offset)
    if vector.cardinality < 0:
        return BrokenVector("cardinality", "cardinality", vector.cardinality)
    return None


def _is_placed(vector: DeletionVector) -> bool:
    place = vector.path_or_inline_dv
    match vector.storage_type:
        case "u":
            start = len(place) - _ENCODED_UUID_LENGTH
            return start >= 0 and _is_z85(place[start:]) and _is_folder(place[:start])
        case "p":
            return ":" in place or place.startswith("/")
        case _:
            # The bytes are padded to groups of four, each of which takes five letters.
            return place.startswith(_MAGIC) and _is_z85(place) and len(place) // 5 == -(-vector.size_in_bytes // 4)


def _is_folder(prefix: str) -> bool:
    return _is_prefix(prefix) is not None and ".." not in prefix.split("/") and not prefix.startswith("/")


def _is_z85(text: str) -> bool:
    """Whether readers can decode the text: groups of five letters, each a number of 32 bits."""
    if len(text) % 5 or not _DIGITS.keys() >= set(text):
        return False
    return all(_number(text[start : start + 5]) < 1 << 32 for start in range(0, len(text), 5))


def _number(group: str) -> int:
    number = 0
    for letter in group:
        number = number * len(_Z85) + _DIGITS[letter]
    return number
