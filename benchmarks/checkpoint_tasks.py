"""What the processes do that measure checkpoints; each has a fresh process for itself."""

import os
import shutil
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow.json import read_json as parsed_json

from benchmarks.child import OwnMemory, memory_now, memory_peak, seconds_of
from benchmarks.lab import TABLE, Place
from benchmarks.publish_tasks import settings_of, warm_up
from benchmarks.stock_spark import opener, stock_session
from deltamirror import Catalog, MirrorEngine
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.ops.verify.report import Level
from deltamirror.ops.verify.verifying import Verifier
from deltamirror.wiring import open_logs

_OPENINGS = 4
_FEWEST_OPENINGS = 2
_LONG_SECONDS = 60.0


def copy_log(*, place: dict[str, str], name: str) -> str:
    """A copy of the published commits without checkpoints; its folder."""
    where = Place(**place)
    target = Path(where.folder) / f"copy-{name.replace(' ', '-')}"
    (target / LOG_DIRECTORY).mkdir(parents=True)
    for path in (Path(where.folder) / "table" / LOG_DIRECTORY).glob("*.json"):
        shutil.copy(path, target / LOG_DIRECTORY)
    return str(target)


def deltamirror(*, place: dict[str, str]) -> dict[str, float]:
    """The checkpoint of the newest version, in this process, which wrote a small one before."""
    where = Place(**place)
    with Catalog(where.url) as catalog, MirrorEngine(settings=settings_of(where)) as engine:
        warm_up(engine, catalog, where)
        return _of_newest(engine, where)


def _of_newest(engine: MirrorEngine, where: Place) -> dict[str, float]:
    with OwnMemory() as own:
        held, begin = memory_now(), time.perf_counter()
        version = engine.checkpoint(TABLE)
        seconds = time.perf_counter() - begin
    size = _size(f"{where.folder}/table", version)
    return {"seconds": seconds, "megabytes": size, "input": held, "peak": memory_peak(), "own": own.peak}


def verified(*, place: dict[str, str]) -> dict[str, float]:
    """`deltamirror verify` of the log, in this process, which verified a small one before."""
    where = Place(**place)
    with Catalog(where.url) as catalog, MirrorEngine(settings=settings_of(where)) as engine, open_logs(engine) as logs:
        warm = warm_up(engine, catalog, where)
        verifier = Verifier(logs, level=Level.STRICT)
        verifier.run([warm])
        with OwnMemory() as own:
            begin = time.perf_counter()
            [found] = verifier.run([TABLE])
            seconds = time.perf_counter() - begin
        assert found.error is None, found
        assert not found.is_drift, found
        assert not found.is_late, found
        return {"seconds": seconds, "own": own.peak}


def bare_arrow(*, path: str) -> float:
    """Seconds that Arrow alone takes for the parts of a first checkpoint that cannot be left out, on all cores.

    It parses the lines and the statistics in them, and writes both as Parquet, which is read again.
    """
    begin, target = time.perf_counter(), f"{path}.parquet"
    adds = parsed_json(path)["add"].combine_chunks()
    written = {name: pc.struct_field(adds, name) for name in ("path", "size", "modificationTime", "stats")}
    texts = "\n".join(written["stats"].to_pylist()).encode()
    written["stats_parsed"] = parsed_json(pa.BufferReader(texts)).to_struct_array()
    pq.write_table(pa.table(written), target, compression="zstd")
    pq.read_table(target)
    seconds = time.perf_counter() - begin
    Path(target).unlink()
    return seconds


def bare_file(*, place: dict[str, str]) -> float:
    """Seconds for the bytes of a next checkpoint alone: the last one is read, and as many are written, and read again.

    Both are digested, as they are by us: the last one is believed by its digest, the next one will be.
    """
    (path,) = Path(Place(**place).folder, "table", LOG_DIRECTORY).glob("*.checkpoint.parquet")
    target = path.with_suffix(".bare")
    begin = time.perf_counter()
    data = path.read_bytes()
    digest = sha256(data).digest()
    with target.open("wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    written = target.read_bytes()
    assert written == data
    assert sha256(written).digest() == digest
    seconds = time.perf_counter() - begin
    target.unlink()
    return seconds


def delta_rs(*, folder: str, place: dict[str, str]) -> dict[str, float]:
    """The checkpoint of a table that is open, then the next one after the further commits."""
    figures: dict[str, float] = {}
    table = DeltaTable(folder)
    with OwnMemory() as own:
        held, begin = memory_now(), time.perf_counter()
        table.create_checkpoint()
        figures |= {"first": time.perf_counter() - begin, "megabytes": _size(folder, table.version())}
        _take_further_commits(folder, place)
        begin = time.perf_counter()
        table.update_incremental()
        table.create_checkpoint()
        figures["next"] = time.perf_counter() - begin
    return {**figures, "input": held, "peak": memory_peak(), "own": own.peak}


def delta_spark(*, folder: str, place: dict[str, str]) -> dict[str, float]:
    """The same by Delta Lake on Spark; its start and the opening of the table are not counted."""
    spark = stock_session()
    jvm: Any = spark._jvm  # noqa: SLF001
    log: Any = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, folder)  # noqa: SLF001
    none: Any = jvm.scala.Option.empty()
    log.update(False, none, none).numOfFiles()
    begin = time.perf_counter()
    log.checkpoint()
    figures = {"first": time.perf_counter() - begin, "megabytes": _size(folder, 1)}
    _take_further_commits(folder, place)
    begin = time.perf_counter()
    log.update(False, none, none).numOfFiles()
    log.checkpoint()
    figures["next"] = time.perf_counter() - begin
    spark.stop()
    return figures


def open_by_delta_rs(*, folders: list[str]) -> list[list[float]]:
    """Seconds to open each table by its checkpoint and list its files, from the best time to the worst."""
    return _opened(folders, lambda folder: DeltaTable(folder).get_add_actions())


def open_by_duckdb(*, folders: list[str]) -> list[list[float]]:
    """The same by DuckDB's extension."""
    extension = Path(duckdb_extension_delta.__file__).parent / "extensions" / f"v{duckdb.__version__}"
    with duckdb.connect() as connection:
        connection.load_extension(str(extension / "delta.duckdb_extension"))
        return _opened(
            folders, lambda folder: connection.execute("SELECT * FROM delta_list_files(?)", [folder]).fetchall()
        )


def open_by_delta_spark(*, folders: list[str]) -> list[list[float]]:
    """The same by Delta Lake on Spark, which keeps no table open."""
    spark = stock_session()
    found = _opened(folders, opener(spark))
    spark.stop()
    return found


def _opened(folders: list[str], work: Callable[[str], object]) -> list[list[float]]:
    """In turns, after a first round that is not counted: what a library loads then is for whoever is first."""
    for folder in folders:
        work(folder)
    rounds: list[list[float]] = []
    while len(rounds) < _OPENINGS and (len(rounds) < _FEWEST_OPENINGS or sum(map(sum, rounds)) < _LONG_SECONDS):
        rounds.append([seconds_of(work, folder) for folder in folders])
    return [sorted(times) for times in zip(*rounds, strict=True)]


def _take_further_commits(folder: str, place: dict[str, str]) -> None:
    source = Path(Place(**place).folder) / "table" / LOG_DIRECTORY
    for path in source.glob("*.json"):
        if not (target := Path(folder) / LOG_DIRECTORY / path.name).exists():
            shutil.copy(path, target)


def _size(folder: str, version: int) -> float:
    (path,) = Path(folder, LOG_DIRECTORY).glob(f"{version:020}.checkpoint*.parquet")
    return path.stat().st_size / 1e6
