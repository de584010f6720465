"""Row groups of a file that are in the next one as they are: their bytes move, and the footer follows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror.deltalog.checkpoint.scratch import Pile
from deltamirror.errors import Internal
from deltamirror.publish.checkpoint import stitching, thrift
from deltamirror.publish.checkpoint.stitching import UnchangedGroups, have_same_form, span, stitched

pytestmark = pytest.mark.requirement("R9")

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def table_of(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"n": list(numbers), "s": [f"text {number}" for number in numbers]}, schema=SCHEMA)


def file_of(*tables: pa.Table, **options: object) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, SCHEMA, store_schema=False, **options) as writer:
        for table in tables:
            writer.write_table(table)
        writer.add_key_value_metadata({"k": "v"})
    return sink.getvalue()


def read(file: pa.Buffer) -> pa.Table:
    return pq.read_table(pa.BufferReader(file))


def metadata_of(file: pa.Buffer) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(file))


def group_bytes(file: pa.Buffer, number: int) -> bytes:
    found: bytes = file.slice(*span(metadata_of(file).row_group(number))).to_pybytes()
    return found


OLD = [table_of(0, 10), table_of(10, 20), table_of(30, 5)]


@pytest.mark.parametrize("numbers", [[0], [2], [0, 2], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("options", [{}, {"write_page_index": True}, {"use_dictionary": False}], ids=str)
def test_row_groups_are_taken_over_after_the_new_ones(numbers: list[int], options: dict[str, object]) -> None:
    old, new = file_of(*OLD, **options), [file_of(table_of(100, 7)), file_of(table_of(200, 3))]
    whole = stitched(new, UnchangedGroups(old, numbers))
    expected = [table_of(100, 7), table_of(200, 3), *(OLD[number] for number in numbers)]
    assert read(whole).equals(pa.concat_tables(expected))
    metadata = metadata_of(whole)
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [len(each) for each in expected]
    assert [group_bytes(whole, at) for at in range(2, len(expected))] == [group_bytes(old, each) for each in numbers]
    columns = [metadata.row_group(at).column(n) for at in range(2, len(expected)) for n in range(2)]
    assert not any(each.has_offset_index or each.has_column_index for each in columns)


def test_one_new_file_is_joined_with_row_groups_that_are_taken_over() -> None:
    whole = stitched([file_of(table_of(50, 1))], UnchangedGroups(file_of(*OLD), [1]))
    assert read(whole).equals(pa.concat_tables([table_of(50, 1), OLD[1]]))


def test_a_row_group_that_states_its_number_gets_that_of_its_place() -> None:
    told = metadata_of(file_of(*OLD)).row_group(0)
    unnumbered: thrift.Struct = {1: (9, (12, [])), 5: (6, 4)}
    moved = [
        thrift.decoded(stitching._moved(dict(each), told, 2, 3).encoded)
        for each in ({**unnumbered, 7: (4, 0)}, unnumbered)
    ]
    assert moved == [{1: (9, (12, [])), 5: (6, 6), 7: (4, 3)}, {1: (9, (12, [])), 5: (6, 6)}]


def test_places_of_indexes_and_bloom_filters_are_forgotten() -> None:
    kinds = {field: (6, field) for field in (14, 15, 16)}
    chunk = {2: (6, 4), 3: (12, dict(kinds)), **{field: (6, field) for field in (4, 5, 6, 7, 8)}}
    stitching._drop_indexes({1: (9, (12, [chunk]))})
    assert list(chunk) == [2, 3, 8]
    assert list(chunk[3][1]) == [16]  # type: ignore[call-overload]


def test_places_that_are_stated_move_and_zero_stays() -> None:
    metadata = {9: (6, 100), 10: (6, 0), 11: (6, 90), 14: (6, 300)}
    chunk = {2: (6, 0), 3: (12, metadata), 4: (6, 400), 6: (6, 500)}
    group = {1: (9, (12, [chunk])), 5: (6, 90), 7: (4, 3)}
    stitching._move_group(group, 7)
    assert (group[5], group[7]) == ((6, 97), (4, 3))
    assert [chunk[field] for field in (2, 4, 6)] == [(6, 0), (6, 407), (6, 507)]
    assert list(metadata.items()) == [(9, (6, 107)), (10, (6, 0)), (11, (6, 97)), (14, (6, 307))]


def test_forms_are_equal_whatever_the_rows_are() -> None:
    one = file_of(*OLD)
    assert have_same_form(one, file_of(table_of(7, 7))) is True
    assert have_same_form(one, file_of(*OLD, version="1.0")) is False


@pytest.mark.parametrize("numbers", [[3], [-1, 0]])
def test_a_row_group_that_is_not_there_is_noticed(numbers: list[int]) -> None:
    with pytest.raises(Internal, match=rf"no row groups \[{numbers[0]}\]"):
        stitched([file_of(table_of(50, 1))], UnchangedGroups(file_of(*OLD), numbers))


class _Column:
    """A column chunk, by its places alone."""

    def __init__(self, data: int, size: int, dictionary: int | None = None) -> None:
        self.data_page_offset, self.dictionary_page_offset = data, dictionary
        self.total_compressed_size = size


class _RowGroup:
    def __init__(self, *columns: _Column) -> None:
        self.num_columns, self.column = len(columns), columns.__getitem__


def test_the_span_of_a_row_group_is_from_its_first_page_to_its_last() -> None:
    assert span(_RowGroup(_Column(20, 30, 4), _Column(34, 6))) == (4, 36)
    assert span(_RowGroup(_Column(4, 10))) == (4, 10)
    for gap in (_Column(35, 6), _Column(33, 6), _Column(90, 6, 35)):
        with pytest.raises(ValueError, match="not one after the other"):
            span(_RowGroup(_Column(20, 30, 4), gap))


@pytest.mark.parametrize("wrong", ["rows", "groups"])
def test_a_footer_of_other_counts_is_noticed(wrong: str) -> None:
    groups: list[stitching._Group] = []
    pile = Pile()
    pile.add(b"PAR1")
    stitching._take_in(file_of(*OLD), pile, groups)
    other = file_of(*OLD, OLD[0].slice(0, 0)) if wrong == "groups" else file_of(OLD[0], OLD[1], table_of(0, 6))
    with pytest.raises(Internal, match="another footer"):
        stitching._check(metadata_of(other), groups)
    stitching._check(metadata_of(file_of(*OLD)), groups)
