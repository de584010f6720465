"""What belongs to a checkpoint beside its own file: sidecars as they were written, a pointer that repeats it."""

from hashlib import sha256
from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import replace

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import Sidecar, Txn
from deltamirror.delta.lastcheckpoint import LastCheckpoint, V2Checkpoint, decode
from deltamirror.delta.lines import encode
from deltamirror.deltalog.listing import CheckpointFiles, CheckpointKind, read_listing
from deltamirror.errors import InvalidLocation
from deltamirror.publish.checkpoint.companions import damaged_sidecars, leads_to, repeats
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import ObjectDifference
from tests.support.logs.checkpoints import commit, file, first_commit, objects, publish, put_commits, unit_of
from tests.support.logs.commit_units import watched

pytestmark = pytest.mark.requirement("R15")


def store_with(*, v2: bool) -> Store:
    """A log with a checkpoint of version 1, which has two sidecars or none."""
    store = store_at(f"memory://{uuid4()}/t", StorageSettings())
    commits = [first_commit(v2=v2), commit(file("a"), file("b"), Txn(app_id="x", version=1))]
    put_commits(store, commits)
    assert publish(unit_of(commits, sidecar_actions=1), store).failure is None
    return store


def checkpoint_of(store: Store) -> CheckpointFiles:
    (found,) = read_listing(store).checkpoints
    return found


def pointer_of(store: Store) -> LastCheckpoint:
    found = store.read("_delta_log/_last_checkpoint")
    assert found is not None
    pointer = decode(found.data).pointer
    assert pointer is not None
    return pointer


def v2_of(pointer: LastCheckpoint) -> V2Checkpoint:
    assert pointer.v2_checkpoint is not None
    return pointer.v2_checkpoint


@pytest.fixture
def store() -> Store:
    return store_with(v2=True)


def top_of(store: Store) -> str:
    return checkpoint_of(store).metas[0].key


def sidecars_of(store: Store) -> list[str]:
    return [f"_delta_log/_sidecars/{each.path}" for each in v2_of(pointer_of(store)).sidecar_files or ()]


@pytest.mark.parametrize("whole", [True, False])
def test_sidecars_as_they_were_written_are_no_difference(store: Store, whole: bool) -> None:
    watching, calls = watched(store)
    assert damaged_sidecars(watching, top_of(store), 1, whole=whole) == []
    assert sorted(calls.of("head")) == ([] if whole else sorted(sidecars_of(store)))
    assert bool(calls.of("read_range")) is whole


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("number", [0, 1])
def test_a_sidecar_that_is_gone_or_has_another_size_is_found(store: Store, number: int, whole: bool) -> None:
    key = sidecars_of(store)[number]
    store.put(key, b"other")
    digest = sha256(b"other").hexdigest()
    assert damaged_sidecars(store, top_of(store), 1, whole=whole) == [
        ObjectDifference(version=1, key=key, found=digest)
    ]
    store.delete([key])
    assert damaged_sidecars(store, top_of(store), 1, whole=whole) == [ObjectDifference(version=1, key=key, found="")]


def test_a_sidecar_of_the_same_size_is_found_only_if_it_is_read(store: Store) -> None:
    key = sidecars_of(store)[1]
    found = store.read(key)
    assert found is not None
    store.put(key, bytes(len(found.data)))
    assert damaged_sidecars(store, top_of(store), 1, whole=False) == []
    difference = damaged_sidecars(store, top_of(store), 1, whole=True)
    assert difference == [ObjectDifference(version=1, key=key, found=sha256(bytes(len(found.data))).hexdigest())]


@pytest.mark.parametrize("whole", [True, False])
def test_a_link_in_the_place_of_a_sidecar_is_not_followed(store: Store, whole: bool) -> None:
    key = sidecars_of(store)[0]

    def refuse(operation: str, asked: str) -> None:
        if asked == key:
            raise InvalidLocation("a link")

    watching, _ = watched(store, before=refuse)
    difference = ObjectDifference(version=1, key=key, found="")
    assert damaged_sidecars(watching, top_of(store), 1, whole=whole) == [difference]


