"""A checkpoint from a base is the one from the whole log; a base that cannot be used is reported."""

from hashlib import sha256

import pyarrow as pa
import pytest

from deltamirror.deltalog.checkpoint import scratch
from deltamirror.errors import CapacityExceeded, Unavailable
from deltamirror.publish.checkpoint.equivalence import is_equivalent
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase, Stage
from tests.support.logs.aside import as_if_large
from tests.support.logs.checkpoint_attempts import (
    CLASSIC,
    KINDS,
    LATER,
    V2,
    attempt,
    pointer_of,
    replayed,
    stored,
    unit,
)
from tests.support.logs.checkpoints import (
    COMMITTED_AT,
    STORY,
    base_of,
    first_commit,
    objects,
    publish,
    put_commits,
)
from tests.support.stores.any_store import ON_S3_TOO
from tests.support.stores.recording import RecordingStore

pytestmark = [pytest.mark.default_on("memory"), pytest.mark.requirement("R9"), pytest.mark.requirement("R24")]


@KINDS
@ON_S3_TOO
def test_a_checkpoint_from_a_base_is_the_one_from_the_whole_log(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    base = base_of(publish(unit(commits), any_store))
    more = [*commits, *LATER]
    put_commits(any_store, more)
    outcome = publish(unit(more, base=base), any_store)
    assert outcome.base == 3
    whole = replayed(more)
    assert is_equivalent(stored(any_store, outcome), whole)
    assert pointer_of(any_store).version == 5


def _unusable(base: CheckpointBase, store: Store, commits: list[bytes]) -> bool:
    more = [*commits, *LATER]
    put_commits(store, more)
    recorded = RecordingStore(store)
    outcome = attempt(unit(more, base=base), recorded)
    assert outcome.failure is None
    assert recorded.puts == []
    return outcome.base_unusable


@KINDS
def test_a_base_that_is_gone_is_reported(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    base = base_of(publish(unit(commits), any_store))
    any_store.delete([f"_delta_log/{base.name}"])
    assert _unusable(base, any_store, commits)


@KINDS
def test_a_base_that_somebody_changed_is_reported(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    base = base_of(publish(unit(commits), any_store))
    any_store.put(f"_delta_log/{base.name}", objects(any_store)[f"_delta_log/{base.name}"] + b"\n")
    assert _unusable(base, any_store, commits)


@pytest.mark.parametrize("name", ["x.checkpoint.parquet", "x.checkpoint.u.json"])
def test_a_base_that_cannot_be_read_is_reported(any_store: Store, name: str) -> None:
    name = name.replace("x", f"{3:020d}")
    any_store.create(f"_delta_log/{name}", b"nonsense")
    digest = sha256(b"nonsense").digest()
    base = CheckpointBase(version=3, committed_at=COMMITTED_AT + 3_000, name=name, digest=digest)
    assert _unusable(base, any_store, CLASSIC)


def _sidecar_of(store: Store) -> str:
    return next(key for key in objects(store) if "_sidecars/" in key)


def test_a_base_whose_sidecar_is_gone_is_reported(any_store: Store) -> None:
    put_commits(any_store, V2)
    base = base_of(publish(unit(V2), any_store))
    any_store.delete([_sidecar_of(any_store)])
    assert _unusable(base, any_store, V2)


def test_a_base_whose_sidecar_was_changed_is_reported(any_store: Store) -> None:
    put_commits(any_store, V2)
    base = base_of(publish(unit(V2), any_store))
    one, other = [key for key in sorted(objects(any_store)) if "_sidecars/" in key][:2]
    any_store.put(one, objects(any_store)[other])
    assert _unusable(base, any_store, V2)


@KINDS
def test_a_base_that_lacks_tombstones_because_their_retention_grew_is_reported(
    any_store: Store, commits: list[bytes]
) -> None:
    short = {"delta.deletedFileRetentionDuration": "interval 1 second"}
    longer = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    is_v2 = commits is V2
    begun = [first_commit(v2=is_v2, configuration=short), *STORY]
    put_commits(any_store, begun)
    base = base_of(publish(unit(begun), any_store))
    more = [*begun, first_commit(v2=is_v2, configuration=longer)]
    put_commits(any_store, more)
    outcome = attempt(unit(more, base=base), any_store)
    assert outcome.base_unusable
    assert stored(any_store, publish(unit(more), any_store)).removes.num_rows == 1


def test_a_store_that_fails_while_the_base_is_read_does_not_condemn_it(any_store: Store) -> None:
    class Failing(RecordingStore):
        def read_range(self, key: str, start: int, length: int) -> bytes | None:
            raise Unavailable("injected")

    put_commits(any_store, CLASSIC)
    base = base_of(publish(unit(CLASSIC), any_store))
    more = [*CLASSIC, *LATER]
    put_commits(any_store, more)
    outcome = attempt(unit(more, base=base), Failing(any_store))
    assert not outcome.base_unusable
    assert outcome.failure is not None
    assert outcome.failure.stage is Stage.BUILD


@KINDS
def test_a_full_disk_while_the_base_is_read_does_not_condemn_it(
    any_store: Store, commits: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_commits(any_store, [*commits, *LATER])
    base = base_of(publish(unit(commits), any_store))

    def full(table: pa.Table) -> pa.Buffer:
        raise CapacityExceeded("injected")

    monkeypatch.setattr(scratch, "_serialized", full)
    with as_if_large():
        outcome = attempt(unit([*commits, *LATER], base=base), any_store)
    assert not outcome.base_unusable
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, CapacityExceeded)
