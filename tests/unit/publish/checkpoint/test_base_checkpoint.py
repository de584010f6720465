"""The checkpoint to start from is believed if it is the one that was recorded, with all of its sidecars."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import BinaryIO
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta import lines
from deltamirror.delta.actions import CheckpointMetadata, Sidecar
from deltamirror.deltalog.checkpoint.layout import FILES
from deltamirror.errors import InvalidInput
from deltamirror.publish.checkpoint import v2_base
from deltamirror.publish.checkpoint.base_checkpoint import read_base
from deltamirror.publish.checkpoint.classic_base import UNREADABLE, ClassicBase
from deltamirror.publish.checkpoint.v2_base import V2Base
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase
from tests.support.logs.checkpoint_attempts import CLASSIC, KINDS, V2, replayed, unit
from tests.support.logs.checkpoints import base_of, objects, publish, put_commits

pytestmark = [pytest.mark.requirement("R9"), pytest.mark.requirement("R24")]


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def published(store: Store, commits: list[bytes]) -> CheckpointBase:
    put_commits(store, commits)
    return base_of(publish(unit(commits), store))


def put_top(store: Store, base: CheckpointBase, data: bytes) -> CheckpointBase:
    """Other bytes in the place of a checkpoint, recorded as such."""
    store.put(f"_delta_log/{base.name}", data)
    return replace(base, digest=sha256(data).digest())


def sidecars_of(store: Store) -> list[str]:
    return sorted(key for key in objects(store) if key.startswith("_delta_log/_sidecars/"))


def test_a_checkpoint_in_one_file_is_its_bytes_and_its_other_actions(store: Store) -> None:
    base = published(store, CLASSIC)
    found = read_base(base, store)
    assert isinstance(found, ClassicBase)
    assert found.data.to_pybytes() == objects(store)[f"_delta_log/{base.name}"]
    assert found.metadata == replayed(CLASSIC).metadata


def test_a_checkpoint_with_sidecars_is_the_state_that_they_give_together(store: Store) -> None:
    found, expected = read_base(published(store, V2), store), replayed(V2)
    assert len(sidecars_of(store)) == 3
    assert isinstance(found, V2Base)
    assert sorted(map(repr, found.others)) == sorted(map(repr, expected.others))
    assert (found.metadata, found.protocol) == (expected.metadata, expected.protocol)
    assert [bytes(each.file.data) for each in found.sidecars] == [objects(store)[key] for key in sidecars_of(store)]
    files, removes = found.file_actions(found.metadata, found.protocol, without=())
    assert files.select(FILES.names).equals(expected.files)
    assert removes.equals(expected.removes)
    files, _ = found.file_actions(found.metadata, found.protocol, without={0})
    assert files.select(FILES.names).equals(expected.files.slice(3))


@pytest.mark.parametrize(("fewer", "num_files"), [(1, 1), (0, 0)], ids=["beyond the limit", "within it"])
def test_sidecars_that_are_many_bytes_together_lie_aside_in_one_file(
    store: Store, monkeypatch: pytest.MonkeyPatch, fewer: int, num_files: int
) -> None:
    base, files = published(store, V2), list[BinaryIO]()
    expected = [objects(store)[key] for key in sidecars_of(store)]

    def temporary(open_file: Callable[[], BinaryIO] = tempfile.TemporaryFile) -> BinaryIO:
        files.append(open_file())
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", temporary)
    monkeypatch.setattr(v2_base, "_IN_MEMORY", sum(map(len, expected)) - fewer)
    found = read_base(base, store)
    assert isinstance(found, V2Base)
    assert [bytes(each.file.data) for each in found.sidecars] == expected
    assert len(files) == num_files


@KINDS
def test_a_checkpoint_that_is_gone_or_another_one_is_none(store: Store, commits: list[bytes]) -> None:
    base = published(store, commits)
    assert read_base(replace(base, digest=bytes(32)), store) is None
    store.delete([f"_delta_log/{base.name}"])
    assert read_base(base, store) is None


@KINDS
def test_bytes_that_are_no_checkpoint_are_refused(store: Store, commits: list[bytes]) -> None:
    base = put_top(store, published(store, commits), b"nonsense")
    with pytest.raises(UNREADABLE):
        read_base(base, store)


def test_a_top_file_that_is_damaged_is_named(store: Store) -> None:
    base = put_top(store, published(store, V2), b"nonsense")
    with pytest.raises(InvalidInput, match=base.name):
        read_base(base, store)


def test_a_sidecar_that_is_gone_is_named(store: Store) -> None:
    base = published(store, V2)
    gone = sidecars_of(store)[1]
    store.delete([gone])
    with pytest.raises(InvalidInput, match=f"there is no sidecar {gone.rpartition('/')[2]} in"):
        read_base(base, store)


def test_a_sidecar_with_the_bytes_of_another_one_is_named(store: Store) -> None:
    base = published(store, V2)
    one, other, _ = sidecars_of(store)
    store.put(one, objects(store)[other])
    with pytest.raises(InvalidInput, match=f"the sidecar {one.rpartition('/')[2]} in .* is not the one"):
        read_base(base, store)


def test_a_sidecar_of_an_earlier_version_is_believed_and_one_of_a_later_is_not(store: Store) -> None:
    base = published(store, V2)
    assert isinstance(read_base(replace(base, version=4), store), V2Base)
    with pytest.raises(InvalidInput, match="is not the one"):
        read_base(replace(base, version=2), store)


def test_a_checkpoint_without_sidecars_has_no_files(store: Store) -> None:
    base = published(store, V2)
    top = lines.decode_commit(objects(store)[f"_delta_log/{base.name}"])
    others = [each for each in top if not isinstance(each, Sidecar | CheckpointMetadata)]
    found = read_base(put_top(store, base, lines.encode_commit(others)), store)
    assert isinstance(found, V2Base)
    files, removes = found.file_actions(found.metadata, found.protocol, without=())
    assert (files.num_rows, removes.num_rows) == (0, 0)
