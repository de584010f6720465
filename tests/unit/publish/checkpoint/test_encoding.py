"""The Parquet file of a checkpoint has the form of the reference writer's."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror.deltalog.checkpoint.parquet import SCHEMA_KEY, VERSION, VERSION_KEY
from deltamirror.errors import Internal
from deltamirror.publish.checkpoint import encoding, readback
from deltamirror.publish.checkpoint.encoding import encoded
from deltamirror.publish.checkpoint.stitching import UnchangedGroups

pytestmark = pytest.mark.requirement("R9")

VECTOR = pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string())])
STATISTICS = pa.struct([("t", pa.timestamp("us", "UTC")), ("d", pa.decimal128(5, 2)), ("l", pa.list_(pa.int64()))])
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("baseRowId", pa.int64()),
        ("deletionVector", VECTOR),
        ("stats_parsed", STATISTICS),
    ]
)
SCHEMA = pa.schema([("add", ADD)])
UNWRITABLE = pa.schema([("x", pa.month_day_nano_interval())])


def table_of(count: int) -> pa.Table:
    rows = [
        {
            "path": f"f{number}",
            "size": number,
            "modificationTime": 1,
            "stats": "{}",
            "baseRowId": number,
            "deletionVector": {"storageType": "u", "pathOrInlineDv": "v"},
            "stats_parsed": {"t": datetime(2020, 1, 1, tzinfo=UTC), "d": Decimal("1.25"), "l": [number]},
        }
        for number in range(count)
    ]
    return pa.table({"add": pa.array(rows, ADD)})


def file_of(*groups: pa.Table, unchanged: UnchangedGroups | None = None) -> pa.Buffer:
    return encoded(groups, SCHEMA, '{"spark":1}', compression="zstd", unchanged=unchanged)


def metadata_of(file: pa.Buffer) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(file))


def columns_of(file: pa.Buffer) -> dict[str, pq.ColumnChunkMetaData]:
    group = metadata_of(file).row_group(0)
    return {each.path_in_schema: each for each in map(group.column, range(group.num_columns))}


def test_the_footer_has_sparks_schema_and_nothing_of_arrow() -> None:
    metadata = metadata_of(file_of(table_of(3)))
    assert metadata.metadata == {SCHEMA_KEY: b'{"spark":1}', VERSION_KEY: VERSION}
    assert (metadata.format_version, metadata.num_rows, metadata.num_row_groups) == ("1.0", 3, 1)


def test_columns_that_are_unique_have_no_dictionary_and_all_have_statistics() -> None:
    columns = columns_of(file_of(table_of(3)))
    plain = {path for path, each in columns.items() if not each.has_dictionary_page}
    unique = {"path", "size", "stats", "baseRowId", "deletionVector.pathOrInlineDv"}
    assert plain == {f"add.{name}" for name in unique}
    assert {each.compression for each in columns.values()} == {"ZSTD"}
    assert all(each.is_stats_set for path, each in columns.items() if not path.endswith(".t"))


def test_types_are_those_that_the_reference_writer_chooses() -> None:
    columns = columns_of(file_of(table_of(3)))
    assert columns["add.stats_parsed.t"].physical_type == "INT96"
    assert columns["add.stats_parsed.d"].physical_type == "INT32"
    assert "add.stats_parsed.l.list.element" in columns


def test_a_dictionary_that_has_grown_to_its_limit_is_given_up() -> None:
    texts = pa.table({"t": [f"{number:0100d}" for number in range(2_000)]})
    file = encoded([texts], texts.schema, "{}", compression="none")
    (column,) = columns_of(file).values()
    assert column.total_uncompressed_size < 2_000 * 104 + 2 * encoding._DICTIONARY_BYTES
    assert "PLAIN" in column.encodings


def test_each_group_is_a_row_group_be_it_empty_and_unchanged_ones_follow() -> None:
    old = file_of(table_of(4), table_of(5))
    file = file_of(table_of(2), table_of(0), unchanged=UnchangedGroups(old, [1]))
    metadata = metadata_of(file)
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [2, 0, 5]


def test_a_group_of_more_rows_than_arrow_puts_together_is_one_row_group() -> None:
    many = pa.table({"n": pa.nulls(1024 * 1024 + 1, pa.int64())})
    file = encoded([many], many.schema, "{}", compression="zstd")
    assert metadata_of(file).num_row_groups == 1


def test_rows_that_arrow_cannot_write_and_files_that_say_something_else_are_ours_to_explain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(Internal, match=r"^the checkpoint cannot be written as Parquet: "):
        encoded([UNWRITABLE.empty_table()], UNWRITABLE, "{}", compression="zstd")
    monkeypatch.setattr(readback, "check", _refuse)
    with pytest.raises(Internal, match="another"):
        file_of(table_of(1))


def _refuse(data: pa.Buffer, table: pa.Table) -> None:
    assert table.num_rows == 1
    raise Internal("another")
