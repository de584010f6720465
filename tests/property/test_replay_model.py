"""Replay agrees with the plainest model: for each key, the newest commit that speaks of it decides."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.delta import lines
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
from deltamirror.delta.replay import State, checkpoint_actions, replay
from deltamirror.publish.compactions import compacted_lines

pytestmark = pytest.mark.requirement("R37")

Key = tuple[str, ...]
Commit = dict[Key, Action]

BASE: list[Action] = [
    Protocol(min_reader_version=1, min_writer_version=2),
    Metadata(
        id="t",
        format=Format(provider="parquet", options={}),
        schema_string='{"type":"struct","fields":[]}',
        partition_columns=[],
        configuration={},
    ),
]

paths = st.sampled_from(["a", "b", "c%2F"])
vectors = st.sampled_from([None, "x", "y"])
numbers = st.integers(min_value=0, max_value=9)


def _vector(name: str | None) -> DeletionVector | None:
    if name is None:
        return None
    return DeletionVector(storage_type="i", path_or_inline_dv=name, size_in_bytes=1, cardinality=1)


def _add(path: str, vector: str | None, number: int) -> tuple[Key, Action]:
    action = Add(
        path=path,
        partition_values={},
        size=number,
        modification_time=number,
        data_change=True,
        deletion_vector=_vector(vector),
    )
    return ("file", path, vector or ""), action


def _remove(path: str, vector: str | None, number: int) -> tuple[Key, Action]:
    action = Remove(path=path, deletion_timestamp=number, data_change=True, deletion_vector=_vector(vector))
    return ("file", path, vector or ""), action


def _txn(app_id: str, number: int) -> tuple[Key, Action]:
    return ("txn", app_id), Txn(app_id=app_id, version=number)


def _domain(name: str, number: int, removed: bool) -> tuple[Key, Action]:
    return ("domain", name), DomainMetadata(domain=name, configuration=str(number), removed=removed)


keyed_actions = st.one_of(
    st.builds(_add, paths, vectors, numbers),
    st.builds(_remove, paths, vectors, numbers),
    st.builds(_txn, st.sampled_from("uv"), numbers),
    st.builds(_domain, st.sampled_from("mn"), numbers, st.booleans()),
)
# A legal commit speaks of a key once.
commits: st.SearchStrategy[Commit] = st.lists(keyed_actions, max_size=8).map(dict)
histories = st.lists(commits, max_size=10)


def expected(history: list[Commit]) -> list[str]:
    """The model, as sorted texts: dicts of partition values keep actions from being hashed."""
    newest = {key: action for commit in history for key, action in commit.items()}
    return sorted(repr(a) for a in newest.values() if not (isinstance(a, DomainMetadata) and a.removed))


def contents(state: State) -> list[str]:
    parts = (state.files, state.tombstones, state.txns, state.domains)
    return sorted(repr(action) for part in parts for action in part.values())


@given(histories)
def test_the_newest_action_of_every_key_remains(history: list[Commit]) -> None:
    assert contents(replay([list(commit.values()) for commit in history])) == expected(history)


@given(histories, st.randoms(use_true_random=False))
def test_the_order_of_actions_in_a_commit_does_not_matter(history: list[Commit], random: Random) -> None:
    shuffled = [random.sample(list(commit.values()), len(commit)) for commit in history]
    assert contents(replay(shuffled)) == expected(history)


@given(histories, st.integers(min_value=0, max_value=10))
def test_replay_may_stop_and_go_on_anywhere(history: list[Commit], cut: int) -> None:
    lists = [list(commit.values()) for commit in history]
    assert contents(replay(lists[cut:], onto=replay(lists[:cut]))) == expected(history)


@given(histories, st.integers(min_value=0, max_value=10))
def test_a_checkpoint_and_the_commits_after_it_give_the_files_of_all_commits(history: list[Commit], cut: int) -> None:
    lists = [BASE, *(list(commit.values()) for commit in history)]
    whole, before = replay(lists), replay(lists[: cut + 1])
    # Even a checkpoint without any tombstone: those only tell which files may be deleted for good.
    rows = list(checkpoint_actions(before, tombstones_after=10))
    resumed = replay([rows, *lists[cut + 1 :]])
    assert resumed.files.keys() == whole.files.keys()
    assert (resumed.txns, resumed.domains) == (whole.txns, whole.domains)
    assert resumed.tombstones.items() <= whole.tombstones.items()


@given(histories, st.integers(min_value=0, max_value=10), st.integers(min_value=0, max_value=10))
def test_a_compaction_may_stand_for_its_commits(history: list[Commit], first: int, last: int) -> None:
    lists = [[*BASE, CommitInfo(timestamp=1)], *(list(commit.values()) for commit in history)]
    data = compacted_lines(lines.encode_commit(each) for each in lists[first:last])
    instead = replay([*lists[:first], lines.decode_commit(data), *lists[max(first, last) :]])
    assert contents(instead) == expected(history)
    of_commits = {
        line for each in lists for line in lines.encode_commit(each).splitlines() if b"commitInfo" not in line
    }
    assert of_commits.issuperset(data.splitlines())
    assert len(set(data.splitlines())) == len(data.splitlines())
