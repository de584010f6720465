"""A running service goes by the settings file as it is, and loses nothing of what it has in hand."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import LiveSettings
from deltamirror.delta.names import commit_name
from deltamirror.errors import Unavailable
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.pipeline.run.execution import execute, failed
from deltamirror.pipeline.run.local import threads
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.service import heartbeat
from deltamirror.txnlog.queue.leases import renew, take
from deltamirror.work import CommitUnit, Lane, Lease, Outcome, Stage, Unit
from tests.support.lakes.lake import execute as queried
from tests.support.mirrors.local import (
    ScriptedRunner,
    append,
    committed_files,
    following,
    log_of,
    make_table,
    published_files,
    until,
)
from tests.support.mirrors.reconcilers import reconciler_of
from tests.support.stores.dead_disk import dead

QUICK = {
    "mirror.runner": "'local'",
    "mirror.poll": "0.02",
    "mirror.retry_jitter": "0",
    "reconcile.interval": "0",
    "breaker.enabled": "false",
}


class Lake:
    """A catalog, the file of its service's settings, and an engine that follows it."""

    def __init__(self, folder: Path, script: Callable[[Unit], Outcome | None] = lambda unit: None) -> None:
        self.folder, self.file = folder, folder / "deltamirror.toml"
        self.catalog = Catalog(f"sqlite:///{folder / 'lake.db'}")
        self.catalog.init()
        self.live = self._loaded()
        self.runner = ScriptedRunner(InProcessRunner(self.catalog.database, self.live), script)
        self.engine = MirrorEngine(settings=self.live, database=self.catalog.database, runner=self.runner)

    def _loaded(self) -> LiveSettings:
        self._write({})
        return LiveSettings.load(environment={}, config=self.file, settled=0.0)

    def _write(self, changed: dict[str, str]) -> None:
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in {**QUICK, **changed}.items()))

    def change(self, **changed: str) -> None:
        """Edit the file, and let it be looked at."""
        self._write({key.replace("__", "."): value for key, value in changed.items()})
        self.live.check()
        assert self.live.state.valid, self.live.state.error

    def units(self) -> list[CommitUnit]:
        """The units of commits that a pass comes to; how many were run before does not count."""
        self.runner.jobs.clear()
        self.engine.run(once=True)
        return [unit for job in self.runner.jobs for unit in job if isinstance(unit, CommitUnit)]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    with lake.catalog, lake.engine:
        yield lake


@pytest.mark.requirement("R78")
@pytest.mark.requirement("R79")
def test_a_unit_is_planned_by_the_values_in_force(lake: Lake) -> None:
    table = make_table(lake.catalog, lake.folder)
    append(table, 5)
    assert [len(unit.commits) for unit in lake.units()] == [6]
    lake.change(mirror__batch_versions="2", mirror__budget="7", mirror__verify="'strict'", mirror__checksums="false")
    append(table, 5)
    units = lake.units()
    assert [len(unit.commits) for unit in units] == [2, 2, 1]
    assert {(unit.budget, unit.verify, unit.checksums) for unit in units} == {(7.0, "strict", False)}
    lake.change(mirror__batch_bytes="1")
    append(table, 3)
    assert [len(unit.commits) for unit in lake.units()] == [1, 1, 1]
    lake.change(storage__timeout="2", storage__retries="9")
    append(table)
    [unit] = lake.units()
    assert (unit.address.options.timeout, unit.address.options.retries) == (2.0, 9)
    assert published_files(table) == committed_files(table)


@pytest.mark.requirement("R78")
def test_a_pass_claims_as_many_tables_as_the_settings_say(lake: Lake) -> None:
    tables = [make_table(lake.catalog, lake.folder, name) for name in "abc"]
    lake.units()
    assert [len(job) for job in lake.runner.jobs] == [3]
    lake.change(mirror__batch_tables="1")
    for table in tables:
        append(table)
    lake.units()
    assert [len(job) for job in lake.runner.jobs] == [1, 1, 1]


