"""Taking foreign commits of a log into the history of a table.

They come in as those versions, untouched. Our own from there on, which were never published, are superseded and, as far
as Delta's rules allow it, committed again after them. All of it is one transaction, under the lease for publishing and
the lock of the head: a writer or a mirror sees the history of before, or the one of after.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Table, func, select, update

from deltamirror.batches import batched
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, CommitInfo
from deltamirror.delta.conflicts import CommitFacts
from deltamirror.delta.timestamps import next_timestamp
from deltamirror.errors import InvalidInput, NotFound, Refused, Unsupported
from deltamirror.steps import Step
from deltamirror.txnlog.adoption.rebasing import Rebasing, SupersededCommit, Winner
from deltamirror.txnlog.commit.draft import Draft, draft_of
from deltamirror.txnlog.commit.ratification import Head, ratify
from deltamirror.txnlog.commit.request import Change
from deltamirror.txnlog.content.chunks import commit_actions, commit_bytes
from deltamirror.txnlog.content.state import TableState, in_force
from deltamirror.txnlog.content.superseded import Superseded, follow_tokens, moved_to, note_transactions, supersede
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.schema import checkpoints, heads, metadata, mirror_status, protocols, tables, versions
from deltamirror.txnlog.queue.expected_objects import KeptLog
from deltamirror.txnlog.queue.leases import under
from deltamirror.txnlog.queue.outcomes import PublishedUnit, record_published
from deltamirror.txnlog.queue.quarantine import clear_divergence, lift_quarantine
from deltamirror.work import Lease, Published, Status

_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class TheirCommit:
    """A version of the log that is to come into the history."""

    version: int
    modified: int
    """When its object was written (ms)."""
    digest: bytes
    """The sha256 of the object."""
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A commit of ours that cannot follow those of the log."""

    version: int
    reason: str
    transaction: str
    tables: tuple[str, ...]
    """The other tables that its transaction changed, and still changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptedHistory:
    """What became of a history."""

    rebased: dict[int, int]
    """Versions of ours, and the versions that they have since."""
    dropped: tuple[Dropped, ...]


class _RolledBack(Exception):
    """Nothing of it takes place: the caller only asks what would."""


def adopt_history(
    database: Database,
    lease: Lease,
    log: KeptLog,
    theirs: Sequence[TheirCommit],
    *,
    seconds: float,
    engine_info: str,
    accepts: Callable[[AdoptedHistory], None],
    lost: Sequence[int] = (),
    dry_run: bool = False,
) -> AdoptedHistory:
    """Take these versions, which follow each other, into the history of a table, and put ours after them.

    Our versions in the log below the first of them are recorded as published: the caller has compared them. Versions
    of ours that are ``lost``, since the log had them and has them no more, stay to be published again.
    ``accepts`` is asked before anything takes place, and raises if the outcome is not wanted.
    """
    done = AdoptedHistory(rebased={}, dropped=())
    try:
        with under(database, Step.ADOPT, lease, seconds=seconds) as session:
            adoption = _Adoption(database, session, lease, log, engine_info)
            done = adoption.run(theirs, lost)
            accepts(done)
            if dry_run:
                raise _RolledBack
    except _RolledBack:
        return done
    database.announce()
    return done


class _Adoption:
    """One adoption, inside of its transaction."""

    def __init__(self, database: Database, session: Session, lease: Lease, log: KeptLog, engine_info: str) -> None:
        self._session, self._lease, self._log = session, lease, log
        self._table_id, self._engine_info = log.table_id, engine_info
        rows = database.lock_head(session, log.table_id)
        if not rows:
            raise NotFound(f"the table {log.name!r} was dropped", table=log.name)
        *head, self._clock = rows[0]
        self._old = Head(*head)
        self._winners: list[Winner] = []
        self._transactions: dict[str, tuple[int, int]] = {}

    def run(self, theirs: Sequence[TheirCommit], lost: Sequence[int]) -> AdoptedHistory:
        """All of it."""
        first, last = theirs[0].version, theirs[-1].version
        self._require_adoptable(first)
        self._record_ours(first, lost)
        ours = supersede(self._session, self._table_id, first, lineage=self._old.lineage)
        before = self._state = self._state_at(first - 1)
        for commit in theirs:
            self._take_in(commit)
        self._finish(min(lost) - 1 if lost else last)
        rebased, dropped = self._put_after(before, ours, {each.version: each.digest for each in theirs})
        moved = {each.txn_id: rebased.get(each.version) for each in ours}
        follow_tokens(self._session, self._log.name, moved)
        note_transactions(self._session, self._log.name, self._transactions)
        self._begin_lineage()
        return AdoptedHistory(rebased=rebased, dropped=self._dropped(dropped))

    def _require_adoptable(self, first: int) -> None:
        """Refuse to replace what was published: readers have it, and checkpoints may hold it."""
        log, c, status = self._log, checkpoints.c, mirror_status.c
        if first > self._old.version + 1:
            raise _moved(log)
        if first <= log.log_start:
            raise Refused(
                f"version {first}, with which the log of table {log.name!r} begins, is a foreign commit: it is "
                "another table",
                hint=f"`deltamirror table drop {log.name}` and `deltamirror import {log.location}` take that one over",
                table=log.name,
            )
        written = select(func.max(c.version)).where(c.table_id == log.table_id, c.state == Status.SUCCESS)
        shown = status.published_at.is_not(None)
        put = select(func.max(status.version)).where(status.table_id == log.table_id, shown)
        found = [self._session.execute(query).scalar_one() for query in (written, put)]
        newest = max((version for version in found if version is not None), default=-1)
        if newest >= first:
            raise Refused(
                f"version {first} of table {log.name!r} was published as the database has it, up to version {newest}, "
                "and changed since: only what never was published gives way to others",
                hint=f"`deltamirror repair {log.name} --replace-altered` puts what the database has in its place",
                table=log.name,
            )

    def _record_ours(self, first: int, lost: Sequence[int]) -> None:
        c = mirror_status.c
        waiting = (
            (c.table_id == self._table_id) & (c.version < first) & (c.state != Status.SUCCESS) & c.version.not_in(lost)
        )
        found = self._session.execute(select(c.version).where(waiting).order_by(c.version)).scalars().all()
        ours = [Published(version=each, already=True, num_bytes=0, milliseconds=0.0) for each in found]
        if ours:
            record_published(self._session, [PublishedUnit(self._lease, ours, self._clock)])

    def _state_at(self, version: int) -> TableState:
        connection, log = self._session.connection, self._log
        protocol, table_metadata = in_force(connection, self._table_id, version)
        c = versions.c
        committed = select(c.committed_at).where(c.table_id == self._table_id, c.version == version)
        return TableState.of(
            protocol,
            table_metadata,
            table_id=self._table_id,
            name=log.name,
            location=log.location,
            version=version,
            committed_at=connection.execute(committed).scalar_one(),
            metadata_version=self._newest(metadata, version),
            protocol_version=self._newest(protocols, version),
            lineage=self._old.lineage + 1,
        )

    def _newest(self, projection: Table, version: int) -> int:
        c = projection.c
        newest = select(func.max(c.version)).where(c.table_id == self._table_id, c.version <= version)
        return int(self._session.execute(newest).scalar_one())

    def _take_in(self, commit: TheirCommit) -> None:
        data = commit.read()
        try:
            actions = lines.decode_commit(data)
            change = Change(
                table=self._log.name,
                lines=data.splitlines(keepends=True),
                at_version=commit.version,
                committed_at=commit.modified,
                is_in_log=True,
            )
            draft = draft_of(change, self._state, actions, data)
            info = _info_of(actions)
            stated = None if info is None else info.txn_id
            self._ratify(draft, self._clock, stated or str(uuid.uuid4()))
        except (InvalidInput, Unsupported) as error:
            error.message = f"version {commit.version} in the log of table {self._log.name!r}: {error.message}"
            raise
        if stated is not None:
            self._transactions[stated] = commit.version, self._state.committed_at
        operation = None if info is None else info.operation
        self._winners.append(Winner(version=commit.version, operation=operation, facts=CommitFacts.of(actions)))
        published = {"state": Status.SUCCESS, "attempts": 1, "published_at": commit.modified, "milliseconds": 0}
        c = mirror_status.c
        own = (c.table_id == self._table_id) & (c.version == commit.version)
        self._session.execute(update(mirror_status).where(own).values(**published))

    def _ratify(self, draft: Draft, time: int, txn_id: str) -> None:
        """Commit a draft as the next version, and look at the table as it is then."""
        state = self._state
        head = Head(state.version, state.committed_at, state.metadata_version, state.protocol_version)
        done = ratify(self._session, draft, head, time=time, txn_id=txn_id, engine_info=self._engine_info)
        if draft.facts.metadata is None and draft.facts.protocol is None:
            self._state = state.at(done.version, done.committed_at)
        else:
            self._state = self._state_at(done.version)

    def _finish(self, published: int) -> None:
        own = tables.c.table_id == self._table_id
        self._session.execute(update(tables).where(own).values(published_version=published))

    def _put_after(
        self, before: TableState, ours: Sequence[Superseded], theirs: dict[int, bytes]
    ) -> tuple[dict[int, int], list[tuple[Superseded, str]]]:
        """Our commits after theirs, oldest first: the versions that they have, and those that cannot follow."""
        rebasing, rebased, dropped = Rebasing(before, self._winners), dict[int, int](), list[tuple[Superseded, str]]()
        shared = self._shared(each.txn_id for each in ours)
        for each in ours:
            if (known := self._known(each, theirs)) is not None:
                rebased[each.version] = known
                self._note(each, known)
                continue
            commit = self._commit_of(each, alone=each.txn_id not in shared)
            reason = rebasing.obstacle(commit) or self._refused(rebasing, commit, each)
            if reason is None:
                rebased[each.version] = self._state.version
                self._note(each, self._state.version)
            else:
                rebasing.drop(commit)
                dropped.append((each, reason))
                self._note(each, None, reason)
        return rebased, dropped

    def _known(self, ours: Superseded, theirs: dict[int, bytes]) -> int | None:
        """The version at which the log has the commit already: the same bytes, or the same transaction."""
        if theirs.get(ours.version) == ours.digest:
            return ours.version
        found = self._transactions.get(ours.txn_id)
        return None if found is None else found[0]

    def _refused(self, rebasing: Rebasing, commit: SupersededCommit, ours: Superseded) -> str | None:
        """Put a commit after the head; why that is not possible."""
        if self._state.write_obstacle is not None and not commit.is_verbatim:
            return self._state.write_obstacle.message
        try:
            draft = rebasing.draft(commit, self._state)
            moment = next_timestamp(self._clock, self._state.committed_at)
            self._ratify(draft, moment, ours.txn_id)
        except (InvalidInput, Unsupported) as error:
            return error.message
        if self._state.tracks_rows:
            rebasing.remember(self._actions_at_head())
        return None

    def _actions_at_head(self) -> list[Action]:
        c = versions.c
        query = select(c.commit_id).where(c.table_id == self._table_id, c.version == self._state.version)
        connection = self._session.connection
        return list(commit_actions(connection, connection.execute(query).scalar_one()))

    def _commit_of(self, ours: Superseded, *, alone: bool) -> SupersededCommit:
        data = commit_bytes(self._session.connection, ours.commit_id)
        actions = tuple(lines.decode_commit(data))
        verbatim = ours.kind == "verbatim"
        return SupersededCommit(version=ours.version, is_verbatim=verbatim, alone=alone, data=data, actions=actions)

    def _note(self, ours: Superseded, version: int | None, reason: str | None = None) -> None:
        moved_to(self._session, self._table_id, ours, lineage=self._old.lineage, version=version, reason=reason)

    def _shared(self, txn_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The other tables of each of these transactions that has some."""
        wanted = sorted(set(txn_ids))
        found: dict[str, tuple[str, ...]] = {}
        c = versions.c
        others = (
            select(c.txn_id, tables.c.name)
            .join(tables, tables.c.table_id == c.table_id)
            .where(c.table_id != self._table_id, tables.c.name.is_not(None))
            .order_by(tables.c.name)
        )
        for some in batched(wanted, _AT_ONCE):
            for row in self._session.execute(others.where(c.txn_id.in_(some))):
                found[row.txn_id] = (*found.get(row.txn_id, ()), row.name)
        return found

    def _dropped(self, dropped: Sequence[tuple[Superseded, str]]) -> tuple[Dropped, ...]:
        shared = self._shared(each.txn_id for each, _ in dropped)
        return tuple(
            Dropped(version=each.version, reason=reason, transaction=each.txn_id, tables=shared.get(each.txn_id, ()))
            for each, reason in dropped
        )

    def _begin_lineage(self) -> None:
        clear_divergence(self._session, self._table_id)
        lift_quarantine(self._session, self._table_id)
        own = heads.c.table_id == self._table_id
        self._session.execute(update(heads).where(own).values(lineage=self._old.lineage + 1))


def _info_of(actions: Iterable[Action]) -> CommitInfo | None:
    return next((action for action in actions if isinstance(action, CommitInfo)), None)


def _moved(log: KeptLog) -> Refused:
    return Refused(f"the history of table {log.name!r} changed meanwhile", hint="try again", table=log.name)
