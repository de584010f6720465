"""Services optimize and vacuum tables by themselves where settings or properties ask for it, each chore once."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.errors import Unavailable
from deltamirror.pipeline.run.compaction import LocalCompactor
from deltamirror.steps import Moment, Step, observed
from deltamirror.work import Chore
from tests.support.lakes.lake import opened
from tests.support.mirrors.local import local_settings, until
from tests.support.mirrors.maintaining import chore_record, maintaining_service
from tests.support.monitoring.scraping import value

pytestmark = [pytest.mark.requirement("R89"), pytest.mark.default_on("sqlite", "postgresql")]


def table_of(
    catalog: Catalog, folder: Path, name: str = "t", *, files: int = 4, properties: Mapping[str, str] | None = None
) -> Table:
    """A table of so many small files."""
    table = catalog.create_table(name, location=str(folder / name), schema="id long", properties=properties)
    for number in range(files):
        table.append(pa.table({"id": [number]}))
    return table


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow().column("id").to_pylist())


def operations(table: Table) -> list[str | None]:
    return [each.operation for each in reversed(table.history())]


def is_done(engine: MirrorEngine, chore: Chore) -> bool:
    found = chore_record(engine, chore)
    return found is not None and found.at is not None


@pytest.mark.default_on("sqlite", "postgresql")
def test_small_files_are_put_together_once_there_are_enough(catalog: Catalog, tmp_path: Path) -> None:
    table = table_of(catalog, tmp_path)
    few = table_of(catalog, tmp_path, "few", files=2)
    done = value("deltamirror_maintenance_total", chore="optimize", outcome="done")
    with maintaining_service(catalog, optimize=True) as engine:
        until(lambda: is_done(engine, Chore.OPTIMIZE))
        table.append(pa.table({"id": [10]}))
        table.append(pa.table({"id": [11]}))  # two since the last time: not due
        until(lambda: engine.status("t")[0].lag_versions == 0)
        found = chore_record(engine, Chore.OPTIMIZE)
    assert operations(table) == ["CREATE TABLE", *["WRITE"] * 4, "OPTIMIZE", *["WRITE"] * 2]
    assert ids(table) == [0, 1, 2, 3, 10, 11]
    assert table.snapshot().count_files() == 3
    assert found is not None
    assert (found.num_files, found.version, found.error_code) == (4, 4, None)
    assert operations(few) == ["CREATE TABLE", "WRITE", "WRITE"]
    assert value("deltamirror_maintenance_total", chore="optimize", outcome="done") == done + 1


@pytest.mark.default_on("sqlite")
def test_a_vacuum_deletes_what_is_past_retention_and_is_not_repeated(catalog: Catalog, tmp_path: Path) -> None:
    retention = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    table = table_of(catalog, tmp_path, files=1, properties=retention)
    table.overwrite(pa.table({"id": [7]}))
    with MirrorEngine(settings=local_settings(), database=catalog.database) as engine:
        engine.run(once=True)
    with maintaining_service(catalog, vacuum=True) as engine:
        until(lambda: is_done(engine, Chore.VACUUM))
        found = chore_record(engine, Chore.VACUUM)
    assert found is not None
    assert found.num_files == 1
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 1
    assert operations(table)[-2:] == ["VACUUM START", "VACUUM END"]
    assert ids(table) == [7]


def test_a_table_asks_for_it_by_a_property_and_is_left_out_by_one(lake: Catalog, tmp_path: Path) -> None:
    asking = table_of(lake, tmp_path, properties={"deltamirror.maintenanceOptimize": "true"})
    other = table_of(lake, tmp_path, "other")
    with maintaining_service(lake) as engine:
        until(lambda: is_done(engine, Chore.OPTIMIZE))
    assert (operations(asking)[-1], operations(other)[-1]) == ("OPTIMIZE", "WRITE")
    refusing = table_of(lake, tmp_path, "refusing", properties={"deltamirror.maintenanceOptimize": "false"})
    with maintaining_service(lake, optimize=True):
        until(lambda: operations(other)[-1] == "OPTIMIZE")
    assert operations(refusing)[-1] == "WRITE"


def test_nothing_is_maintained_unless_it_is_asked_for(lake: Catalog, tmp_path: Path) -> None:
    table = table_of(lake, tmp_path)
    with maintaining_service(lake) as engine:
        until(lambda: engine.status("t")[0].lag_versions == 0)
    assert operations(table)[-1] == "WRITE"
    assert engine.status("t")[0].maintenance == ()


def test_a_large_table_is_optimized_in_parts(lake: Catalog, tmp_path: Path) -> None:
    table = lake.create_table("t", location=str(tmp_path / "t"), schema="id long, p long", partition_by=["p"])
    for number in range(3):
        table.append(pa.table({"id": [number] * 2, "p": [0, 1]}))
    with maintaining_service(lake, optimize=True, batch_bytes=1) as engine:
        until(lambda: operations(table).count("OPTIMIZE") == 2)
        until(lambda: (found := chore_record(engine, Chore.OPTIMIZE)) is not None and found.version >= 0)
    assert table.snapshot().count_files() == 2
    assert table.to_arrow().num_rows == 6


def test_two_services_do_a_chore_once(lake: Catalog, tmp_path: Path) -> None:
    table = table_of(lake, tmp_path)
    with maintaining_service(lake, optimize=True) as one, maintaining_service(lake, optimize=True):
        until(lambda: is_done(one, Chore.OPTIMIZE))
        until(lambda: one.status("t")[0].lag_versions == 0)
    assert operations(table).count("OPTIMIZE") == 1


def test_a_conflict_is_recorded_quietly_and_mirroring_goes_on(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table, run = table_of(lake, tmp_path), LocalCompactor.run

    def overtaken(self: LocalCompactor, bins: Any) -> Any:
        written = run(self, bins)
        table.delete("id = 0")
        return written

    monkeypatch.setattr(LocalCompactor, "run", overtaken)
    with maintaining_service(lake, optimize=True) as engine:
        until(lambda: chore_record(engine, Chore.OPTIMIZE) is not None)
        until(lambda: engine.status("t")[0].lag_versions == 0)
        found = chore_record(engine, Chore.OPTIMIZE)
    assert found is not None
    assert (found.at, found.attempts, found.error_code) == (None, 1, "conflict")
    assert found.next_attempt_at is not None
    assert ids(table) == [1, 2, 3]
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 4  # those of the optimize are deleted again
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING and "optimize" in each.getMessage()]


def test_a_table_that_cannot_be_optimized_is_told_of_and_others_are(
    lake: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table_of(lake, tmp_path, properties={"delta.enableRowTracking": "true"})
    other = table_of(lake, tmp_path, "z")
    with maintaining_service(lake, optimize=True) as engine:
        until(lambda: operations(other)[-1] == "OPTIMIZE")
        until(lambda: chore_record(engine, Chore.OPTIMIZE) is not None)
        found = chore_record(engine, Chore.OPTIMIZE)
    assert found is not None
    assert found.error_code == "unsupported"
    [told] = [each for each in caplog.records if each.levelno == logging.WARNING and "optimize" in each.getMessage()]
    assert "tried again in 60 s" in told.getMessage()


def test_paused_tables_are_left_alone(lake: Catalog, tmp_path: Path) -> None:
    table = table_of(lake, tmp_path)
    other = table_of(lake, tmp_path, "other")
    lake.pause("t", unpublished=True)
    with maintaining_service(lake, optimize=True):
        until(lambda: operations(other)[-1] == "OPTIMIZE")
    assert operations(table)[-1] == "WRITE"


def test_a_service_that_is_stopped_gives_up_between_two_bins(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("t", location=str(tmp_path / "t"), schema="id long, p long", partition_by=["p"])
    for number in range(3):
        table.append(pa.table({"id": [number] * 2, "p": [0, 1]}))
    files, compacted = set((tmp_path / "t").glob("p=*/*.parquet")), LocalCompactor._compacted
    at_work, ending = threading.Event(), threading.Event()

    def slow(self: LocalCompactor, each: Any) -> Any:
        written = compacted(self, each)
        at_work.set()
        ending.wait(60)
        return written

    monkeypatch.setattr(LocalCompactor, "_compacted", slow)
    with maintaining_service(lake, optimize=True) as engine:
        assert at_work.wait(60)
        engine.stop()
        until(engine._stopping.is_set)
        threading.Timer(0.3, ending.set).start()
    assert operations(table)[-1] == "WRITE"
    assert set((tmp_path / "t").glob("p=*/*.parquet")) == files


def test_a_store_that_fails_is_recorded_with_the_next_try(lake: Catalog, tmp_path: Path) -> None:
    table_of(lake, tmp_path)

    def fail(moment: Moment, step: Step) -> None:
        if step is Step.PUT_ROWS:
            raise Unavailable("injected", hint="none")

    with observed(fail), maintaining_service(lake, optimize=True) as engine:
        until(lambda: chore_record(engine, Chore.OPTIMIZE) is not None)
        found = chore_record(engine, Chore.OPTIMIZE)
    assert found is not None
    assert (found.error_code, found.error_message, found.attempts) == ("unavailable", "injected", 1)


KILLED = """
import os, signal, sys
from deltamirror import MirrorEngine
from deltamirror.config import Settings
from deltamirror.steps import Moment, Step, observed
from tests.support.mirrors.maintaining import maintaining
from msgspec.structs import replace
url, struck, when = sys.argv[1:]
def die(moment, step):
    if step == struck and moment == when:
        os.kill(os.getpid(), signal.SIGKILL)
