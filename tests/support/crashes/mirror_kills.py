"""Mirrors that are struck down before a chosen step, and what becomes of their lakes: a worker that forks for each.

The worker has imported everything, and never touches a database or a store itself, so that a fork of it is quick and
safe. Each job is a process that copies a lake, watches another one mirror it and be struck, and mirrors it again until
nothing is left to do.
"""

import json
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import StorageSettings
from deltamirror.pipeline.service.service import lasting_failure
from deltamirror.storage.store import Created, Replaced
from deltamirror.work import CommitOutcome, Failure, Outcome
from tests.support.crashes.forking import import_everything
from tests.support.crashes.fuses import Fuse, arm_database, arm_stores, wait_between_transactions
from tests.support.crashes.sightings import dump, is_done, names_of_temporaries, seen, stores_of, tags
from tests.support.lakes.small_lakes import Part, copied, settings_of
from tests.support.mirrors.claims import end_leases
from tests.support.readers.s3_access import S3Access
from tests.support.suite.worker import serve, take_stdout

_MOST_RUNS = 25
_WRITES = ("create", "replace", "put", "copy", "delete")
Report: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A copy of a lake whose mirror is struck before a step; 0: never."""

    part: dict[str, str]
    url: str
    folder: str
    root: str
    s3: dict[str, str] | None
    strike: str
    at: int

    @property
    def storage(self) -> StorageSettings | None:
        """How to reach the lake's store; None: it is the disk."""
        return None if self.s3 is None else S3Access(**self.s3).settings()

    @property
    def written(self) -> Path:
        """The file where all processes note what they wrote to the store."""
        return Path(self.folder) / "written"

    @property
    def steps(self) -> Path:
        """The file where a mirror that was not struck notes how many steps it took."""
        return Path(self.folder) / "steps"


@dataclass(frozen=True, slots=True)
class _Pipes:
    """By which a mirror says that it has come to its step, and is told to go on."""

    reached: tuple[int, int]
    released: tuple[int, int]


