"""One unit of work, from its address to its outcome: what every runner does, in whatever process."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Self

from deltamirror.config import LiveSettings, Settings
from deltamirror.delta.chunks import Chunk
from deltamirror.deltalog.delta_rs import require_delta_rs
from deltamirror.errors import DeltaMirrorError, LeaseLost, Unavailable
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.run.lease_guard import LeaseAnswers, LeaseGuard
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.publish.commits import publish_commits
from deltamirror.publish.readings import LogReader, OpenedVersion, read_by_delta_rs
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.clients import Credentials
from deltamirror.storage.location import local_path, store_prefix
from deltamirror.storage.open import Stores, keys_of, open_store
from deltamirror.storage.probe import probe
from deltamirror.storage.store import Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import fetch_chunks, with_chunks
from deltamirror.work import (
    CheckpointOutcome,
    CheckpointUnit,
    CommitOutcome,
    CommitUnit,
    CommitWork,
    Failure,
    Outcome,
    Stage,
    Unit,
    Verification,
    carrying,
)

_SMALL = 1024 * 1024
_AT_ONCE = 64 * 1024 * 1024
_YIELDING = 10
"""The niceness of a thread that gives way."""


class Resources:
    """What the units of one process share: its stores, and the database where that can be reached.

    Without the database units carry their chunks, and leases end by the clock of this process. Safe to share between
    threads.
    """

    def __init__(
        self,
        database: Database | None,
        *,
        open_store: Callable[[StoreAddress], Store] = open_store,
        calls: StoreCalls | None = None,
        keys: Callable[[], Credentials | None] = lambda: None,
        is_task: bool = False,
    ) -> None:
        self.database = database
        self.leases = LeaseAnswers(database)
        self.is_task = is_task
        """Whether all that this process does at a time is the work of one task, commits or checkpoints."""
        self._open_store, self._keys = open_store, keys
        self._calls = StoreCalls(gives_up=False) if calls is None else calls
        self._stores = Stores(self._opened, self._calls, keys=keys)
        self._probed: set[tuple[str, str | None]] = set()

    @classmethod
    def with_keys(
        cls,
        settings: Settings | LiveSettings,
        database: Database | None,
        calls: StoreCalls | None = None,
        *,
        is_task: bool = False,
    ) -> Self:
        """With the credentials of these settings, if they have any; otherwise stores take those of the process."""
        keys = keys_of(settings)
        return cls(
            database,
            open_store=lambda each: open_store(each, credentials=keys()),
            calls=calls,
            keys=keys,
            is_task=is_task,
        )

    def store(self, address: StoreAddress) -> Store:
        """The store at an address. A remote one that lets two writers win is refused before anything is published."""
        return self._stores.at(address)

    def reader(self, address: StoreAddress) -> LogReader:
        """An independent reader of the log at an address, whose calls end in time; MissingExtra where there is none."""
        require_delta_rs()
        return partial(self._read, address, self._keys() or Credentials())

    def close_stores(self) -> None:
        """Let go of the stores. One that is asked for again is opened again."""
        self._stores.close()

    def _read(self, address: StoreAddress, credentials: Credentials, version: int) -> OpenedVersion | None:
        return self._calls.run(
            partial(read_by_delta_rs, address, credentials, version),
            location=address.location,
            doing="read by delta-rs",
            seconds=address.options.transfer_timeout,
        )

    def _opened(self, address: StoreAddress) -> Store:
        store = self._open_store(address)
        bucket = (store_prefix(address.location), address.options.endpoint)
        if local_path(address.location) is None and bucket not in self._probed:
            probe(store)
            self._probed.add(bucket)
        return store


def execute(
    unit: Unit,
    *,
    resources: Resources,
    given_up: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Do the work of a unit. Whatever goes wrong is the outcome's failure; nothing is raised.

    Once ``given_up`` is set, nothing more is put.
    """
    outcome = _executed(unit, resources, given_up or threading.Event(), clock)
    resources.leases.done(unit.lease)
    if outcome.failure is not None:
        let_go(outcome.failure.error)
    return outcome


def _executed(unit: Unit, resources: Resources, given_up: threading.Event, clock: Callable[[], float]) -> Outcome:
    stage = Stage.OPEN
    try:
        store = resources.store(unit.address)
        reader = resources.reader(unit.address) if unit.verify is Verification.PARANOID else None
        stage = Stage.FETCH
        guard = LeaseGuard(unit.table, unit.lease, resources.leases, given_up)
        unit = _carrying(unit, resources, guard, clock)
        stage = Stage.PUT if isinstance(unit, CommitUnit) else Stage.BUILD
        fetch = partial(_chunks, resources=resources, guard=guard)
        if isinstance(unit, CommitUnit):
            return publish_commits(unit, store, fetch=fetch, guard=guard, reader=reader, clock=clock)
        if resources.is_task:
            _give_way()
        return publish_checkpoint(unit, store, fetch=fetch, guard=guard, reader=reader, clock=clock)
    except BaseException as error:  # noqa: BLE001  a panic of a Rust library is no Exception; it ends this unit only
        return failed(unit, our_error(error), stage)


