"""What remains of the commits of a table."""

from itertools import permutations

import pytest

from deltamirror.delta.actions import (
    Action,
    Add,
    Cdc,
    CheckpointMetadata,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Sidecar,
    Txn,
)
from deltamirror.delta.replay import State, checkpoint_actions, replay
from deltamirror.errors import InvalidAction

pytestmark = pytest.mark.requirement("R37")

PROTOCOL = Protocol(min_reader_version=1, min_writer_version=2)
METADATA = Metadata(
    id="t",
    format=Format(provider="parquet", options={}),
    schema_string='{"type":"struct","fields":[]}',
    partition_columns=[],
    configuration={},
)


def vector(name: str) -> DeletionVector:
    return DeletionVector(storage_type="u", path_or_inline_dv=name, offset=1, size_in_bytes=1, cardinality=1)


def add(path: str, dv: str | None = None, *, size: int = 1) -> Add:
    return Add(
        path=path,
        partition_values={},
        size=size,
        modification_time=1,
        data_change=True,
        deletion_vector=None if dv is None else vector(dv),
    )


def remove(path: str, dv: str | None = None, *, at: int | None = 100) -> Remove:
    return Remove(
        path=path,
        deletion_timestamp=at,
        data_change=True,
        tags={"k": "v"},
        deletion_vector=None if dv is None else vector(dv),
        stats="{}",
    )


def domain(name: str, configuration: str = "", *, removed: bool = False) -> DomainMetadata:
    return DomainMetadata(domain=name, configuration=configuration, removed=removed)


def test_a_removed_file_is_a_tombstone() -> None:
    state = replay([[add("a"), add("b")], [remove("a")]])
    assert list(state.files) == [("b", None)]
    assert list(state.tombstones) == [("a", None)]


def test_a_file_that_is_added_again_is_no_tombstone() -> None:
    state = replay([[add("a")], [remove("a")], [add("a", size=2)]])
    assert state.files == {("a", None): add("a", size=2)}
    assert state.tombstones == {}


def test_adding_a_file_once_more_replaces_what_was_known_of_it() -> None:
    assert replay([[add("a")], [add("a", size=2)]]).files == {("a", None): add("a", size=2)}


def test_a_tombstone_of_a_file_that_was_never_seen_is_kept() -> None:
    assert list(replay([[remove("a")]]).tombstones) == [("a", None)]


def test_an_update_of_a_deletion_vector_leaves_one_file_and_one_tombstone() -> None:
    update: list[Action] = [add("a", "y"), remove("a", "x"), CommitInfo()]
    for shuffled in permutations(update):
        state = replay([[add("a", "x")], shuffled])
        assert list(state.files) == [("a", "uy@1")]
        assert list(state.tombstones) == [("a", "ux@1")]


def test_spellings_of_one_path_are_one_file() -> None:
    assert replay([[add("day=a%2fb/f")], [remove("day=a%2Fb/f")]]).files == {}
    assert len(replay([[add("a b")], [add("a%20b")]]).files) == 2


@pytest.mark.parametrize("commit", [[add("a"), remove("a")], [remove("a"), add("a")]])
def test_a_commit_that_adds_and_removes_one_file_is_refused(commit: list[Action]) -> None:
    with pytest.raises(InvalidAction) as caught:
        replay([commit])
    assert caught.value.rule == "commit.file.added-and-removed"
    assert caught.value.found == "a"


def test_the_newest_protocol_and_metadata_are_in_force() -> None:
    newer = Protocol(min_reader_version=1, min_writer_version=3)
    state = replay([[PROTOCOL, METADATA], [newer]])
    assert (state.protocol, state.metadata) == (newer, METADATA)


def test_a_log_without_protocol_or_metadata_is_refused() -> None:
    with pytest.raises(InvalidAction, match="no protocol") as caught:
        _ = replay([[METADATA]]).protocol
    assert caught.value.rule == "log.protocol.missing"
    with pytest.raises(InvalidAction, match="no metaData"):
        _ = replay([[PROTOCOL]]).metadata


