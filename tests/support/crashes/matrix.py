"""The crash matrix at work: processes that are killed (kill -9) at a named point, and what becomes of their lakes.

A worker, which has imported everything and never touches a database or a store itself, forks a process for each job.
That one watches another one begin the act and be struck, then does what a restart does, and reports.
"""

import json
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.json import decode
from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.config import Settings
from deltamirror.delta.names import LAST_CHECKPOINT, LOG_DIRECTORY, checkpoint_name, commit_name
from deltamirror.txnlog.database.schema import stages
from deltamirror.txnlog.queue.expected_objects import kept_log
from tests.support.crashes.forking import import_everything
from tests.support.crashes.fuses import die
from tests.support.crashes.points import observing
from tests.support.crashes.scenes import SCENES, Lake, engine_of, keep_ids
from tests.support.crashes.sightings import names_of_temporaries, seen, stores_of
from tests.support.lakes.small_lakes import TABLES, Part, copied, settings_of
from tests.support.mirrors.claims import end_leases
from tests.support.readers.s3_access import S3Access
from tests.support.suite.worker import serve, take_stdout

_MOST_RUNS = 10
_STAGED = {"stage_above": 3, "chunk_lines": 2}
_EVERYTHING = -3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A scene in a copy of a lake, and the point at which its process is struck; no point: it is left alone."""

    scene: str
    part: dict[str, str]
    url: str
    folder: str
    root: str
    s3: dict[str, str] | None
    point: str = ""
    turn: int = 1

    @property
    def settings(self) -> Settings:
        """Of every process at this lake."""
        settings = settings_of(None if self.s3 is None else S3Access(**self.s3).settings())
        return replace(settings, catalog=replace(settings.catalog, **_STAGED))

    def file(self, name: str) -> Path:
        """Where processes leave word."""
        return Path(self.folder) / name


@contextmanager
def _lake(job: Job) -> Iterator[Lake]:
    with Catalog(job.url, settings=job.settings) as catalog:
        yield Lake(catalog, job.settings)


def _victim(job: Job) -> list[str]:
    """Begin the act, and die at the point; the points that were come to, if there is none to die at."""
    scene = SCENES[job.scene]
    copied(Part(**job.part), job.url, job.root, None if job.s3 is None else job.settings.storage)
    with _lake(job) as lake:
        scene.prepare(lake)
    passed, counted, one_by_one = list[str](), Counter[str](), threading.Lock()

    def tell(point: str) -> None:
        with one_by_one:
            passed.append(point)
            counted[point] += 1
            if point == job.point and counted[point] == job.turn:
                die()

    with _lake(job) as lake, observing(tell):
        scene.act(lake)
    return passed


def _watched(job: Job) -> dict[str, Any]:
    """What became of the victim, and of the lake after a restart."""
    keep_ids()
    child = os.fork()
    if child == 0:
        _finish(lambda: _victim(job), job.file("victim"))
    _, status = os.waitpid(child, 0)
    struck = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    points = None if struck else _word(job.file("victim"), job)
    with _lake(job) as lake:
        harm = [each for name in TABLES for each in _harm(lake, name)] if SCENES[job.scene].sound else []
        end_leases(lake.catalog.database)
        SCENES[job.scene].restart(lake)
        _mirror_all(lake)
        told = {"struck": struck, "points": points, "point": job.point, "harm": harm}
        return {**told, **_seen(lake, job)}


def _harm(lake: Lake, name: str) -> Iterator[str]:
    """What a reader would stumble over, before anybody has made anything good."""
    table, store = lake.catalog.table(name), lake.store(name)
    info, keys = table.info(), {meta.key for meta in store.list(LOG_DIRECTORY)}
    found = sorted(version for version in range(info.head + 1) if f"{LOG_DIRECTORY}/{commit_name(version)}" in keys)
    if found and found != list(range(found[0], found[-1] + 1)):
        yield f"{name} has a gap: {found}"
    with lake.catalog.database.read() as connection:
        log = kept_log(connection, name)
    if not set(range(log.log_start, log.published + 1)) <= set(found):
        yield f"{name} lacks what it has from {log.log_start} to {log.published}: {found}"
    for version in found:
        data = store.read(f"{LOG_DIRECTORY}/{commit_name(version)}")
        if data is None or data.data != table.commit_file(version):
            yield f"{name} has other bytes than SQL in version {version}"
    pointer = store.read(f"{LOG_DIRECTORY}/{LAST_CHECKPOINT}")
    if pointer is not None and _pointed_at(decode(pointer.data)) not in keys:
        yield f"{name} has a pointer to nothing"


def _pointed_at(pointer: dict[str, Any]) -> str:
    """The key of the checkpoint that a pointer names."""
    name = pointer.get("v2Checkpoint", {}).get("path") or checkpoint_name(pointer["version"])
    return f"{LOG_DIRECTORY}/{name}"


def _mirror_all(lake: Lake) -> None:
    """A service, until it finds nothing to do."""
    with engine_of(lake) as engine:
        for _ in range(_MOST_RUNS):
            done = engine.run(once=True)
            if not (done.versions or done.checkpoints):
                return
    raise RuntimeError(f"after {_MOST_RUNS} runs there is still something to do")


def _seen(lake: Lake, job: Job) -> dict[str, Any]:
    """The state of the lake; and what is left of the dead, once it is swept."""
    storage = None if job.s3 is None else job.settings.storage
    lake.catalog.writer.optimise(older_than=_EVERYTHING)
    stores = stores_of(lake.catalog, storage)
    for store in stores.values():
        store.sweep_temporaries(before=2**62)
    with lake.catalog.database.read() as connection:
        left = [f"stage {row.commit_id}" for row in connection.execute(stages.select())]
    return {"state": seen(lake.catalog, storage), "left": [*left, *names_of_temporaries(stores)]}


def _finish(work: Callable[[], object], file: Path) -> None:
    """Do the work of a forked process, note its answer or its trouble, and end without unwinding."""
    try:
        file.write_text(json.dumps({"answer": work()}))
    except BaseException:  # noqa: BLE001  the test that asked is told, whatever it is
        file.write_text(json.dumps({"trouble": traceback.format_exc()}))
    os._exit(0)


def _word(file: Path, job: Job) -> Any:
    found = json.loads(file.read_text())
    if "trouble" in found:
        raise RuntimeError(f"{job.scene}, {job.point}: {found['trouble']}")
    return found["answer"]


def answer(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Do jobs, as many at once as there are databases for them; the reports, in the order of the jobs."""
    free, waiting = list(request["urls"]), [dict(job) for job in reversed(request["jobs"])]
    running: dict[int, Job] = {}
    done: dict[str, Job] = {}
    while waiting or running:
        if waiting and free:
            job = Job(url=free.pop(), **waiting.pop())
            Path(job.folder).mkdir(parents=True)
            if (child := os.fork()) == 0:
                _finish(lambda job=job: _watched(job), job.file("watcher"))  # type: ignore[misc]
            running[child] = job
        else:
            child, _ = os.waitpid(-1, 0)
            job = running.pop(child)
            free.append(job.url)
            done[job.folder] = job
    return [_word(done[job["folder"]].file("watcher"), done[job["folder"]]) for job in request["jobs"]]


if __name__ == "__main__":
    import_everything()
    serve(take_stdout(), "crashes", answer)
