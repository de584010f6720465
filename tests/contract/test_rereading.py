"""Objects that a listing says nothing against are read again within the days that are set, a few at each look."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import ReconcileSettings
from deltamirror.ops.reconcile import rereading
from deltamirror.ops.reconcile.reconciling import Reconciler, Strategy, TableReconciled
from tests.support.databases.virtual_clock import VirtualClock, clocked
from tests.support.mirrors.local import append, local_settings, log_of, make_table, mirror_of
from tests.support.mirrors.reconcilers import reconciled, reconciler_of

DAYS = 30
DAY = 86_400.0
V2 = {"delta.feature.v2Checkpoint": "supported", "delta.checkpointPolicy": "v2"}


@pytest.fixture
def lake(sqlite_lake: str) -> Iterator[tuple[Catalog, VirtualClock]]:
    with clocked(sqlite_lake) as found:
        yield found


def published(catalog: Catalog, folder: Path, count: int, **more: Any) -> Table:
    """A log that no look finds anything wrong with, nor anything touched since it was put."""
    table = make_table(catalog, folder, **more)
    append(table, count)
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).failures == []
    for path in log_of(table).rglob("*"):
        os.utime(path, (1, 1))
    return table


def rotten(path: Path) -> None:
    """One byte of an object is another; size and time stay."""
    data = bytearray(path.read_bytes())
    at = data.rindex(b"1") if path.suffix != ".parquet" else len(data) // 2
    data[at] = ord("2") if path.suffix != ".parquet" else data[at] ^ 1
    path.write_bytes(data)
    os.utime(path, (1, 1))


def looking(catalog: Catalog, *, days: float = DAYS) -> MirrorEngine:
    """An engine whose looks read nothing but what is suspect, or has its turn."""
    settings = replace(local_settings(), reconcile=ReconcileSettings(sample=0, reread_days=days))
    return MirrorEngine(settings=settings, database=catalog.database)


def looks(engine: MirrorEngine, clock: VirtualClock, *, every: float = 6) -> Iterator[TableReconciled]:
    """What is found while the days pass that are set."""
    for _ in range(round(DAYS / every)):
        clock.advance(every * DAY)
        yield reconciled(engine, Strategy.SMART)[0]


def commit(table: Table) -> Path:
    return log_of(table) / f"{5:020}.json"


def checksum(table: Table) -> Path:
    return log_of(table) / f"{5:020}.crc"


def checkpoint(table: Table) -> Path:
    return min(log_of(table).glob("*.checkpoint*.parquet"))


def sidecar(table: Table) -> Path:
    return next((log_of(table) / "_sidecars").iterdir())


@pytest.mark.parametrize("place", [commit, checksum, checkpoint, sidecar])
def test_an_object_that_rotted_in_silence_is_found_within_the_days(
    lake: tuple[Catalog, VirtualClock], tmp_path: Path, place: Callable[[Table], Path]
) -> None:
    catalog, clock = lake
    table = published(catalog, tmp_path, 11, properties=V2 if place is sidecar else {})
    before = place(table).read_bytes()
    rotten(place(table))
    with looking(catalog) as engine:
        found = next(each for each in looks(engine, clock) if each.altered or each.repaired)
    assert found.altered == ((5,) if place is commit else ())
    assert found.checkpoints == ((10,) if place in (checkpoint, sidecar) else ())
    assert place is not checksum or place(table).read_bytes() == before


def test_without_days_nothing_is_read_again_but_the_samples(lake: tuple[Catalog, VirtualClock], tmp_path: Path) -> None:
    catalog, clock = lake
    rotten(commit(published(catalog, tmp_path, 11)))
    with looking(catalog, days=0) as engine:
        assert not any(each.altered for each in looks(engine, clock))


def test_each_look_reads_a_few_objects_and_all_looks_read_every_object(
    lake: tuple[Catalog, VirtualClock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rereading, "_BLOCK", 4)
    catalog, clock = lake
    table = published(catalog, tmp_path, 23)
    read: list[set[str]] = []
    with looking(catalog) as engine:
        for _ in range(DAYS):
            clock.advance(DAY)
            with reconciler_of(engine) as (reconciler, inspector):
                reconciler.run(Strategy.SMART, ["t"])
                read.append({key for key in inspector.reads if key.endswith(".json")})
    assert set().union(*read) == {f"_delta_log/{version:020}.json" for version in range(table.info().head + 1)}
    assert max(map(len, read)) == 4
    assert sum(map(len, read)) == 24


def test_an_interrupted_look_leaves_its_turns_to_the_next(
    lake: tuple[Catalog, VirtualClock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, clock = lake
    rotten(commit(published(catalog, tmp_path, 11)))
    clock.advance(DAYS * DAY)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the process dies")

    with looking(catalog) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(Reconciler, "_settled", broken)
            with pytest.raises(RuntimeError):
                reconciled(engine, Strategy.SMART)
        assert reconciled(engine, Strategy.SMART)[0].altered == (5,)
