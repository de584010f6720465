"""Mirrors of test catalogs: an engine with threads of its own in place of Spark, over tables on a local disk."""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.run.runner import Runner
from deltamirror.storage.location import local_path
from deltamirror.work import Outcome, Unit
from tests.support.lakes.lake import add


def local_settings(settings: Settings | None = None, **changed: Any) -> Settings:
    """Settings of a mirror without Spark that never waits long; ``checkpoint_…`` and ``breaker_…`` are of these.

    Its service neither compares logs nor evaluates alerts.
    """
    settings = settings or Settings()
    quick: dict[str, Any] = {"runner": "local", "poll": 0.02, "retry_base": 0.01, "retry_max": 0.05, "attempts": 1_000}
    checkpoint, breaker = _taken(changed, "checkpoint_"), {"pause": 0.05, **_taken(changed, "breaker_")}
    return replace(
        settings,
        mirror=replace(settings.mirror, **{**quick, **changed}),
        checkpoint=replace(settings.checkpoint, **checkpoint),
        breaker=replace(settings.breaker, **breaker),
        reconcile=replace(settings.reconcile, interval=0.0),
        alerts=replace(settings.alerts, enabled=False),
    )


def _taken(changed: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): changed.pop(name) for name in list(changed) if name.startswith(prefix)}


@contextmanager
def mirror_of(catalog: Catalog, *, runner: Runner | None = None, **changed: Any) -> Iterator[MirrorEngine]:
    """An engine on the catalog's own database."""
    with MirrorEngine(settings=local_settings(**changed), database=catalog.database, runner=runner) as engine:
        yield engine


@contextmanager
def following(engine: MirrorEngine) -> Iterator[threading.Thread]:
    """The engine's service, running until the end of the block."""
    thread = threading.Thread(target=engine.run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        engine.stop()
        thread.join()


def make_table(catalog: Catalog, folder: Path, name: str = "t", **more: Any) -> Table:
    """A table on the local disk."""
    return catalog.create_table(name, location=str(folder / name), schema="id long", **more)


def append(table: Table, count: int = 1, *, prefix: str = "f") -> None:
    """So many commits of one file each, which no other call with another prefix adds."""
    for number in range(count):
        table.append([add(f"{prefix}-{table.info().head + 1}-{number}.parquet", stats='{"numRecords":1}')])


def log_of(table: Table) -> Path:
    """The folder of the table's log."""
    return Path(local_path(table.location) or "") / LOG_DIRECTORY


def published_files(table: Table) -> dict[str, bytes]:
    """The commits in the log, by name."""
    log = log_of(table)
    return {path.name: path.read_bytes() for path in sorted(log.glob("*.json"))} if log.exists() else {}


def committed_files(table: Table) -> dict[str, bytes]:
    """The commits in SQL, by the name that they have in the log."""
    return {commit_name(version): table.commit_file(version) for version in range(table.info().head + 1)}


class ScriptedRunner:
    """Runs units in threads of this process, unless the script answers for them, raises, or waits."""

    def __init__(self, inner: InProcessRunner, script: Callable[[Unit], Outcome | None]) -> None:
        self._inner = inner
        self._script = script
        self.jobs: list[tuple[Unit, ...]] = []

    def start(self) -> bool:
        """Nothing takes time."""
        return False

    def is_ready(self) -> bool:
        """Nothing has to be started."""
        return True

    def run(self, units: Sequence[Unit]) -> Generator[Sequence[Outcome]]:
        """One outcome for each unit."""
        self.jobs.append(tuple(units))
        for unit in units:
            scripted = self._script(unit)
            if scripted is None:
                yield from self._inner.run([unit])
            else:
                yield [scripted]

    def close(self) -> None:
        """Nothing is open that is not the inner runner's."""


def until(happens: Callable[[], bool]) -> None:
    """Wait for as long as any machine needs."""
    pause = threading.Event()
    for _ in range(12_000):
        if happens():
            return
        pause.wait(0.01)
    raise AssertionError("it does not happen")