settings = maintaining(optimize=True)
settings = replace(settings, catalog=replace(settings.catalog, url=url), mirror=replace(settings.mirror, lease=1.0))
with MirrorEngine(settings=settings) as engine, observed(die):
    engine.run()
"""


STRUCK = {(Step.TAKE_MAINTENANCE, Moment.AFTER), (Step.RECORD_MAINTENANCE, Moment.BEFORE)}
"""While the chore is taken, and nothing is recorded of it."""


@pytest.mark.crash
@pytest.mark.default_when(parameters=lambda those: (those["step"], those["moment"]) in STRUCK)
@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("step", [Step.TAKE_MAINTENANCE, Step.RECORD_MAINTENANCE])
def test_a_service_that_is_killed_leaves_its_chore_to_the_next(
    sqlite_lake: str, tmp_path: Path, step: Step, moment: Moment
) -> None:
    with opened(sqlite_lake) as lake:
        table = table_of(lake, tmp_path)
        arguments = [sys.executable, "-c", KILLED, sqlite_lake, step, moment]
        killed = subprocess.run(arguments, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert killed.returncode == -signal.SIGKILL
        with maintaining_service(lake, optimize=True) as engine:
            until(lambda: "OPTIMIZE" in operations(table))
            until(lambda: engine.status("t")[0].lag_versions == 0)
        assert operations(table).count("OPTIMIZE") == 1
        assert (ids(table), table.snapshot().count_files()) == ([0, 1, 2, 3], 1)
