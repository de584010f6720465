"""The rows of some files in the order of a space-filling curve, within bounded memory.

Files are read twice: first the columns of the curve, of which a sample says where it runs; then all of them, into parts
of the curve, which lie in a temporary file as far as they do not fit into memory. The parts are ordered one by one.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.schema.columns import ColumnPath
from deltamirror.deltalog.checkpoint.scratch import Gathering, Pile
from deltamirror.rows.curve import Curve, quantiles
from deltamirror.rows.scanning import Scan

_SAMPLE: Final = 1_000_000
_MOST_PARTS: Final = 256
_COMPRESSED: Final = 4
"""How many bytes of memory the rows of one byte of a file take, about."""


def rows_along(columns: tuple[ColumnPath, ...], scan: Scan, *, num_bytes: int, memory: int) -> Iterator[pa.RecordBatch]:
    """All rows of a scan in the order of a curve through some columns, a part of ``memory`` at a time.

    ``num_bytes`` is the size of the files.
    """
    sample = _sample(columns, scan)
    curve = Curve.through(columns, sample)
    wanted = min(_MOST_PARTS, -(-_COMPRESSED * num_bytes // max(1, memory // 2)))
    cuts = quantiles(curve.places(sample), max(1, wanted))
    for part in _parts(scan, curve, cuts, memory):
        rows = part.whole()
        yield from rows.take(pc.sort_indices(curve.places(rows))).to_batches()


def _sample(columns: tuple[ColumnPath, ...], scan: Scan) -> pa.Table:
    """The columns of the curve, of at most twice as many rows as a sample needs."""
    names = {path[0] for path in columns}
    fields = tuple(each for each in scan.fields if each.name in names)
    narrow = Scan(scan.layout, scan.opener, scan.files, fields, None)
    found, step = narrow.schema.empty_table(), 1
    for batch in narrow.reader():
        found = pa.concat_tables([found, _every(pa.Table.from_batches([batch]), step)])
        if found.num_rows > 2 * _SAMPLE:
            found, step = _every(found, 2), 2 * step
    return found.combine_chunks()


def _every(rows: pa.Table, step: int) -> pa.Table:
    return rows if step == 1 else rows.take(pa.array(range(0, rows.num_rows, step), pa.int64()))


def _parts(scan: Scan, curve: Curve, cuts: pa.Array, memory: int) -> list[Gathering]:
    """The rows of each part of the curve, one part after the other."""
    count, aside = len(cuts) + 1, Pile(0)
    parts = [Gathering(scan.schema, memory // 2 // count, aside) for _ in range(count)]
    for batch in scan.reader():
        rows = pa.Table.from_batches([batch])
        numbers = pc.search_sorted(cuts, curve.places(rows), side="right")
        for number in numbers.unique().to_pylist():
            parts[number].add(rows.filter(pc.equal(numbers, number)))
    for part in parts:
        part.end()
    return parts
