"""What a version checksum counts: files by size, and rows that deletion vectors delete."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Add, Remove

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_LARGEST_INT = (1 << 31) - 1


def _size_boundaries() -> Iterator[int]:
    yield 0
    yield from (8 * _KIB << doubling for doubling in range(10))
    steps = ((4, 40), (8, 120), (4, 144), (16, 576), (64, 1408), (128, 2048), (256, 4096))
    start = 4
    for step, end in steps:
        yield from (size * _MIB for size in range(start + step, end + 1, step))
        start = end
    yield from (8 * _GIB << doubling for doubling in range(6))


_SIZES = tuple(_size_boundaries())
_RECORDS = (0, *accumulate([1] + [10] * 7, int.__mul__), _LARGEST_INT)


class FileSizeHistogram(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many files, and how many bytes in them, each bin holds. A bin ends where the next one starts."""

    sorted_bin_boundaries: tuple[int, ...]
    file_counts: tuple[int, ...]
    total_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        bounds = self.sorted_bin_boundaries
        if not len(bounds) == len(self.file_counts) == len(self.total_bytes) or sorted(bounds) != list(bounds):
            raise ValueError("the bins are not in order, or their boundaries, counts and bytes not as many")

    @classmethod
    def empty(cls) -> "FileSizeHistogram":
        """No files, in the 95 bins that Delta Lake on Spark uses."""
        zeros = (0,) * len(_SIZES)
        return cls(sorted_bin_boundaries=_SIZES, file_counts=zeros, total_bytes=zeros)

    @classmethod
    def of(cls, sizes: pa.Array | pa.ChunkedArray, bounds: tuple[int, ...] = _SIZES) -> "FileSizeHistogram":
        """The files of these sizes, in the same bins, or in those that begin at these bounds."""
        counts, totals = zip(*_binned(sizes, bounds), strict=True) if bounds else ((), ())
        return cls(sorted_bin_boundaries=bounds, file_counts=counts, total_bytes=totals)

    def updated(self, *, added: Iterable[int], removed: Iterable[int] = ()) -> "FileSizeHistogram":
        """The histogram after files of these sizes came and went."""
        counts, totals = list(self.file_counts), list(self.total_bytes)
        for sizes, sign in ((added, 1), (removed, -1)):
            for size in sizes:
                if (index := bisect_right(self.sorted_bin_boundaries, size) - 1) >= 0:
                    counts[index] += sign
                    totals[index] += sign * size
        return msgspec.structs.replace(self, file_counts=tuple(counts), total_bytes=tuple(totals))

    def below(self) -> Mapping[int | None, tuple[int, int]]:
        """How many files are smaller than each boundary, and how many bytes these have; of all files, at ``None``."""
        bounds = (*self.sorted_bin_boundaries, None)
        counts, totals = (accumulate(each, initial=0) for each in (self.file_counts, self.total_bytes))
        return dict(zip(bounds, zip(counts, totals, strict=True), strict=True))


class DeletedRecordCounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many files have how many deleted rows: none, 1 to 9, 10 to 99, and so on."""

    deleted_record_counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.deleted_record_counts) != len(_RECORDS):
            raise ValueError(f"there have to be {len(_RECORDS)} bins")

    @classmethod
    def empty(cls) -> "DeletedRecordCounts":
        """No files, in ten bins."""
        return cls(deleted_record_counts=(0,) * len(_RECORDS))

    def updated(self, *, added: Iterable[int], removed: Iterable[int] = ()) -> "DeletedRecordCounts":
        """The histogram after files with so many deleted rows came and went."""
        counts = list(self.deleted_record_counts)
        for cardinalities, sign in ((added, 1), (removed, -1)):
            for cardinality in cardinalities:
                counts[bisect_right(_RECORDS, cardinality) - 1] += sign
        return DeletedRecordCounts(deleted_record_counts=tuple(counts))


class Deletions(NamedTuple):
    """What deletion vectors amount to: rows, vectors, and files by rows; ``None`` where that is not known."""

    records: int | None = None
    vectors: int | None = None
    counts: DeletedRecordCounts | None = None

    @classmethod
    def of(cls, files: Iterable[Add]) -> "Deletions":
        """What the vectors of these files amount to."""
        return cls(0, 0, DeletedRecordCounts.empty()).updated(added=files)

    @classmethod
    def of_vectors(cls, cardinalities: pa.Array | pa.ChunkedArray, *, num_files: int) -> "Deletions":
        """What the vectors of these cardinalities amount to, in a table of so many files."""
        (unmarked, _), *marked = _binned(cardinalities, _RECORDS)
        counts = (unmarked + num_files - len(cardinalities), *(count for count, _ in marked))
        records = pc.sum(cardinalities).as_py() or 0
        return cls(records, len(cardinalities), DeletedRecordCounts(deleted_record_counts=counts))

    def updated(self, *, added: Iterable[Add], removed: Iterable[Remove] = ()) -> "Deletions":
        """The same after these files came and went. Unknown counts stay unknown."""
        came, went = _cardinalities(added), _cardinalities(removed)
        return Deletions(
            None if self.records is None else self.records + _rows(came) - _rows(went),
            None if self.vectors is None else self.vectors + _vectors(came) - _vectors(went),
            self.counts
            and self.counts.updated(added=(rows or 0 for rows in came), removed=(rows or 0 for rows in went)),
        )


def _binned(values: pa.Array | pa.ChunkedArray, bounds: Sequence[int]) -> list[tuple[int, int]]:
    """How many values each bin holds, and their sum: in seconds for ten million, without an object a value."""
    ordered = values.sort()
    starts = [bisect_left(ordered, bound, key=lambda scalar: scalar.as_py()) for bound in bounds]
    spans = [ordered.slice(start, end - start) for start, end in pairwise([*starts, len(ordered)])]
    return [(len(span), pc.sum(span).as_py() if len(span) else 0) for span in spans]


def _cardinalities(files: Iterable[Add | Remove]) -> list[int | None]:
    return [None if file.deletion_vector is None else file.deletion_vector.cardinality for file in files]


def _rows(cardinalities: list[int | None]) -> int:
    return sum(rows or 0 for rows in cardinalities)


def _vectors(cardinalities: list[int | None]) -> int:
    return sum(rows is not None for rows in cardinalities)
