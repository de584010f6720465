"""Publishing commits: the stored bytes of consecutive versions become objects of ``_delta_log/``, in order."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from deltamirror.config import redact_text
from deltamirror.delta.checksum import decode
from deltamirror.delta.chunks import Chunk
from deltamirror.delta.names import LOG_DIRECTORY, commit_key
from deltamirror.errors import DeltaMirrorError, Diverged, Internal, LeaseLost, LogChanged, Transient
from deltamirror.publish.assembly import commit_data
from deltamirror.publish.checksums import ChecksumTrail
from deltamirror.publish.readings import LogReader, OpenedVersion, require_as_committed
from deltamirror.publish.rules import UnitRules
from deltamirror.steps import Step
from deltamirror.storage.ranges import stored_digest
from deltamirror.storage.store import Created, Data, Store
from deltamirror.telemetry.stopwatch import Stopwatch
from deltamirror.work import (
    CommitOutcome,
    CommitUnit,
    CommitWork,
    Failure,
    Fetch,
    Guard,
    Published,
    Stage,
    StageTimes,
)

_TRIES = 3
_READ: Final = "read"
_VERIFY: Final = "verify"
_TIMED: Final[Mapping[Stage, str]] = {
    Stage.LEASE: _READ,
    Stage.FETCH: "serialise",  # but for what is read meanwhile
    Stage.PUT: "upload",
    Stage.CHECK: _VERIFY,
    Stage.VERIFY: _VERIFY,
}
"""As what the time of a stage counts."""


class _Stopped(Exception):
    """The unit ends here."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure


