"""A checkpoint in one file as the base of the next one: its other actions, its files, and the row groups that stay."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add
from deltamirror.delta.schema import from_ddl, schema_string
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.deltalog.checkpoint.state import tombstones_after
from deltamirror.publish.checkpoint import classic_base, encoding, grouping, thrift
from deltamirror.publish.checkpoint.classic_base import UNREADABLE, ClassicBase
from tests.support.logs.checkpoint_attempts import CLASSIC, replayed, unit
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import COMMITTED_AT, commit, file

pytestmark = pytest.mark.requirement("R9")

STATE = replayed(CLASSIC)
ROWS = rows(STATE)
OTHERS, FILE_ROWS, TOMBSTONES = ROWS.slice(0, 4), ROWS.slice(4, 6), ROWS.slice(10)
IN_GROUPS = [FILE_ROWS.slice(0, 3), OTHERS, FILE_ROWS.slice(3), TOMBSTONES]
DELETED_AT = COMMITTED_AT + 2_000
LARGE = 1024 * 1024
NULL_COUNT = 3


def ours(*tables: pa.Table) -> pa.Buffer:
    """A file of our form, with a row group for each table."""
    schema = content.checkpoint_schema(ROWS.schema)
    return encoding.encoded(tables, ROWS.schema, schema, compression="snappy")


def theirs(*tables: pa.Table) -> pa.Buffer:
    """A file without any of the texts that we and Spark add to a footer."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, tables[0].schema, store_schema=False) as writer:
        for table in tables:
            writer.write_table(table)
    return sink.getvalue()


def with_statistics(data: pa.Buffer, change: Callable[[thrift.Struct], object]) -> pa.Buffer:
    """The file with other statistics of its columns."""
    whole = data.to_pybytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    footer = thrift.decoded(whole[start:-8])
    for metadata in _columns(footer):
        change(metadata)
    ending = thrift.encoded(footer)
    return pa.py_buffer(whole[:start] + ending + len(ending).to_bytes(4, "little") + b"PAR1")


def _columns(footer: thrift.Struct) -> Iterator[thrift.Struct]:
    for group in footer[4][1][1]:
        yield from (chunk[3][1] for chunk in group[1][1][1])


def without_statistics(metadata: thrift.Struct) -> None:
    del metadata[12]


def without_null_counts(metadata: thrift.Struct) -> None:
    del metadata[12][1][NULL_COUNT]


def as_texts(actions: Sequence[Action]) -> list[str]:
    return sorted(map(repr, actions))


@pytest.mark.parametrize("write", [ours, theirs])
def test_the_other_actions_are_found_in_whichever_row_groups_they_are(write: Callable[..., pa.Buffer]) -> None:
    data = write(FILE_ROWS, OTHERS.slice(0, 1), TOMBSTONES, OTHERS.slice(1))
    base = ClassicBase.of(data)
    assert (base.data, base.metadata, base.protocol) == (data, STATE.metadata, STATE.protocol)
    assert as_texts(base.others) == as_texts(STATE.others)


@pytest.mark.parametrize("change", [without_statistics, without_null_counts])
def test_row_groups_are_read_where_the_footer_does_not_tell_what_they_lack(
    change: Callable[[thrift.Struct], object],
) -> None:
    assert as_texts(ClassicBase.of(with_statistics(ours(*IN_GROUPS), change)).others) == as_texts(STATE.others)


def test_the_statistics_of_other_writers_are_not_asked() -> None:
    def all_null(metadata: thrift.Struct) -> None:
        metadata[12][1][NULL_COUNT] = 6, OTHERS.num_rows

    data = with_statistics(theirs(OTHERS), all_null)
    assert parquet.opened(data).metadata.row_group(0).column(0).statistics.null_count == OTHERS.num_rows
    assert as_texts(ClassicBase.of(data).others) == as_texts(STATE.others)


def test_of_a_file_of_ours_only_the_columns_of_other_actions_are_read_and_only_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, read = ours(*IN_GROUPS), list[tuple[int, list[str]]]()
    real = parquet.File.row_group

    def row_group(file: parquet.File, number: int, **options: Any) -> pa.Table:
        found = real(file, number, **options)
        read.append((number, sorted(found.column_names)))
        return found

    monkeypatch.setattr(parquet.File, "row_group", row_group)
    ClassicBase.of(data)
    assert read == [(1, ["domainMetadata", "metaData", "protocol", "txn"])]


def test_a_file_of_another_writer_may_lack_columns() -> None:
    base = ClassicBase.of(theirs(OTHERS.drop_columns(["domainMetadata", "txn"])))
    assert base.others == [STATE.protocol, STATE.metadata]


@pytest.mark.parametrize(
    "data", [pa.py_buffer(b"PAR1"), theirs(pa.table({"x": [1]})), theirs(FILE_ROWS), ours(OTHERS.slice(1))]
)
def test_a_file_that_is_no_checkpoint_is_refused(data: pa.Buffer) -> None:
    with pytest.raises(UNREADABLE):
        ClassicBase.of(data)


def paths(table: pa.Table) -> list[str]:
    found: list[str] = table.column("path").to_pylist()
    return found