def test_all_sidecars_that_are_damaged_are_found(store: Store) -> None:
    for key in sidecars_of(store):
        store.put(key, b"other")
    found = damaged_sidecars(store, top_of(store), 1, whole=False)
    assert [each.key for each in found] == sidecars_of(store)


def test_a_checkpoint_of_another_version_does_not_have_its_name(store: Store) -> None:
    digest = sha256(objects(store)[top_of(store)]).hexdigest()
    difference = ObjectDifference(version=2, key=top_of(store), found=digest)
    assert damaged_sidecars(store, top_of(store), 2, whole=True) == [difference]


@pytest.mark.parametrize("data", [b"{", b'{"txn":{"appId":"a","version":1}}\n'])
def test_a_top_file_that_is_gone_or_is_none_is_found_itself(store: Store, data: bytes) -> None:
    key = top_of(store)
    store.put(key, data)
    difference = ObjectDifference(version=1, key=key, found=sha256(data).hexdigest())
    assert damaged_sidecars(store, key, 1, whole=False) == [difference]
    store.delete([key])
    assert damaged_sidecars(store, key, 1, whole=False) == [ObjectDifference(version=1, key=key, found="")]


def test_a_pointer_leads_to_the_checkpoint_of_its_version_parts_and_name(store: Store) -> None:
    pointer, files = pointer_of(store), checkpoint_of(store)
    assert leads_to(pointer, files)
    assert leads_to(LastCheckpoint(version=1), files)
    assert not leads_to(replace(pointer, version=2), files)
    assert not leads_to(replace(pointer, parts=2), files)
    assert not leads_to(replace(pointer, v2_checkpoint=replace(v2_of(pointer), path="other")), files)
    parts = CheckpointFiles(version=1, kind=CheckpointKind.PARTS, metas=files.metas * 2)
    assert leads_to(LastCheckpoint(version=1, parts=2), parts)
    assert not leads_to(LastCheckpoint(version=1), parts)


def test_a_pointer_repeats_the_sidecars_and_the_other_actions_or_nothing(store: Store) -> None:
    pointer, files = pointer_of(store), checkpoint_of(store)
    v2 = v2_of(pointer)
    actions, sidecars = v2.non_file_actions or (), v2.sidecar_files or ()
    other = msgspec.Raw(encode(Txn(app_id="y", version=1)))

    def told(**fields: object) -> bool:
        return repeats(store, replace(pointer, v2_checkpoint=replace(v2, **fields)), files)

    assert repeats(store, replace(pointer, v2_checkpoint=None), files)
    assert told()
    assert told(non_file_actions=actions[::-1])
    assert told(non_file_actions=None)
    assert told(sidecar_files=None)
    assert not told(sidecar_files=sidecars[:1])
    assert not told(sidecar_files=(*sidecars[:1], Sidecar(path="x", size_in_bytes=1, modification_time=1)))
    assert not told(non_file_actions=actions[1:])
    assert not told(non_file_actions=(*actions[1:], other))
    assert not told(non_file_actions=(*actions, other))
    assert not told(non_file_actions=(msgspec.Raw(b"{}"),))


def test_a_pointer_to_a_parquet_file_repeats_its_schema() -> None:
    store = store_with(v2=False)
    pointer, files = pointer_of(store), checkpoint_of(store)
    assert pointer.checkpoint_schema is not None
    spaced = msgspec.Raw(bytes(pointer.checkpoint_schema).replace(b",", b", "))
    assert repeats(store, pointer, files)
    assert repeats(store, replace(pointer, checkpoint_schema=spaced), files)
    assert repeats(store, replace(pointer, checkpoint_schema=None), files)
    assert not repeats(store, replace(pointer, checkpoint_schema=msgspec.Raw(b"{}")), files)
    assert not repeats(store, replace(pointer, checkpoint_schema=msgspec.Raw(b"{")), files)
