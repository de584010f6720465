"""A store that is down is left alone by all services that share a catalog, until one unit of work finds it back."""

import dataclasses
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.errors import DeltaMirrorError, PermissionDenied, Unavailable
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.pipeline.run.execution import failed
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState, all_breakers, breaker_events_of, change_breaker
from deltamirror.work import Outcome, Stage, Unit
from tests.support.lakes.lake import add, execute
from tests.support.mirrors.local import (
    ScriptedRunner,
    append,
    committed_files,
    following,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
)

pytestmark = [pytest.mark.requirement("R55"), pytest.mark.default_on("sqlite")]

DISK = "file:///"
HOURS: dict[str, Any] = {"retry_base": 3600.0, "retry_max": 3600.0, "breaker_pause": 3600.0}
FAR = 4_000_000_000_000


@dataclass
class Outage:
    """Tables whose store fails, while it does; and the tables whose units were begun, one entry each."""

    tables: set[str]
    error: DeltaMirrorError = field(default_factory=lambda: Unavailable("the store is away"))
    begun: list[str] = field(default_factory=list)

    def __call__(self, unit: Unit) -> Outcome | None:
        self.begun.append(unit.table)
        return failed(unit, self.error, Stage.PUT) if unit.table in self.tables else None


@contextmanager
def mirror_amid(catalog: Catalog, outage: Outage, **changed: Any) -> Iterator[MirrorEngine]:
    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), outage)
    with mirror_of(catalog, runner=runner, **changed) as engine:
        yield engine


def breaker_in(catalog: Catalog, store: str = DISK) -> Breaker:
    with catalog.database.read() as connection:
        found = {each.store: each for each in all_breakers(connection)}
    return found.get(store, Breaker(store=store))


def states_in(catalog: Catalog, store: str = DISK) -> list[str]:
    with catalog.database.read() as connection:
        return [event.state for event in reversed(breaker_events_of(connection, store, limit=100))]


def put(catalog: Catalog, breaker: Breaker) -> None:
    """Bring a breaker into a state."""
    with catalog.database.write() as session:
        change_breaker(session, breaker.store, lambda *_: breaker, owner="a test", reason=lambda _: "a test")


def leave_alone(catalog: Catalog, store: str = DISK, *, until: int = FAR) -> None:
    put(catalog, Breaker(store=store, state=BreakerState.OPEN, failures=5, retry_at=until, error_code="unavailable"))


def elsewhere(catalog: Catalog, name: str, folder: Path) -> Table:
    """A table in another store than the local disk."""
    return catalog.create_table(name, location=f"memory://{folder.name}-{name}/{name}", schema="id long")


@pytest.mark.default_on("sqlite", "postgresql")
def test_services_share_what_they_know_of_a_store_and_tables_of_others_go_on(catalog: Catalog, tmp_path: Path) -> None:
    down = [make_table(catalog, tmp_path, name) for name in ("a", "b", "c")]
    other, outage = elsewhere(catalog, "other", tmp_path), Outage({"a", "b", "c"})
    with mirror_amid(catalog, outage, **HOURS) as one, mirror_amid(catalog, outage, **HOURS) as two:
        assert one.run(once=True).versions == 1
        assert (breaker_in(catalog).state, breaker_in(catalog).failures) == (BreakerState.CLOSED, 3)
        two.run(once=True)
        opened = breaker_in(catalog)
        assert (opened.state, opened.failures, opened.error_code) == (BreakerState.OPEN, 5, "unavailable")
        assert opened.retry_at == opened.changed_at + 3_600_000
        # Nothing is begun any more, be it the last unit of the job that met the fifth failure.
        assert len(outage.begun) == 6
        append(down[0])
        append(other, 2)
        with following(one), following(two):
            catalog.wait_until_published({"other": 2}, seconds=60)
        assert [table for table in outage.begun if table != "other"] == ["a", "b", "c", "a", "b"]
    with (
        mirror_amid(catalog, outage, **HOURS) as three,
        pytest.raises(Unavailable, match=r"until .*; next probe then; 5 failures in a row, the last: unavailable"),
    ):
        three.mirror("a")
    assert published_files(down[0]) == {}


