"""Adopting the foreign commits in the log of a table: an explicit act of an operator."""

import hashlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import IO, Final

from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.deltalog.commits import read_commits
from deltamirror.deltalog.comparison import difference, list_log
from deltamirror.errors import DeltaMirrorError, Diverged, LeaseLost, Refused
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.service.heartbeat import Heartbeat
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.adoption.adopting import AdoptedHistory, Dropped, TheirCommit, adopt_history
from deltamirror.txnlog.content.superseded import is_superseded
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.expected_objects import (
    KeptCommit,
    KeptLog,
    every_log,
    kept_commits,
    kept_log,
    kept_log_again,
)
from deltamirror.txnlog.queue.leases import take
from deltamirror.work import Lane, Lease

_IN_MEMORY: Final = 64 * 1024 * 1024
_NAMED: Final = 5
_WOKE_LATE: Final = "is a version of ours that was superseded: a worker that woke late put it there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """What adopting the log of a table came to, or would come to."""

    table: str
    adopted: tuple[int, ...] = ()
    """The versions that came from the log."""
    rebased: Mapping[int, int]
    """Versions of ours, and the versions that they have since."""
    dropped: tuple[Dropped, ...] = ()
    """Commits of ours that cannot follow."""
    refused: str = ""
    """Why it would not take place, where the caller only asked for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoptions:
    """What adopting the logs of several tables came to."""

    adopted: tuple[Adoption, ...]
    """Those of the tables whose logs held something to adopt."""
    failed: Mapping[str, DeltaMirrorError]


def adopt(
    logs: Logs,
    table: str,
    *,
    drop_conflicting: bool = False,
    split_transactions: bool = False,
    dry_run: bool = False,
) -> Adoption:
    """Take the versions of a table's log that are not the database's into its history, and put ours after them.

    Where a commit of ours cannot follow, nothing takes place unless it may be dropped; where its transaction changed
    other tables, too, unless that may be split.
    """
    database, log = logs.engine.database, _log(logs, table)
    with logs.turn(log, waits=True), _publishing(logs, log) as lease, tempfile.SpooledTemporaryFile(_IN_MEMORY) as kept:
        with database.read() as connection:
            log = kept_log_again(connection, log)  # under the lease: no other process publishes from here on
        store = logs.store(log)
        reading = _Reading(database, store, log, kept)
        theirs = reading.theirs()
        if not theirs:
            return Adoption(table=table, rebased={})
        if not dry_run:
            # Versions of ours are recorded as they are found; a process may have died before it synced their names.
            store.sync(LOG_DIRECTORY)
        consent = _Consent(table, drop_conflicting=drop_conflicting, split_transactions=split_transactions)
        done = adopt_history(
            database,
            lease,
            log,
            theirs,
            seconds=logs.engine.settings.mirror.lease,
            engine_info=f"deltamirror/{version('deltamirror')}",
            accepts=(lambda _: None) if dry_run else consent.require,
            lost=reading.lost,
            dry_run=dry_run,
        )
    return Adoption(
        table=table,
        adopted=tuple(each.version for each in theirs),
        rebased=done.rebased,
        dropped=done.dropped,
        refused=consent.obstacle(done) if dry_run else "",
    )


def adopt_all(
    logs: Logs,
    tables: Sequence[str] = (),
    *,
    drop_conflicting: bool = False,
    split_transactions: bool = False,
    dry_run: bool = False,
) -> Adoptions:
    """Adopt the logs of these tables, or of all, that hold what the database has not; trouble of one stops no other."""
    with logs.engine.database.read() as connection:
        names = tables or [log.name for log in every_log(connection)]
    done, failed = list[Adoption](), dict[str, DeltaMirrorError]()
    for name in sorted(set(names)):
        try:
            found = adopt(
                logs,
                name,
                drop_conflicting=drop_conflicting,
                split_transactions=split_transactions,
                dry_run=dry_run,
            )
        except DeltaMirrorError as error:
            failed[name] = error
        else:
            done += [found] if found.adopted else []
    return Adoptions(adopted=tuple(done), failed=failed)


@dataclass(frozen=True, slots=True)
class _Consent:
    """The losses that the caller agreed to."""

    table: str
    drop_conflicting: bool
    split_transactions: bool

    def obstacle(self, done: AdoptedHistory) -> str:
        """Why an outcome is not agreed to; empty if it is."""
        if not done.dropped:
            return ""
        if not self.drop_conflicting:
            return f"{_listed(done.dropped)} cannot follow the foreign commits in the log of table {self.table!r}"
        split = [each for each in done.dropped if each.tables]
        if split and not self.split_transactions:
            others = ", ".join(sorted({name for each in split for name in each.tables}))
            return f"{_listed(split)} would be dropped, and the other tables of the same transactions keep it: {others}"
        return ""

    def require(self, done: AdoptedHistory) -> None:
        """Refuse an outcome that is not agreed to."""
        if problem := self.obstacle(done):
            options = "--drop-conflicting --split-transactions" if self.drop_conflicting else "--drop-conflicting"
            raise Refused(
                problem,
                hint=f"nothing was changed; `deltamirror adopt {self.table} {options}` leaves these commits out, and "
                "`deltamirror report` keeps track of them",
                table=self.table,
            )


