"""The content of a checkpoint is what a replay of all commits, action by action, leaves: with a base, and without."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.json import encode

from deltamirror.delta.actions import Action, Add, DeletionVector, Remove
from deltamirror.delta.lines import decode_commit, encode_commit, wire_name
from deltamirror.delta.properties import deleted_file_retention_ms, transaction_retention_ms
from deltamirror.delta.replay import State, checkpoint_actions
from deltamirror.delta.replay import replay as replay_actions
from deltamirror.deltalog.checkpoint.content import CheckpointState, can_continue, replay
from deltamirror.deltalog.checkpoint.file_lines import MapKeys, parsed
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.deltalog.checkpoint.merging import merged
from deltamirror.publish.checkpoint.classic_base import ClassicBase
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.grouping import row_groups
from tests.support.lakes.histories import PROTOCOL, History, histories, odd_adds, odd_removes, table_metadata
from tests.support.logs.checkpoint_tables import rows, state_of_table
from tests.support.suite.examples import long_examples

pytestmark = [pytest.mark.requirement("R9"), pytest.mark.requirement("R11")]


def expected(history: History, version: int) -> list[Action]:
    state: State = replay_actions(decode_commit(b"".join(lines)) for lines in history.lines()[: version + 1])
    time, retention = history.times[version], transaction_retention_ms(state.metadata)
    return list(
        checkpoint_actions(
            state,
            tombstones_after=time - deleted_file_retention_ms(state.metadata),
            transactions_after=None if retention is None else time - retention,
        )
    )


def content(history: History, version: int, *, base: CheckpointState | None = None) -> CheckpointState:
    first = 0 if base is None else base.version + 1
    lines = history.lines()[first : version + 1]
    return replay(lines, version=version, committed_at=history.times[version], base=base)


def actions(state: CheckpointState) -> list[Action]:
    """What a state says, as actions: the long way round, by Python values."""
    files = [add_of(row) for row in state.files.to_pylist(maps_as_pydicts="strict")]
    removes = [remove_of(row) for row in state.removes.to_pylist(maps_as_pydicts="strict")]
    return [state.protocol, state.metadata, *state.transactions, *state.domains, *removes, *files]


def vector_of(row: dict[str, Any] | None) -> DeletionVector | None:
    if row is None:
        return None
    assert row["maxRowIndex"] is None
    return DeletionVector(
        storage_type=row["storageType"],
        path_or_inline_dv=row["pathOrInlineDv"],
        offset=row["offset"],
        size_in_bytes=row["sizeInBytes"],
        cardinality=row["cardinality"],
    )


def add_of(row: dict[str, Any]) -> Add:
    return Add(
        path=row["path"],
        partition_values=row["partitionValues"],
        size=row["size"],
        modification_time=row["modificationTime"],
        data_change=row["dataChange"],
        stats=row["stats"],
        tags=row["tags"],
        deletion_vector=vector_of(row["deletionVector"]),
        base_row_id=row["baseRowId"],
        default_row_commit_version=row["defaultRowCommitVersion"],
        clustering_provider=row["clusteringProvider"],
    )


def remove_of(row: dict[str, Any]) -> Remove:
    return Remove(
        path=row["path"],
        deletion_timestamp=row["deletionTimestamp"],
        data_change=row["dataChange"],
        extended_file_metadata=row["extendedFileMetadata"],
        partition_values=row["partitionValues"],
        size=row["size"],
        deletion_vector=vector_of(row["deletionVector"]),
        base_row_id=row["baseRowId"],
        default_row_commit_version=row["defaultRowCommitVersion"],
    )


def as_set(found: list[Action]) -> list[str]:
    """A text for each action, with its maps in the order of their keys."""
    return sorted(encode(each, order="deterministic").decode() + type(each).__name__ for each in found)


def through_parquet(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return pq.read_table(pa.BufferReader(sink.getvalue()))


def in_another_order(state: CheckpointState) -> CheckpointState:
    backwards = pa.array(range(state.files.num_rows)[::-1], pa.int64())
    return replace(state, files=state.files.take(backwards))


def assert_same(one: CheckpointState, other: CheckpointState) -> None:
    assert (one.version, one.protocol, one.metadata) == (other.version, other.protocol, other.metadata)
    assert (one.transactions, one.domains) == (other.transactions, other.domains)
    assert one.files.select(FILES.names).equals(other.files.select(FILES.names))
    assert one.removes.equals(other.removes)
    assert rows(one).equals(rows(other))


@given(histories())
@settings(max_examples=long_examples(100))
def test_the_content_is_what_a_replay_of_the_actions_leaves(history: History) -> None:
    version = len(history.commits) - 1
    assert as_set(actions(content(history, version))) == as_set(expected(history, version))


@given(histories(), st.data())
@settings(max_examples=long_examples(100))
def test_a_base_and_the_commits_since_give_what_all_commits_give(history: History, data: st.DataObject) -> None:
    last = len(history.commits) - 1
    start = data.draw(st.integers(0, last), label="base")
    full, base = content(history, last), content(history, start)
    read_back = state_of_table(through_parquet(rows(base)), version=start)
    assert_same(read_back, base)
    times = {"base_committed_at": history.times[start], "committed_at": history.times[last]}
    assume(can_continue(base.metadata, full.metadata, **times))
    assert_same(content(history, last, base=read_back), full)
    assert_same(content(history, last, base=in_another_order(read_back)), full)


@given(histories(), st.data())
@settings(max_examples=long_examples(100))
def test_statistics_that_a_base_has_parsed_are_as_if_they_were_parsed_again(
    history: History, data: st.DataObject
) -> None:
    last = len(history.commits) - 1
    start = data.draw(st.integers(0, last), label="base")
    full, table = content(history, last), rows(content(history, start))
    file = encoded(row_groups(table.to_batches(), table.schema, 1), table.schema, "{}", compression="zstd")
    files, removes = ClassicBase.of(file).file_actions(full.metadata, full.protocol, without=())
    base = replace(content(history, start), files=files, removes=removes)
    times = {"base_committed_at": history.times[start], "committed_at": history.times[last]}
    assume(can_continue(base.metadata, full.metadata, **times))
    assert_same(content(history, last, base=base), full)


@given(histories(), st.data())
@settings(max_examples=long_examples(100))
def test_few_newer_actions_are_worked_in_as_many_are(history: History, data: st.DataObject) -> None:
    last = len(history.commits) - 1
    start = data.draw(st.integers(0, last), label="base")
    base, others = content(history, start), history.lines()[start + 1 :]
    foundation = [encode_commit([base.protocol, base.metadata])]
    newer = replay([foundation, *others], version=last, committed_at=0, base=None)
    both = (base.files, base.removes), (newer.files, newer.removes)
    few, many = merged(*both), merged(*both, most_newer=-1)
    assert [table.combine_chunks() for table in few] == [table.combine_chunks() for table in many]


@given(histories())
def test_a_checkpoint_can_always_continue_where_retention_stays(history: History) -> None:
    metadata = replay_actions(history.commits).metadata
    times = {"base_committed_at": history.times[0], "committed_at": history.times[-1]}
    assert can_continue(metadata, metadata, **times)


@given(histories())
@settings(max_examples=30)
def test_every_row_holds_one_action_in_a_fixed_order(history: History) -> None:
    last = len(history.commits) - 1
    state = content(history, last)
    found = [{name: value for name, value in row.items() if value is not None} for row in rows(state).to_pylist()]
    assert all(len(row) == 1 for row in found)
    kinds = [next(iter(row)) for row in found]
    assert kinds == sorted(kinds, key=["protocol", "metaData", "domainMetadata", "txn", "add", "remove"].index)
    assert kinds[:2] == ["protocol", "metaData"]
    assert kinds.count("metaData") == kinds.count("protocol") == 1


@given(st.lists(odd_adds | odd_removes, min_size=1, max_size=12))
def test_lines_give_the_same_rows_by_arrow_and_singly(files: list[Add | Remove]) -> None:
    # Nulls in the maps of a remove are written by others than the reference.
    data, keys = b"\n".join(encode({wire_name(each): each}) for each in files), MapKeys()
    singly = parsed(data, keys)
    by_arrow = parsed(data, keys, few_bytes=0)
    assert by_arrow.adds.equals(singly.adds)
    assert by_arrow.removes.equals(singly.removes)


@given(st.lists(st.lists(odd_adds | odd_removes, min_size=1, max_size=4), min_size=2, max_size=4))
def test_what_earlier_lines_lacked_is_found_in_later_ones(blocks: list[list[Add | Remove]]) -> None:
    keys = MapKeys()
    for files in blocks:
        data = b"\n".join(encode({wire_name(each): each}) for each in files)
        by_arrow, singly = parsed(data, keys, few_bytes=0), parsed(data, MapKeys())
        assert by_arrow.adds.equals(singly.adds)
        assert by_arrow.removes.equals(singly.removes)


@given(st.lists(odd_adds | odd_removes, max_size=12, unique_by=lambda action: action.path.lower()))
@settings(max_examples=long_examples(100))
def test_no_field_of_an_odd_file_is_lost_on_its_way_into_a_checkpoint(files: list[Add | Remove]) -> None:
    history = History(((PROTOCOL, table_metadata(), *files),), (0,))
    read_back = state_of_table(through_parquet(rows(content(history, 0))), version=0)
    assert as_set(actions(read_back)) == as_set(expected(history, 0))
