"""Each part of a process is broken for real: its health says which one, why, and what to do, and recovers by itself."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import LiveSettings, Settings, StorageSettings
from deltamirror.errors import Unavailable
from deltamirror.ops.health import HealthMonitor, HealthState, check
from deltamirror.ops.health import catalog as records
from deltamirror.ops.reconcile.reconciling import Reconciler, TableReconciled
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.service import engine as engine_module
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.migrations import require_current
from deltamirror.txnlog.queue.expected_objects import KeptLog
from deltamirror.work import Unit
from tests.support.lakes.lake import execute
from tests.support.mirrors.local import ScriptedRunner, append, following, local_settings, make_table, until
from tests.support.monitoring.health import Answer, asked, served, until_part
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.s3_server import S3Server

pytestmark = pytest.mark.requirement("R64")

PARTS = ["database", "store", "progress", "reconciler", "spark", "settings"]


def settings_of(*, stalled: float = 600.0, timeout: float = 20.0, interval: float = 0.0, **changed: Any) -> Settings:
    """Settings of a service that calls itself stalled after so long; only where that is the point, it is short."""
    settings = local_settings(**changed)
    health = replace(settings.health, stalled=stalled, timeout=timeout)
    return replace(settings, health=health, reconcile=replace(settings.reconcile, interval=interval))


@contextmanager
def service(catalog: Catalog, settings: Settings, **more: Any) -> Iterator[str]:
    """A service at work, and the address at which it tells of its health."""
    with (
        MirrorEngine(settings=settings, database=catalog.database, **more) as engine,
        following(engine),
        served(engine.monitor()) as url,
    ):
        yield url


def others_are_well(answer: Answer, *broken: str) -> bool:
    return {state for name, state in answer.states().items() if name not in broken} == {"ok"}


def test_a_service_that_works_is_alive_and_ready(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path)
    append(table, 2)
    with service(lake, settings_of(interval=0.05)) as url:
        lake.wait_until_published({"t": 2}, seconds=60)
        answer = until_part(url, "reconciler", "ok", more=others_are_well)
        assert (answer.status, asked(url, "/healthz").status) == (200, 200)
        assert list(answer.states()) == PARTS


@pytest.mark.postgres
def test_a_database_that_is_stopped_is_told_and_comes_back(
    postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    with Catalog(postgres_url) as catalog:
        catalog.init()
        table = make_table(catalog, tmp_path)
        with service(catalog, settings_of()) as url:
            until_part(url, "database", "ok")
            postgres_server.stop()
            answer = until_part(url, "database", "failed")
            # It does not live in this process: a restart cures nothing.
            assert (answer.status, asked(url, "/healthz").status) == (503, 200)
            assert "PostgreSQL: " in answer.part("database")["reason"]
            assert "check that the server runs" in answer.part("database")["advice"]
            postgres_server.start()
            until_part(url, "database", "ok")
            append(table)
            catalog.wait_until_published({"t": 1}, seconds=60)
            assert until_part(url, "progress", "ok").status == 200


def test_a_database_that_hangs_keeps_no_probe_waiting(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, comes_back = threading.Event(), threading.Event()

    def hang(database: Database) -> None:
        if hangs.is_set():
            comes_back.wait(60)
        require_current(database)

    monkeypatch.setattr(records, "require_current", hang)
    with served(HealthMonitor(lake.database, settings_of(timeout=0.1))) as url:
        until_part(url, "database", "ok")
        hangs.set()
        part = until_part(url, "database", "failed").part("database")
        assert "cannot ask the database" in part["reason"]
        assert "check that the database runs" in part["advice"]
        hangs.clear()
        comes_back.set()
        until_part(url, "database", "ok")


def test_a_store_that_is_stopped_is_told_and_comes_back(
    sqlite_lake: str, s3_server: S3Server, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    settings = replace(settings_of(), storage=s3_settings)
    with Catalog(sqlite_lake, settings=settings) as catalog:
        table = catalog.create_table("t", location=f"s3://{s3_bucket}/t", schema="id long")
        append(table)
        with service(catalog, settings) as url:
            catalog.wait_until_published({"t": 1}, seconds=60)
            until_part(url, "store", "ok")
            s3_server.stop()
            answer = until_part(url, "store", "failed", more=lambda told: others_are_well(told, "store"))
            assert (answer.status, asked(url, "/healthz").status) == (503, 200)
            assert s3_bucket in answer.part("store")["reason"]
            assert answer.part("store")["advice"]
            s3_server.ensure_running()
            assert until_part(url, "store", "ok").status == 200


def test_a_disk_that_is_not_mounted_is_told_and_comes_back(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path / "disk")
    append(table)
    with service(lake, settings_of()) as url:
        lake.wait_until_published({"t": 1}, seconds=60)
        until_part(url, "store", "ok")
        (tmp_path / "disk").rename(tmp_path / "elsewhere")
        part = until_part(url, "store", "degraded").part("store")
        assert "00000000000000000001.json of table 't' is not there" in part["reason"]
        (tmp_path / "elsewhere").rename(tmp_path / "disk")
        until_part(url, "store", "ok")


@dataclass
class Hanging:
    """A runner that does nothing with its work until it is released."""

    begun: threading.Event
    released: threading.Event

    @classmethod
    def runner(cls, catalog: Catalog) -> tuple["Hanging", ScriptedRunner]:
        hanging = cls(threading.Event(), threading.Event())
        return hanging, ScriptedRunner(InProcessRunner(catalog.database, local_settings()), hanging)

    def __call__(self, _: Unit) -> None:
        self.begun.set()
        assert self.released.wait(600)


def test_a_worker_that_hangs_needs_a_restart_and_recovers_if_it_comes_back(lake: Catalog, tmp_path: Path) -> None:
    make_table(lake, tmp_path)
    hanging, runner = Hanging.runner(lake)
    with service(lake, settings_of(stalled=0.3, lease=60.0), runner=runner) as url:
        try:
            assert hanging.begun.wait(60)
            answer = until_part(url, "progress", "failed")
            assert (answer.status, asked(url, "/healthz").status) == (503, 503)
            assert "a job of lane commits has had no outcome for" in answer.part("progress")["reason"]
            assert ": t; no other job of its lane ended meanwhile" in answer.part("progress")["reason"]
            assert "restart this process" in answer.part("progress")["advice"]
            assert others_are_well(answer, "progress")
            since = answer.part("progress")["since"]
            assert until_part(url, "progress", "failed").part("progress")["since"] == since
        finally:
            hanging.released.set()
        until_part(url, "progress", "ok")
        until(lambda: asked(url, "/healthz").status == 200)


def test_a_worker_that_hangs_is_seen_by_those_who_only_have_the_records(lake: Catalog, tmp_path: Path) -> None:
    make_table(lake, tmp_path)
    settings = settings_of(stalled=0.3, lease=60.0)
    hanging, runner = Hanging.runner(lake)
    with MirrorEngine(settings=settings, database=lake.database, runner=runner) as engine, following(engine):
        try:
            assert hanging.begun.wait(60)
            until(lambda: progress_of(lake, settings).state is HealthState.FAILED)
            reason = progress_of(lake, settings).reason
            assert f"service {engine.owner} renews the leases of table 't'" in reason
        finally:
            hanging.released.set()
        lake.wait_until_published({"t": 0}, seconds=60)
        assert progress_of(lake, settings).state is HealthState.OK


def progress_of(catalog: Catalog, settings: Settings) -> Any:
    return next(part for part in check(catalog.database, settings).parts if part.name == "progress")


def test_commits_that_no_service_takes_are_seen_in_the_records(lake: Catalog, tmp_path: Path) -> None:
    make_table(lake, tmp_path)
    settings = settings_of(stalled=60.0)
    assert progress_of(lake, settings).state is HealthState.OK
    long_ago = "committed_at = committed_at - 3600000"
    execute(lake, f"UPDATE dl_table_versions SET {long_ago}")
    execute(lake, "UPDATE dl_mirror_status SET updated_at = updated_at - 3600000")
    part = progress_of(lake, settings)
    assert (part.state, "deltamirror mirror --follow" in part.advice) == (HealthState.FAILED, True)
    assert "commits of table 't' are due for more than 60 s, and no service takes them" in part.reason
    execute(lake, "UPDATE dl_tables SET mirror_paused = true")
    assert progress_of(lake, settings).state is HealthState.OK


class Panic(BaseException):
    """What a library in Rust raises when it has a defect: no Exception."""


def test_a_reconciler_that_hangs_needs_a_restart_and_one_that_panics_does_not(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(lake, tmp_path)
    mode, began, released = ["well"], threading.Event(), threading.Event()

    def look(_: Reconciler, log: KeptLog) -> TableReconciled:
        if mode[0] == "hangs":
            began.set()
            assert released.wait(600)
        if mode[0] == "panics":
            raise Panic("index out of bounds")
        return TableReconciled(table=log.name)

    monkeypatch.setattr(Reconciler, "look", look)
    with service(lake, settings_of(stalled=1.0, interval=0.02)) as url:
        until_part(url, "reconciler", "ok")
        mode[0] = "panics"
        part = until_part(url, "reconciler", "degraded").part("reconciler")
        assert "the logs are not compared: Panic" in part["reason"]
        mode[0] = "hangs"
        try:
            assert began.wait(60)
            answer = until_part(url, "reconciler", "failed", more=lambda told: others_are_well(told, "reconciler"))
            assert "the reconciler has been at the log of table 't' for" in answer.part("reconciler")["reason"]
            assert asked(url, "/healthz").status == 503
        finally:
            mode[0] = "well"
            released.set()
        until_part(url, "reconciler", "ok")
        until(lambda: asked(url, "/healthz").status == 200)


def test_logs_that_no_reconciler_compares_are_seen_in_the_records(lake: Catalog, tmp_path: Path) -> None:
    make_table(lake, tmp_path)
    settings = settings_of(stalled=60.0, interval=1.0)
    assert reconciler_of(lake, settings).state is HealthState.OK
    execute(lake, "UPDATE dl_tables SET created_at = created_at - 3600000")
    part = reconciler_of(lake, settings)
    assert part.state is HealthState.DEGRADED
    assert "no log was compared with the database for 36" in part.reason
    with MirrorEngine(settings=settings, database=lake.database) as engine, following(engine):
        until(lambda: reconciler_of(lake, settings).state is HealthState.OK)
    assert "reconcile.interval is 0" in reconciler_of(lake, settings_of(interval=0.0)).reason


def reconciler_of(catalog: Catalog, settings: Settings) -> Any:
    return next(part for part in check(catalog.database, settings).parts if part.name == "reconciler")


class SparkLike(ScriptedRunner):
    """A runner in the place of Spark: it may have ended, and it can be started again."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(InProcessRunner(catalog.database, local_settings()), lambda _: None)
        self.started, self.may_start = 0, threading.Event()
        self.has_ended = True

    def start(self) -> bool:
        if not self.may_start.is_set():
            raise Unavailable("there is no Java", hint="install it")
        self.started += 1
        self.has_ended = False
        return True

    def is_ready(self) -> bool:
        if self.has_ended:
            raise Unavailable("Spark has ended", hint="the mirror starts it again")
        return True


