"""Units on threads: so many at once, none lost, and none that hangs holds up another."""

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from deltamirror.errors import CapacityExceeded, Internal, LeaseLost, Unavailable
from deltamirror.pipeline.run.execution import Resources, execute, failed
from deltamirror.pipeline.run.local.threads import patience, work_on
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import open_store
from deltamirror.storage.store import Store
from deltamirror.work import CommitOutcome, CommitUnit, Outcome, Stage, Unit
from tests.support.logs.checkpoints import first_commit
from tests.support.logs.checkpoints import unit_of as checkpoint_of
from tests.support.logs.commit_units import commit_key, log_of, unit_of, watched, work_of

Open = Callable[[StoreAddress], Store]


def unit_at(folder: Path, number: int) -> CommitUnit:
    unit = unit_of([work_of(0, first_commit())], location=str(folder / str(number)), checksums=False)
    lease = replace(unit.lease, table_id=number, held_until=float("inf"))
    return replace(unit, table_id=number, table=f"t{number}", lease=lease)


@pytest.fixture
def units(tmp_path: Path) -> list[CommitUnit]:
    return [unit_at(tmp_path, number) for number in range(6)]


def ever(unit: Unit) -> float:
    return threading.TIMEOUT_MAX / 2


def working(
    units: list[CommitUnit], opened: Open, *, threads: int = 8, patience: Callable[[Unit], float] = ever
) -> Iterator[Outcome]:
    resources = Resources(None, open_store=opened)
    with closing(work_on(units, threads=threads, resources=resources, patience=patience)) as outcomes:
        yield from (each for together in outcomes for each in together)


def at_work_on(table: str) -> threading.Thread:
    [thread] = [each for each in threading.enumerate() if each.name == f"mirror {table}"]
    return thread


def test_every_unit_has_one_outcome(units: list[CommitUnit]) -> None:
    outcomes = list(working(units, open_store, threads=2))
    assert sorted(outcome.table_id for outcome in outcomes) == list(range(6))
    assert [outcome.failure for outcome in outcomes] == [None] * 6


def test_a_failure_holds_nothing_of_the_work_that_failed(units: list[CommitUnit]) -> None:
    """Outcomes are kept; what the frames of an error hold may be gigabytes."""

    def opened(address: StoreAddress) -> Store:
        try:
            raise OSError("the cause")
        except OSError as error:
            raise Unavailable("injected") from error

    [outcome] = working(units[:1], opened)
    assert outcome.failure is not None
    error = outcome.failure.error
    assert isinstance(error, Unavailable)
    assert isinstance(error.__cause__, OSError)
    assert (error.__traceback__, error.__cause__.__traceback__) == (None, None)


def test_as_many_units_are_at_work_as_there_are_threads(units: list[CommitUnit]) -> None:
    meeting, lock, inside, most = threading.Barrier(3), threading.Lock(), [0], [0]

    def opened(address: StoreAddress) -> Store:
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        meeting.wait()
        with lock:
            inside[0] -= 1
        return open_store(address)

    assert len(list(working(units, opened, threads=3))) == 6
    assert most == [3]


def test_a_unit_that_hangs_is_given_up_and_puts_nothing_when_it_wakes(units: list[CommitUnit]) -> None:
    wake, hanging = threading.Event(), threading.Event()

    def opened(address: StoreAddress) -> Store:
        if address == units[0].address:
            hanging.set()
            wake.wait()
        return open_store(address)

    def patient(unit: Unit) -> float:
        return 0.0 if unit is units[0] else ever(unit)

    outcomes = {outcome.table_id: outcome for outcome in working(units, opened, threads=1, patience=patient)}
    assert sorted(outcomes) == list(range(6))
    given_up = outcomes[0].failure
    assert given_up is not None
    assert isinstance(given_up.error, Unavailable)
    assert "t0" in given_up.error.message
    assert [outcomes[number].failure for number in range(1, 6)] == [None] * 5

    hung = at_work_on("t0")
    assert hung.daemon
    wake.set()
    hung.join()
    assert log_of(open_store(units[0].address)) == {}


def test_whoever_stops_listening_stops_the_work_before_its_next_put(units: list[CommitUnit]) -> None:
    wake, hanging = threading.Event(), threading.Event()

    def opened(address: StoreAddress) -> Store:
        if address == units[1].address:
            hanging.set()
            wake.wait()
        return open_store(address)

    outcomes = working(units[:2], opened)
    assert next(outcomes).table_id == 0
    assert hanging.wait(60)
    hung = at_work_on("t1")
    outcomes.close()  # type: ignore[attr-defined]
    wake.set()
    hung.join()
    assert log_of(open_store(units[1].address)) == {}


class Panic(BaseException):
    """As Rust's panics come to Python: no Exception."""


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (RuntimeError("postgresql://me:hunter2@db/lake did not answer"), Internal),
        (Panic("called unwrap on postgresql://me:hunter2@db"), Internal),
        (MemoryError(), CapacityExceeded),
        (Unavailable("the store is away"), Unavailable),
    ],
    ids=["exception", "panic", "memory", "ours"],
)
def test_nothing_but_an_outcome_comes_out(units: list[CommitUnit], trouble: BaseException, kind: type) -> None:
    def opened(address: StoreAddress) -> Store:
        raise trouble

    outcome = execute(units[0], resources=Resources(None, open_store=opened))
    assert isinstance(outcome, CommitOutcome)
    assert outcome.failure is not None
    assert type(outcome.failure.error) is kind
    assert outcome.failure.stage is Stage.OPEN
    assert "hunter2" not in outcome.failure.error.message
    again: CommitOutcome = pickle.loads(pickle.dumps(outcome))  # noqa: S301  our own bytes
    assert again.failure is not None
    assert again.failure.error.message == outcome.failure.error.message


def test_an_exception_of_somebody_else_is_named_with_its_place(units: list[CommitUnit]) -> None:
    stores: dict[StoreAddress, Store] = {}

    def opened(address: StoreAddress) -> Store:
        return stores[address]

    outcome = execute(units[0], resources=Resources(None, open_store=opened))
    assert outcome.failure is not None
    assert outcome.failure.error.message.startswith("KeyError at test_threads.py:")


def test_the_lease_is_asked_for_before_every_put(units: list[CommitUnit]) -> None:
    given_up = threading.Event()

    def after_the_first(operation: str, key: str) -> None:
        given_up.set()

    unit = replace(units[0], commits=tuple(work_of(version, first_commit()) for version in range(3)))
    store, calls = watched(open_store(unit.address), after=after_the_first)
    outcome = execute(unit, resources=Resources(None, open_store=lambda _: store), given_up=given_up)
    assert isinstance(outcome, CommitOutcome)
    assert [each.version for each in outcome.published] == [0]
    assert calls.of("create") == [commit_key(0)]


def test_a_lost_lease_is_a_failure_of_checkpoints_only(units: list[CommitUnit]) -> None:
    lost = LeaseLost("somebody else has it")
    assert failed(units[0], lost, Stage.PUT).failure is None
    failure = failed(checkpoint_of([first_commit()]), lost, Stage.PUT).failure
    assert failure is not None
    assert failure.error is lost


def test_a_unit_has_longer_than_its_store_can_take(units: list[CommitUnit]) -> None:
    options = units[0].address.options
    assert patience(units[0]) >= units[0].budget + options.transfer_timeout
    assert patience(checkpoint_of([first_commit()])) > patience(units[0])
