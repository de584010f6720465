"""What a checkpoint holds, and from which earlier one it can be made."""

from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import (
    Action,
    Add,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.lines import encode_commit
from deltamirror.deltalog.checkpoint import file_lines
from deltamirror.deltalog.checkpoint import rows as checkpoint_rows
from deltamirror.deltalog.checkpoint.content import CheckpointState, can_continue, checkpoint_schema, file_rows, replay
from deltamirror.errors import InvalidAction, InvalidInput
from tests.support.lakes.histories import PROTOCOL, table_metadata
from tests.support.logs.checkpoint_tables import rows, state_of_table

pytestmark = [pytest.mark.requirement("R9"), pytest.mark.requirement("R10"), pytest.mark.requirement("R11")]

METADATA = table_metadata()
DAY = 86_400_000
WEEK = 7 * DAY


def add(path: str, **fields: object) -> Add:
    values: dict[str, Any] = {
        "partition_values": {"p": "1"},
        "size": 1,
        "modification_time": 1,
        "data_change": True,
        **fields,
    }
    return Add(path=path, **values)


def remove(path: str, *, at: int | None = None) -> Remove:
    return Remove(path=path, deletion_timestamp=at, data_change=True, tags={"k": "v"}, stats="{}")


def state(*actions: Action, metadata: Metadata = METADATA, at: int = 0) -> CheckpointState:
    return replay([[encode_commit([PROTOCOL, metadata, *actions])]], version=0, committed_at=at, base=None)


def paths(files: pa.Table) -> list[str]:
    found: list[str] = files.column("path").to_pylist()
    return found


def fields_of(table: pa.Table, action: str) -> list[str]:
    return [each.name for each in table.schema.field(action).type]


def test_files_and_tombstones_are_in_the_order_of_their_paths() -> None:
    found = rows(state(add("b"), remove("c", at=1), add("a"), remove("A", at=1)))
    assert [row["path"] for row in found.column("add").to_pylist() if row] == ["a", "b"]
    assert [row["path"] for row in found.column("remove").to_pylist() if row] == ["A", "c"]


def test_a_tombstone_expires_by_the_time_of_the_version() -> None:
    removes = [remove("old", at=1), remove("timeless"), remove("fresh", at=2)]
    assert paths(state(*removes, at=WEEK + 1).removes) == ["fresh"]
    assert paths(state(*removes, at=WEEK + 2).removes) == []
    assert paths(state(*removes, at=0).removes) == ["fresh", "old", "timeless"]


def test_transactions_stay_for_ever_unless_a_retention_is_set() -> None:
    transactions = [
        Txn(app_id="b", version=1, last_updated=5),
        Txn(app_id="a", version=1),
        Txn(app_id="c", version=1, last_updated=9),
    ]
    limited = table_metadata(setTransactionRetentionDuration="5 milliseconds")
    assert [each.app_id for each in state(*transactions, at=10**15).transactions] == ["a", "b", "c"]
    assert [each.app_id for each in state(*transactions, metadata=limited, at=10).transactions] == ["c"]


def test_neither_provenance_nor_removed_domains_are_in_a_checkpoint() -> None:
    found = state(
        CommitInfo(timestamp=1, operation="WRITE"),
        DomainMetadata(domain="gone", configuration="{}", removed=True),
        DomainMetadata(domain="here", configuration="{}", removed=False),
    )
    assert [each.domain for each in found.domains] == ["here"]
    assert rows(found).num_rows == 3


def test_no_file_action_changes_data() -> None:
    found = state(add("a"), remove("b", at=1))
    assert found.files.column("dataChange").to_pylist() == [False]
    assert found.removes.column("dataChange").to_pylist() == [False]


def test_features_are_null_in_versions_that_list_none() -> None:
    odd = Protocol(min_reader_version=1, min_writer_version=2, reader_features=[], writer_features=[])
    legacy = replay([[encode_commit([odd, METADATA])]], version=0, committed_at=0, base=None)
    listing = Protocol(min_reader_version=3, min_writer_version=7, reader_features=[], writer_features=["appendOnly"])
    modern = replay([[encode_commit([listing, METADATA])]], version=0, committed_at=0, base=None)
    assert rows(legacy).column("protocol")[0].as_py()["readerFeatures"] is None
    assert rows(legacy).column("protocol")[0].as_py()["writerFeatures"] is None
    assert rows(modern).column("protocol")[0].as_py()["readerFeatures"] == []
    assert rows(modern).column("protocol")[0].as_py()["writerFeatures"] == ["appendOnly"]


@pytest.mark.parametrize(
    ("as_json", "as_struct", "columns"),
    [
        ("true", "true", ["stats", "partitionValues_parsed", "stats_parsed"]),
        ("true", "false", ["stats"]),
        ("false", "true", ["partitionValues_parsed", "stats_parsed"]),
        ("false", "false", []),
    ],
)
def test_the_table_says_in_which_forms_it_wants_its_statistics(
    as_json: str, as_struct: str, columns: list[str]
) -> None:
    properties = {"checkpoint.writeStatsAsJson": as_json, "checkpoint.writeStatsAsStruct": as_struct}
    found = rows(state(add("a", stats='{"numRecords":7}'), metadata=table_metadata(**properties)))
    assert fields_of(found, "add")[10:] == columns
    row = next(row for row in found.column("add").to_pylist() if row)
    assert row.get("stats", '{"numRecords":7}') == '{"numRecords":7}'
    assert row.get("stats_parsed", {"numRecords": 7})["numRecords"] == 7
    assert row.get("partitionValues_parsed", {"p": "1"}) == {"p": "1"}


def test_a_checkpoint_has_all_actions_and_a_sidecar_those_of_files() -> None:
    found = state(add("a"), remove("b", at=1), Txn(app_id="x", version=1))
    assert rows(found).num_rows == 5
    assert rows(found).column_names == ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    assert file_rows(found).column_names == ["add", "remove"]
    assert file_rows(found).num_rows == 2
    assert '"name":"stats_parsed"' in checkpoint_schema(file_rows(found).schema)


def test_the_schemas_of_wide_tables_are_not_kept_in_memory() -> None:
    def columns(count: int) -> pa.Schema:
        return pa.schema([pa.field(f"column_{number}", pa.int64()) for number in range(count)])

    checkpoint_rows._kept_text.cache_clear()
    for count, kept in ((3, 1), (3, 1), (4, 2), (5_000, 2)):
        assert checkpoint_schema(columns(count)).count('"type":"long"') == count
        assert checkpoint_rows._kept_text.cache_info().currsize == kept


def test_a_table_without_files_has_a_checkpoint() -> None:
    assert rows(state()).num_rows == 2
    assert file_rows(state()).num_rows == 0
    assert state_of_table(rows(state()), version=0).files.num_rows == 0


def test_a_statistic_of_five_megabytes_and_sizes_beyond_doubles_arrive_whole() -> None:
    long = '{"numRecords":1,"minValues":{"id":1},"x":"' + "ü\\" * 2_500_000 + '"}'
    found = state(add("big", stats=long, size=2**53 + 1, base_row_id=2**63 - 1), add("small"))
    read_back = state_of_table(rows(found), version=0)
    assert read_back.files.column("stats").to_pylist() == [long, None]
    assert read_back.files.column("size").to_pylist() == [2**53 + 1, 1]
    assert read_back.files.column("baseRowId").to_pylist() == [2**63 - 1, None]


def plain_lines(count: int) -> bytes:
    return encode_commit(
        [add(f"f{number:05}", tags={"t": str(number)}, partition_values={"p": None}) for number in range(count)]
    )


def test_plain_lines_are_never_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = file_lines.MapKeys()
    file_lines.parsed(plain_lines(1), keys)

    def refused(line: bytes) -> Action:
        raise AssertionError(line)

    monkeypatch.setattr(file_lines, "decode", refused)
    block = file_lines.parsed(plain_lines(500), keys, few_bytes=0)
    assert block.adds.column("tags").to_pylist() == [[("t", str(number))] for number in range(500)]
    assert block.adds.column("partitionValues").to_pylist() == [[("p", None)]] * 500


def test_fields_that_no_line_had_are_looked_for_again_as_soon_as_one_has_them() -> None:
    keys = file_lines.MapKeys()
    file_lines.parsed(plain_lines(1), keys)
    file_lines.parsed(plain_lines(300), keys, few_bytes=0)
    assert keys.absent
    assert {("add", "baseRowId"), ("add", "deletionVector"), ("remove", "path")} <= keys.absent
    assert not {("add", "path"), ("add", "tags"), ("add", "partitionValues")} & keys.absent
    later = encode_commit([add("x", tags={"t": "1"}, partition_values={"p": None}, base_row_id=7)])
    assert file_lines.parsed(later, keys, few_bytes=0).adds.column("baseRowId").to_pylist() == [7]
    assert ("add", "baseRowId") not in keys.absent
    assert ("add", "deletionVector") in keys.absent


@pytest.mark.parametrize(
    "odd",
    [
        b'{"add":{"path":"x","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}',
        b'{"add":{"path":"x","partitionValues":{"q":"1"},"size":1,"modificationTime":1,"dataChange":true}}',
        b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":1,"modificationTime":1,"dataChange":true,"tags":{"u":"1"}}}',
        b'{"add":{"path":"x","partitionValues":{"p":"1"},"size":1,"modificationTime":1,"dataChange":true,"unknown":[1]}}',
        b'{ "add" : {"path":"x","partitionValues":{"p": null},"size":1,"modificationTime":1,"dataChange":true}}',
        b'{"add":{"path":"x","partitionValues":{"p":"1","p":"2"},"size":1,"modificationTime":1,"dataChange":true}}',
        b'{"add":{"path":"x","partitionValues":{"\\u0070":null},"size":1,"modificationTime":1,"dataChange":true}}',
        b'{"txn":{"appId":"x","version":1}}',
        b'{"remove":{"path":"x","dataChange":true,"partitionValues":{},"deletionTimestamp":null}}',
        b"",
    ],
)
def test_a_line_unlike_the_others_changes_nothing_in_them_nor_loses_anything_itself(odd: bytes) -> None:
    keys = file_lines.MapKeys()
    file_lines.parsed(plain_lines(1), keys)
    data = plain_lines(300) + odd + b"\n" + plain_lines(300)
    by_arrow, singly = file_lines.parsed(data, keys, few_bytes=0), file_lines.parsed(data, keys, few_bytes=10**9)
    assert by_arrow.adds.drop("ordinal").equals(singly.adds.drop("ordinal"))
    assert by_arrow.removes.drop("ordinal").equals(singly.removes.drop("ordinal"))
    assert list(by_arrow.actions) == list(singly.actions)


def test_commits_of_several_chunks_and_without_a_last_newline_are_read_whole() -> None:
    lines = encode_commit([PROTOCOL, METADATA, *[add(f"f{number}") for number in range(9)]]).splitlines(keepends=True)
    fetched = [[b"".join(lines[:4]), b"", b"".join(lines[4:]).rstrip(b"\n")], [encode_commit([add("last")])], []]
    found = replay(fetched, version=2, committed_at=0, base=None)
    assert paths(found.files) == [*(f"f{number}" for number in range(9)), "last"]


def test_many_blocks_are_reconciled_in_the_order_of_their_commits() -> None:
    stats = "x" * 40_000
    commits = [[encode_commit([add(f"f{number % 100:03}", size=number, stats=stats)])] for number in range(1_000)]
    head = [encode_commit([PROTOCOL, METADATA])]
    found = replay([head, *commits, [encode_commit([remove("f007", at=1)])]], version=1_001, committed_at=0, base=None)
    assert paths(found.files) == [f"f{number:03}" for number in range(100) if number != 7]
    assert found.files.column("size").to_pylist() == [900 + number for number in range(100) if number != 7]
    assert paths(found.removes) == ["f007"]


def test_spellings_of_one_path_are_one_file_and_a_vector_makes_another() -> None:
    def vector(offset: int | None) -> DeletionVector:
        return DeletionVector(storage_type="u", path_or_inline_dv="v", offset=offset, size_in_bytes=1, cardinality=1)

    files = [
        add("a%2fb"),
        add("a%2Fb", size=2),
        add("a%2fb", deletion_vector=vector(1)),
        add("a%2fb", deletion_vector=vector(None)),
    ]
    commits = [[encode_commit([PROTOCOL, METADATA])], *([encode_commit([each])] for each in files)]
    found = replay(commits, version=4, committed_at=0, base=None)
    assert [row["path"] for row in found.files.to_pylist()] == ["a%2Fb", "a%2fb", "a%2fb"]
    assert found.files.column("size").to_pylist() == [2, 1, 1]


def test_a_vector_that_no_reader_takes_in_is_refused() -> None:
    vector = DeletionVector(storage_type="u", path_or_inline_dv="v", offset=2**31, size_in_bytes=1, cardinality=1)
    with pytest.raises(InvalidAction, match="<= 2147483647"):
        state(add("a", deletion_vector=vector))


def test_a_log_without_a_protocol_has_no_checkpoint() -> None:
    with pytest.raises(InvalidAction, match="protocol"):
        replay([[encode_commit([METADATA])]], version=0, committed_at=0, base=None)


def test_a_table_that_is_no_checkpoint_is_refused() -> None:
    with pytest.raises(InvalidInput):
        state_of_table(pa.table({"a": [1]}), version=0)
    with pytest.raises(InvalidInput, match="columns of a checkpoint"):
        state_of_table(pa.table({"protocol": [{"minReaderVersion": "one"}]}), version=0)
    with pytest.raises(InvalidInput, match="columns of a checkpoint"):
        state_of_table(
            rows(state()).append_column("x", [[1, 2]]).set_column(1, "add", [[{"path": {"a": 1}}] * 2]), version=0
        )


def retained(files: str, transactions: str | None = None) -> Metadata:
    limits = {} if transactions is None else {"setTransactionRetentionDuration": transactions}
    return table_metadata(deletedFileRetentionDuration=files, **limits)


@pytest.mark.parametrize(
    ("base", "later", "elapsed", "possible"),
    [
        (retained("2 days"), retained("2 days"), 0, True),
        (retained("2 days"), retained("2 days"), DAY, True),
        (retained("2 days"), retained("1 day"), 0, True),
        (retained("2 days"), retained("3 days"), DAY - 1, False),
        (retained("2 days"), retained("3 days"), DAY, True),
        (retained("1 day", "1 day"), retained("1 day"), DAY, False),
        (retained("1 day"), retained("1 day", "1 day"), DAY, True),
        (retained("1 day", "1 day"), retained("1 day", "2 days"), DAY - 1, False),
        (retained("1 day", "1 day"), retained("1 day", "2 days"), DAY, True),
    ],
)
def test_a_checkpoint_continues_from_one_that_lacks_nothing(
    base: Metadata, later: Metadata, elapsed: int, *, possible: bool
) -> None:
    assert can_continue(base, later, base_committed_at=WEEK, committed_at=WEEK + elapsed) is possible


def test_a_checkpoint_without_the_text_of_statistics_gives_none_to_a_later_one() -> None:
    times = {"base_committed_at": 0, "committed_at": 0}
    typed_only = table_metadata(**{"checkpoint.writeStatsAsJson": "false"})
    without = replace(
        typed_only, configuration={**typed_only.configuration, "delta.checkpoint.writeStatsAsStruct": "false"}
    )
    assert not can_continue(typed_only, typed_only, **times)
    assert not can_continue(without, METADATA, **times)
    assert can_continue(without, without, **times)
    assert can_continue(METADATA, typed_only, **times)
