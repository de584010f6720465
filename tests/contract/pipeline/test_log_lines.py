"""What a collector of logs learns: whose a line is, which attempt it is of, and what else is of the same work."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deltamirror import Catalog, MirrorEngine
from deltamirror.errors import Unavailable
from deltamirror.ops.reconcile.background import BackgroundReconciler
from deltamirror.ops.reconcile.reconciling import Reconciler, Strategy, TableReconciled
from deltamirror.storage.store import Store
from deltamirror.txnlog.queue.expected_objects import KeptLog
from tests.support.lakes.lake import execute
from tests.support.logs.commit_units import watched
from tests.support.mirrors.local import append, following, local_settings, log_of, make_table, mirror_of
from tests.support.mirrors.reconcilers import comparing_every, reconciled, reconciling
from tests.support.monitoring.log_lines import Line, json_lines
from tests.support.stores.faulty import runner_over

pytestmark = pytest.mark.requirement("R86")

MANY = 25


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    """Of one database: what is said does not depend on which."""
    with Catalog(sqlite_lake) as opened:
        yield opened


class Outage:
    """A store whose puts fail while it lasts."""

    lasts = True

    def wrap(self, store: Store) -> Store:
        return watched(store, before=self._put)[0]

    def _put(self, operation: str, key: str) -> None:
        if self.lasts and operation in ("create", "replace", "put"):
            raise Unavailable(f"injected: {key}")


@contextmanager
def mirror_amid(catalog: Catalog, outage: Outage, **changed: Any) -> Iterator[MirrorEngine]:
    runner = runner_over(catalog, local_settings(**changed), outage.wrap)
    with mirror_of(catalog, runner=runner, **changed) as engine:
        yield engine


def wait_for_attempts(catalog: Catalog, count: int) -> None:
    """Wait for what the service does; it has a minute."""
    deadline = time.monotonic() + 60
    while execute(catalog, "SELECT count(*) FROM dl_mirror_attempts")[0][0] < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def of(line: Line, *names: str) -> tuple[object, ...]:
    return tuple(line.get(name) for name in names)


def test_lines_of_a_failure_have_the_fields_of_its_table_and_one_trace_for_the_job(
    catalog: Catalog, tmp_path: Path
) -> None:
    ids = {name: make_table(catalog, tmp_path, name).info().id for name in "ab"}
    with (
        mirror_amid(catalog, Outage(), attempts=2, retry_base=3600.0, retry_max=3600.0) as engine,
        json_lines() as lines,
    ):
        engine.run(once=True)
        first, lines[:] = list(lines), []
        engine.run(once=True)
    fields = ("table", "table_id", "version", "attempt", "stage", "code")
    assert sorted(of(line, *fields) for line in first) == [
        (each, ids[each], 0, 1, "put", "unavailable") for each in "ab"
    ]
    escalated = [of(line, "table", "table_id", "version", "attempt") for line in lines if line["level"] == "error"]
    assert sorted(escalated) == [(each, ids[each], 0, 2) for each in "ab"]
    # One job has the tables of one store; the next pass is another one.
    [one], [other] = {line["trace"] for line in first}, {line["trace"] for line in lines}
    assert one != other


def test_the_line_of_a_quarantine_has_the_fields_of_its_table(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 3)
    with reconciling(catalog) as engine, json_lines() as lines:
        engine.run(once=True)
        (log_of(table) / f"{2:020}.json").write_bytes(b"{}\n")
        reconciled(engine, Strategy.FULL)
    [said] = [line for line in lines if "is in quarantine" in line["message"]]
    assert of(said, "level", "table", "table_id", "version") == ("error", "t", table.info().id, 2)


@pytest.mark.parametrize("breaker", [True, False])
def test_an_outage_is_told_of_once_however_often_it_is_tried(catalog: Catalog, tmp_path: Path, breaker: bool) -> None:
    for name in "ab":
        append(make_table(catalog, tmp_path, name), 2)
    outage = Outage()
    quick = {"breaker_enabled": breaker, "breaker_pause": 0.01, "attempts": 3, "retry_permanent": 0.02}
    with mirror_amid(catalog, outage, **quick) as engine, json_lines() as lines, following(engine):
        wait_for_attempts(catalog, MANY)
        outage.lasts = False
        catalog.wait_until_published({"a": 2, "b": 2}, seconds=60)
    said = [" ".join(line["message"].split()[:7]) for line in lines if line["level"] in ("warning", "error")]
    failed, escalated = ([f"version 0 of table '{each}' failed {how}" for each in "ab"] for how in ("at", "3"))
    store = [f"the circuit for file:/// is {state}" for state in ("open until", "closed: it")] if breaker else []
    assert sorted(said) == sorted([*failed, *escalated, *store])


class Unreachable(Reconciler):
    """Looks at logs in a store that does not answer."""

    looked = 0

    def look(self, log: KeptLog) -> TableReconciled:
        self.looked += 1
        raise Unavailable("injected")


def test_a_log_that_cannot_be_compared_is_told_of_once(catalog: Catalog, tmp_path: Path) -> None:
    with json_lines() as lines, mirror_of(catalog) as engine:
        table = make_table(catalog, tmp_path)
        engine.run(once=True)
        reconciler = Unreachable.__new__(Unreachable)
        with BackgroundReconciler(catalog.database, reconciler, live=comparing_every(0.01), ending=engine.ending):
            deadline = time.monotonic() + 60
            while reconciler.looked < MANY:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert [of(line, "table", "table_id", "code") for line in lines] == [("t", table.info().id, "unavailable")]
        assert lines[0]["trace"]
