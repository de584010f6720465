"""What the processes do that measure publishing; each has a fresh process for itself."""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from benchmarks.adds import NUMBERED_SCHEMA, adds, numbered_adds
from benchmarks.bare import commit_one, newest_row
from benchmarks.child import memory_now, memory_peak
from benchmarks.copies import connected
from benchmarks.lab import TABLE, Place
from benchmarks.stock_spark import stock_session
from benchmarks.writers import DELTA_RS, open_writer, prepare
from deltamirror import Catalog, MirrorEngine
from deltamirror.batches import batched
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, checksum_name, commit_name
from deltamirror.storage.open import store_at

_UNUSED = 1_000_000


def fill(*, place: dict[str, str], count: int, numbered_from: int | None = None, at_once: int = 1) -> None:
    """Commits of one add, or of so many ``at_once``; none of them is published."""
    source = adds(seed=6) if numbered_from is None else numbered_adds(first=numbered_from)
    with Catalog(Place(**place).url) as catalog:
        table = catalog.table(TABLE)
        for some in batched(islice(source, count * at_once), at_once):
            table.append(some)


def mirror(
    *, place: dict[str, str], runner: str, batch: int | None = None, checkpoints: bool = True, verify: str = "basic"
) -> dict[str, float]:
    """Publish them. Another table is mirrored first: what is started and imported then does not count."""
    where = Place(**place)
    settings = settings_of(where, runner=runner, batch=batch, checkpoints=checkpoints, verify=verify)
    with Catalog(where.url) as catalog, MirrorEngine(settings=settings) as engine:
        warm_up(engine, catalog, where)
        held, begin, computed = memory_now(), time.perf_counter(), time.process_time()
        summary = engine.run(once=True)
        seconds, computed = time.perf_counter() - begin, time.process_time() - computed
        assert not summary.failures, summary.failures
        taken = {"rate": summary.versions / seconds, "seconds": seconds, "computed": computed}
        return {**taken, "input": held, "peak": memory_peak()}


def warm_up(engine: MirrorEngine, catalog: Catalog, place: Place) -> str:
    """Mirror another table, with a checkpoint unless the settings have none; its name."""
    every, name = {"delta.checkpointInterval": "1"}, f"warm.up_{time.time_ns()}"
    table = catalog.create_table(name, location=f"{place.folder}/{name}", schema=NUMBERED_SCHEMA, properties=every)
    table.append(islice(numbered_adds(first=0), 1))
    assert (engine.mirror(name).checkpoint is not None) == engine.settings.checkpoint.enabled
    return name


def settings_of(
    place: Place, *, runner: str = "local", batch: int | None = None, checkpoints: bool = True, verify: str = "basic"
) -> Settings:
    """The defaults, but for the place, the runner, the batch and the level; with or without checkpoints."""
    settings = Settings()
    batch = settings.mirror.batch_versions if batch is None else batch
    return replace(
        settings,
        catalog=replace(settings.catalog, url=place.url),
        mirror=replace(settings.mirror, batch_versions=batch, runner=runner, verify=verify),
        checkpoint=replace(settings.checkpoint, enabled=checkpoints),
        spark=replace(settings.spark, master="local[2]"),
    )


def delta_rs_commits(*, place: dict[str, str], count: int) -> dict[str, float]:
    """The same number of commits by delta-rs, each of them a file of the log."""
    where = Place(**place)
    prepare(DELTA_RS, where)
    writer, source = open_writer(DELTA_RS, where), adds(seed=6)
    begin = time.perf_counter()
    for add in islice(source, count):
        writer.commit(add)
    seconds = time.perf_counter() - begin
    writer.close()
    return {"rate": count / seconds, "seconds": seconds}


def bare_creates(*, place: dict[str, str], count: int) -> dict[str, float]:
    """Commits and checksums put one after the other with nothing else to do, in units of the default size."""
    folder = str(Path(Place(**place).folder) / "bare")

    def run() -> None:
        for some in batched(range(count), Settings().mirror.batch_versions):
            _put(folder, some)

    return _rate(count, run)


def bare_jobs(*, place: dict[str, str], count: int) -> dict[str, float]:
    """Commits and checksums put by jobs of Spark that do nothing else, as many in each as a unit has by default."""
    spark, folder = stock_session(), str(Path(Place(**place).folder) / "bare-jobs")

    def put(numbers: Iterable[int]) -> None:
        def task(items: Iterable[int]) -> Iterable[int]:
            yield _put(folder, items)

        spark.sparkContext.parallelize(numbers, 1).mapPartitions(task).collect()

    put([-1])  # imports

    def run() -> None:
        for some in batched(range(count), Settings().mirror.batch_versions):
            put(list(some))

    found = _rate(count, run)
    spark.stop()
    return found


def bare_one_by_one(*, place: dict[str, str], count: int) -> dict[str, float]:
    """Commit and checksum of each version put by itself, between a transaction that claims and one that records."""
    where = Place(**place)
    commit_one(where)
    folder = str(Path(where.folder) / "bare")
    with closing(connected(where)) as connection:
        if where.engine == "sqlite":  # as durable as ours, whatever the build of SQLite takes for its default
            connection.execute("PRAGMA synchronous=FULL")
        row = newest_row(connection.cursor(), "dl_mirror_status")
        mark = "%s" if where.engine == "postgresql" else "?"
        claimed = "UPDATE dl_heads SET committed_at = committed_at + 1"
        recorded = f"INSERT INTO dl_mirror_status ({', '.join(row)}) VALUES ({', '.join([mark] * len(row))})"

        def run() -> None:
            for version in range(count):
                connection.execute(claimed)
                connection.commit()
                _put(folder, [version])
                connection.execute(recorded, list({**row, "version": _UNUSED + version}.values()))
                connection.commit()

        return _rate(count, run)


def _put(folder: str, numbers: Iterable[int]) -> int:
    """Put two objects for each number, as a unit is put; how many that were."""
    store, done = store_at(folder, StorageSettings()), 0
    for number in numbers:
        for name in (commit_name(number + 1), checksum_name(number + 1)):
            store.create(f"{LOG_DIRECTORY}/{name}", b"x" * 900, synced=False)
            done += 1
    store.sync(LOG_DIRECTORY)
    return done


def _rate(count: int, work: Callable[[], object]) -> dict[str, float]:
    begin = time.perf_counter()
    work()
    seconds = time.perf_counter() - begin
    return {"rate": count / seconds, "seconds": seconds}
