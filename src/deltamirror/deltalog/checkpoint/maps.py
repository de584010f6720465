"""Maps of texts as Arrow arrays. Their entries are in the order of their keys, however the lines had them."""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

TEXT_MAP: Final = pa.map_(pa.string(), pa.string())


def maps_of(values: Iterable[Mapping[str, str | None] | None]) -> pa.MapArray:
    """The array of these maps."""
    return pa.array([None if each is None else sorted(each.items()) for each in values], TEXT_MAP)


def map_of_struct(fields: pa.StructArray, *, nulls_are_values: bool) -> pa.MapArray:
    """A map for every struct of texts: an entry for each field, in their order.

    A field that is null is an entry with a null value, or no entry at all.
    """
    rows, width = len(fields), fields.type.num_fields
    valid, names = fields.is_valid(), [each.name for each in fields.type]
    if width == 0 or rows == 0:
        return _maps(pa.repeat(pa.scalar(0, pa.int32()), rows + 1), valid, pa.array([], pa.string()), [])
    places = pa.array(range(rows * width), pa.int32())
    row = pc.divide(places, width)
    field = pc.subtract(places, pc.multiply(row, width))
    values = pa.concat_arrays(fields.flatten()).take(pc.add(pc.multiply(field, rows), row))
    present = valid.take(row) if nulls_are_values else values.is_valid()
    counted = pc.cumulative_sum(present.cast(pa.int32())).take(pa.array(range(width - 1, rows * width, width)))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), counted])
    return _maps(offsets, valid, pa.array(names).take(field).filter(present), values.filter(present))


def in_order(maps: pa.MapArray) -> pa.MapArray:
    """The same maps, their entries in the order of their keys."""
    start = maps.offsets[0].as_py()
    offsets = pc.subtract(maps.offsets, start)
    keys, values = (part.slice(start, offsets[-1].as_py()) for part in (maps.keys, maps.items))
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, keys))
    if _are_in_order(rows, keys):
        return maps
    order = pc.sort_indices(pa.table({"row": rows, "key": keys}), [("row", "ascending"), ("key", "ascending")])
    return _maps(offsets, maps.is_valid(), keys.take(order), values.take(order))


def _are_in_order(rows: pa.Array, keys: pa.Array) -> bool:
    rest = max(len(keys) - 1, 0)
    falls = pc.and_(pc.equal(rows.slice(0, rest), rows.slice(1)), pc.greater(keys.slice(0, rest), keys.slice(1)))
    return not pc.any(falls).as_py()


def _maps(offsets: pa.Array, valid: pa.Array, keys: pa.Array, values: pa.Array) -> pa.MapArray:
    """A null among the offsets makes a null map."""
    starts = pc.if_else(valid, offsets.slice(0, len(valid)), pa.scalar(None, pa.int32()))
    return pa.MapArray.from_arrays(pa.concat_arrays([starts, offsets.slice(len(valid))]), keys, values)