def _listed(dropped: Sequence[Dropped]) -> str:
    told = "; ".join(f"version {each.version} ({each.reason})" for each in dropped[:_NAMED])
    return told + (f"; and {len(dropped) - _NAMED} more" if len(dropped) > _NAMED else "")


def _log(logs: Logs, table: str) -> KeptLog:
    with logs.engine.database.read() as connection:
        return kept_log(connection, table)


@contextmanager
def _publishing(logs: Logs, log: KeptLog) -> Iterator[Lease]:
    """The lease of a table, so that no other process publishes to it meanwhile."""
    engine = logs.engine
    settings, database = engine.settings.mirror, engine.database
    deadline = time.monotonic() + settings.lease
    while True:
        lease = take(database, log.table_id, lane=Lane.COMMITS, owner=engine.owner, seconds=settings.lease)
        if lease is not None:
            break
        if time.monotonic() >= deadline:
            raise LeaseLost(f"another process publishes table {log.name!r}", hint="try again later", table=log.name)
        time.sleep(settings.poll)
    with Heartbeat(database, lambda: {Lane.COMMITS: settings.lease}) as heartbeat:
        heartbeat.add([lease])
        try:
            yield lease
        finally:
            heartbeat.give_back([lease])


@dataclass(frozen=True, slots=True)
class _Reading:
    """The part of a log that is not published by us, read."""

    database: Database
    store: Store
    log: KeptLog
    kept: IO[bytes]
    lost: list[int] = field(default_factory=list)
    """Versions of ours that the log had, and has no more."""

    def theirs(self) -> list[TheirCommit]:
        """The versions that are not the database's, up to the end of the log."""
        listed = list_log(self.store, first=self.log.published + 1).commits
        # Our commits are in SQL before they are in the log: SQL is asked after it was listed.
        with self.database.read() as connection:
            first, last = self.log.published + 1, max(listed, default=-1)
            kept = kept_commits(connection, self.log.table_id, first=first, last=last)
        begin = self._first(listed, {each.version: each for each in kept})
        wanted = [each for each in sorted(listed) if begin is not None and each >= begin]
        self._require_whole(wanted)
        metas = [listed[each] for each in wanted]
        for at, meta in zip(wanted, metas, strict=True):
            _require_content(self.log, at, meta)
        return [self._spooled(*each) for each in zip(wanted, metas, read_commits(self.store, metas), strict=True)]

    def _first(self, listed: Mapping[int, Meta], ours: Mapping[int, KeptCommit]) -> int | None:
        """The first version that is not ours; None where there is none. Whatever is ours has to be there before it."""
        for each in range(self.log.published + 1, max(listed, default=-1) + 1):
            if each not in listed and each in ours and ours[each].published_at is not None:
                self.lost.append(each)
                continue
            if each not in listed:
                raise _gap(self.log, missing=each, found=min(later for later in listed if later > each))
            if each not in ours or self._differs(ours[each]):
                return each
        return None

    def _differs(self, commit: KeptCommit) -> bool:
        found = difference(self.store, commit.object)
        if found is not None and commit.published_at is not None:
            raise _altered(self.log, found.version, found.key, "was changed after it was published")
        return found is not None

    def _require_whole(self, wanted: Sequence[int]) -> None:
        for one, other in pairwise(wanted):
            if other != one + 1:
                raise _gap(self.log, missing=one + 1, found=other)

    def _spooled(self, at: int, meta: Meta, blocks: Iterable[bytes]) -> TheirCommit:
        start, digest = self.kept.seek(0, 2), hashlib.sha256()
        for block in blocks:
            digest.update(block)
            self.kept.write(block)
        with self.database.read() as connection:
            if is_superseded(connection, self.log.table_id, at, digest.hexdigest()):
                raise _altered(self.log, at, meta.key, _WOKE_LATE)
        read = partial(_part, self.kept, start, self.kept.tell() - start)
        return TheirCommit(version=at, modified=meta.modified, digest=digest.digest(), read=read)


def _part(kept: IO[bytes], start: int, size: int) -> bytes:
    kept.seek(start)
    return kept.read(size)


def _gap(log: KeptLog, *, missing: int, found: int) -> Refused:
    return Refused(
        f"the log of table {log.name!r} holds version {found}, but not version {missing}: there is nothing to follow",
        hint=f"move the objects from version {found} on out of the log, and `deltamirror repair {log.name}`; where the "
        f"log was cleaned, `deltamirror table drop {log.name}` and `deltamirror import {log.location}`",
        table=log.name,
    )


def _require_content(log: KeptLog, at: int, meta: Meta) -> None:
    """Refuse a commit without a byte, which is what remains of a write that broke off: it holds nothing to adopt."""
    if not meta.size:
        raise Diverged(
            f"{meta.key} in the log of table {log.name!r} is empty: there is nothing to adopt",
            hint=f"move it out of the log, and what follows on it; then `deltamirror repair {log.name}`",
            table=log.name,
            version=at,
            key=meta.key,
        )


def _altered(log: KeptLog, at: int, key: str, what: str) -> Diverged:
    return Diverged(
        f"{key} in the log of table {log.name!r} {what}",
        hint=f"`deltamirror repair {log.name} --replace-altered` puts what the database has in its place; then adopt",
        table=log.name,
        version=at,
        key=key,
    )
