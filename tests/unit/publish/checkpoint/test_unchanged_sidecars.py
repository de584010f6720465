"""Which sidecars of a checkpoint the next one names again, and when it names none."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace as replaced

from deltamirror.delta.actions import Sidecar
from deltamirror.deltalog.checkpoint import layout, parquet
from deltamirror.errors import LeaseLost
from deltamirror.publish.checkpoint import readback
from deltamirror.publish.checkpoint.unchanged import groups_of
from deltamirror.publish.checkpoint.unchanged_sidecars import SidecarFile, unchanged_sidecars
from deltamirror.work import CheckpointBase, CheckpointOutcome, Stage
from tests.support.logs.checkpoint_attempts import attempt
from tests.support.logs.checkpoint_chains import Life
from tests.support.logs.checkpoints import objects, put_commits
from tests.support.logs.sidecar_chains import (
    FEWEST_ACTIONS,
    MOST_ACTIONS,
    SidecarChain,
    V2Files,
    assert_same,
    small_sidecars,
)

pytestmark = pytest.mark.requirement("R9")

FILES = 5 * MOST_ACTIONS
NAMED = Sidecar(path="x.parquet", size_in_bytes=1, modification_time=1)
NOTHING = layout.FILES.empty_table(), layout.REMOVES.empty_table()


@pytest.fixture
def life() -> Life:
    """Some files, of which a checkpoint is to be made."""
    begun = Life(v2=True)
    begun.append(FILES)
    return begun


@pytest.fixture
def chain(life: Life) -> SidecarChain:
    """Their checkpoint, which has five sidecars."""
    begun = SidecarChain()
    assert_same(*begun.next(life))
    return begun


def test_sidecars_in_which_nothing_changes_are_named_as_they_were_and_not_decoded(
    life: Life, chain: SidecarChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {key: data for key, data in objects(chain.store).items() if "_sidecars" in key}
    first = chain.base
    life.append(2)
    decoded: list[int] = []
    check = readback.check

    def counted(data: pa.Buffer, table: pa.Table) -> None:
        decoded.append(table.num_rows)
        check(data, table)

    monkeypatch.setattr(readback, "check", counted)
    after, whole = chain.next(life)
    assert_same(after, whole)
    assert len(chain.again) == FILES // MOST_ACTIONS
    assert sum(decoded[:-1]) == 2  # the last one is the file from all lines
    assert {key: objects(chain.store)[key] for key in before} == before
    assert first is not None
    lines = [set(objects(chain.store)[f"_delta_log/{each.name}"].splitlines()) for each in (first, chain.base) if each]
    assert len([line for line in lines[0] & lines[1] if line.startswith(b'{"sidecar"')]) == len(chain.again)


def test_a_sidecar_that_loses_a_file_is_written_anew_and_no_other(life: Life, chain: SidecarChain) -> None:
    life.remove(17)
    assert_same(*chain.next(life))
    assert len(chain.again) == FILES // MOST_ACTIONS - 1


def test_a_file_that_is_added_again_is_there_once_however_its_path_is_spelled(life: Life, chain: SidecarChain) -> None:
    odd = [number for number, each in enumerate(life.live) if "%2f" in each.path]
    assert odd
    for number in odd:
        life.add_again(number)
    assert_same(*chain.next(life))


def test_sidecars_of_tombstones_stay_until_one_expires(life: Life) -> None:
    chain = SidecarChain()
    life.change_retention(1)  # a week
    for _ in range(4 * MOST_ACTIONS):
        life.remove(0)
    chain.next(life)
    life.note(1)
    assert_same(*chain.next(life))
    kept = len(chain.again)
    life.change_retention(0)  # three seconds
    assert_same(*chain.next(life))
    assert kept - len(chain.again) >= 3


def test_a_tombstone_expires_at_the_very_time(life: Life, chain: SidecarChain) -> None:
    life.change_retention(1)
    for _ in range(3 * MOST_ACTIONS):
        life.remove(0)
    found, _ = chain.next(life)
    wanted = chain.unit(life, row_group_bytes=1_000_000)
    judged = 0
    for data in map(pa.py_buffer, found.sidecars.values()):
        groups = groups_of(parquet.File(data), compression="snappy")
        times = [each.oldest for each in groups if each.removes is not None]
        if all(times) and times:
            judged += 1
            for after, expected in ((min(times) - 1, 1), (min(times), 0)):
                sidecar = SidecarFile(NAMED, parquet.File(data))
                stay = unchanged_sidecars([sidecar], NOTHING, wanted, tombstones_after=after, has_form=lambda _: True)
                assert len(stay) == expected
    assert judged


@pytest.mark.parametrize(("added", "stays"), [(FEWEST_ACTIONS - 1, False), (FEWEST_ACTIONS, True)])
def test_a_small_sidecar_is_written_with_the_newer_actions(
    life: Life, chain: SidecarChain, added: int, stays: bool
) -> None:
    life.append(added)
    chain.next(life)
    life.append(1)
    assert_same(*chain.next(life))
    assert len(chain.again) == FILES // MOST_ACTIONS + stays


def test_a_long_chain_has_no_more_sidecars_than_overlap_allows(life: Life, chain: SidecarChain) -> None:
    """Paths are random: each sidecar of newer files spans all of them."""
    shared = 0
    for number in range(8):
        life.append(FEWEST_ACTIONS + number % 4)
        found, whole = chain.next(life)
        assert_same(found, whole)
        shared += len(chain.again)
        assert len(found.sidecars) <= len(life.live) / MOST_ACTIONS + 4
    assert shared > 20


@pytest.mark.parametrize(
    "options",
    [{"sidecar_actions": MOST_ACTIONS - 1}, {"sidecar_actions": 5 * MOST_ACTIONS}, {"compression": "zstd"}],
    ids=str,
)
def test_with_other_settings_all_are_written_anew(life: Life, chain: SidecarChain, options: dict[str, Any]) -> None:
    life.append(1)
    assert_same(*chain.next(life, **options))
    assert not chain.again


def test_with_smaller_row_groups_all_are_written_anew(life: Life) -> None:
    chain = SidecarChain()
    chain.next(life, row_group_bytes=1_000_000)
    life.append(1)
    assert_same(*chain.next(life))
    assert not chain.again


@pytest.mark.parametrize(("change", "number"), [(Life.change_statistics, 1), (Life.change_schema, 2)])
def test_with_other_columns_all_are_written_anew(
    life: Life, chain: SidecarChain, change: Callable[[Life, int], None], number: int
) -> None:
    change(life, number)
    assert_same(*chain.next(life))
    assert not chain.again
    life.note(1)
    assert_same(*chain.next(life))
    assert len(chain.again) == FILES // MOST_ACTIONS


def test_with_another_id_of_the_table_all_are_written_anew(life: Life, chain: SidecarChain) -> None:
    life.metadata = replaced(life.metadata, id="another")
    life.change_columns([])
    assert_same(*chain.next(life))
    assert not chain.again


@pytest.mark.parametrize("damage", ["gone", "other bytes"])
def test_nothing_builds_on_a_checkpoint_without_a_sidecar_of_an_earlier_one(
    life: Life, chain: SidecarChain, damage: str
) -> None:
    life.append(1)
    chain.next(life)
    key = f"_delta_log/_sidecars/{chain.again[2]}"
    if damage == "gone":
        chain.store.delete([key])
    else:
        data = objects(chain.store)[key]
        chain.store.put(key, data[:20] + bytes([data[20] ^ 1]) + data[21:])
    life.append(1)
    put_commits(chain.store, life.commits)
    assert attempt(chain.unit(life), chain.store).base_unusable
    found, whole = chain.next(life)
    assert_same(found, whole)
    assert chain.again == []


def test_nothing_is_named_again_of_a_checkpoint_that_is_not_the_recorded_one(life: Life, chain: SidecarChain) -> None:
    base = chain.base
    assert base is not None
    chain.base = CheckpointBase(
        version=base.version, committed_at=base.committed_at, name=base.name, digest=sha256(b"theirs").digest()
    )
    life.append(1)
    put_commits(chain.store, life.commits)
    assert attempt(chain.unit(life), chain.store).base_unusable


def test_attempts_that_stop_after_each_put_end_where_one_that_does_not_stop_ends(
    life: Life, chain: SidecarChain
) -> None:
    life.append(3 * MOST_ACTIONS)
    life.remove(5)
    put_commits(chain.store, life.commits)
    manifests, stopped = list[int](), _stopped(life, chain)
    while stopped.failure is not None:
        assert stopped.failure.stage is Stage.LEASE
        manifests.append(len(_manifests(chain)))
        stopped = _stopped(life, chain)
    assert len(manifests) > 4
    assert manifests == [1] * (len(manifests) - 1) + [2]
    left = objects(chain.store)
    with small_sidecars():
        done = attempt(chain.unit(life), chain.store)
    assert done.failure is None
    assert objects(chain.store) == left
    assert V2Files.of(chain.store, done).rows == chain.next(life)[1].rows
    assert len(chain.again) == FILES // MOST_ACTIONS - 1


def _stopped(life: Life, chain: SidecarChain) -> CheckpointOutcome:
    """An attempt that loses its lease after it put one object."""
    puts = iter([None])

    def guard() -> None:
        if next(puts, LeaseLost) is LeaseLost:
            raise LeaseLost("another process has it")

    with small_sidecars():
        return attempt(chain.unit(life), chain.store, guard=guard)


def _manifests(chain: SidecarChain) -> list[str]:
    return [key for key in objects(chain.store) if ".checkpoint." in key and "_sidecars" not in key]
