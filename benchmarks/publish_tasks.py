"""What the processes do that measure publishing; each has a fresh process for itself."""

import time
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from benchmarks.adds import adds, numbered_adds
from benchmarks.child import memory_now, memory_peak
from benchmarks.lab import TABLE, Place
from benchmarks.writers import DELTA_RS, open_writer, prepare
from deltamirror import Catalog, MirrorEngine
from deltamirror.batches import batched
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.storage.open import store_at

_WARM_UP = "warm.up"


def fill(*, place: dict[str, str], count: int, numbered_from: int | None = None, at_once: int = 1) -> None:
    """Commits of one add, or of so many ``at_once``; none of them is published."""
    source = adds(seed=6) if numbered_from is None else numbered_adds(first=numbered_from)
    with Catalog(Place(**place).url) as catalog:
        table = catalog.table(TABLE)
        for some in batched(islice(source, count * at_once), at_once):
            table.append(some)


def mirror(
    *, place: dict[str, str], batch: int, runner: str, checkpoints: bool = True, verify: str = "basic"
) -> dict[str, float]:
    """Publish them. Another table is mirrored first: Spark's start is not counted."""
    where = Place(**place)
    settings = settings_of(where, batch, runner, checkpoints=checkpoints, verify=verify)
    with Catalog(where.url) as catalog, MirrorEngine(settings=settings) as engine:
        if runner == "spark":
            catalog.create_table(_WARM_UP, location=f"{where.folder}/warm-up", schema="id long")
            engine.mirror(_WARM_UP)
        held, begin, computed = memory_now(), time.perf_counter(), time.process_time()
        summary = engine.run(once=True)
        seconds, computed = time.perf_counter() - begin, time.process_time() - computed
        assert not summary.failures, summary.failures
        taken = {"rate": summary.versions / seconds, "seconds": seconds, "computed": computed}
        return {**taken, "input": held, "peak": memory_peak()}


def settings_of(
    place: Place, batch: int = 100, runner: str = "local", *, checkpoints: bool = True, verify: str = "basic"
) -> Settings:
    """The defaults, but for the place, the batch, the runner and the level; with or without checkpoints."""
    settings = Settings()
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
    """As many objects of the size of a commit, put one after the other with nothing else to do."""
    store = store_at(str(Path(Place(**place).folder) / "bare"), StorageSettings())
    begin = time.perf_counter()
    for number in range(count):
        store.create(f"{LOG_DIRECTORY}/{commit_name(number)}", b"x" * 900)
    seconds = time.perf_counter() - begin
    return {"rate": count / seconds, "seconds": seconds}
