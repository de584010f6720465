"""A few newer file actions worked into a base that is in order: most of its rows stay where they are, uncopied."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.mirror.checkpoint.layout import FILES, REMOVES
from deltamirror.mirror.checkpoint.reconciliation import Columns, keys_of, reconciled

__all__ = ["merged"]

_MOST_NEWER: Final = 4_096
"""Every newer action cuts the base once more; beyond this, sorting everything is faster than the many pieces."""


def merged(
    base: tuple[pa.Table, pa.Table], newer: tuple[pa.Table, pa.Table], *, most_newer: int = _MOST_NEWER
) -> tuple[pa.Table, pa.Table]:
    """Files and tombstones after ``newer`` ones (in the order of keys, no key twice) replaced those of ``base``."""
    files, removes = (_Sorted(table) for table in newer)
    keys = sorted({*files.places, *removes.places})
    if len(keys) <= most_newer:
        older = [_Sorted(table, look_up=False) for table in base]
        if all(each.is_in_order for each in older):
            return _spliced(older[0], files, keys), _spliced(older[1], removes, keys)
    return _sorted_again(base, newer)


class _Sorted:
    """File actions with their keys."""

    def __init__(self, table: pa.Table, *, look_up: bool = True) -> None:
        self.table = table
        self.keys = keys_of(_columns(table))
        self.places = {key: place for place, key in enumerate(self.keys.to_pylist())} if look_up else {}

    @property
    def is_in_order(self) -> bool:
        rest = max(len(self.keys) - 1, 0)
        return pc.all(pc.less(self.keys.slice(0, rest), self.keys.slice(1))).as_py() is not False


def _spliced(older: _Sorted, newer: _Sorted, keys: list[str]) -> pa.Table:
    """The older rows without those of ``keys``, and the newer rows among them."""
    return pa.concat_tables(_pieces(older, newer, keys))


def _pieces(older: _Sorted, newer: _Sorted, keys: list[str]) -> Iterator[pa.Table]:
    start = 0
    for key in keys:
        place = bisect_left(older.keys, key, lo=start, key=lambda each: each.as_py())
        if place > start:
            yield older.table.slice(start, place - start)
        if key in newer.places:
            yield newer.table.slice(newer.places[key], 1)
        is_replaced = place < len(older.keys) and older.keys[place].as_py() == key
        start = place + is_replaced
    yield older.table.slice(start)


def _sorted_again(base: tuple[pa.Table, pa.Table], newer: tuple[pa.Table, pa.Table]) -> tuple[pa.Table, pa.Table]:
    both = [
        pa.concat_tables([_numbered(old.select(schema.names), 0), _numbered(new.select(schema.names), 1)])
        for old, new, schema in zip(base, newer, (FILES, REMOVES), strict=True)
    ]
    return reconciled(*(_columns(table) for table in both))


def _numbered(files: pa.Table, ordinal: int) -> pa.Table:
    return files.append_column("ordinal", pa.repeat(pa.scalar(ordinal, pa.int64()), files.num_rows))


def _columns(table: pa.Table) -> Columns:
    return {name: table.column(name) for name in table.column_names}
