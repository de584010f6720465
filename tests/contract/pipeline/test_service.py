"""The service goes on, whatever a job, a callback or a thread meets; it says so, and never in a tight loop."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.errors import Internal, Unavailable
from deltamirror.pipeline.plan import planning
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.service import engine as engine_module
from deltamirror.pipeline.service import heartbeat, lanes, service
from deltamirror.pipeline.service.first_look import Outlook
from deltamirror.pipeline.service.service import Service
from deltamirror.steps import Step
from deltamirror.txnlog.database.access import Session
from deltamirror.work import Lane, Lease, Outcome, Unit
from tests.support.mirrors.local import ScriptedRunner, append, following, local_settings, make_table, mirror_of, until

pytestmark = pytest.mark.requirement("R58")

SECRET = "postgresql://me:hunter2@db/lake"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """One database is enough: the service does not depend on which it is."""
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as found:
        found.init()
        yield found


class Gate:
    """The script of a runner whose units wait until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def __call__(self, unit: Unit) -> Outcome | None:
        self.reached.set()
        self.opened.wait(120)
        return None


def pauses(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().split(":")[0] for record in caplog.records if "pauses for" in record.getMessage()]


def test_a_callback_that_fails_is_heard_of_and_the_pauses_grow_until_it_does_not(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_FIRST_PAUSE", 0.1)
    for name in "abcd":
        make_table(catalog, tmp_path, name)
    heard: list[str] = []

    def observe(outcome: Outcome) -> None:
        heard.append(outcome.table)
        if len(heard) <= 3:
            raise KeyError(f"no answer from {SECRET}")

    with mirror_of(catalog, batch_tables=1, concurrency=1) as engine:
        thread = threading.Thread(target=engine.run, kwargs={"observe": observe}, daemon=True)
        thread.start()
        catalog.wait_until_published(dict.fromkeys("abcd", 0), seconds=60)
        engine.stop()
        thread.join()
    assert pauses(caplog) == [f"the mirror pauses for {pause} s" for pause in ("0.1", "0.2", "0.4")]
    assert "KeyError" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_callback_that_fails_ends_a_single_run_with_an_error(catalog: Catalog, tmp_path: Path) -> None:
    make_table(catalog, tmp_path)

    def observe(outcome: Outcome) -> None:
        raise SystemExit(3)

    with mirror_of(catalog) as engine, pytest.raises(Internal, match="SystemExit"):
        engine.run(once=True, observe=observe)


def test_work_that_gets_no_thread_is_given_back_and_begun_later(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_FIRST_PAUSE", 0.05)
    make_table(catalog, tmp_path)
    failing = iter([True, True])

    class Stopped(threading.Thread):
        """As where the operating system has no other thread."""

        def start(self) -> None:
            if self.name == "deltamirror-commits" and next(failing, False):
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(threading, "Thread", Stopped)
    with mirror_of(catalog, concurrency=1) as engine:
        with following(engine):
            catalog.wait_until_published({"t": 0}, seconds=60)
        assert engine.status("t")[0].leases == ()
    assert len(pauses(caplog)) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_what_ends_the_loop_gets_out_and_ends_its_threads(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    make_table(catalog, tmp_path)
    out: list[type[BaseException]] = []

    def look(*_: object) -> None:
        raise error

    monkeypatch.setattr(Outlook, "look", look)
    with mirror_of(catalog) as engine:

        def run() -> None:
            try:
                engine.run()
            except error:
                out.append(error)

        before = set(threading.enumerate())
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(30)
        assert out == [error]
        assert set(threading.enumerate()) <= before


def test_large_commits_of_a_store_that_hangs_leave_threads_to_other_stores(catalog: Catalog, tmp_path: Path) -> None:
    for name in "abc":
        make_table(catalog, tmp_path, name)
    release, entered = threading.Event(), threading.Event()
    begun: list[str] = []

    def script(unit: Unit) -> Outcome | None:
        if unit.table in "abc":
            begun.append(unit.table)
            entered.set()
            release.wait(120)
        return None

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner, batch_bytes=1, concurrency=2) as engine, following(engine):
        try:
            assert entered.wait(60)
            other = catalog.create_table("z", location=f"memory://{tmp_path.name}/z", schema="id long")
            append(other)
            catalog.wait_until_published({"z": 1}, seconds=60)
            assert len(begun) == 1
        finally:
            release.set()
        catalog.wait_until_published(dict.fromkeys("abc", 0), seconds=60)


def test_what_waits_for_its_turn_when_the_service_stops_is_given_back(catalog: Catalog, tmp_path: Path) -> None:
    for name in "abc":
        make_table(catalog, tmp_path, name)
    gate = Gate()

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), gate)
    with mirror_of(catalog, runner=runner, batch_bytes=1, concurrency=2) as engine:
        thread = threading.Thread(target=engine.run, daemon=True)
        thread.start()
        try:
            assert gate.reached.wait(60)
            engine.stop()
        finally:
            gate.opened.set()
        thread.join()
        assert [len(status.leases) for status in engine.status()] == [0, 0, 0]
        assert len(runner.jobs) == 1


