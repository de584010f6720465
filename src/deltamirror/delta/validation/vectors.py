"""Whether the descriptor of a deletion vector is well formed."""

from dataclasses import dataclass

from deltamirror.delta.actions import DeletionVector

__all__ = ["BrokenVector", "broken_vector_rule"]

_ENCODED_UUID_LENGTH = 20


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
    if not _is_placed(vector):
        return BrokenVector("path", "pathOrInlineDv", vector.path_or_inline_dv)
    if vector.offset is not None and (vector.storage_type == "i" or vector.offset < 0):
        return BrokenVector("offset", "offset", vector.offset)
    if vector.size_in_bytes <= 0:
        return BrokenVector("size", "sizeInBytes", vector.size_in_bytes)
    if vector.cardinality < 0:
        return BrokenVector("cardinality", "cardinality", vector.cardinality)
    return None


def _is_placed(vector: DeletionVector) -> bool:
    place = vector.path_or_inline_dv
    match vector.storage_type:
        case "u":
            return len(place) >= _ENCODED_UUID_LENGTH
        case "p":
            return ":" in place or place.startswith("/")
        case _:
            return bool(place)
