"""A checksum from totals says what the checksums of the commits that led there add up to."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from deltamirror.delta.actions import (
    Action,
    Add,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.checksum import (
    MOST_FILES,
    Checksum,
    checksum_from_totals,
    checksum_of,
    first_checksum,
    next_checksum,
)
from deltamirror.delta.histograms import Deletions, FileSizeHistogram
from deltamirror.delta.replay import State, replay

pytestmark = pytest.mark.requirement("R15")

FEATURE = ["deletionVectors"]
PROTOCOL = Protocol(min_reader_version=3, min_writer_version=7, reader_features=FEATURE, writer_features=FEATURE)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string='{"type":"struct","fields":[]}',
    partition_columns=[],
    configuration={"delta.enableDeletionVectors": "true"},
)
INFO = CommitInfo(operation="WRITE", txn_id="x")

sizes = st.one_of(st.integers(0, 2**20), st.integers(0, 2**40), st.sampled_from([0, 8191, 8192, 4 << 20, 256 << 30]))
cardinalities = st.one_of(st.none(), st.integers(0, 200), st.sampled_from([10**7, 2**31 - 2, 2**31 - 1, 2**40]))


def file(number: int, size: int, rows: int | None) -> Add:
    vector = None
    if rows is not None:
        vector = DeletionVector(storage_type="u", path_or_inline_dv=f"v{rows}", size_in_bytes=1, cardinality=rows)
    return Add(
        path=f"f{number}",
        partition_values={},
        size=size,
        modification_time=1,
        data_change=False,
        deletion_vector=vector,
    )


@st.composite
def states(draw: st.DrawFn) -> State:
    found = [file(number, *each) for number, each in enumerate(draw(st.lists(st.tuples(sizes, cardinalities))))]
    apps = [Txn(app_id=f"a{number}", version=number) for number in range(draw(st.sampled_from([0, 1, 100, 101])))]
    named = range(draw(st.sampled_from([0, 2, 10, 11])))
    domains = [DomainMetadata(domain=f"d{number}", configuration="", removed=False) for number in named]
    configuration = {**METADATA.configuration, **draw(st.sampled_from(PROPERTIES))}
    return replay([[PROTOCOL, replace(METADATA, configuration=configuration), *found, *apps, *domains]])


PROPERTIES: list[dict[str, str]] = [
    {},
    {"delta.enableDeletionVectors": "false"},
    {"delta.dataSkippingNumIndexedCols": "33"},
    {"delta.setTransactionRetentionDuration": "interval 1 day"},
    {"delta.enableInCommitTimestamps": "true"},
]


def totals(state: State, info: CommitInfo | None = None) -> Checksum:
    """As somebody gets it who has the numbers in columns, in pieces, and the files only where they are few."""
    files = list(state.files.values())
    vectors = [add.deletion_vector.cardinality for add in files if add.deletion_vector is not None]
    half = len(files) // 2
    return checksum_from_totals(
        sizes=pa.chunked_array([[add.size for add in part] for part in (files[:half], files[half:])], pa.int64()),
        cardinalities=pa.array(vectors, pa.int64()),
        files=files if len(files) <= MOST_FILES else (),
        transactions=state.txns.values(),
        domains=state.domains.values(),
        protocol=state.protocol,
        metadata=state.metadata,
        info=info,
    )


@given(states())
def test_totals_give_the_checksum_of_the_state(state: State) -> None:
    info = replace(INFO, in_commit_timestamp=5)
    found = totals(state, info)
    assert found == checksum_of(state, info=info)
    files = state.files.values()
    assert (found.num_files, found.table_size_bytes) == (len(files), sum(add.size for add in files))
    assert found.file_size_histogram == FileSizeHistogram.empty().updated(added=[add.size for add in files])
    if found.num_deletion_vectors is not None:
        counted = (found.num_deleted_records, found.num_deletion_vectors, found.deleted_record_counts)
        assert counted == Deletions.of(files)


@given(st.lists(st.tuples(sizes, cardinalities, st.booleans()), max_size=120))
def test_totals_are_what_the_commits_add_up_to(files: list[tuple[int, int | None, bool]]) -> None:
    """Some of the files are removed by a second commit."""
    adds = [file(number, size, rows) for number, (size, rows, _) in enumerate(files)]
    removes = [removed(add) for add, (_, _, goes) in zip(adds, files, strict=True) if goes]
    commits: list[list[Action]] = [[INFO, METADATA, PROTOCOL, *adds], [INFO, *removes]]
    first = first_checksum(commits[0])
    assert first is not None
    second = next_checksum(first, commits[1])
    assert second is not None
    whole = totals(replay(commits), INFO)
    assert in_order(replace(whole, all_files=None) if first.all_files is None else whole) == in_order(second)


def in_order(checksum: Checksum) -> Checksum:
    """The order of the list tells how large the table has been."""
    files = checksum.all_files
    return replace(checksum, all_files=files and tuple(sorted(files, key=lambda add: add.path)))


def removed(add: Add) -> Remove:
    return Remove(
        path=add.path,
        data_change=True,
        extended_file_metadata=True,
        size=add.size,
        deletion_vector=add.deletion_vector,
    )


def test_files_that_disagree_with_the_sizes_are_not_listed() -> None:
    state = replay([[PROTOCOL, METADATA, file(1, 10, None), file(2, 20, None)]])
    found = checksum_from_totals(
        sizes=pa.array([10, 20]),
        cardinalities=pa.array([], pa.int64()),
        files=[file(1, 10, None)],
        transactions=(),
        domains=(),
        protocol=PROTOCOL,
        metadata=METADATA,
    )
    assert found == replace(checksum_of(state), all_files=None)
