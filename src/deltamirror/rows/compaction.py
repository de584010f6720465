"""Files of a table, gathered into bins, and the rows of a bin written again to as few files as they need."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import pyarrow as pa

from deltamirror.batches import packed
from deltamirror.delta.actions import Add
from deltamirror.delta.schema.columns import ColumnPath
from deltamirror.rows.ordering import rows_along
from deltamirror.rows.scanning import TableFiles, scan_of_adds
from deltamirror.rows.writing import RowFiles, RowOrder
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Store


@dataclass(frozen=True, slots=True)
class Bin:
    """Files of one partition whose rows go together; fit to travel to other processes."""

    order: RowOrder
    address: StoreAddress
    files: tuple[Add, ...]
    columns: tuple[ColumnPath, ...] = ()
    """Those by which rows are ordered; none: they come as they are read."""

    @property
    def num_bytes(self) -> int:
        """The size of its files."""
        return sum(each.size for each in self.files)


def bins(files: Iterable[Add], target_size: int) -> Iterator[list[Add]]:
    """Files that become one, from the smallest on, as long as they have no more bytes together.

    A file alone is left as it is, unless it has a deletion vector.
    """
    for found in by_partition(files):
        together = packed(sorted(found, key=attrgetter("size", "path")), attrgetter("size"), target_size)
        yield from (each for each in together if len(each) > 1 or each[0].deletion_vector)


def by_partition(files: Iterable[Add]) -> list[list[Add]]:
    """The files of each partition."""
    partitions: dict[tuple[tuple[str, str | None], ...], list[Add]] = {}
    for file in files:
        partitions.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    return [found for _, found in sorted(partitions.items(), key=lambda pair: str(pair[0]))]


def compacted(each: Bin, store: Store, opener: TableFiles) -> Sequence[Add]:
    """Write the rows of a bin to files of their own, batch by batch; if that fails, these are deleted again."""
    scan = scan_of_adds(each.order.layout, opener, each.files)
    rows: Iterable[pa.RecordBatch] = scan.reader()
    if each.columns:
        rows = rows_along(each.columns, scan, num_bytes=each.num_bytes, memory=each.order.settings.memory)
    return RowFiles(each.order, store).write(scan.schema, rows)
