"""The newest action of each file wins, in the order of files, in however many ranges and files they are sorted."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltamirror.mirror.checkpoint import reconciliation
from deltamirror.mirror.checkpoint.layout import VECTOR

ACTIONS = st.lists(st.tuples(st.sampled_from("abcdefgh%C3é").map(lambda name: name * 2), st.booleans()), max_size=60)


def table_of(actions: list[tuple[int, str]]) -> pa.Table:
    ordinals = pa.array([ordinal for ordinal, _ in actions], pa.int64())
    paths = pa.array([path for _, path in actions], pa.large_string())
    vectors = pa.nulls(len(actions), VECTOR)
    return pa.table({"path": paths, "deletionVector": vectors, "ordinal": ordinals, "place": ordinals})


@pytest.mark.parametrize("in_memory", [0, 1_000_000], ids=["put aside", "in memory"])
@pytest.mark.parametrize("most", [1, 3, 1_000])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(actions=ACTIONS)
def test_the_last_action_of_each_file_is_left(
    actions: list[tuple[str, bool]], most: int, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliation, "_SORTED_ROWS", most)
    monkeypatch.setattr(reconciliation, "_PIECE_ROWS", 7)
    monkeypatch.setattr(reconciliation, "_RANGES", 4)
    monkeypatch.setattr(reconciliation, "_RANGE_BYTES", most)
    adds = [(ordinal, path) for ordinal, (path, is_add) in enumerate(actions) if is_add]
    removes = [(ordinal, path) for ordinal, (path, is_add) in enumerate(actions) if not is_add]
    files, tombstones = reconciliation.reconciled(table_of(adds), table_of(removes), in_memory=in_memory)
    last = {path: (ordinal, is_add) for ordinal, (path, is_add) in enumerate(actions)}
    for found, wants_adds in ((files, True), (tombstones, False)):
        expected = [(path, ordinal) for path, (ordinal, is_add) in sorted(last.items()) if is_add is wants_adds]
        assert list(zip(found["path"].to_pylist(), found["place"].to_pylist(), strict=True)) == expected