def test_the_newest_commit_decides_the_version_of_an_application() -> None:
    older, newer, other = Txn(app_id="a", version=5), Txn(app_id="a", version=4), Txn(app_id="b", version=1)
    assert replay([[older, other], [newer]]).txns == {"a": newer, "b": other}


def test_a_removed_domain_is_gone_until_it_is_set_again() -> None:
    assert replay([[domain("x")], [domain("x", removed=True)]]).domains == {}
    assert replay([[domain("x")], [domain("x", removed=True)], [domain("x", "2")]]).domains == {"x": domain("x", "2")}
    assert replay([[domain("x", removed=True)]]).domains == {}


def test_actions_without_lasting_effect_leave_no_trace() -> None:
    state = replay(
        [
            [
                CommitInfo(),
                Cdc(path="c", partition_values={}, size=1, data_change=False),
                CheckpointMetadata(version=1),
                Sidecar(path="s", size_in_bytes=1, modification_time=1),
            ]
        ]
    )
    assert (state.files, state.tombstones, state.txns, state.domains) == ({}, {}, {}, {})


def test_replay_goes_on_from_a_state() -> None:
    base = replay([[PROTOCOL, METADATA, add("a")]])
    assert replay([[remove("a")]], onto=base) is base
    assert base.files == {}


def full_state() -> State:
    return replay(
        [
            [PROTOCOL, METADATA, add("a"), add("b"), domain("x"), domain("y")],
            [remove("b", at=200), remove("c", at=100), remove("d", at=None), domain("y", removed=True), CommitInfo()],
            [Txn(app_id="old", version=1, last_updated=50), Txn(app_id="new", version=1, last_updated=150)],
            [Txn(app_id="timeless", version=1)],
        ]
    )


def test_a_checkpoint_holds_the_state_and_nothing_else() -> None:
    rows = list(checkpoint_actions(full_state(), tombstones_after=100))
    assert rows[:2] == [PROTOCOL, METADATA]
    assert [row.app_id for row in rows if isinstance(row, Txn)] == ["old", "new", "timeless"]
    assert [row for row in rows if isinstance(row, DomainMetadata)] == [domain("x")]
    assert [row.path for row in rows if isinstance(row, Add)] == ["a"]
    assert not any(isinstance(row, CommitInfo | Cdc) for row in rows)


def test_a_checkpoint_drops_tombstones_that_have_expired() -> None:
    def kept(after: int) -> list[str]:
        rows = checkpoint_actions(full_state(), tombstones_after=after)
        return [row.path for row in rows if isinstance(row, Remove)]

    assert kept(200) == []
    assert kept(199) == ["b"]
    assert kept(99) == ["b", "c"]
    assert kept(-1) == ["b", "c", "d"]


def test_a_checkpoint_drops_transactions_past_their_retention() -> None:
    rows = checkpoint_actions(full_state(), tombstones_after=0, transactions_after=50)
    assert [row.app_id for row in rows if isinstance(row, Txn)] == ["new"]


def test_no_file_action_of_a_checkpoint_changes_data() -> None:
    rows = list(checkpoint_actions(full_state(), tombstones_after=0))
    assert not any(row.data_change for row in rows if isinstance(row, Add | Remove))
    assert all(row.tags is None and row.stats is None for row in rows if isinstance(row, Remove))


def test_replaying_a_checkpoint_gives_its_state() -> None:
    state = full_state()
    again = replay([list(checkpoint_actions(state, tombstones_after=-1))])
    assert again.files.keys() == state.files.keys()
    assert again.tombstones.keys() == state.tombstones.keys()
    assert (again.txns, again.domains) == (state.txns, state.domains)
    assert (again.protocol, again.metadata) == (state.protocol, state.metadata)
    assert list(checkpoint_actions(again, tombstones_after=-1)) == list(checkpoint_actions(state, tombstones_after=-1))


def test_a_state_without_protocol_has_no_checkpoint() -> None:
    with pytest.raises(InvalidAction):
        list(checkpoint_actions(State(), tombstones_after=0))
