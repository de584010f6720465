"""The newest action of each file wins, in the order of files, in however many ranges and files they are sorted."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltamirror.deltalog.checkpoint import reconciliation
from deltamirror.deltalog.checkpoint.layout import VECTOR

# Paths that java.net.URI holds equal though they are spelled otherwise, and one that another begins with.
SPELLED = {"a%c3": "a%C3", "FILE:/x": "file:/x"}
PATHS = ["a", "a%C3", "a%c3", "aa", "b", "é", "FILE:/x", "file:/x"]
ACTIONS = st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([None, "u", "v"]), st.booleans()), max_size=60)


def table_of(actions: list[tuple[int, str, str | None]]) -> pa.Table:
    ordinals = pa.array([ordinal for ordinal, _, _ in actions], pa.int64())
    paths = pa.array([path for _, path, _ in actions], pa.large_string())
    vectors = pa.array([each and {"storageType": "u", "pathOrInlineDv": each} for *_, each in actions], VECTOR)
    return pa.table({"path": paths, "deletionVector": vectors, "ordinal": ordinals, "place": ordinals})


@pytest.mark.parametrize("in_memory", [0, 1_000_000], ids=["put aside", "in memory"])
@pytest.mark.parametrize("most", [1, 3, 1_000])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25)
@given(actions=ACTIONS)
def test_the_last_action_of_each_file_is_left(
    actions: list[tuple[str, str | None, bool]], most: int, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation, "_SORTED_ROWS", most)
    monkeypatch.setattr(reconciliation, "_PIECE_ROWS", 7)
    monkeypatch.setattr(reconciliation, "_RANGES", 4)
    monkeypatch.setattr(reconciliation, "_RANGE_BYTES", most)
    adds = [(ordinal, path, vector) for ordinal, (path, vector, is_add) in enumerate(actions) if is_add]
    removes = [(ordinal, path, vector) for ordinal, (path, vector, is_add) in enumerate(actions) if not is_add]
    files, tombstones = reconciliation.reconciled(table_of(adds), table_of(removes), in_memory=in_memory)
    last = {
        (SPELLED.get(path, path), vector or ""): (ordinal, is_add)
        for ordinal, (path, vector, is_add) in enumerate(actions)
    }
    for found, wants_adds in ((files, True), (tombstones, False)):
        expected = [ordinal for _, (ordinal, is_add) in sorted(last.items()) if is_add is wants_adds]
        assert found["place"].to_pylist() == expected


@pytest.mark.parametrize("most", [2, 1_000])
def test_rows_keep_all_their_columns_also_those_without_a_value(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "_SORTED_ROWS", most)
    adds = table_of([(0, "c", None), (1, "a", None), (2, "b", None), (3, "a", None)])
    adds = adds.append_column("none", pa.nulls(4, pa.int64())).append_column("some", pa.array([1, None, 3, None]))
    files, tombstones = reconciliation.reconciled(adds, table_of([]))
    assert files.schema == adds.drop_columns(["ordinal"]).schema
    assert files.drop_columns(["deletionVector"]).to_pylist() == [
        {"path": "a", "place": 3, "none": None, "some": None},
        {"path": "b", "place": 2, "none": None, "some": 3},
        {"path": "c", "place": 0, "none": None, "some": 1},
    ]
    assert files["deletionVector"].null_count == 3
    assert tombstones.num_rows == 0


@pytest.mark.parametrize("step", [1, 7], ids=["paths rise with time", "paths come in any order"])
def test_what_is_put_aside_is_not_in_memory_as_well(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    count, piece_rows = 20_000, 500
    files = table_of([(number, f"day={number * step % count:010}", None) for number in range(count)])
    piece_bytes, none, held = files.slice(0, piece_rows).nbytes, table_of([]), [pa.total_allocated_bytes()]

    def keys_of(piece: pa.Table, keys_of: Callable[[pa.Table], pa.Array] = reconciliation.keys_of) -> pa.Array:
        held.append(pa.total_allocated_bytes())
        return keys_of(piece)

    monkeypatch.setattr(reconciliation, "keys_of", keys_of)
    monkeypatch.setattr(reconciliation, "_PIECE_ROWS", piece_rows)
    monkeypatch.setattr(reconciliation, "_RANGES", 4)
    monkeypatch.setattr(reconciliation, "_RANGE_BYTES", piece_bytes // 4)
    ranges = reconciliation.by_ranges(files, none, in_memory=0)
    assert max(held) - held[0] < piece_bytes
    assert sum(some.num_rows for some, _ in ranges) == count
