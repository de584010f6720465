"""Whether the descriptor of a deletion vector is well formed, and whether readers can follow it."""

import re
import uuid
from base64 import b85decode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from deltamirror.delta.actions import DeletionVector
from deltamirror.delta.validation.bitmaps import Bitmap, MalformedBitmap, decode_bitmap
from deltamirror.errors import Unsupported

INLINE: Final = "i"
"""The storage type of a vector that is in the log itself."""

_ENCODED_UUID_LENGTH: Final = 20
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_RFC_1924: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_LETTERS: Final = frozenset(_Z85)
_TO_RFC_1924: Final = str.maketrans(_Z85, _RFC_1924)
"""The standard library decodes the same groups of five, in other letters."""
_MAGIC: Final = "^Bg9^"
"""The number 1681511377 in four bytes, the lowest first, with which every bitmap begins."""
_is_read_address = re.compile(r"file:(?://[^/]*)?/.+|(?:s3a?|gs|abfss?)://[^/]+/.+", re.DOTALL).fullmatch
"""What Delta Spark and the Delta kernel (delta-rs, DuckDB) open. The kernel takes no path without a scheme."""
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
    if vector.offset is not None and (vector.storage_type == INLINE or vector.offset < 0):
        return BrokenVector("offset", "offset", vector.offset)
    if vector.cardinality < 0:
        return BrokenVector("cardinality", "cardinality", vector.cardinality)
    return None


def unread_vector_rule(vector: DeletionVector, records: int | None) -> BrokenVector | None:
    """The first rule that a well-formed vector of a file of so many rows breaks, and a reader of the file fails at.

    Not asked of a remove: no reader looks for the rows of a file that is gone, and the file has to be able to go.
    """
    place = vector.path_or_inline_dv
    if vector.storage_type == "p" and not _is_read_address(place):
        return BrokenVector("address", "pathOrInlineDv", place)
    if vector.storage_type != INLINE:
        return None
    try:
        bitmap = decode_bitmap(inline_bitmap(vector))
    except MalformedBitmap as error:
        return BrokenVector("bitmap", "pathOrInlineDv", f"{place[:60]}: {error}")
    return _broken_count(bitmap, vector, records)


def inline_bitmap(vector: DeletionVector) -> bytes:
    """The bitmap of a vector that is in the log itself."""
    return _decoded(vector.path_or_inline_dv)[: vector.size_in_bytes]


def named_paths(path: str, vector: DeletionVector | None) -> Iterator[str]:
    """The paths that an add or a remove names: its data file, and the file of its vector; Unsupported if that has none.

    The log of another writer may have such a vector: commits of ours are checked.
    """
    yield path
    if vector is None or vector.storage_type == INLINE:
        return
    try:
        file = vector_file(vector)
    except ValueError as error:
        raise Unsupported(
            f"the file of the deletion vector {vector.unique_id} of {path} cannot be told: {error}",
            hint="restore a version without it; vacuum deletes nothing while a version within retention names it",
        ) from error
    yield file


def vector_file(vector: DeletionVector) -> str:
    """The path of the file that holds a vector: relative to the table, or absolute, as it was logged.

    ValueError where the descriptor is not well formed.
    """
    if vector.storage_type == "p":
        return vector.path_or_inline_dv
    place = vector.path_or_inline_dv
    folder, encoded = place[:-_ENCODED_UUID_LENGTH], place[-_ENCODED_UUID_LENGTH:]
    name = f"deletion_vector_{uuid.UUID(bytes=_decoded(encoded))}.bin"
    return f"{folder}/{name}" if folder else name


def _broken_count(bitmap: Bitmap, vector: DeletionVector, records: int | None) -> BrokenVector | None:
    if bitmap.cardinality != vector.cardinality:
        return BrokenVector("counts", "cardinality", f"{vector.cardinality}, the bitmap has {bitmap.cardinality}")
    if records is not None and bitmap.last >= records:
        return BrokenVector("exceeds-records", "pathOrInlineDv", f"row {bitmap.last} of {records}")
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
    try:
        return len(text) % 5 == 0 and set(text) <= _LETTERS and len(_decoded(text)) == len(text) // 5 * 4
    except ValueError:  # a group is a larger number
        return False


def _decoded(text: str) -> bytes:
    return b85decode(text.translate(_TO_RFC_1924))