def prefetched(units: Sequence[Unit], resources: Resources) -> list[Unit]:
    """The units, each with the chunks of its small commits, by one query for all: as much as may be in memory.

    A unit that is not so fetched, because there is no room or the database is away, fetches by itself what it needs.
    """
    database = resources.database
    small = _small([work for unit in units for work in unit.commits])
    if database is None or len(units) < 2 or not small:
        return list(units)
    begun = time.monotonic()
    try:
        fetched = _fetched(database, small)
    except DeltaMirrorError:
        return list(units)
    seconds = (time.monotonic() - begun) / len(units)
    return [_loaded(unit, fetched, seconds) for unit in units]


def let_go(error: BaseException | None) -> None:
    """Let go of what the frames of an error hold, which may be gigabytes: outcomes are kept, without their frames."""
    while error is not None:
        error.__traceback__ = None
        let_go(error.__cause__)
        error = error.__context__


def failed(unit: Unit, error: DeltaMirrorError, stage: Stage) -> Outcome:
    """The outcome of a unit that came to nothing. A lost lease is no failure of commits: their next owner goes on."""
    if isinstance(unit, CheckpointUnit):
        failure = Failure(error=error, stage=stage, version=unit.version)
        return CheckpointOutcome(table_id=unit.table_id, lease=unit.lease, version=unit.version, failure=failure)
    if isinstance(error, LeaseLost):
        return CommitOutcome(table_id=unit.table_id, lease=unit.lease)
    failure = Failure(error=error, stage=stage, version=unit.commits[0].version)
    return CommitOutcome(table_id=unit.table_id, lease=unit.lease, failure=failure)


def _give_way() -> None:
    """Let this thread compute when other processes of the machine do not: commits are published beside checkpoints.

    Among the threads of one process, one that gives way could hold the interpreter, and all others with it.
    """
    if sys.platform == "linux":  # where a thread has a niceness of its own; elsewhere it is that of a process
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, max(_YIELDING, os.getpriority(os.PRIO_PROCESS, thread)))


def _carrying(unit: Unit, resources: Resources, guard: LeaseGuard, clock: Callable[[], float]) -> Unit:
    """The unit with the chunks of its small commits, fetched at once; large ones are fetched one by one.

    A database that is away is no failure of the table. If it answers when it is asked for the lease, it is asked again.
    """
    if resources.database is None or not (small := _small(unit.commits)):
        return unit
    begun = clock()
    try:
        fetched = _fetched(resources.database, small)
    except DeltaMirrorError:
        guard.confirm()
        fetched = _fetched(resources.database, small)
    return _loaded(unit, fetched, clock() - begun)


def _fetched(database: Database, small: Sequence[CommitWork]) -> Mapping[int, CommitWork]:
    """The commits with their chunks, by their ids."""
    with database.read() as connection:
        return {work.commit_id: work for work in with_chunks(connection, small)}


def _loaded(unit: Unit, fetched: Mapping[int, CommitWork], seconds: float) -> Unit:
    """The unit with those of its commits that were fetched in so many seconds."""
    commits = [fetched.get(work.commit_id, work) for work in unit.commits]
    return carrying(unit, commits, read=seconds * 1_000)


def _small(commits: Sequence[CommitWork]) -> list[CommitWork]:
    """The commits to fetch that are small, as many as may be in memory."""
    absent = [work for work in commits if work.chunks is None and not work.is_base]
    small = [work for work in absent if work.num_bytes <= _SMALL]
    sizes = accumulate(work.num_bytes for work in small)
    return [work for work, size in zip(small, sizes, strict=True) if size <= _AT_ONCE]


def _chunks(work: CommitWork, *, resources: Resources, guard: LeaseGuard) -> Iterator[Chunk]:
    if work.chunks is not None:
        yield from work.chunks
    elif resources.database is None:
        raise Unavailable(
            f"commit {work.commit_id} has to be fetched, and this process has no way to the database",
            hint="give the SparkRunner the database of the catalog, or set spark.lines to fetched, and "
            "DELTAMIRROR_CATALOG__URL on every executor",
        )
    else:
        try:
            with resources.database.read() as connection:
                yield from fetch_chunks(connection, work)
        except DeltaMirrorError:
            guard.confirm()
            raise
