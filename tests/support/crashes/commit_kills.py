"""Commits in processes that kill themselves (kill -9) before a chosen step, as a worker that forks for each of them.

The worker has imported everything and never touches a database itself, so that a fork of it is quick and safe.
"""

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from deltamirror import Add, Catalog, Insert
from deltamirror.catalog import Committed, Transaction
from deltamirror.config import Settings
from tests.support.crashes.forking import import_everything
from tests.support.crashes.fuses import Fuse, arm_database, arm_stores
from tests.support.suite.worker import serve, take_stdout

_STAGE_ABOVE = 3
_LARGE = 8


def open_catalog(url: str) -> Catalog:
    """A catalog that stages commits of more than a few lines, in chunks of two."""
    settings = Settings()
    small = replace(settings.catalog, stage_above=_STAGE_ABOVE, chunk_lines=2)
    return Catalog(url, settings=replace(settings, catalog=small))


def path_of(step: int, number: int = 0) -> str:
    """The path of a file that a step of a test adds."""
    return f"f-{step:03d}-{number}.parquet"


def _file(path: str) -> Add:
    return Add(path=path, partition_values={}, size=1, modification_time=1, data_change=True, stats='{"numRecords":1}')


def _append(tx: Transaction, step: int) -> None:
    tx.append("t", [_file(path_of(step))])


def _two_tables(tx: Transaction, step: int) -> None:
    """Replace the file of the step before in one table, add one to the other, record the progress in both."""
    tx.remove("t", [path_of(step - 1)])
    tx.append("t", [_file(path_of(step))])
    tx.append("u", [_file(path_of(step))])
    tx.set_transaction("t", "app", step)
    tx.set_transaction("u", "app", step)


def _large(tx: Transaction, step: int) -> None:
    """More lines than are kept in memory; some add files, one removes."""
    tx.remove("t", [path_of(step - 1)])
    tx.append("t", [_file(path_of(step, number)) for number in range(_LARGE)])


SCENARIOS: dict[str, Callable[[Transaction, int], None]] = {
    "append": _append,
    "append without a token": _append,
    "two tables": _two_tables,
    "large": _large,
}


def _edit(tx: Transaction, step: int) -> None:
    """Change the rows of three tables, each in another way, by files that are written anew."""
    tx.update("updated", {"n": "n + 1"})
    tx.delete("deleted", f"n = {step}")
    tx.merge("merged", pa.table({"n": [step]}), ["n"], not_matched=Insert())


EDIT = "edit of rows"
"""A scenario over tables with rows, which also puts objects."""


def perform(catalog: Catalog, scenario: str, step: int) -> Committed:
    """One commit of a scenario. The same step with a token is the same transaction."""
    token = None if scenario.endswith("without a token") else f"{scenario}-{step}"
    with catalog.transaction(token=token) as tx:
        (_edit if scenario == EDIT else SCENARIOS[scenario])(tx, step)
    return tx.result


def _commit_and_die(request: dict[str, Any]) -> dict[str, object]:
    with open_catalog(request["url"]) as catalog:
        fuse = Fuse(request["kill_before"])
        arm_database(fuse)
        if request["scenario"] == EDIT:
            arm_stores(fuse, lambda *_: None, puts_only=True)
        versions = perform(catalog, request["scenario"], request["step"]).versions
        return {"versions": dict(versions), "moments": fuse.passed}


def _in_child(request: dict[str, Any], reply: int) -> None:
    try:
        answer = _commit_and_die(request)
    except BaseException as error:  # noqa: BLE001  the test that asked is told, whatever it is
        answer = {"error": f"{type(error).__name__}: {error}"}
    os.write(reply, json.dumps(answer).encode())
    os._exit(0)


def answer(request: dict[str, Any]) -> dict[str, object]:
    """Fork; the child commits, and may die of it."""
    incoming, outgoing = os.pipe()
    child = os.fork()
    if child == 0:
        _in_child(request, outgoing)
    os.close(outgoing)
    with os.fdopen(incoming) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    reply: dict[str, object] = json.loads(text) if text else {}
    if "error" in reply or not (killed or reply):
        raise RuntimeError(f"the committing process failed (status {status}): {reply.get('error')}")
    return {"killed": killed, **reply}


if __name__ == "__main__":
    import_everything()
    serve(take_stdout(), "committing processes", answer)
