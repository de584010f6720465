"""What version checksums count."""

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta.actions import Add, DeletionVector, Remove
from deltamirror.delta.histograms import DeletedRecordCounts, Deletions, FileSizeHistogram

pytestmark = pytest.mark.requirement("R15")

SIZES = st.lists(st.integers(min_value=0, max_value=1 << 40), max_size=30)
MIB = 1 << 20


def add(cardinality: int | None) -> Add:
    vector = None
    if cardinality is not None:
        vector = DeletionVector(storage_type="u", path_or_inline_dv="x", size_in_bytes=1, cardinality=cardinality)
    return Add(path="p", partition_values={}, size=1, modification_time=1, data_change=True, deletion_vector=vector)


def test_sizes_have_the_bins_of_the_reference_writer() -> None:
    bounds = FileSizeHistogram.empty().sorted_bin_boundaries
    assert len(bounds) == 95
    assert bounds[:3] == (0, 8192, 16384)
    assert bounds[10:13] == (4 * MIB, 8 * MIB, 12 * MIB)
    assert bounds[-7:] == tuple(gib << 30 for gib in (4, 8, 16, 32, 64, 128, 256))


def test_a_bin_starts_at_its_boundary() -> None:
    found = FileSizeHistogram.empty().updated(added=[8191, 8192, 1 << 45])
    assert found.file_counts[:2] == (1, 1)
    assert (found.file_counts[-1], found.total_bytes[-1]) == (1, 1 << 45)


@given(added=SIZES, kept=SIZES)
def test_files_that_go_leave_no_trace(added: list[int], kept: list[int]) -> None:
    only_kept = FileSizeHistogram.empty().updated(added=kept)
    assert only_kept.updated(added=added).updated(added=[], removed=added) == only_kept
    assert sum(only_kept.total_bytes) == sum(kept)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(0, 0), (1, 1), (9, 1), (10, 2), (9_999_999, 7), (10_000_000, 8), (2**31 - 2, 8), (2**31 - 1, 9), (2**62, 9)],
)
def test_deleted_rows_fall_into_decades(rows: int, expected: int) -> None:
    assert DeletedRecordCounts.empty().updated(added=[rows]).deleted_record_counts.index(1) == expected


def test_a_file_without_a_vector_has_no_deleted_rows() -> None:
    found = Deletions.of([add(None), add(3), add(0)])
    assert (found.records, found.vectors) == (3, 2)
    assert found.counts == DeletedRecordCounts(deleted_record_counts=(2, 1, *[0] * 8))


def test_a_file_that_goes_takes_its_vector_with_it() -> None:
    vector = add(3).deletion_vector
    gone = [Remove(path="p", data_change=True, deletion_vector=each) for each in (vector, None)]
    found = Deletions.of([add(None), add(3), add(20)]).updated(added=[], removed=gone)
    assert found == Deletions.of([add(20)])


def test_what_was_not_known_stays_unknown() -> None:
    assert Deletions().updated(added=[add(3)]) == Deletions()


@pytest.mark.parametrize("sizes", [[], [0], [10 * MIB, 8191, 8192, 8191, 1 << 45, 0]])
def test_files_are_in_the_bins_that_they_come_to_one_by_one(sizes: list[int]) -> None:
    assert FileSizeHistogram.of(pa.array(sizes, pa.int64())) == FileSizeHistogram.empty().updated(added=sizes)


@pytest.mark.parametrize("rows", [[], [0], [25, 0, 9, 10, 2**31, 7]])
def test_vectors_amount_to_what_they_come_to_one_by_one(rows: list[int]) -> None:
    found = Deletions.of_vectors(pa.array(rows, pa.int64()), num_files=len(rows) + 2)
    assert found == Deletions.of([add(None), add(None), *map(add, rows)])


@pytest.mark.parametrize(
    "text",
    [
        '{"sortedBinBoundaries":[0,1],"fileCounts":[0],"totalBytes":[0,0]}',
        '{"sortedBinBoundaries":[1,0],"fileCounts":[0,0],"totalBytes":[0,0]}',
    ],
)
def test_histograms_that_do_not_fit_together_are_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=FileSizeHistogram)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode('{"deletedRecordCounts":[0]}', type=DeletedRecordCounts)