@pytest.mark.default_on("sqlite")
def test_one_unit_tries_the_store_and_when_it_is_back_all_tables_go_on_at_once(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = [make_table(catalog, tmp_path, name) for name in "abcdef"]
    outage = Outage(set("abcdef"))
    with (
        mirror_amid(catalog, outage, **HOURS) as engine,
        caplog.at_level(logging.DEBUG, "deltamirror.pipeline.failures.circuit"),
    ):
        engine.run(once=True)
        assert breaker_in(catalog).state is BreakerState.OPEN
        assert outage.begun == list("abcde")
        engine.run(once=True)
        # One that was not tried before; that it fails is another pause.
        assert outage.begun == list("abcdef")
        assert breaker_in(catalog).state is BreakerState.OPEN
        outage.tables.clear()
        assert engine.run(once=True).versions == 6
        assert breaker_in(catalog).state is BreakerState.CLOSED
    assert all(published_files(table) == committed_files(table) for table in tables)
    assert states_in(catalog) == ["open", "half-open", "open", "half-open", "closed"]
    said = [message.split(":")[0] for message in caplog.messages if "file:///" in message]
    assert len(said) == 5


def test_after_the_pause_services_try_by_themselves(catalog: Catalog, tmp_path: Path) -> None:
    tables = [make_table(catalog, tmp_path, name) for name in "ab"]
    outage = Outage(set("ab"))
    patient = {"attempts": 3, "retry_permanent": 3600.0, "breaker_pause": 0.01}
    with mirror_amid(catalog, outage, **patient) as engine, following(engine):
        opened = threading.Event()
        while not opened.wait(0.01):
            if len(states_in(catalog)) > 3:
                opened.set()
        outage.tables.clear()
        catalog.wait_until_published({"a": 0, "b": 0}, seconds=60)
    assert all(published_files(table) == committed_files(table) for table in tables)


def test_the_trouble_of_one_table_never_keeps_another_one_from_its_store(catalog: Catalog, tmp_path: Path) -> None:
    make_table(catalog, tmp_path, "poisoned")
    fine, outage = make_table(catalog, tmp_path, "fine"), Outage({"poisoned"})
    with mirror_amid(catalog, outage, **HOURS) as engine:
        engine.run(once=True)
        for _ in range(12):
            engine.run(once=True)
        assert (breaker_in(catalog).state, breaker_in(catalog).failures) == (BreakerState.CLOSED, 12)
        append(fine)
        assert engine.run(once=True).versions == 1
        assert breaker_in(catalog).failures <= 1


def test_a_table_that_stays_in_trouble_does_not_keep_a_store_from_being_found_back(
    catalog: Catalog, tmp_path: Path
) -> None:
    tables = {name: make_table(catalog, tmp_path, name) for name in ("poisoned", "fine")}
    outage = Outage({"poisoned", "fine"})
    with mirror_amid(catalog, outage, breaker_pause=0.01) as engine, following(engine):
        while not states_in(catalog):
            threading.Event().wait(0.01)
        outage.tables.discard("fine")
        append(tables["fine"], 5)
        catalog.wait_until_published({"fine": 5}, seconds=60)
    append(tables["fine"], 3)
    with mirror_amid(catalog, outage, **HOURS) as engine:
        engine.run(once=True)
    assert (breaker_in(catalog).state, tables["fine"].info().published) == (BreakerState.CLOSED, 8)


def test_the_only_table_of_a_store_speaks_for_it(catalog: Catalog, tmp_path: Path) -> None:
    make_table(catalog, tmp_path, "alone")
    make_table(catalog, tmp_path, "paused")
    catalog.pause("paused", unpublished=True)
    elsewhere(catalog, "other", tmp_path)
    with mirror_amid(catalog, Outage({"alone"}), **HOURS) as engine:
        for _ in range(5):
            assert breaker_in(catalog).state is BreakerState.CLOSED
            engine.run(once=True)
    assert breaker_in(catalog).state is BreakerState.OPEN


def test_two_tables_in_trouble_open_no_circuit_for_a_third_that_was_served(catalog: Catalog, tmp_path: Path) -> None:
    tables = {name: make_table(catalog, tmp_path, name) for name in ("bad", "worse", "fine")}
    with mirror_amid(catalog, Outage({"bad", "worse"}), **HOURS) as engine:
        for _ in range(6):
            engine.run(once=True)
        assert breaker_in(catalog).failures >= 10
        append(tables["fine"])
        with following(engine):
            catalog.wait_until_published({"fine": 1}, seconds=60)
    assert states_in(catalog) == []


@pytest.mark.default_on("sqlite")
def test_an_open_circuit_holds_back_no_table_that_the_store_served_and_that_did_not_fail(
    catalog: Catalog, tmp_path: Path
) -> None:
    tables = {name: make_table(catalog, tmp_path, name) for name in ("fresh", "bad", "worse", "worst", "fine")}
    outage = Outage({"bad", "worse", "worst"})
    with mirror_amid(catalog, outage, **HOURS) as engine:
        engine.mirror("fine")
        for name in sorted(outage.tables):
            with pytest.raises(Unavailable):
                engine.mirror(name)
        away = Breaker(store=DISK, state=BreakerState.OPEN, changed_at=FAR, retry_at=FAR + 3_600_000)
        put(catalog, away)
        outage.begun.clear()
        for table in tables.values():
            append(table)
        with following(engine):
            catalog.wait_until_published({"fine": 1}, seconds=60)
    assert outage.begun == ["fine"]
    # That the store served one brings the next probe forward.
    assert breaker_in(catalog) == dataclasses.replace(away, retry_at=FAR + 1_800_000)


@pytest.mark.default_on("sqlite")
def test_the_table_that_failed_least_tries_the_store(catalog: Catalog, tmp_path: Path) -> None:
    for name in ("long", "short"):
        make_table(catalog, tmp_path, name)
    outage = Outage({"long", "short"})
    with mirror_amid(catalog, outage, **HOURS) as engine:
        for name in ("long", "long", "short"):
            with pytest.raises(Unavailable):
                engine.mirror(name)
        leave_alone(catalog)
        outage.begun.clear()
        engine.run(once=True)
    assert outage.begun == ["short"]


@pytest.mark.default_on("sqlite")
def test_tables_that_failed_hang_in_a_job_of_their_own(catalog: Catalog, tmp_path: Path) -> None:
    tables = {name: make_table(catalog, tmp_path, name) for name in ("bad", "worse", "fine")}
    hangs, begun, free = threading.Event(), threading.Semaphore(0), threading.Event()

    def script(unit: Unit) -> Outcome | None:
        if hangs.is_set() and unit.table != "fine":
            begun.release()
            free.wait(60)
        return failed(unit, Unavailable("away"), Stage.PUT) if unit.table != "fine" else None

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner, concurrency=2, breaker_enabled=False) as engine:
        engine.run(once=True)
        hangs.set()
        with following(engine):
            assert begun.acquire(timeout=60)
            append(tables["fine"], 3)
            catalog.wait_until_published({"fine": 3}, seconds=60)
            free.set()
    assert not any({"fine", "bad"} <= {unit.table for unit in job} for job in runner.jobs[1:])