@pytest.mark.requirement("R78")
def test_a_job_works_on_as_many_units_at_once_as_the_settings_say(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once, most, lock = [0], [0], threading.Lock()
    together = threading.Barrier(4)

    def executed(unit: Unit, **options: Any) -> Outcome:
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        if lake.live.current.mirror.threads == 4:
            together.wait(60)
        outcome = execute(unit, **options)
        with lock:
            at_once[0] -= 1
        return outcome

    monkeypatch.setattr(threads, "execute", executed)
    tables = [make_table(lake.catalog, lake.folder, name) for name in "abcd"]
    runner = InProcessRunner(lake.catalog.database, lake.live)
    with MirrorEngine(settings=lake.live, database=lake.catalog.database, runner=runner) as engine:
        lake.change(mirror__threads="1")
        engine.run(once=True)
        assert most == [1]
        for table in tables:
            append(table)
        lake.change(mirror__threads="4")
        engine.run(once=True)
    assert most == [4]


@pytest.mark.requirement("R78")
@pytest.mark.parametrize("seconds", ["0.1", "0.2"])
def test_a_call_that_hangs_is_given_up_after_the_time_in_force(lake: Lake, seconds: str) -> None:
    hanging = log_of(make_table(lake.catalog, lake.folder)) / commit_name(0)
    lake.change(storage__timeout=seconds)
    with dead(hanging):
        lake.units()
    [status] = lake.engine.status("t")
    assert status.error is not None
    assert f"no answer within {seconds} s" in status.error.message


@pytest.mark.requirement("R75")
@pytest.mark.requirement("R79")
def test_checkpoints_follow_a_changed_interval(lake: Lake) -> None:
    table = make_table(lake.catalog, lake.folder)
    append(table, 3)
    lake.units()
    assert not list(log_of(table).glob("*.checkpoint.parquet"))
    lake.change(checkpoint__interval="3")
    append(table, 3)
    lake.units()
    assert [path.name for path in log_of(table).glob("*.checkpoint.parquet")] == [f"{6:020}.checkpoint.parquet"]
    lake.change(checkpoint__enabled="false", checkpoint__interval="3")
    append(table, 3)
    lake.units()
    assert len(list(log_of(table).glob("*.checkpoint.parquet"))) == 1


@pytest.mark.requirement("R75")
def test_a_block_changes_how_its_tables_are_published(lake: Lake) -> None:
    make_table(lake.catalog, lake.folder, "plain")
    table = make_table(lake.catalog, lake.folder, "own")
    append(table, 3)
    own = {"mirror.verify": "'strict'", "mirror.checksums": "false", "checkpoint.interval": "3"}
    block = "".join(f"{key} = {value}\n" for key, value in {"match": "'o*'", **own}.items())
    lake.file.write_text(f"{lake.file.read_text()}[[tables]]\n{block}")
    lake.live.check()
    units = {unit.table: (unit.verify, unit.checksums) for unit in lake.units()}
    assert units == {"plain": ("basic", True), "own": ("strict", False)}
    assert [path.name for path in log_of(table).glob("*.checkpoint.parquet")] == [f"{3:020}.checkpoint.parquet"]
    with reconciler_of(lake.engine) as (reconciler, _):
        reconciler.run(Strategy.FULL)
    assert not list(log_of(table).glob("*.crc"))
    assert list(log_of(lake.catalog.table("plain")).glob("*.crc"))
    table.alter(properties={"deltamirror.mirrorChecksums": "true"})
    assert [unit.checksums for unit in lake.units()] == [True]


@pytest.mark.requirement("R76")
@pytest.mark.requirement("R79")
def test_a_changed_retry_policy_changes_the_planned_pauses(tmp_path: Path) -> None:
    lake = Lake(tmp_path, lambda unit: failed(unit, Unavailable("away"), Stage.PUT))
    with lake.catalog, lake.engine:
        make_table(lake.catalog, lake.folder)

        def pause() -> int:
            lake.units()
            [(planned, failed_at)] = queried(
                lake.catalog, "SELECT next_attempt_at, updated_at FROM dl_mirror_status WHERE state = 'FAILED'"
            )
            seconds: int = round((planned - failed_at) / 1000)
            return seconds

        assert [pause(), pause()] == [1, 2]
        lake.change(mirror__retry_base="10", mirror__retry_factor="3", mirror__retry_max="500")
        assert [pause(), pause()] == [90, 270]
        lake.change(mirror__retry_base="10", mirror__retry_max="11")
        assert pause() == 11
        lake.change(mirror__attempts="7")
        lake.units()
        assert queried(lake.catalog, "SELECT count(*) FROM dl_escalations") == [(1,)]
        # Five attempts escalated it under the default; a table that fails from here on has seven.
        make_table(lake.catalog, lake.folder, "later")
        for _ in range(6):
            lake.units()
        assert queried(lake.catalog, "SELECT count(*) FROM dl_escalations") == [(1,)]
        lake.units()
        assert queried(lake.catalog, "SELECT count(*) FROM dl_escalations") == [(2,)]


@pytest.mark.requirement("R78")
@pytest.mark.requirement("R79")
def test_a_running_service_works_on_more_tables_once_it_may(tmp_path: Path) -> None:
    going, under_way = threading.Event(), list[str]()

    def hold(unit: Unit) -> None:
        under_way.append(unit.table)
        assert going.wait(60)

    lake = Lake(tmp_path, hold)
    with lake.catalog, lake.engine:
        tables = [make_table(lake.catalog, lake.folder, name) for name in "abcd"]
        lake.change(mirror__concurrency="1", mirror__batch_tables="1")
        with following(lake.engine):
            until(lambda: len(under_way) == 1)
            lake.change(mirror__concurrency="8", mirror__batch_tables="1")
            until(lambda: len(under_way) == 4)
            going.set()
            for table in tables:
                append(table)
                lake.catalog.wait_until_published({table.name: 1}, seconds=60)
    assert [published_files(table) == committed_files(table) for table in tables] == [True] * 4


@pytest.mark.requirement("R79")
def test_work_that_waits_for_a_thread_is_given_back_when_settings_change(tmp_path: Path) -> None:
    going, under_way = threading.Event(), list[Unit]()

    def hold(unit: Unit) -> None:
        under_way.append(unit)
        assert going.wait(60)

    lake = Lake(tmp_path, hold)
    with lake.catalog, lake.engine:
        for name in "abc":
            make_table(lake.catalog, lake.folder, name)
        lake.change(mirror__concurrency="2", mirror__batch_bytes="1")  # every table is a job of its own
        with following(lake.engine):
            until(lambda: len(leases(lake)) == 3 and len(under_way) == 1)
            lake.change(mirror__concurrency="2", mirror__enabled="false")
            until(lambda: len(leases(lake)) == 1)
            going.set()
            until(lambda: not leases(lake))
        published = queried(lake.catalog, "SELECT count(*) FROM dl_tables WHERE published_version = 0")
    assert published == [(1,)]


def leases(lake: Lake) -> list[tuple[object, ...]]:
    return queried(lake.catalog, "SELECT table_id FROM dl_leases WHERE expires_at > 0")


def test_a_service_polls_as_often_as_the_settings_say(lake: Lake) -> None:
    lake.change(mirror__poll="100000")
    with following(lake.engine):
        table = make_table(lake.catalog, lake.folder)
        lake.change(mirror__poll="0.02")
        lake.catalog.wait_until_published({"t": 0}, seconds=60)
        append(table)
        lake.catalog.wait_until_published({"t": 1}, seconds=60)


def test_logs_are_compared_once_an_interval_is_set(lake: Lake) -> None:
    table = make_table(lake.catalog, lake.folder)
    append(table)
    with following(lake.engine):
        lake.catalog.wait_until_published({"t": 1}, seconds=60)
        commit = log_of(table) / f"{1:020}.json"
        commit.unlink()
        lake.change(reconcile__interval="0.05")
        until(commit.exists)


def test_leases_that_become_shorter_are_renewed_in_time(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed, seconds = threading.Event(), {Lane.COMMITS: 100_000.0}
    monkeypatch.setattr(heartbeat, "renew", lambda *_, **__: renewed.set())
    with heartbeat.Heartbeat(lake.catalog.database, lambda: seconds) as beats:
        beats.add([Lease(table_id=1, lane=Lane.COMMITS, owner="me", epoch=1, held_until=0.0)])
        seconds[Lane.COMMITS] = 0.03
        beats.add([Lease(table_id=2, lane=Lane.COMMITS, owner="me", epoch=1, held_until=0.0)])
        assert renewed.wait(60)


def test_a_renewal_never_shortens_a_lease(lake: Lake) -> None:
    table = make_table(lake.catalog, lake.folder)
    database, expires = lake.catalog.database, "SELECT expires_at FROM dl_leases"
    lease = take(database, table.info().id, lane=Lane.COMMITS, owner="me", seconds=600)
    assert lease is not None
    before = queried(lake.catalog, expires)
    renew(database, [lease], seconds=5)
    assert queried(lake.catalog, expires) == before
    renew(database, [lease], seconds=6000)
    assert queried(lake.catalog, expires) > before
