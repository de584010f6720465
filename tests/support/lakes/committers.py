"""Writers that commit at the same time: processes, or threads where one process has the database to itself.

As a program: ``python -m tests.support.lakes.committers URL WRITERS`` is the foreman. It knows the libraries before it
forks the writers, which begin at once, and prints what they were told, as JSON.
"""

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, TypedDict

from deltamirror import Add, Catalog
from deltamirror.errors import Conflict
from tests.support.lakes.lake import add, opened

COMMITS, EXACT = 50, 5
"""The commits of each writer; the last few ask for an exact version, until they get one."""

_ROOT = Path(__file__).parents[3]


class Told(TypedDict):
    """What one writer was told: the versions of its commits, and of each conflict what it named."""

    versions: list[int]
    conflicts: list[tuple[str, int, int]]


def in_processes(url: str, writers: int) -> list[Told]:
    """The answers to writers in processes of their own."""
    command = [sys.executable, "-m", "tests.support.lakes.committers", url, str(writers)]
    done = subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, timeout=600)
    told: list[Told] = json.loads(done.stdout)
    return told


def in_threads(catalog: Catalog, writers: int) -> list[Told]:
    """The answers to writers in threads that share one catalog."""
    barrier = Barrier(writers)
    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(lambda number: _commit_all(catalog, number, barrier.wait), range(writers)))


def _commit_all(catalog: Catalog, number: int, wait: Callable[[], object]) -> Told:
    table, told = catalog.table("t"), Told(versions=[], conflicts=[])
    wait()
    for turn in range(COMMITS):
        file = add(f"{number}-{turn}")
        exact = turn >= COMMITS - EXACT
        told["versions"].append(_commit_exactly(catalog, file, told) if exact else table.append([file]).versions["t"])
    return told


def _commit_exactly(catalog: Catalog, file: Add, told: Told) -> int:
    version = catalog.writer.next_version("t")
    while True:
        try:
            return catalog.writer.commit_at("t", version, [file]).versions["t"]
        except Conflict as conflict:
            actual = conflict.actual_version or 0
            told["conflicts"].append((conflict.table, conflict.read_version or 0, actual))
            version = actual + 1


def _write(url: str, number: int, wait: Callable[[], object], answers: Any) -> None:
    with opened(url) as catalog:
        answers.put(_commit_all(catalog, number, wait))


def _main(url: str, writers: int) -> None:
    forking = multiprocessing.get_context("fork")
    barrier, answers = forking.Barrier(writers), forking.SimpleQueue()
    running = [forking.Process(target=_write, args=(url, n, barrier.wait, answers)) for n in range(writers)]
    for process in running:
        process.start()
    sys.stdout.write(json.dumps([answers.get() for _ in running]))
    for process in running:
        process.join()


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