@pytest.mark.requirement("R83")
def test_what_the_store_answers_is_no_outage(catalog: Catalog, tmp_path: Path) -> None:
    for name in "ab":
        make_table(catalog, tmp_path, name)
    with mirror_amid(catalog, Outage({"a", "b"}, PermissionDenied("not you")), **HOURS) as engine:
        for _ in range(5):
            assert len(engine.run(once=True).failures) == 2
    assert breaker_in(catalog) == Breaker(store=DISK)


def test_checkpoints_and_writers_that_publish_leave_the_store_alone_too(lake_url: str, tmp_path: Path) -> None:
    settings = local_settings(Settings(), inline=True, inline_timeout=30.0, breaker_pause=3600.0)
    with Catalog(lake_url, settings=settings) as catalog:
        table = make_table(catalog, tmp_path)
        append(table, 2)
        assert table.info().published == 2
        leave_alone(catalog)
        append(table)
        assert (table.info().head, table.info().published) == (3, 2)
        outage = Outage(set())
        with mirror_amid(catalog, outage, **HOURS) as engine, pytest.raises(Unavailable, match="; next probe then; "):
            engine.checkpoint("t")
        assert outage.begun == []
        assert not list(log_of(table).glob("*.parquet"))


@pytest.mark.default_on("sqlite", "postgresql")
def test_while_one_service_tries_the_others_wait_and_a_prober_that_died_is_replaced(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 2)
    tried = Breaker(store=DISK, state=BreakerState.HALF_OPEN, failures=5, retry_at=FAR, prober="another service")
    put(catalog, tried)
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).versions == 0
        assert breaker_in(catalog) == tried
        execute(catalog, "UPDATE dl_breakers SET retry_at = 1")
        assert engine.run(once=True).versions == 3
    assert breaker_in(catalog).state is BreakerState.CLOSED


