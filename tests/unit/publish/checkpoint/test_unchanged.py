"""Which row groups of a checkpoint the next one takes over, and when it takes none."""

from collections.abc import Callable
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror.deltalog.checkpoint import parquet
from deltamirror.publish.checkpoint import encoding, readback
from deltamirror.publish.checkpoint.unchanged import Group, groups_of
from deltamirror.work import CheckpointBase
from tests.support.logs.checkpoint_attempts import attempt
from tests.support.logs.checkpoint_chains import (
    FEWEST_ROWS,
    MOST_COVERING,
    Chain,
    Life,
    assert_same,
    data_of,
    row_groups_of,
)
from tests.support.logs.checkpoint_tables import table_of
from tests.support.logs.checkpoints import put_commits, unit_of

pytestmark = pytest.mark.requirement("R9")


FILES = 36


def groups_in(data: bytes) -> list[Group]:
    return groups_of(parquet.File(pa.py_buffer(data)), compression="snappy")


@pytest.fixture
def life() -> Life:
    """Some files, of which a checkpoint is to be made."""
    begun = Life()
    begun.append(FILES)
    return begun


def test_row_groups_in_which_nothing_changes_are_taken_over_and_not_decoded(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain()
    before, _ = chain.next(life)
    life.append(2)
    decoded: list[int] = []
    check = readback.check

    def counted(data: pa.Buffer, table: pa.Table) -> None:
        decoded.append(table.num_rows)
        check(data, table)

    monkeypatch.setattr(readback, "check", counted)
    after, whole = chain.next(life)
    assert_same(after, whole)
    assert len(chain.taken) == FILES // FEWEST_ROWS
    assert row_groups_of(after)[-len(chain.taken) :] == [row_groups_of(before)[number] for number in chain.taken]
    assert sum(decoded[:-1]) < 10  # the last one is the file from all lines


def test_typed_statistics_are_read_again_when_a_type_changes_that_a_file_does_not_show(life: Life) -> None:
    chain = Chain()
    chain.next(life)
    life.change_schema(2)
    assert_same(*chain.next(life))


def test_a_row_group_that_loses_a_file_is_written_anew_and_no_other(life: Life) -> None:
    chain = Chain()
    chain.next(life)
    life.remove(17)
    assert_same(*chain.next(life))
    assert len(chain.taken) == FILES // FEWEST_ROWS - 1


def test_a_file_that_is_added_again_is_there_once_however_its_path_is_spelled(life: Life) -> None:
    chain = Chain()
    chain.next(life)
    odd = [number for number, each in enumerate(life.live) if "%2f" in each.path]
    for number in odd:
        life.add_again(number)
    after, whole = chain.next(life)
    assert odd
    assert_same(after, whole)


def test_row_groups_of_tombstones_are_taken_over_until_one_expires(life: Life) -> None:
    chain = Chain()
    life.change_retention(1)  # a week
    for _ in range(24):
        life.remove(0)
    before, _ = chain.next(life)
    tombstones = {each.number for each in groups_in(before) if each.removes}
    life.note(1)
    assert_same(*chain.next(life))
    assert tombstones.intersection(chain.taken)
    life.change_retention(0)  # three seconds
    after, whole = chain.next(life)
    assert_same(after, whole)
    assert chain.taken
    assert not any(each.removes for each in groups_in(after)[1:])


def test_a_long_chain_has_no_more_row_groups_than_a_file_from_all_lines_needs(life: Life) -> None:
    """Paths are random: each new row group spans all of them."""
    chain = Chain()
    found, _ = chain.next(life)
    taken = 0
    for number in range(7):
        life.append(1 + number % 4)
        found, whole = chain.next(life)
        assert_same(found, whole)
        taken += len(chain.taken)
        metadata = parquet.opened(found).metadata
        assert metadata.num_row_groups <= metadata.num_rows / FEWEST_ROWS + 3
        groups = groups_in(found)
        bounds = [each.files for each in groups if each.files is not None]
        deepest = max(sum(least <= path <= most for least, most in bounds) for path, _ in bounds)
        assert deepest <= MOST_COVERING + 2
    assert taken > 20


def _without_statistics(data: bytes) -> bytes:
    return _rewritten(data, write_statistics=False)


def _with_page_index(data: bytes) -> bytes:
    return _rewritten(data, write_page_index=True)


def _of_another_writer(data: bytes) -> bytes:
    return data.replace(b"parquet-cpp-arrow", b"parquet-abc-arrow")


def _with_other_metadata(data: bytes) -> bytes:
    return _rewritten(data, spark=b"4.1.0")


def _of_another_form(data: bytes) -> bytes:
    return _rewritten(data, version="2.6")


def _rewritten(data: bytes, *, spark: bytes = parquet.VERSION, **options: object) -> bytes:
    table, sink = table_of(data), pa.BufferOutputStream()
    schema = parquet.opened(data).metadata.metadata[parquet.SCHEMA_KEY]
    layout = {**encoding._layout(table.schema, "snappy"), "use_deprecated_int96_timestamps": True, **options}
    with pq.ParquetWriter(sink, table.schema, **layout) as writer:
        for start in range(0, table.num_rows, FEWEST_ROWS):
            writer.write_table(table.slice(start, FEWEST_ROWS))
        writer.add_key_value_metadata({parquet.SCHEMA_KEY: schema, parquet.VERSION_KEY: spark})
    return bytes(sink.getvalue())


def _put_base(chain: Chain, data: bytes) -> None:
    base = chain.base
    assert base is not None
    chain.store.put(f"_delta_log/{base.name}", data)
    chain.base = CheckpointBase(
        version=base.version, committed_at=base.committed_at, name=base.name, digest=sha256(data).digest()
    )


@pytest.mark.parametrize("doubtful", [_without_statistics, _of_another_writer, _with_other_metadata, _of_another_form])
def test_nothing_is_taken_over_from_a_file_in_doubt(life: Life, doubtful: Callable[[bytes], bytes]) -> None:
    chain = Chain()
    before = doubtful(chain.next(life)[0])
    _put_base(chain, before)
    life.append(1)
    after, whole = chain.next(life)
    assert_same(after, whole)
    assert not chain.taken


@pytest.mark.parametrize("form", [_rewritten, _with_other_metadata], ids=["ours", "another"])
def test_a_file_of_our_form_with_other_bytes_is_kept_and_nothing_builds_on_it(
    life: Life, form: Callable[[bytes], bytes]
) -> None:
    chain = Chain()
    data = form(chain.next(life)[0])
    assert chain.base is not None
    chain.store.put(f"_delta_log/{chain.base.name}", data)
    found = attempt(unit_of(life.commits, row_group_bytes=1), chain.store)
    assert found.failure is None
    assert data_of(chain.store, found.name) == data
    assert found.digest == (None if parquet.is_ours(data) else sha256(data).digest())


def test_a_base_that_leaves_another_count_of_files_is_done_without(life: Life) -> None:
    chain = Chain()
    chain.next(life)
    life.append(1)
    put_commits(chain.store, life.commits)
    found = attempt(unit_of(life.commits, base=chain.base, num_files=FILES), chain.store)
    assert (found.base_unusable, found.failure) == (True, None)


def test_a_row_group_is_as_large_as_its_arrow_data_though_it_is_full_of_nulls() -> None:
    life = Life()
    life.change_columns([f"c{number} long" for number in range(40)])
    life.append(1_500)
    chain, limit = Chain(), 512 * 1024
    data, _ = chain.next(life, row_group_bytes=limit)
    groups = groups_in(data)
    assert any(each.num_bytes < limit // 8 < each.least_bytes for each in groups)
    for each in groups:
        assert each.least_bytes <= max(each.num_bytes, parquet.File(data).row_group(each.number).nbytes)
    life.append(1)
    chain.next(life, row_group_bytes=limit)
    assert chain.taken


def test_page_indexes_are_left_behind(life: Life) -> None:
    chain = Chain()
    before = _with_page_index(chain.next(life)[0])
    _put_base(chain, before)
    life.append(1)
    after, whole = chain.next(life)
    assert_same(after, whole)
    assert chain.taken
    metadata = parquet.opened(after).metadata
    columns = [metadata.row_group(n).column(0) for n in range(metadata.num_row_groups)]
    assert not any(each.has_offset_index or each.has_column_index for each in columns)


@pytest.mark.parametrize(
    "change", [lambda life: life.change_schema(1), lambda life: life.change_statistics(1)], ids=["schema", "statistics"]
)
def test_nothing_is_taken_over_where_columns_change(life: Life, change: Callable[[Life], None]) -> None:
    chain = Chain()
    chain.next(life)
    change(life)
    after, whole = chain.next(life)
    assert_same(after, whole)
    assert not chain.taken


def test_nothing_is_taken_over_where_the_compression_changed(life: Life) -> None:
    chain = Chain()
    chain.next(life)
    life.append(1)
    after, whole = chain.next(life, compression="zstd")
    assert_same(after, whole)
    assert not chain.taken


def test_a_damaged_base_is_not_used(life: Life) -> None:
    chain = Chain()
    before, _ = chain.next(life)
    assert chain.base is not None
    chain.store.put(f"_delta_log/{chain.base.name}", before[:40] + b"?" + before[41:])
    life.append(1)
    after, whole = chain.next(life)
    assert_same(after, whole)


def test_a_checkpoint_of_the_same_rows_in_other_row_groups_is_kept(life: Life) -> None:
    """Another process put one that it made from all lines."""
    chain = Chain()
    chain.next(life)
    earlier = chain.base
    life.append(1)
    chain.base = None
    there, _ = chain.next(life)
    chain.base = earlier
    found, _ = chain.next(life)
    assert found == there