def test_file_actions_are_those_of_all_row_groups_but_some() -> None:
    base = ClassicBase.of(ours(*IN_GROUPS))
    files, removes = base.file_actions(STATE.metadata, STATE.protocol, without=())
    assert (paths(files), paths(removes)) == (paths(STATE.files), paths(STATE.removes))
    files, removes = base.file_actions(STATE.metadata, STATE.protocol, without={0, 3})
    assert (paths(files), paths(removes)) == (paths(STATE.files)[3:], [])


def test_statistics_that_were_parsed_are_taken_from_a_file_of_ours() -> None:
    files, _ = ClassicBase.of(ours(ROWS)).file_actions(STATE.metadata, STATE.protocol, without=())
    assert files.column_names == [*FILES.names, "stats_parsed"]
    typed = pc.struct_field(FILE_ROWS.column("add"), "stats_parsed")
    assert files.column("stats_parsed").to_pylist() == typed.to_pylist()


def test_statistics_are_not_taken_from_the_file_of_another_writer() -> None:
    files, _ = ClassicBase.of(theirs(ROWS)).file_actions(STATE.metadata, STATE.protocol, without=())
    assert files.schema == FILES


def test_statistics_are_not_taken_where_the_next_checkpoint_has_other_ones() -> None:
    """The file shows the same type of both columns."""
    now, then = (
        replace(STATE.metadata, schema_string=schema_string(from_ddl(f"id {kind}, day string")))
        for kind in ("timestamp", "timestamp_ntz")
    )
    state = content.replay([[commit(STATE.protocol, then, file("a"))]], version=0, committed_at=COMMITTED_AT, base=None)
    table = rows(state)
    data = encoding.encoded([table], table.schema, "{}", compression="snappy")
    base = ClassicBase.of(data)
    assert base.file_actions(now, STATE.protocol, without=())[0].schema == FILES
    assert "stats_parsed" in base.file_actions(then, STATE.protocol, without=())[0].column_names


def test_a_file_of_ours_may_have_statistics_as_texts_alone() -> None:
    metadata = replace(STATE.metadata, configuration={"delta.checkpoint.writeStatsAsStruct": "false"})
    state = content.replay(
        [[commit(STATE.protocol, metadata, file("a"))]], version=0, committed_at=COMMITTED_AT, base=None
    )
    table = rows(state)
    base = ClassicBase.of(encoding.encoded([table], table.schema, "{}", compression="snappy"))
    assert base.file_actions(metadata, STATE.protocol, without=())[0].schema == FILES


def staying(data: pa.Buffer, *newer: Action, **fields: Any) -> list[int]:
    """The numbers of the row groups that stay where this is committed next."""
    base = ClassicBase.of(data)
    found = content.replay_newer([[commit(*newer)]], base.others)
    return [each.number for each in base.unchanged(found, unit(CLASSIC, **{"row_group_bytes": LARGE, **fields}))]


@pytest.fixture
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one row or more, with as few bytes as they have."""
    monkeypatch.setattr(grouping, "FEWEST_ROWS", 1)
    monkeypatch.setattr("deltamirror.publish.checkpoint.unchanged._SMALL_PART", LARGE)


def newly_added(number: int) -> Add:
    return file(f"first-{number}", size=7)


@pytest.mark.usefixtures("_small_row_groups")
def test_row_groups_without_other_actions_stay_unless_a_newer_action_is_of_one_of_their_files() -> None:
    data = ours(*IN_GROUPS)
    assert staying(data) == [0, 2, 3]
    assert staying(data, newly_added(1)) == [2, 3]


@pytest.mark.usefixtures("_small_row_groups")
def test_row_groups_stay_until_a_tombstone_of_theirs_expires() -> None:
    retention = -tombstones_after(STATE.metadata, committed_at=0)
    data = ours(*IN_GROUPS)
    assert staying(data, committed_at=DELETED_AT + retention - 1) == [0, 2, 3]
    assert staying(data, committed_at=DELETED_AT + retention) == [0, 2]


@pytest.mark.usefixtures("_small_row_groups")
def test_row_groups_stay_only_where_they_are_of_the_size_and_compression_that_is_wanted() -> None:
    data = ours(*IN_GROUPS)
    assert staying(data, compression="zstd") == []
    assert staying(data, row_group_bytes=1) == [3]


@pytest.mark.usefixtures("_small_row_groups")
def test_no_row_group_of_a_file_stays_that_is_quicker_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    data = ours(*IN_GROUPS)
    assert staying(data, row_group_bytes=(data.size + 1) * 32 - 1) == [0, 2, 3]
    assert staying(data, row_group_bytes=(data.size + 1) * 32) == []
    assert classic_base._SMALL == 2**20
    for small, expected in ((data.size, [0, 2, 3]), (data.size + 1, [])):
        monkeypatch.setattr(classic_base, "_SMALL", small)
        assert staying(data, row_group_bytes=1024**3) == expected


@pytest.mark.usefixtures("_small_row_groups")
def test_no_row_group_stays_where_the_next_file_has_another_form() -> None:
    metadata = replace(STATE.metadata, schema_string=schema_string(from_ddl("id long, day string, more long")))
    assert staying(ours(*IN_GROUPS), metadata) == []
    assert staying(theirs(*IN_GROUPS)) == []
