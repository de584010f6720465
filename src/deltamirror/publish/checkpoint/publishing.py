"""From a unit of work to a checkpoint in the log.

The order is the guarantee: the JSON of the version is seen, the checkpoint is put, read back from the store
and compared, and only then the pointer moves. Whatever goes wrong before leaves the pointer where it was, and the
next attempt starts over.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pyarrow as pa

from deltamirror.delta import names
from deltamirror.deltalog.pointer import POINTER_KEY, move_pointer
from deltamirror.errors import DeltaMirrorError, Internal, NotFound
from deltamirror.publish.checkpoint.building import BaseUnusable, Built, build, is_v2
from deltamirror.publish.checkpoint.classic import write_classic
from deltamirror.publish.checkpoint.sidecars import write_v2
from deltamirror.publish.checkpoint.summary import Written
from deltamirror.publish.readings import LogReader, OpenedVersion, require_as_committed
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointOutcome, CheckpointUnit, Failure, Fetch, Guard, Stage

Clock = Callable[[], float]


class _Stopped(Exception):
    """The work ended with a failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def publish_checkpoint(
    unit: CheckpointUnit,
    store: Store,
    *,
    fetch: Fetch,
    guard: Guard,
    reader: LogReader | None = None,
    clock: Clock = time.monotonic,
) -> CheckpointOutcome:
    """Build the state of the unit's version, put it into the log as a checkpoint, and point to it.

    A checkpoint of the version that is there already and says the same is kept. Trouble is the outcome's failure. Where
    there is a ``reader``, the version counts as written once that one opened it, and sees what was committed.
    """
    begun = clock()
    outcome = CheckpointOutcome(table_id=unit.table_id, lease=unit.lease, version=unit.version)
    try:
        outcome = _published(unit, store, fetch=fetch, guard=guard, reader=reader, outcome=outcome)
    except BaseUnusable:
        outcome = replace(outcome, base_unusable=True)
    except _Stopped as stopped:
        outcome = replace(outcome, failure=stopped.failure)
    return replace(outcome, milliseconds=(clock() - begun) * 1000)


def _published(
    unit: CheckpointUnit,
    store: Store,
    *,
    fetch: Fetch,
    guard: Guard,
    reader: LogReader | None,
    outcome: CheckpointOutcome,
) -> CheckpointOutcome:
    with _failing_at(Stage.CHECK, unit, _commit_key(unit)):
        _check_plan(unit)
        _check_commit_is_there(unit, store)
    with _failing_at(Stage.BUILD, unit):
        built = build(unit, store, fetch)
    guard = partial(_check_lease, unit, guard)
    with _failing_at(Stage.PUT, unit):
        written = _write(built, unit, store, guard=guard)
    with _failing_at(Stage.POINTER, unit, POINTER_KEY):
        move_pointer(store, written.pointer, guard=guard)
    if reader is not None:
        with _failing_at(Stage.VERIFY, unit, f"{names.LOG_DIRECTORY}/{written.name}"):
            expected = OpenedVersion.of(
                built.state.protocol, built.state.metadata, num_files=built.num_files, num_bytes=None
            )
            require_as_committed(reader, store, unit.version, table=unit.table, expected=expected)
    return _with(outcome, written, unit)


def _write(built: Built, unit: CheckpointUnit, store: Store, *, guard: Guard) -> Written:
    if is_v2(built.state):
        return write_v2(built.state, unit, store, guard=guard, unchanged=built.sidecars)
    return write_classic(built, unit, store, guard=guard)


@contextmanager
def _failing_at(stage: Stage, unit: CheckpointUnit, key: str = "") -> Iterator[None]:
    try:
        yield
    except DeltaMirrorError as error:
        raise _Stopped(Failure(error=error, stage=stage, version=unit.version, key=key)) from error
    except pa.ArrowException as error:
        wrong = Internal(f"the checkpoint {unit.version} of {unit.table} cannot be built: {error}")
        raise _Stopped(Failure(error=wrong, stage=stage, version=unit.version, key=key)) from error


def _check_lease(unit: CheckpointUnit, guard: Guard) -> None:
    with _failing_at(Stage.LEASE, unit):
        guard()


def _commit_key(unit: CheckpointUnit) -> str:
    return names.commit_key(unit.version)


def _check_plan(unit: CheckpointUnit) -> None:
    versions = [work.version for work in unit.commits]
    if not versions or versions != list(range(_first_version(unit), unit.version + 1)):
        raise Internal(f"the commits for the checkpoint {unit.version} of {unit.table} do not follow on one another")


def _first_version(unit: CheckpointUnit) -> int:
    """The version that the commits of a unit have to begin with."""
    if unit.base is not None:
        return unit.base.version + 1
    return unit.commits[0].version if unit.commits[0].is_base else 0


def _check_commit_is_there(unit: CheckpointUnit, store: Store) -> None:
    last = unit.commits[-1]
    if last.is_base and not last.num_chunks:
        return  # the log of an imported table may begin with a checkpoint alone
    if store.head(_commit_key(unit)) is None:
        raise NotFound(
            f"{_commit_key(unit)} is not in {store.location}: a checkpoint never comes before its commit",
            hint="it was deleted after it had been published: put it back, with the bytes of Table.commit_file",
            table=unit.table,
            version=unit.version,
        )


def _with(outcome: CheckpointOutcome, written: Written, unit: CheckpointUnit) -> CheckpointOutcome:
    return replace(
        outcome,
        name=written.name,
        digest=written.digest,
        num_rows=written.num_rows,
        num_files=written.num_files,
        num_bytes=written.num_bytes,
        base=None if unit.base is None else unit.base.version,
    )