class _Struck:
    """The process of a mirror: it is dead, or stopped, or has come to its end, when the block begins."""

    def __init__(self, job: Job) -> None:
        self._job, self._pipes = job, _Pipes(os.pipe(), os.pipe())
        self._child = os.fork()
        if self._child == 0:
            os.close(self._pipes.reached[0])
            _finish(lambda: _mirror(job, self._pipes), job, "mirror")
        os.close(self._pipes.reached[1])
        self.stopped = os.read(self._pipes.reached[0], 1) != b""
        if self.stopped:
            os.kill(self._child, signal.SIGSTOP)
        _, self._status = os.waitpid(self._child, os.WUNTRACED)

    @property
    def struck(self) -> bool:
        return self.stopped or os.WIFSIGNALED(self._status)

    def __enter__(self) -> Self:
        if not self.struck and self._status != 0:
            raise RuntimeError(f"the mirror failed: {(Path(self._job.folder) / 'mirror').read_text()}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.stopped and os.WIFSTOPPED(self._status):
            os.kill(self._child, signal.SIGKILL)

    def wake(self) -> None:
        """Let a mirror that was stopped go on, to its end."""
        if self.stopped:
            os.kill(self._child, signal.SIGCONT)
            os.write(self._pipes.released[1], b"!")
            _, self._status = os.waitpid(self._child, 0)
            self.__enter__()


@contextmanager
def _engine(job: Job) -> Iterator[MirrorEngine]:
    if job.s3 is not None:
        os.environ.update(S3Access(**job.s3).environment())
    with MirrorEngine(job.url, settings=settings_of(job.storage)) as engine:
        yield engine


def _note_writes(job: Job) -> Callable[[str, str, object], None]:
    file = os.open(job.written, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def witness(operation: str, key: str, answer: object) -> None:
        if operation in _WRITES:
            took_effect = operation in ("put", "copy", "delete") or isinstance(answer, Created | Replaced)
            os.write(file, f"{operation} {key} {took_effect}\n".encode())

    return witness


def _mirror(job: Job, pipes: _Pipes) -> None:
    """The process that is struck."""
    copied(Part(**job.part), job.url, job.root, job.storage)
    fuse = Fuse(job.at)
    with _engine(job) as engine:
        if job.strike == "stop":
            fuse.strike = wait_between_transactions(pipes.reached[1], pipes.released[0])
        else:
            arm_database(fuse)
        arm_stores(fuse, _note_writes(job), puts_only=job.strike == "stop")
        engine.run(once=True)
        job.steps.write_text(str(fuse.passed))


def _mirror_again(job: Job) -> list[str]:
    """Mirror until all is done, once the leases of the one that was struck have ended.

    What came of the units that were needed for it: their troubles, and for those that had none, nothing.
    """
    outcomes: list[Outcome] = []
    with _engine(job) as engine:
        for _ in range(_MOST_RUNS):
            end_leases(engine.database)
            engine.run(once=True, observe=outcomes.append)
            with engine.database.read() as connection:
                if is_done(connection):
                    return [repr(outcome) for outcome in outcomes if _trouble(outcome)]
    raise RuntimeError(f"after {_MOST_RUNS} runs there is still something to do")


def _trouble(outcome: Outcome) -> Failure | None:
    return lasting_failure(outcome) or (outcome.checksum_failure if isinstance(outcome, CommitOutcome) else None)


def _watch(job: Job) -> Report:
    """What became of the mirror, and of the lake."""
    with _Struck(job) as mirror, Catalog(job.url) as catalog:
        arm_stores(Fuse(0), _note_writes(job))
        stores = stores_of(catalog, job.storage)
        left = tags(stores)
        troubles = _mirror_again(job)
        before = _dump(catalog)
        mirror.wake()
        return {
            "struck": mirror.struck,
            "steps": int(job.steps.read_text()) if job.steps.exists() else None,
            "left": left,
            "tags": tags(stores),
            "troubles": troubles,
            "woke harmlessly": _dump(catalog) == before,
            "temporaries": names_of_temporaries(stores),
            "written": [line.split() for line in job.written.read_text().splitlines()],
            "seen": seen(catalog, job.storage),
        }


def _dump(catalog: Catalog) -> str:
    with catalog.database.read() as connection:
        return dump(connection)


def _finish(work: Callable[[], object], job: Job, name: str) -> None:
    """Do the work of a forked process, note its answer or its trouble, and end without unwinding."""
    try:
        answer = {"report": work()}
        (Path(job.folder) / name).write_text(json.dumps(answer))
    except BaseException:  # noqa: BLE001  the test that asked is told, whatever it is
        (Path(job.folder) / name).write_text(json.dumps({"trouble": traceback.format_exc()}))
        os._exit(1)
    os._exit(0)


def answer(request: dict[str, Any]) -> list[Report]:
    """Do jobs, as many at once as there are databases for them; the reports, in the order of the jobs."""
    free, waiting = list(request["urls"]), [dict(job) for job in reversed(request["jobs"])]
    running: dict[int, Job] = {}
    done: list[Job] = []
    while waiting or running:
        if waiting and free:
            job = Job(url=free.pop(), **waiting.pop())
            Path(job.folder).mkdir(parents=True)
            if (child := os.fork()) == 0:
                _finish(lambda job=job: _watch(job), job, "watcher")  # type: ignore[misc]
            running[child] = job
        else:
            child, _ = os.waitpid(-1, 0)
            done.append(running.pop(child))
            free.append(done[-1].url)
    return [_report(job) for job in sorted(done, key=lambda job: job.at)]


def _report(job: Job) -> Report:
    found = json.loads((Path(job.folder) / "watcher").read_text())
    if "trouble" in found:
        raise RuntimeError(f"struck before step {job.at}: {found['trouble']}")
    report: Report = found["report"]
    return {"at": job.at, **report}


if __name__ == "__main__":
    import_everything()
    serve(take_stdout(), "mirrors", answer)