def test_a_service_that_is_stopped_while_it_begins_a_job_begins_no_other(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        make_table(catalog, tmp_path, name)
    gate = Gate()

    class Slow(threading.Thread):
        """Comes back when the job is over."""

        def start(self) -> None:
            super().start()
            if self.name == "deltamirror-commits":
                self.join(120)

    monkeypatch.setattr(threading, "Thread", Slow)
    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), gate)
    with mirror_of(catalog, runner=runner, batch_bytes=1, concurrency=2) as engine:
        with following(engine):
            assert gate.reached.wait(60)
            engine.stop()
            gate.opened.set()
        assert len(runner.jobs) == 1
        assert [len(status.leases) for status in engine.status()] == [0, 0, 0]


def test_what_becomes_due_while_the_service_looks_for_work_is_done_by_the_same_run(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog, tmp_path, properties={"delta.checkpointInterval": "1"})
    append(table)
    begun, release, start = threading.Event(), threading.Event(), service.Service._start

    def script(unit: Unit) -> Outcome | None:
        begun.set()
        release.wait(120)
        return None

    def found_nothing(self: service.Service) -> bool:
        """The commits are published, and the checkpoint is due, between looking for work and seeing whether any is."""
        started = start(self)
        if not started and begun.is_set():
            release.set()
            while self._is_busy():
                time.sleep(0.01)
        self._wake.set()
        return started

    monkeypatch.setattr(service.Service, "_start", found_nothing)
    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner) as engine:
        assert engine.run(once=True).checkpoints == 1


