"""One case: a log is damaged by a seed, reconciled or repaired, and read. Whatever readers get wrong is a finding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import deltalake

from deltamirror import Catalog, MirrorEngine
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.reconcile.reconciling import Reconciler, Strategy
from deltamirror.ops.reconcile.repair import repair
from deltamirror.txnlog.queue.expected_objects import kept_log
from tests.damage.kinds import damaged
from tests.damage.lake import INTERVAL, KINDS, Lake
from tests.damage.spark_names import broken_names
from tests.support.imports.adoptions import logs_of
from tests.support.lakes.lake import paths
from tests.support.mirrors.local import append, mirror_of
from tests.support.readers.duckdb import DuckDB


@dataclass(frozen=True, slots=True)
class Case:
    """What a seed comes to."""

    seed: int
    kind: str
    remedy: str
    count: int


def drawn(seed: int) -> Case:
    """The case of a seed."""
    random = Random(seed)
    return Case(seed, random.choice(KINDS), random.choice(list(_REMEDIES)), random.choice([1, 1, 1, 2, 3]))


def run(case: Case, lake: Lake, duckdb: DuckDB) -> tuple[Sequence[str], Sequence[str]]:
    """What was done to the log, and what is wrong then."""
    lake.restore()
    done = damaged(lake, Random(case.seed), case.count)
    with lake.opened() as catalog, mirror_of(catalog) as engine:
        stopped = _REMEDIES[case.remedy](engine)
        if stopped:
            names_one = LOG_DIRECTORY in stopped or str(lake.table) in stopped
            return done, [] if names_one else [f"stopped, and no object is named: {stopped}"]
        wrong = [*_wrong(catalog, lake, duckdb, "then"), *_goes_on(catalog, engine, lake, duckdb)]
    return done, wrong


def _reconciled(engine: MirrorEngine) -> str:
    """Why the table is stopped; empty where it is not."""
    with logs_of(engine) as logs:
        [found] = Reconciler(logs).run(Strategy.FULL, ["t"]).tables
    [status] = engine.status("t")
    if found.error is not None and status.state == "active":
        return f"(but active) {found.error}"
    return status.quarantine_reason or ""


def _looked_at(engine: MirrorEngine) -> str:
    """Why the table is stopped, after looks as those of a service: as many as all samples take."""
    with logs_of(engine) as logs:
        for _ in range(_LOOKS):
            with engine.database.read() as connection:
                log = kept_log(connection, "t")
            if engine.status("t")[0].state != "active":
                break
            found = Reconciler(logs).look(log)
            engine.run(once=True)
    [status] = engine.status("t")
    if found.error is not None and status.state == "active":
        return f"(but active) {found.error}"
    return status.quarantine_reason or ""


def _repaired(engine: MirrorEngine) -> str:
    """Why the table is not repaired; empty where it is."""
    try:
        with logs_of(engine) as logs:
            repair(logs, "t")
    except DeltaMirrorError as error:
        return error.message
    return ""


_LOOKS: Final = 3
_REMEDIES: Final = {"reconcile": _reconciled, "repair": _repaired, "look": _looked_at}


def _goes_on(catalog: Catalog, engine: MirrorEngine, lake: Lake, duckdb: DuckDB) -> Iterator[str]:
    """Whether all is well after the next checkpoint, too."""
    try:
        append(catalog.table("t"), INTERVAL, prefix="later")
        failures = engine.run(once=True).failures
    except DeltaMirrorError as error:
        yield f"a commit is refused: {error}"
        return
    yield from (f"failed: {failure.error}" for failure in failures)
    yield from _wrong(catalog, lake, duckdb, "after the next checkpoint")


def _wrong(catalog: Catalog, lake: Lake, duckdb: DuckDB, when: str) -> Iterator[str]:
    table = catalog.table("t")
    head = table.info().head
    for version in (None, *range(table.info().log_start, head + 1)):
        expected = paths(table) if version is None else paths(table, version=version)
        seen = _by_delta_rs(lake.table, version)
        if seen != ((head if version is None else version), expected):
            yield f"{when}, delta-rs at {version}: {seen}"
    if (files := _by_duckdb(duckdb, lake.table)) != paths(table):
        yield f"{when}, DuckDB: {files}"
    yield from (f"{when}, Spark: {why}" for why in broken_names(lake.log, first=table.info().log_start))


def _by_delta_rs(table: Path, version: int | None) -> object:
    try:
        found = deltalake.DeltaTable(str(table), version=version)
        return found.version(), sorted(uri.rpartition("/")[2] for uri in found.file_uris())
    except Exception as error:  # noqa: BLE001  whatever it is, it is the finding
        return str(error)[:300]


def _by_duckdb(duckdb: DuckDB, table: Path) -> object:
    try:
        found = duckdb.snapshot({"location": str(table), "version": None, "rows": False, "s3": None})["files"]
        assert isinstance(found, list)
        return sorted(file["path"] for file in found)
    except Exception as error:  # noqa: BLE001  whatever it is, it is the finding
        return str(error)[:300]