def test_a_job_that_fails_as_a_whole_lets_another_one_try(catalog: Catalog, tmp_path: Path) -> None:
    make_table(catalog, tmp_path)
    leave_alone(catalog, until=1)

    def script(unit: Unit) -> Outcome | None:
        raise Unavailable("Spark is away")

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner, **HOURS) as engine, pytest.raises(Unavailable, match="Spark"):
        engine.run(once=True)
    found = breaker_in(catalog)
    assert (found.state, found.prober, found.retry_at) == (BreakerState.HALF_OPEN, None, None)


def test_trouble_while_a_store_is_to_be_tried_keeps_no_table_of_another_one(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(catalog, tmp_path)
    elsewhere(catalog, "other", tmp_path)
    leave_alone(catalog, until=1)

    def trouble(*_: object) -> bool:
        raise Unavailable("the database is away")

    with mirror_of(catalog, **HOURS) as engine, mirror_of(catalog, **HOURS) as another:
        with monkeypatch.context() as patch:
            patch.setattr(Breakers, "begin_trying", trouble)
            with pytest.raises(Unavailable, match="database"):
                engine.run(once=True)
        assert another.run(once=True).versions == 2


def test_switched_off_a_breaker_neither_counts_nor_keeps_anybody_away(catalog: Catalog, tmp_path: Path) -> None:
    tables = [make_table(catalog, tmp_path, name) for name in "abc"]
    outage = Outage(set("abc"))
    with mirror_amid(catalog, outage, **HOURS, breaker_enabled=False) as engine:
        for _ in range(3):
            engine.run(once=True)
        assert (len(outage.begun), breaker_in(catalog)) == (9, Breaker(store=DISK))
        leave_alone(catalog)
        outage.tables.clear()
        assert engine.run(once=True).versions == 3
    assert all(published_files(table) == committed_files(table) for table in tables)


def test_a_bucket_of_the_same_name_at_another_endpoint_is_another_store(catalog: Catalog) -> None:
    def shut(endpoint: str | None) -> list[str]:
        settings = replace(Settings(), storage=StorageSettings(endpoint=endpoint))
        return sorted(Breakers(catalog.database, settings, owner="me").gate().shut)

    for store in ("s3://lake/ at https://one", "s3://other/", DISK):
        leave_alone(catalog, store)
    assert shut("https://one") == shut("https://one/") == [DISK, "s3://lake/"]
    assert shut("https://two") == [DISK]
    assert shut(None) == [DISK, "s3://other/"]


@pytest.mark.parametrize(
    ("error", "failures", "state"),
    [(Unavailable("still away"), 6, BreakerState.OPEN), (PermissionDenied("not you"), 5, BreakerState.HALF_OPEN)],
)
def test_a_look_at_a_log_that_fails_opens_the_circuit_again_if_it_tells_of_the_store(
    catalog: Catalog, error: DeltaMirrorError, failures: int, state: BreakerState
) -> None:
    leave_alone(catalog, until=1)
    breakers = Breakers(catalog.database, local_settings(**HOURS), owner="me")
    with pytest.raises(type(error)), breakers.looking("file:///lake/t"):
        raise error
    found = breaker_in(catalog)
    assert (found.state, found.failures, found.prober) == (state, failures, None)
    assert (found.retry_at == found.changed_at + 3_600_000) is (state is BreakerState.OPEN)


@pytest.mark.requirement("R48")
@pytest.mark.requirement("R50")
def test_the_times_of_retries_are_kept_and_grow_up_to_the_longest(catalog: Catalog, tmp_path: Path) -> None:
    table = make_table(catalog, tmp_path)
    outage, gaps = Outage({"t"}), []
    with mirror_amid(catalog, outage, retry_base=1.0, retry_max=8.0, attempts=2, breaker_enabled=False) as engine:
        for _ in range(6):
            with pytest.raises(Unavailable):
                engine.mirror("t")
            [(attempted, due)] = execute(catalog, "SELECT updated_at, next_attempt_at FROM dl_mirror_status")
            gaps.append((due - attempted) / 1000)
        outage.tables.clear()
        assert engine.mirror("t").published == 0
    for gap, nominal in zip(gaps, [1, 2, 4, 8, 8, 8], strict=True):
        assert 0.9 * nominal - 0.002 <= gap <= 1.1 * nominal
    assert published_files(table) == committed_files(table)
    assert table.append([add("after")]).versions


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R52")
def test_a_commit_brings_a_permanent_failure_forward(catalog: Catalog, tmp_path: Path) -> None:
    table, outage = make_table(catalog, tmp_path), Outage({"t"}, PermissionDenied("not you"))
    with mirror_amid(catalog, outage, retry_max=0.05, retry_permanent=3600.0) as engine:
        engine.run(once=True)
        outage.tables.clear()
        append(table)
        with following(engine):
            catalog.wait_until_published({"t": 1}, seconds=60)


@pytest.mark.default_on("sqlite")
def test_a_commit_does_not_bring_a_failure_forward_before_the_longest_pause(catalog: Catalog, tmp_path: Path) -> None:
    table, other = make_table(catalog, tmp_path), elsewhere(catalog, "other", tmp_path)
    outage = Outage({"t"}, PermissionDenied("not you"))
    with mirror_amid(catalog, outage, retry_max=3600.0, retry_permanent=7200.0) as engine:
        engine.run(once=True)
        append(table)
        append(other)
        with following(engine):
            catalog.wait_until_published({"other": 1}, seconds=60)
    assert outage.begun.count("t") == 1


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R52")
def test_a_recovery_brings_the_other_tables_of_the_store_forward(catalog: Catalog, tmp_path: Path) -> None:
    for name in "abc":
        make_table(catalog, tmp_path, name)
    outage = Outage(set("abc"), PermissionDenied("not you"))
    with mirror_amid(catalog, outage, retry_max=0.05, retry_permanent=3600.0) as engine:
        engine.run(once=True)
        outage.tables.clear()
        append(catalog.table("b"))
        with following(engine):
            catalog.wait_until_published({"a": 0, "b": 1, "c": 0}, seconds=60)


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R52")
def test_a_success_elsewhere_in_the_store_brings_a_failure_forward(catalog: Catalog, tmp_path: Path) -> None:
    tables = {name: make_table(catalog, tmp_path, name) for name in ("down", "fine")}
    outage = Outage({"down"})
    with mirror_amid(catalog, outage, **HOURS) as engine:
        engine.run(once=True)
        with pytest.raises(Unavailable):
            engine.mirror("down")
        execute(catalog, "UPDATE dl_mirror_status SET updated_at = updated_at - 3600000 WHERE state = 'FAILED'")
        outage.tables.clear()
        append(tables["fine"])
        with following(engine):
            catalog.wait_until_published({"fine": 1, "down": 0}, seconds=60)