def test_a_service_whose_watch_meets_a_defect_goes_on_watching(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, wait = make_table(catalog, tmp_path), catalog.database.wait_for_commits
    failing, watching = iter([True, True]), threading.Event()

    def waited(*arguments: Any) -> None:
        if next(failing, False):
            raise KeyError(SECRET)
        watching.set()
        wait(*arguments)

    monkeypatch.setattr(catalog.database, "wait_for_commits", waited)
    with mirror_of(catalog) as engine, following(engine):
        catalog.wait_until_published({"t": 0}, seconds=60)
        assert watching.wait(60)
        append(table)
        catalog.wait_until_published({"t": 1}, seconds=60)
    assert "commits are not announced: KeyError" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_database_that_went_away_amid_a_job_costs_its_tables_no_lease(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(heartbeat, "_OWED_PAUSE", 0.05)
    make_table(catalog, tmp_path)
    away, refused, write = threading.Event(), list[Step](), catalog.database.write

    def script(unit: Unit) -> Outcome | None:
        if not refused:
            away.set()
        return None

    def written(step: Step = Step.WHOLE_OPERATION, **options: Any) -> AbstractContextManager[Session]:
        if away.is_set():
            refused.append(step)
            if refused.count(Step.RELEASE_LEASES) > 2:
                away.clear()
            raise Unavailable("the database is away")
        return write(step, **options)

    monkeypatch.setattr(catalog.database, "write", written)
    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner, lease=3600.0) as engine, following(engine):
        catalog.wait_until_published({"t": 0}, seconds=60)
    assert refused[0] is not Step.RELEASE_LEASES  # the outcome could not be recorded
    assert refused.count(Step.RELEASE_LEASES) > 2


def test_a_beat_that_meets_a_defect_is_not_the_last(
    catalog: Catalog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, renewed = iter([True]), threading.Event()

    def renew(*_: object, **__: object) -> None:
        if next(failing, False):
            raise KeyError(SECRET)
        renewed.set()

    monkeypatch.setattr(heartbeat, "renew", renew)
    with heartbeat.Heartbeat(catalog.database, lambda: {Lane.COMMITS: 0.03}) as beats:
        beats.add([Lease(table_id=1, lane=Lane.COMMITS, owner="me", epoch=1, held_until=0.0)])
        assert renewed.wait(60)
    assert "leases of 1 tables could not be renewed: KeyError" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_lease_that_ends_late_takes_no_later_one_of_its_table_out_of_the_heartbeat(catalog: Catalog) -> None:
    """A job whose outcome is recorded gives its lease back; the next one may begin before it has ended."""
    first, second = (Lease(table_id=1, lane=Lane.COMMITS, owner="me", epoch=each, held_until=0.0) for each in (1, 2))
    with heartbeat.Heartbeat(catalog.database, lambda: {Lane.COMMITS: 60.0}) as beats:
        beats.add([first])
        beats.add([second])
        assert beats.remove([first]) == []
        beats.give_back([first])
        assert beats.remove([second]) == [second]


def test_leases_are_renewed_from_the_claim_until_what_came_of_it_is_recorded(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning may take longer than a lease, and so may the work."""
    beats, seen = list[heartbeat.Heartbeat](), dict[str, bool]()
    add, plan, run = heartbeat.Heartbeat.add, planning.plan_commits, InProcessRunner.run

    def adding(self: heartbeat.Heartbeat, leases: Any) -> None:
        beats.append(self)
        add(self, leases)

    def planned(database: Any, claim: Any, *arguments: Any, **options: Any) -> Any:
        seen["planned"] = claim.lease in beats[-1]._leases.values()
        return plan(database, claim, *arguments, **options)

    def running(self: InProcessRunner, units: Any) -> Any:
        seen["run"] = units[0].lease in beats[-1]._leases.values()
        return run(self, units)

    monkeypatch.setattr(heartbeat.Heartbeat, "add", adding)
    monkeypatch.setattr(lanes, "plan_commits", planned)
    monkeypatch.setattr(InProcessRunner, "run", running)
    make_table(catalog, tmp_path)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        assert seen == {"planned": True, "run": True}
        assert beats[-1]._leases == {}


class SlowRunner(ScriptedRunner):
    """One that takes time to start, as Spark does; ``starting`` may raise."""

    def __init__(self, catalog: Catalog, starting: Callable[[], None]) -> None:
        super().__init__(InProcessRunner(catalog.database, local_settings()), lambda _: None)
        self._starting = starting

    def start(self) -> bool:
        """Takes time."""
        self._starting()
        return True


def on_spark(catalog: Catalog, starting: Callable[[], None]) -> MirrorEngine:
    settings = local_settings()
    settings = replace(settings, mirror=replace(settings.mirror, runner="spark"))
    return MirrorEngine(settings=settings, database=catalog.database, runner=SlowRunner(catalog, starting))


def test_a_service_on_spark_starts_it_before_there_is_a_commit(catalog: Catalog) -> None:
    started = threading.Event()
    with on_spark(catalog, started.set) as engine, following(engine):
        assert started.wait(60)


def test_a_spark_is_looked_after_for_as_long_as_the_service_runs(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Unavailable("the service ends without being stopped")

    monkeypatch.setattr(engine_module, "_RUNNER_IS_LOOKED_AFTER", 0.01)
    monkeypatch.setattr(Service, "run", fail)
    with on_spark(catalog, lambda: None) as engine, pytest.raises(Unavailable, match="ends without being stopped"):
        engine.run()
    until(lambda: not any(thread.name == "deltamirror-start" for thread in threading.enumerate()))


def test_a_spark_that_is_long_in_starting_keeps_no_service_from_ending(catalog: Catalog) -> None:
    starting, released = threading.Event(), threading.Event()

    def start() -> None:
        starting.set()
        released.wait(600)

    with on_spark(catalog, start) as engine:
        with following(engine):
            assert starting.wait(60)
        assert not released.is_set()
        released.set()


def test_a_spark_that_does_not_start_is_told_and_the_first_commit_tries_again(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def start() -> None:
        raise Unavailable("nobody answers")

    table = make_table(catalog, tmp_path)
    with on_spark(catalog, start) as engine, following(engine):
        until(lambda: table.info().published == 0)
        until(lambda: "the runner does not start" in caplog.text)
