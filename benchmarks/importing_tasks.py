"""What the processes do that measure imports; each has a fresh process for itself."""

import time
from itertools import islice
from pathlib import Path

from deltalake import DeltaTable
from msgspec import Raw

from benchmarks.adds import PARTITION_COLUMN, SCHEMA, adds
from benchmarks.bare_bulk import loader, rows_of
from benchmarks.child import memory_now, memory_peak
from benchmarks.lab import Place
from benchmarks.publish_tasks import settings_of
from deltamirror import Catalog
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, CommitInfo, Format, Metadata, Protocol
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.delta.schema import from_ddl, schema_string
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.wiring import open_importer

_BATCH = 50_000
_INFO = CommitInfo(timestamp=1_714_521_600_000, operation="WRITE", operation_parameters={"mode": Raw(b'"Append"')})


def write_commits(*, folder: str, count: int) -> None:
    """A log of commits of one add, without any checkpoint."""
    log = _log(folder)
    (log / commit_name(0)).write_bytes(lines.encode_commit([_INFO, *_foundation()]))
    for version, add in enumerate(islice(adds(seed=3), count - 1), 1):
        (log / commit_name(version)).write_bytes(lines.encode_commit([_INFO, add]))


def write_checkpointed(*, folder: str, count: int) -> None:
    """A log that begins with a checkpoint of many files, which delta-rs wrote."""
    log, source = _log(folder), islice(adds(seed=4), count)
    with (log / commit_name(0)).open("wb") as out:
        out.write(lines.encode_commit([_INFO, *_foundation()]))
        while some := list(islice(source, _BATCH)):
            out.write(lines.encode_commit(some))
    (log / commit_name(1)).write_bytes(lines.encode_commit([_INFO]))
    DeltaTable(folder).create_checkpoint()
    (log / commit_name(0)).unlink()


def import_table(*, place: dict[str, str], location: str, small: str, runner: str) -> dict[str, float]:
    """Import a table. A small one is imported first: Spark's start is not counted."""
    where = Place(**place)
    settings = settings_of(where, runner=runner)
    with Catalog(settings=settings) as catalog, open_importer(catalog, settings, runner=runner) as importer:
        importer.run(ImportOrder(location=small, name="small"))
        held, begin = memory_now(), time.perf_counter()
        importer.run(ImportOrder(location=location, name="large"))
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, "input": held, "peak": memory_peak()}


def delta_rs_open(*, location: str) -> float:
    """Seconds that delta-rs needs to open a table and list its files."""
    begin = time.perf_counter()
    DeltaTable(location).get_add_actions()
    return time.perf_counter() - begin


def bare_load(*, source: dict[str, str], target: dict[str, str]) -> float:
    """Seconds that the driver alone needs for the rows of an imported table."""
    rows = {table: found for table, found in rows_of(Place(**source)).items() if len(found)}
    with loader(Place(**target)) as load:
        begin = time.perf_counter()
        load(rows)
        return time.perf_counter() - begin


def _log(folder: str) -> Path:
    log = Path(folder) / LOG_DIRECTORY
    log.mkdir(parents=True)
    return log


def _foundation() -> list[Action]:
    metadata = Metadata(
        id="00000000-0000-0000-0000-000000000000",
        format=Format(provider="parquet", options={}),
        schema_string=schema_string(from_ddl(SCHEMA)),
        partition_columns=[PARTITION_COLUMN],
        configuration={},
    )
    return [Protocol(min_reader_version=1, min_writer_version=2), metadata]
