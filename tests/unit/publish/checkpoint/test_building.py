"""The state that a checkpoint has to hold: from all commits, or from those after a base that leads to it."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace as replaced

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import Protocol, Remove
from deltamirror.delta.chunks import Chunk
from deltamirror.deltalog.checkpoint import parquet
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.errors import Internal, InvalidInput, Unavailable
from deltamirror.publish.checkpoint import building, grouping
from deltamirror.publish.checkpoint.building import BaseUnusable, Built, build, is_v2
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase, CheckpointUnit, CommitWork
from tests.support.logs.checkpoint_attempts import CLASSIC, KINDS, LATER, V2, replayed, unit
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import base_of, carried, commit, file, first_commit, objects, publish, put_commits

pytestmark = [pytest.mark.requirement("R9"), pytest.mark.requirement("R24")]


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def published(store: Store, commits: list[bytes], **fields: Any) -> CheckpointBase:
    """The checkpoint of commits, as a base."""
    put_commits(store, commits)
    return base_of(publish(unit(commits, **fields), store))


def put_base(store: Store, base: CheckpointBase, data: bytes) -> CheckpointBase:
    """Other bytes in the place of a checkpoint, recorded as such."""
    store.put(f"_delta_log/{base.name}", data)
    return replace(base, digest=sha256(data).digest())


def built_of(store: Store, wanted: CheckpointUnit) -> Built:
    return build(wanted, store, carried)


def assert_same(found: CheckpointState, expected: CheckpointState) -> None:
    assert (found.version, found.others) == (expected.version, expected.others)
    assert rows(found).equals(rows(expected))


@KINDS
def test_the_state_of_all_commits_is_theirs(store: Store, commits: list[bytes]) -> None:
    found = built_of(store, unit(commits, num_files=6))
    assert_same(found.state, replayed(commits))
    assert (found.num_files, found.unchanged) == (6, None)


@KINDS
def test_the_state_from_a_base_is_that_of_all_commits(store: Store, commits: list[bytes]) -> None:
    base, more = published(store, commits), [*commits, *LATER]
    found = built_of(store, replace(unit(more, base=base, num_files=8), sidecar_actions=100))
    assert_same(found.state, replayed(more))
    assert (found.num_files, found.unchanged, found.sidecars) == (8, None, None)


def test_sidecars_in_which_nothing_changes_are_told_of_and_are_not_in_the_state(store: Store) -> None:
    base, more = published(store, V2), [*V2, *LATER]
    before = sorted(key for key in objects(store) if "_sidecars" in key)
    found = built_of(store, unit(more, base=base, num_files=8))
    assert found.sidecars is not None
    assert [f"_delta_log/_sidecars/{each.path}" for each in found.sidecars.named] == before
    assert (found.sidecars.num_actions, found.sidecars.num_files, found.num_files) == (7, 6, 8)
    assert found.state.files.column("path").to_pylist() == ["day=1/fourth.parquet", "day=2/fifth.parquet"]
    assert found.state.removes.num_rows == 0


def test_a_checkpoint_in_one_file_names_no_sidecars(store: Store) -> None:
    classic = first_commit(v2=True, configuration={"delta.checkpointPolicy": "classic"})
    base, more = published(store, V2), [*V2, classic]
    found = built_of(store, unit(more, base=base))
    assert (found.unchanged, found.sidecars) == (None, None)
    assert_same(found.state, replayed(more))


@KINDS
def test_tombstones_expire_by_the_time_of_the_version(store: Store, commits: list[bytes]) -> None:
    base, later = published(store, commits), unit([*commits, *LATER]).committed_at + 8 * 86_400_000
    assert replayed(commits).removes.num_rows == 1
    for start in (None, base):
        wanted = unit([*commits, *LATER], base=start, committed_at=later)
        assert built_of(store, wanted).state.removes.num_rows == 0


def _base_in_groups(store: Store, monkeypatch: pytest.MonkeyPatch) -> CheckpointBase:
    """A base in one file whose row groups have three rows each, and may stay."""
    monkeypatch.setattr(grouping, "FEWEST_ROWS", 3)
    base = published(store, CLASSIC, row_group_bytes=1)
    assert parquet.opened(objects(store)[f"_delta_log/{base.name}"]).num_row_groups == 4
    return base


def test_row_groups_in_which_nothing_changes_are_told_of_and_are_not_in_the_state(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, more = _base_in_groups(store, monkeypatch), [*CLASSIC, commit(file("fourth"), file("first-2", size=7))]
    found = built_of(store, unit(more, base=base, row_group_bytes=1, num_files=7))
    assert found.unchanged is not None
    assert found.unchanged.file.to_pybytes() == objects(store)[f"_delta_log/{base.name}"]
    [number] = found.unchanged.numbers
    taken = parquet.File(found.unchanged.file).row_group(number).column("add").to_pylist()
    paths = found.state.files.column("path").to_pylist()
    expected = replayed(more)
    assert len(taken) == 3
    assert sorted([*paths, *(each["path"] for each in taken)]) == sorted(expected.files.column("path").to_pylist())
    assert found.num_files == 7
    assert found.state.removes.equals(expected.removes)


def test_a_checkpoint_with_sidecars_takes_no_row_groups_over(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    base, more = _base_in_groups(store, monkeypatch), [*CLASSIC, first_commit(v2=True)]
    found = built_of(store, unit(more, base=base, row_group_bytes=1))
    assert found.unchanged is None
    assert_same(found.state, replayed(more))


@pytest.mark.parametrize(
    ("features", "policy", "expected"),
    [
        (["v2Checkpoint"], "v2", True),
        (["deletionVectors", "v2Checkpoint"], "v2", True),
        (["v2Checkpoint"], "classic", False),
        (["deletionVectors"], "v2", False),
        (None, "v2", False),
        (None, "classic", False),
    ],
)
def test_sidecars_are_for_tables_with_the_feature_that_ask_for_them(
    features: list[str] | None, policy: str, expected: bool
) -> None:
    state = replayed(CLASSIC)
    protocol = Protocol(min_reader_version=3, min_writer_version=7, reader_features=features)
    metadata = replaced(state.metadata, configuration={"delta.checkpointPolicy": policy})
    assert is_v2(replace(state, protocol=protocol, metadata=metadata)) is expected


def test_commits_that_leave_another_count_of_files_than_the_catalog_are_damage(store: Store) -> None:
    with pytest.raises(Internal, match="up to version 3 leave 6 files, but the catalog counts 5"):
        built_of(store, unit(CLASSIC, num_files=5))


@KINDS
def test_a_base_that_leaves_another_count_of_files_is_not_used(store: Store, commits: list[bytes]) -> None:
    base = published(store, commits)
    with pytest.raises(BaseUnusable):
        built_of(store, unit([*commits, *LATER], base=base, num_files=6))


@KINDS
def test_a_base_that_is_gone_is_not_used(store: Store, commits: list[bytes]) -> None:
    base = published(store, commits)
    store.delete([f"_delta_log/{base.name}"])
    with pytest.raises(BaseUnusable):
        built_of(store, unit([*commits, *LATER], base=base))


@KINDS
def test_a_base_that_cannot_be_read_is_not_used(store: Store, commits: list[bytes]) -> None:
    base = put_base(store, published(store, commits), b"nonsense")
    with pytest.raises(BaseUnusable) as told:
        built_of(store, unit([*commits, *LATER], base=base))
    assert isinstance(told.value.__cause__, InvalidInput)


def test_a_base_whose_files_cannot_be_read_is_not_used(store: Store) -> None:
    base = published(store, CLASSIC)
    whole = objects(store)[f"_delta_log/{base.name}"]
    group = parquet.opened(whole).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    [start] = [each.data_page_offset for each in columns if each.path_in_schema == "add.path"]
    base = put_base(store, base, whole[:start] + b"\xff" * 16 + whole[start + 16 :])
    with pytest.raises(BaseUnusable) as told:
        built_of(store, unit([*CLASSIC, *LATER], base=base))
    assert isinstance(told.value.__cause__, InvalidInput)


@pytest.mark.parametrize("error", [pa.ArrowMemoryError("no memory is left"), Unavailable("the store is down")])
def test_want_of_memory_and_a_store_that_fails_do_not_condemn_a_base(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> object:
        raise error

    base = published(store, CLASSIC)
    monkeypatch.setattr(building, "read_base", fail)
    with pytest.raises(type(error)):
        built_of(store, unit([*CLASSIC, *LATER], base=base))


@KINDS
def test_metadata_that_no_checkpoint_can_be_made_of_does_not_condemn_a_base(store: Store, commits: list[bytes]) -> None:
    unreadable = first_commit(v2=commits is V2, configuration={"delta.dataSkippingNumIndexedCols": "many"})
    base = published(store, commits)
    with pytest.raises(InvalidInput, match="dataSkippingNumIndexedCols"):
        built_of(store, unit([*commits, unreadable], base=base))


@KINDS
def test_a_base_without_tombstones_that_count_again_is_not_used(store: Store, commits: list[bytes]) -> None:
    short, long = (
        first_commit(v2=commits is V2, configuration={"delta.deletedFileRetentionDuration": f"interval {time}"})
        for time in ("1 second", "30 days")
    )
    begun = [short, *commits[1:]]
    base = published(store, begun)
    assert built_of(store, unit([*begun, short], base=base)).num_files == 6
    with pytest.raises(BaseUnusable):
        built_of(store, unit([*begun, long], base=base))


@pytest.mark.parametrize("most", [0, 1])
def test_a_commit_that_lost_a_chunk_or_all_is_damage(store: Store, most: int) -> None:
    def fetch(work: CommitWork) -> Iterable[Chunk]:
        return [*carried(work)][:most]

    assert all(work.num_chunks == 2 for work in unit(CLASSIC).commits)
    with pytest.raises(Internal, match="the stored commit 0 does not have the digest"):
        build(unit(CLASSIC), store, fetch)


def test_the_state_that_an_imported_table_begins_with_has_no_digest(store: Store) -> None:
    gone = commit(Remove(path="day=1/first-1.parquet", deletion_timestamp=None, data_change=True))
    whole = unit([b"".join(CLASSIC), gone])
    first, last = whole.commits
    for work in (first, last):
        damaged = tuple(replace(each, digest=b"") if each is work else each for each in whole.commits)
        with pytest.raises(Internal, match=f"the stored commit {work.version} does not"):
            built_of(store, replace(whole, commits=damaged))
    begun = replace(whole, commits=(replace(first, digest=b"", is_base=True), last))
    assert built_of(store, begun).num_files == 5
