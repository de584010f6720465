"""One Parquet file of several: every reader finds in it what the parts held, and its footer is one of Arrow's."""

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.errors import Internal
from deltamirror.publish.checkpoint import stitching, thrift
from deltamirror.publish.checkpoint.stitching import stitched

ACTION = pa.struct([("path", pa.string()), ("tags", pa.map_(pa.string(), pa.string())), ("size", pa.int64())])


def table_of(count: int, *, seed: int = 1) -> pa.Table:
    chance = random.Random(seed)
    actions = [
        None
        if number % 7 == 3
        else {"path": f"{chance.getrandbits(90):x}", "tags": [("k", str(number))], "size": number}
        for number in range(count)
    ]
    return pa.table({"number": pa.array(range(count), pa.int32()), "add": pa.array(actions, ACTION)})


def file_of(table: pa.Table, **options: object) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=max(table.num_rows, 1), store_schema=False, **options)
    return sink.getvalue()


def parts_of(table: pa.Table, sizes: list[int], **options: object) -> list[pa.Buffer]:
    files, start = [], 0
    for size in sizes:
        files.append(file_of(table.slice(start, size), **options))
        start += size
    return files


def read(data: pa.Buffer) -> pa.Table:
    return pq.read_table(pa.BufferReader(data))


def footer_of(data: pa.Buffer) -> bytes:
    whole: bytes = data.to_pybytes()
    length = int.from_bytes(whole[-8:-4], "little")
    return whole[-8 - length : -8]


@pytest.mark.parametrize("sizes", [[10], [1, 1], [10, 20, 30], [5, 0, 5], [1] * 40])
def test_all_rows_are_read_in_the_order_of_the_parts(sizes: list[int]) -> None:
    table = table_of(sum(sizes))
    whole = stitched(parts_of(table, sizes))
    assert read(whole).equals(table)
    metadata = pq.read_metadata(pa.BufferReader(whole))
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == sizes


def test_it_is_the_file_that_arrow_writes_at_once() -> None:
    """To the byte of its footer: places, sizes, statistics, encodings, numbers of row groups."""
    table = table_of(3_000)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, compression="zstd", store_schema=False) as writer:
        for start in (0, 1_000, 2_000):
            writer.write_table(table.slice(start, 1_000))
    assert stitched(parts_of(table, [1_000] * 3, compression="zstd")).equals(sink.getvalue())


@pytest.mark.parametrize("options", [{"write_page_index": True}, {"use_dictionary": False}, {"data_page_size": 100}])
def test_whatever_else_the_parts_have_places_for_is_found(options: dict[str, object]) -> None:
    table = table_of(500)
    whole = stitched(parts_of(table, [200, 300], **options))
    assert read(whole).equals(table)
    second = pq.ParquetFile(pa.BufferReader(whole), page_checksum_verification=True).read_row_group(1)
    assert second.equals(table.slice(200))


def test_a_reader_of_another_make_finds_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "whole.parquet"
    path.write_bytes(stitched(parts_of(table_of(900), [400, 400, 100], compression="zstd")))
    query = "SELECT count(*), sum(number), count(add), sum(add.size) FROM read_parquet(?)"
    found = duckdb.execute(query, [str(path)]).fetchone()
    sizes = [number for number in range(900) if number % 7 != 3]
    assert found == (900, sum(range(900)), len(sizes), sum(sizes))


def test_a_reader_skips_row_groups_by_their_statistics() -> None:
    whole = stitched(parts_of(table_of(300), [100, 100, 100]))
    column = pq.read_metadata(pa.BufferReader(whole)).row_group(2).column(0)
    assert (column.statistics.min, column.statistics.max) == (200, 299)
    found = pq.read_table(pa.BufferReader(whole), filters=[("number", ">=", 290)])
    assert found.column("number").to_pylist() == list(range(290, 300))


def _unmoved(group: thrift.Struct, distance: int) -> None:
    pass


def _moved_too_far(group: thrift.Struct, distance: int) -> None:
    move_group(group, distance + 1)


move_group = stitching._move_group


@pytest.mark.parametrize("wrong", [_unmoved, _moved_too_far])
def test_a_footer_that_is_wrong_is_noticed_before_anybody_reads_it(
    wrong: Callable[[thrift.Struct, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stitching, "_move_group", wrong)
    with pytest.raises(Internal, match="another footer"):
        stitched(parts_of(table_of(300), [100, 200]))


def test_one_file_alone_stays_as_it_is() -> None:
    (alone,) = parts_of(table_of(3), [3])
    assert stitched([alone]) is alone


def test_what_thrift_reads_it_writes_again() -> None:
    for data in parts_of(table_of(40), [1, 39], write_page_index=True):
        assert thrift.encoded(thrift.decoded(footer_of(data))) == footer_of(data)


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\x1d\x00"])
def test_thrift_that_breaks_off_is_an_error_of_value(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ValueError, match="Thrift"):
        thrift.decoded(damage(footer_of(parts_of(table_of(40), [40])[0])))


INTEGERS = st.integers(-(2**63), 2**63 - 1)
ELEMENTS = st.one_of(
    st.lists(INTEGERS, max_size=40).map(lambda values: (6, values)),
    st.lists(st.binary(max_size=9), max_size=40).map(lambda values: (8, values)),
    st.lists(st.integers(0, 255), max_size=20).map(lambda values: (3, values)),
)
VALUES = st.one_of(
    st.booleans().map(lambda value: (1 if value else 2, value)),
    INTEGERS.map(lambda value: (6, value)),
    st.binary(max_size=300).map(lambda value: (8, value)),
    st.binary(min_size=8, max_size=8).map(lambda value: (7, value)),
    ELEMENTS.map(lambda value: (9, value)),
)
STRUCTS = st.recursive(
    st.dictionaries(st.integers(1, 300), VALUES, max_size=6),
    lambda inner: st.dictionaries(st.integers(1, 40), inner.map(lambda value: (12, value)) | VALUES, max_size=6),
    max_leaves=12,
)


@given(STRUCTS)
def test_any_struct_of_thrift_is_written_and_read(fields: thrift.Struct) -> None:
    assert thrift.decoded(thrift.encoded(fields)) == fields
