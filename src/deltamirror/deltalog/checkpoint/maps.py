"""Maps of texts as Arrow arrays. Their entries are in the order of their keys, however the lines had them."""

from collections.abc import Iterable, Mapping, Sequence
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
        none = pa.array([], pa.string())
        return _maps(pa.repeat(pa.scalar(0, pa.int32()), rows + 1), valid, none, none)
    order = _row_by_row(rows, width) if width > 1 else None
    values = _arranged(fields.flatten(), order)
    keys = _arranged([pa.repeat(name, rows) for name in names], order)
    present = _arranged([valid] * width, order) if nulls_are_values else values.is_valid()
    counted = pc.cumulative_sum(present.cast(pa.int32()))
    ends = counted.take(pc.add(pc.multiply(_numbers(rows), width), width - 1)) if width > 1 else counted
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return _maps(offsets, valid, keys.filter(present), values.filter(present))


def value_of(maps: pa.MapArray, key: str) -> pa.Array:
    """The value of a key in each map, as ``map_lookup`` gives it: a table's files mostly have all of its keys."""
    start, end = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    found = pc.add(pc.indices_nonzero(pc.equal(maps.keys.slice(start, end - start), key)).cast(pa.int32()), start)
    return maps.items.take(found) if _are_one_each(maps, found) else pc.map_lookup(maps, key, "first")


def _are_one_each(maps: pa.MapArray, entries: pa.Array) -> bool:
    """Whether the first entry is of the first map, the second one of the second, and so on."""
    if len(entries) != len(maps) or maps.null_count:
        return False
    rows = len(maps)
    starts, ends = maps.offsets.slice(0, rows), maps.offsets.slice(1)
    inside = pc.and_(pc.greater_equal(entries, starts), pc.less(entries, ends))
    return pc.all(inside).as_py() is not False


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


def _row_by_row(rows: int, width: int) -> pa.Array:
    """Where columns that lie one after the other have the values of the first row, then of the second, and so on."""
    places = _numbers(rows * width)
    row = pc.divide(places, width)
    field = pc.subtract(places, pc.multiply(row, width))
    return pc.add(pc.multiply(field, rows), row)


def _arranged(columns: Sequence[pa.Array], order: pa.Array | None) -> pa.Array:
    """The values of all columns in this order; those of a single one are in it."""
    return columns[0] if order is None else pa.concat_arrays(columns).take(order)


def _numbers(count: int) -> pa.Array:
    """From zero on."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int32()), count), start=-1)


def _maps(offsets: pa.Array, valid: pa.Array, keys: pa.Array, values: pa.Array) -> pa.MapArray:
    """A null among the offsets makes a null map."""
    starts = pc.if_else(valid, offsets.slice(0, len(valid)), pa.scalar(None, pa.int32()))
    return pa.MapArray.from_arrays(pa.concat_arrays([starts, offsets.slice(len(valid))]), keys, values)