def test_a_spark_that_ended_is_told_and_an_idle_service_starts_it_again(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "_RUNNER_IS_LOOKED_AFTER", 0.05)
    settings, runner = settings_of(), SparkLike(lake)
    settings = replace(settings, mirror=replace(settings.mirror, runner="spark"))
    with service(lake, settings, runner=runner) as url:
        answer = until_part(url, "spark", "failed", more=lambda told: others_are_well(told, "spark"))
        assert (answer.status, asked(url, "/healthz").status) == (503, 200)
        assert answer.part("spark")["reason"] == "Spark has ended"
        runner.may_start.set()
        assert until_part(url, "spark", "ok").status == 200
        runner.has_ended = True
        until(lambda: runner.started == 2)
        until_part(url, "spark", "ok")


def test_an_edit_of_the_settings_that_is_refused_is_told_and_the_process_stays_ready(
    lake: Catalog, tmp_path: Path
) -> None:
    file = tmp_path / "edited.toml"
    file.write_text('[mirror]\nrunner = "local"\npoll = 1.0\n')
    live = LiveSettings.load(environment={}, config=file, settled=0.0)
    with MirrorEngine(settings=live, database=lake.database) as engine, served(engine.monitor()) as url:
        until_part(url, "settings", "ok")
        file.write_text('[mirror]\nrunner = "local"\npoll = "often"\n')
        live.check()
        answer = until_part(url, "settings", "degraded")
        assert (answer.status, "edited.toml:3" in answer.part("settings")["reason"]) == (200, True)
        assert "deltamirror config check" in answer.part("settings")["advice"]
        file.write_text('[mirror]\nrunner = "local"\npoll = 2.0\n')
        live.check()
        until_part(url, "settings", "ok")


def test_probes_that_come_often_ask_the_database_once_a_second(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for: list[Database] = []

    def counted(database: Database) -> None:
        asked_for.append(database)
        require_current(database)

    monkeypatch.setattr(records, "require_current", counted)
    monitor = HealthMonitor(lake.database, settings_of())
    first = monitor.report()
    monitor._until = float("inf")
    assert all(monitor.report() is first for _ in range(100))
    assert len(asked_for) == 1