def publish_commits(
    unit: CommitUnit,
    store: Store,
    *,
    fetch: Fetch,
    guard: Guard,
    reader: LogReader | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> CommitOutcome:
    """Publish the versions of a unit one after the other, until one fails, the budget is spent or the lease lost.

    An object is never replaced. One that is there already with the same bytes is ours, from an attempt whose reply was
    lost; with other bytes the log has diverged, and the table stops. Nothing is put unless the version before the first
    one is there. None counts as published before the folder is synced, once for all of them. At least one version is
    tried, however small the budget. ``fetch`` is called in this thread, ``guard`` also in the thread that writes the
    checksums. Where there is a ``reader``, the last version counts as published once that one opened it and sees what
    was committed.
    """
    deadline = clock() + unit.budget
    published: list[tuple[Published, float]] = []  # with the time at which each was put
    failure, watch = None, Stopwatch(clock)
    with ChecksumTrail(unit, store, guard) as checksums:
        publisher = _Publisher(unit, store, fetch, guard, clock, watch, UnitRules(unit))
        try:
            publisher.require_predecessor()
            for version, work in enumerate(unit.commits, unit.commits[0].version):
                if published and clock() >= deadline:
                    break
                done, data, put_at = publisher.publish(work, version)
                published.append((done, put_at))
                checksums.follow(work, data)
        except LeaseLost:
            pass  # the process that holds the lease goes on
        except _Stopped as stopped:
            failure = stopped.failure
    if checksums.lost_at is not None:
        # The process that holds the lease finds these commits in the log, and writes the checksums that are missing.
        published = [(done, put_at) for done, put_at in published if done.version < checksums.lost_at]
    checksum, unread = checksums.checksum, None
    if published:
        try:
            publisher.sync_log()
        except LeaseLost:
            published, failure, checksum = [], None, None
        except _Stopped as stopped:
            published, failure, checksum = [], stopped.failure, None
    if reader is not None and published:
        unread = publisher.read_last(reader, published[-1][0], checksum)
    if unread is not None:
        published, failure, checksum = published[:-1], unread, None
    ended = clock()
    return CommitOutcome(
        table_id=unit.table_id,
        lease=unit.lease,
        published=tuple(replace(done, age=(ended - put_at) * 1_000) for done, put_at in published),
        failure=failure,
        checksum=checksum,
        checksum_failure=checksums.failure,
        stages=_stages(unit, watch),
        ended_at=time.time(),
    )


def _stages(unit: CommitUnit, watch: Stopwatch) -> StageTimes:
    taken = {name: watch.seconds(name) * 1_000 for name in (_READ, *_TIMED.values())}
    return StageTimes(**taken) + StageTimes(read=unit.read)


@dataclass(frozen=True, slots=True)
class _Publisher:
    """Publishes single versions of a unit."""

    unit: CommitUnit
    store: Store
    fetch: Fetch
    guard: Guard
    clock: Callable[[], float]
    watch: Stopwatch
    rules: UnitRules

    def require_predecessor(self) -> None:
        """Nothing is put behind a gap: another disk, or none, may be in the place of the one that was published to."""
        key, first = self.unit.follows, self.unit.commits[0]
        if not key:
            return
        with self._stage(Stage.CHECK, first, key):
            if self.store.head(key) is None:
                raise LogChanged(
                    f"{key} is not in {self.store.location}, where it was published: version {first.version} of table "
                    f"{self.unit.table!r} is not put without it",
                    hint=f"if the disk or bucket is the right one, `deltamirror reconcile {self.unit.table}` writes "
                    "what is gone again, in order; a running service does so by itself",
                )

    def publish(self, work: CommitWork, version: int) -> tuple[Published, Data, float]:
        """What came of a version, which has to be this one, its bytes, and when it was put."""
        begun, key = self.clock(), commit_key(work.version)
        with self._stage(Stage.FETCH, work, key):
            if work.version != version:
                raise Internal(f"a unit of table {self.unit.table!r} has version {work.version} in place of {version}")
            data = commit_data(work, self._fetched, table=self.unit.table, verify=self.unit.verify)
        if self.unit.verify.is_strict:
            with self._stage(Stage.CHECK, work, key):
                self.rules.require(work, data)
        with self._stage(Stage.PUT, work, key):
            already = self._put(work, key, data)
        if (self.unit.reads_back or self.unit.verify.is_strict) and not already:
            with self._stage(Stage.VERIFY, work, key):
                self._read_back(work, key, data)
        ended = self.clock()
        milliseconds = (ended - begun) * 1_000
        done = Published(version=version, already=already, num_bytes=len(data), milliseconds=milliseconds)
        return done, data, ended

    def sync_log(self) -> None:
        """Wait until a crash of the machine takes back none of the unit's objects, checksums among them."""
        with self._stage(Stage.PUT, self.unit.commits[0], LOG_DIRECTORY):
            self.store.sync(LOG_DIRECTORY)

    def read_last(self, reader: LogReader, done: Published, checksum: bytes | None) -> Failure | None:
        """Let a reader open the last version that was published, whose checksum this is; why it does not count."""
        certain = None if checksum is None else decode(checksum)
        expected = None if certain is None else OpenedVersion.of_checksum(certain)
        work = next(each for each in self.unit.commits if each.version == done.version)
        try:
            with self._stage(Stage.VERIFY, work, commit_key(done.version)):
                require_as_committed(reader, self.store, done.version, table=self.unit.table, expected=expected)
        except _Stopped as stopped:
            return stopped.failure
        return None

    def _fetched(self, work: CommitWork) -> Iterable[Chunk]:
        return self.watch.each(_READ, self.fetch(work))

    def _put(self, work: CommitWork, key: str, data: Data) -> bool:
        """Create the object; whether it was there already."""
        for _ in range(_TRIES):
            with self._stage(Stage.LEASE, work, key):
                self.guard()
            with Step.PUT_COMMIT:
                put = self.store.create(key, data, synced=False)
            if isinstance(put, Created):
                return False
            with self.watch.at(_VERIFY):
                is_there = self._is_there(work, key, data)
            if is_there:
                return True
        raise Transient(
            f"{self.store.location} says that {key} exists, and does not have it",
            hint="an upload of another writer may be under way; the mirror tries again",
        )

    def _read_back(self, work: CommitWork, key: str, data: Data) -> None:
        if not self._is_there(work, key, data):
            raise Transient(f"{key} was put to {self.store.location}, and is not there", hint="the mirror tries again")

    def _is_there(self, work: CommitWork, key: str, data: Data) -> bool:
        """Whether the object is there, with these bytes; an error if it has others."""
        found, expected = stored_digest(self.store, key), hashlib.sha256(data).digest()
        if found is None or found == expected:
            return found is not None
        raise Diverged(
            f"{key} in {self.store.location} is not the version {work.version} that table {self.unit.table!r} has in "
            "the database",
            hint="another writer wrote it, or changed it: keep that writer away; "
            f"`deltamirror adopt {self.unit.table}` takes it in; once it is moved away, "
            f"`deltamirror repair {self.unit.table}` lets the table go on",
            table=self.unit.table,
            version=work.version,
            key=key,
            expected=expected.hex(),
            found=found.hex(),
        )

    @contextmanager
    def _stage(self, stage: Stage, work: CommitWork, key: str) -> Iterator[None]:
        """Whatever goes wrong inside ends the unit, with the stage that it happened in. Its time is the stage's."""
        try:
            with self.watch.at(_TIMED[stage]):
                yield
        except (LeaseLost, _Stopped):
            raise
        except DeltaMirrorError as error:
            checked = stage is Stage.FETCH and isinstance(error, Internal)
            failed = Stage.CHECK if checked else stage
            raise _Stopped(Failure(error=error, stage=failed, version=work.version, key=key)) from error
        except Exception as error:
            reason = redact_text(f"{type(error).__name__}: {error}")
            internal = Internal(f"version {work.version} of table {self.unit.table!r} was not published: {reason}")
            raise _Stopped(Failure(error=internal, stage=stage, version=work.version, key=key)) from error
