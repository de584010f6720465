"""Which rows of two Arrow arrays differ: pairs of values, compared without a Python object for each of them."""

from decimal import Decimal
from functools import reduce
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["unequal", "unequal_documents"]

_DOCUMENT: Final = msgspec.json.Decoder(float_hook=Decimal)


def unequal(one: pa.Array, other: pa.Array) -> pa.BooleanArray:
    """For each row whether the values differ. Two nulls are equal, and a null map is an empty one."""
    if pa.types.is_map(one.type):
        return _unequal_maps(one, other)
    present = pc.xor(one.is_valid(), other.is_valid())
    if pa.types.is_struct(one.type):
        fields = zip(one.flatten(), other.flatten(), strict=True)
        return reduce(pc.or_, (unequal(*pair) for pair in fields), present)
    return pc.coalesce(pc.not_equal(one, other), present)


def unequal_documents(one: pa.Array, other: pa.Array) -> pa.BooleanArray:
    """For each row whether the JSON texts say something else; only texts that differ are looked into."""
    differing = unequal(one, other)
    rows = pc.indices_nonzero(differing)
    texts = zip(one.take(rows), other.take(rows), strict=True)
    found = [not _is_same_document(*(text.as_py() for text in pair)) for pair in texts]
    return pc.replace_with_mask(differing, differing, pa.array(found, pa.bool_()))


def _is_same_document(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return False
    try:
        return bool(_DOCUMENT.decode(one) == _DOCUMENT.decode(other))
    except msgspec.DecodeError:
        return False


def _unequal_maps(one: pa.MapArray, other: pa.MapArray) -> pa.BooleanArray:
    """Entries are in the order of their keys on both sides: where there are equally many, they face each other."""
    by_length = pc.not_equal(_lengths(one), _lengths(other))
    rows = pc.indices_nonzero(pc.invert(by_length))
    mine, theirs = one.take(rows), other.take(rows)
    entries = pc.or_(unequal(mine.keys, theirs.keys), unequal(mine.items, theirs.items))
    parents = pc.list_parent_indices(pa.ListArray.from_arrays(mine.offsets, mine.keys))
    by_entry = pc.is_in(pa.array(range(len(one)), rows.type), rows.take(parents.filter(entries)))
    return pc.or_(by_length, by_entry)


def _lengths(maps: pa.MapArray) -> pa.Array:
    lengths = pc.subtract(maps.offsets.slice(1), maps.offsets.slice(0, len(maps)))
    return pc.if_else(maps.is_valid(), lengths, pa.scalar(0, lengths.type))
