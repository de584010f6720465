"""A few newer file actions worked into a base that is in order: most of its rows stay where they are, uncopied."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.reconciliation import FileActions, keys_of, pieces, reconciled

_MOST_NEWER: Final = 4_096
"""Every newer action cuts the base once more; beyond this, sorting everything is faster than the many pieces."""


def merged(base: FileActions, newer: FileActions, *, most_newer: int = _MOST_NEWER) -> FileActions:
    """Files and tombstones after ``newer`` ones (in the order of keys, no key twice) replaced those of ``base``."""
    if are_few(newer, most_newer):
        files, removes = (_Newer(table) for table in newer)
        keys = sorted({*files.places, *removes.places})
        spliced = [_spliced(older, each, keys) for older, each in zip(base, (files, removes), strict=True)]
        if spliced[0] is not None and spliced[1] is not None:
            return spliced[0], spliced[1]
    return _sorted_again(base, newer)


def are_few(newer: FileActions, most: int = _MOST_NEWER) -> bool:
    """Whether they are worked in; otherwise all are sorted again."""
    return bool(newer[0].num_rows + newer[1].num_rows <= most)


class _Newer:
    """Newer file actions, to be found by their keys."""

    def __init__(self, table: pa.Table) -> None:
        self.places = {key: place for place, key in enumerate(keys_of(table).to_pylist())}
        self._table = table

    def row(self, key: str) -> pa.Table:
        """The action of a key; no row where there is none."""
        return self._table.slice(self.places[key], 1) if key in self.places else self._table.slice(0, 0)


def _spliced(older: pa.Table, newer: _Newer, keys: Sequence[str]) -> pa.Table | None:
    """The older rows without those of ``keys``, and the newer rows among them; None where the older are in disorder."""
    spliced: list[pa.Table] = []
    done, last = 0, ""
    for piece, own in in_threads(_with_keys, pieces(older)):
        if own is None or own[0].as_py() <= last:
            return None
        last = own[-1].as_py()
        upto = bisect_right(keys, last, lo=done)
        spliced += _worked_in(piece, own, newer, keys[done:upto])
        done = upto
    spliced += [newer.row(key) for key in keys[done:]]
    return pa.concat_tables([older.slice(0, 0), *(each for each in spliced if each.num_rows)])


def _with_keys(files: pa.Table) -> tuple[pa.Table, pa.Array | None]:
    """Without, where they are in disorder."""
    keys = keys_of(files)
    is_in_order = pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py() is not False
    return files, keys if is_in_order else None


def _worked_in(older: pa.Table, own: pa.Array, newer: _Newer, keys: Sequence[str]) -> Iterator[pa.Table]:
    start = 0
    for key in keys:
        place = bisect_left(own, key, lo=start, key=lambda each: each.as_py())
        yield older.slice(start, place - start)
        yield newer.row(key)
        is_replaced = place < len(own) and own[place].as_py() == key
        start = place + is_replaced
    yield older.slice(start)


def _sorted_again(base: FileActions, newer: FileActions) -> FileActions:
    """All of them, with the columns that the newer ones have: statistics, too, where both bring them parsed."""
    adds, removes = (
        pa.concat_tables([_numbered(old.select(new.column_names), 0), _numbered(new, 1)])
        for old, new in zip(base, newer, strict=True)
    )
    return reconciled(adds, removes)


def _numbered(files: pa.Table, ordinal: int) -> pa.Table:
    return files.append_column("ordinal", pa.repeat(pa.scalar(ordinal, pa.int64()), files.num_rows))
