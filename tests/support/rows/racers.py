"""Drivers that change the rows of the same tables at the same time, each in a process of its own.

As a program: ``python -m tests.support.rows.racers URL DRIVERS ROUNDS`` forks the drivers, which begin each round
together, and prints what each was told, as JSON.
"""

import json
import multiprocessing
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltamirror import Catalog, Insert, Transaction, Update
from deltamirror.errors import Conflict

_ROOT = Path(__file__).parents[3]

Answers = dict[str, int]
"""How often each kind of change took place (``update``), or was refused (``update: concurrent-append``)."""


def race(url: str, drivers: int, rounds: int) -> list[Answers]:
    """What drivers were told who changed the tables ``a`` and ``b``, partitioned by ``p``, for some rounds."""
    command = [sys.executable, "-m", "tests.support.rows.racers", url, str(drivers), str(rounds)]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, timeout=600)
    answers: list[Answers] = json.loads(done.stdout)
    return answers


def _both(change: Callable[[Transaction, str], None]) -> Callable[[Transaction], None]:
    def changing(tx: Transaction) -> None:
        for table in ("a", "b"):
            change(tx, table)

    return changing


def _row(n: int, p: str) -> pa.Table:
    return pa.table({"n": [n], "p": [p]})


def _changes(driver: int) -> dict[str, Callable[[Transaction], None]]:
    own = f"p = 'own-{driver}'"
    return {
        "append": _both(lambda tx, table: tx.append(table, _row(0, "appended"))),
        "own": _both(lambda tx, table: tx.update(table, {"n": "n + 1"}, own)),
        "update": _both(lambda tx, table: tx.update(table, {"n": "n + 1"}, "p = 'shared'")),
        "merge": _both(
            lambda tx, table: tx.merge(
                table, _row(0, "merged"), ["p"], matched=Update({"n": "target.n + 1"}), not_matched=Insert()
            )
        ),
    }


def _drive(url: str, driver: int, rounds: int, wait: Callable[[], object], answers: Any) -> None:
    told: Counter[str] = Counter()
    with Catalog(url) as catalog:
        for _ in range(rounds):
            for name, change in _changes(driver).items():
                wait()
                try:
                    with catalog.transaction() as tx:
                        change(tx)
                        wait()  # all have looked at the tables
                    told[name] += 1
                except Conflict as conflict:
                    told[f"{name}: {conflict.reason}"] += 1
    answers.put(dict(told))


def _main(url: str, drivers: int, rounds: int) -> None:
    for module in ("deltamirror.rows.rewriting", "deltamirror.rows.scanning"):
        import_module(module)
    forking = multiprocessing.get_context("fork")
    barrier, answers = forking.Barrier(drivers), forking.SimpleQueue()
    running = [forking.Process(target=_drive, args=(url, n, rounds, barrier.wait, answers)) for n in range(drivers)]
    for each in running:
        each.start()
    print(json.dumps([answers.get() for _ in running]))  # noqa: T201 - the answer of this program
    for each in running:
        each.join()


if __name__ == "__main__":
    _main(sys.argv[1], *(int(each) for each in sys.argv[2:]))
