"""The commit: prepare without a lock, ratify under it, and never guess what became of it."""

import random
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, NoReturn

import msgspec
from sqlalchemy import select

from deltamirror.config import Settings, settings_for
from deltamirror.delta import lines
from deltamirror.delta.actions import Add
from deltamirror.delta.timestamps import next_timestamp
from deltamirror.errors import (
    CommitUnknown,
    Conflict,
    DeltaMirrorError,
    InvalidInput,
    NotFound,
    Transient,
)
from deltamirror.steps import Step
from deltamirror.telemetry import spans
from deltamirror.txnlog.commit.app_transactions import find_applied, require_progress
from deltamirror.txnlog.commit.draft import Draft
from deltamirror.txnlog.commit.fingerprint import content_digest
from deltamirror.txnlog.commit.input import Gathered
from deltamirror.txnlog.commit.known_tables import KnownTables
from deltamirror.txnlog.commit.preparation import Preparation
from deltamirror.txnlog.commit.ratification import (
    LeftBehind,
    StateMoved,
    authored_info,
    lock_heads,
    ratify,
    require_follows,
    require_near,
    require_room,
    require_undiverged,
)
from deltamirror.txnlog.commit.request import Committed, Request
from deltamirror.txnlog.commit.staging import fresh_commit_id
from deltamirror.txnlog.commit.times import require_timely
from deltamirror.txnlog.commit.tokens import FIND_TOKEN, TokenUse
from deltamirror.txnlog.content.rows import file_row, json_text
from deltamirror.txnlog.content.state import TableState
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.appends.small_append import MOST_FILES, SmallAppend, opening_of
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.statements import COMMITTED_BY, INSERT_TOKEN, SUPERSEDED_BY

# A table whose metadata changes faster than a commit can be checked against it is given up after this many times.
_MOVES_TOLERATED = 20
# One that is always left behind by those who come first is compared under the lock after this many times.
_CATCHING_UP_TOLERATED = 3
_VERSIONS = 2**63

_COMMIT_AGAIN: Final = "commit again with the same token once the database is back: it will not be applied twice"
_SETTLING: Final = (Conflict, InvalidInput, NotFound)
"""What only a table says that has changed since an append whose reply was lost: it takes that append no more."""


def find_token(database: Database, token: str, content: bytes, tables: Collection[str]) -> Committed | None:
    """The answer to an earlier use of a token, if there was one; ``tables`` are those that it changes."""
    use = TokenUse(token, content)
    with database.read() as connection:
        rows = [tuple(row) for row in connection.execute(FIND_TOKEN, use.values)]
        return use.answer(connection, rows, tables)


class Committing:
    """One transaction on its way into the log."""

    def __init__(
        self, request: Request, database: Database, tables: KnownTables, settings: Settings, *, engine_info: str
    ) -> None:
        self._database, self._tables, self._settings = database, tables, settings
        self._engine_info = engine_info
        self._request = _sound(request)
        self._random_id = str(uuid.uuid4())
        self._after: dict[int, tuple[str, int]] = {}
        """The tables by their ids, with the version that each had before the first attempt."""
        self._in_doubt = False
        """A COMMIT of an earlier attempt had no reply: whether it takes place is for the log to say."""
        self._may_arrive = False
        """An append of one statement had no reply: it may take place after any look, as long as the table takes it."""
        self._now: int | None = None
        digested = request.token is not None and request.content is None
        limit = self._settings.catalog.stage_above
        self._preparations = [
            Preparation(
                self._database,
                Gathered(change, limit=limit, clock=self._clock, digested=digested),
                settings=self._settings.catalog,
                alone=len(request.changes) == 1,
            )
            for change in request.changes
        ]

    def run(self) -> Committed:
        """Commit the transaction; see :class:`deltamirror.txnlog.contract.TxnLogWriter`."""
        begun = time.time_ns()
        try:
            committed = self._to_the_end()
        except CommitUnknown:
            self._forget_tables()
            raise  # a stage may be part of the log; if not, it is swept later
        except BaseException:
            self._discard_stages()
            raise
        if self._in_doubt or committed.already_applied:
            self._forget_tables()  # the state of the tables after this or an earlier attempt is not known here
        if committed.already_applied:
            self._discard_stages()
        else:
            self._database.announce()
            if spans.are_recorded():
                spans.committed(self.txn_id, committed.versions, begun=begun)
        return committed

    def _to_the_end(self) -> Committed:
        """Try until it is committed, refused, or not worth another try."""
        failures = moves = 0
        while True:
            try:
                return self._attempt(fresh=bool(failures or moves))
            except StateMoved:
                moves += 1
                if moves > _MOVES_TOLERATED:
                    self._give_up(Transient("the table's metadata changes too fast to commit", hint="try again"))
            except Transient as error:
                if isinstance(error, CommitUnknown):
                    self._in_doubt = True
                    if (found := self._look(error)) is not None:
                        return found
                failures += 1
                if failures > self._settings.writer.retries:
                    self._give_up(error)
                self._pause(failures)
            except DeltaMirrorError as error:
                if (found := self._met(error)) is None:
                    self._give_up(error)
                return found

    def _met(self, error: DeltaMirrorError) -> Committed | None:
        """The answer if what an attempt ran into is what the transaction did itself."""
        if self._may_arrive and isinstance(error, _SETTLING) and (found := self._look(error)) is not None:
            return found  # it arrived after the last look
        # Sent twice at once, it meets the other one.
        return self._applied() if isinstance(error, Conflict | InvalidInput) else None

    def _give_up(self, error: DeltaMirrorError) -> NoReturn:
        """Raise what ends the transaction. One that may yet take place is not called refused: its files stay."""
        if self._may_arrive and not isinstance(error, (CommitUnknown, *_SETTLING)):
            what = (
                f"{error.message}; the transaction {self.txn_id}, a statement of which had no reply, may yet take place"
            )
            raise CommitUnknown(what, hint=_COMMIT_AGAIN) from error
        raise error

    def _forget_tables(self) -> None:
        self._tables.forget_all(change.table for change in self._request.changes)

    def _discard_stages(self) -> None:
        """Leave nothing behind of a transaction that failed."""
        for preparation in self._preparations:
            preparation.discard()

    def _attempt(self, *, fresh: bool) -> Committed:
        # A small append looks for its token itself; else it is looked for before any work is done.
        is_small = self._may_be_small_append
        if not is_small and (found := self._known_token()) is not None:
            return found
        try:
            drafts = [self._draft(preparation, fresh=fresh) for preparation in self._preparations]
        except DeltaMirrorError:
            if is_small and (found := self._known_token()) is not None:
                return found  # of the table as it was then
            raise
        for state in (draft.state for draft in drafts):
            self._after.setdefault(state.table_id, (state.name, state.version))
        if not any(draft.writes for draft in drafts):
            raise InvalidInput("the transaction writes nothing", hint="give it at least one action")
        return (self._append(drafts[0]) if is_small else None) or self._ratify(drafts)

    def _draft(self, preparation: Preparation, *, fresh: bool) -> Draft:
        if not fresh and preparation.may_be_stale:
            try:
                return preparation.draft(self._tables.state(preparation.table, remembered=True))
            except DeltaMirrorError:
                pass  # the table as it is may well allow what the remembered one does not
        return preparation.draft(self._tables.state(preparation.table))

    def _append(self, draft: Draft) -> Committed | None:
        """A small blind append by the engine alone, where it has that and nothing else has to be decided."""
        if not _is_small_append(draft):
            return None
        try:
            row = self._database.append(_small_append(draft, self.txn_id, self._engine_info, self._token_use))
        except CommitUnknown:
            self._may_arrive = True
            raise
        if row is None:
            self._tables.forget(draft.state.name)
            return None
        version, committed_at = row
        name = draft.state.name
        self._tables.see(draft.state.at(version, committed_at))
        return Committed(versions={name: version}, timestamp=committed_at)

    @property
    def _may_be_small_append(self) -> bool:
        """Whether nothing but what the draft comes to speaks against it."""
        return (
            self._database.takes_small_appends
            and not self._in_doubt
            and self._settings.writer.backlog_limit is None
            and len(self._preparations) == 1
            and self._preparations[0].may_be_stale
        )

    def _ratify(self, drafts: Sequence[Draft]) -> Committed:
        """Ratify; whatever takes long to compare is compared while others commit, and only the rest under the lock."""
        for _ in range(_CATCHING_UP_TOLERATED):
            try:
                return self._ratify_locked(drafts, however_far=False)
            except LeftBehind:
                drafts = [each.caught_up(draft) for each, draft in zip(self._preparations, drafts, strict=True)]
        return self._ratify_locked(drafts, however_far=True)

    def _ratify_locked(self, drafts: Sequence[Draft], *, however_far: bool) -> Committed:
        with self._database.write(Step.RATIFY) as session:
            heads, clock = lock_heads(self._database, session, drafts)
            # Under the locks: a writer that sent the same at the same time has committed, or will find ours.
            if (found := self._ratified_in(session)) is not None:
                return found
            if (found := self._token_in(session)) is not None:
                return found
            if (found := self._progress_in(session, drafts)) is not None:
                return found
            if self._settings.writer.on_divergence == "refuse":
                for draft in drafts:
                    if draft.writes:
                        require_undiverged(draft, heads[draft.state.table_id])
            if not however_far:
                for draft in drafts:
                    require_near(session, draft, heads[draft.state.table_id])
            drafts = [require_follows(session, draft, heads[draft.state.table_id]) for draft in drafts]
            writing = [draft for draft in drafts if draft.writes]
            require_timely(writing, {table_id: head.committed_at for table_id, head in heads.items()}, clock)
            require_progress(session.connection, [draft.progress for draft in writing])
            if (limit := self._settings.writer.backlog_limit) is not None:
                for draft in writing:
                    if self._is_mirrored(draft.state):
                        require_room(session, draft, heads[draft.state.table_id], limit)
            moment = next_timestamp(clock, max(heads[draft.state.table_id].committed_at for draft in writing))
            ratified = {
                draft.state.name: ratify(
                    session,
                    draft,
                    heads[draft.state.table_id],
                    time=moment,
                    txn_id=self.txn_id,
                    engine_info=self._engine_info,
                )
                for draft in writing
            }
            versions = {name: done.version for name, done in ratified.items()}
            timestamp = max(done.committed_at for done in ratified.values())
            self._insert_token(session, versions, timestamp)
        self._tables.remember(writing, ratified)
        return Committed(versions=versions, timestamp=timestamp)

    def _is_mirrored(self, state: TableState) -> bool:
        """Whether commits wait for the mirror at all: one that is switched off is not behind."""
        return settings_for(self._settings, state.name, state.metadata.configuration).mirror.enabled

    @property
    def txn_id(self) -> str:
        """The id of the transaction; of one with a token, known once all of it was read."""
        return self._random_id if (use := self._token_use) is None else use.txn_id

    @property
    def _token_use(self) -> TokenUse | None:
        """The token, for what it is used; known once all of that was read."""
        return None if self._request.token is None else TokenUse(self._request.token, self._content())

    @property
    def _changed(self) -> list[str]:
        """The tables that the transaction changes."""
        return [each.table for each in self._preparations if each.writes]

    def _content(self) -> bytes:
        """What tells a retry of the transaction from another one that uses the same token."""
        if self._request.content is not None:
            return self._request.content
        return content_digest(each.gathered.content for each in self._preparations)

    def _known_token(self) -> Committed | None:
        """The answer to an earlier use of the token, before any work is done for this one, if its content is known."""
        if self._request.token is None or not self._is_known:
            return None
        return find_token(self._database, self._request.token, self._content(), self._changed)

    @property
    def _is_known(self) -> bool:
        """Whether all that the content follows from is at hand: of a large stream, some is still to be read."""
        return self._request.content is not None or all(p.gathered.is_read for p in self._preparations)

    def _applied(self) -> Committed | None:
        """The answer for a transaction that is in the log by now."""
        if self._request.token is not None and not self._is_known:
            self._pass_over_rest()
        if (found := self._known_token()) is not None:
            return found
        if not any(p.app_versions for p in self._preparations):
            return None
        progress = [p.progress(self._tables.state(p.table).table_id) for p in self._preparations]
        with self._database.read() as connection:
            return find_applied(connection, progress)

    def _pass_over_rest(self) -> None:
        """Read large streams to their ends: only all of it tells a retry from another use of the token."""
        with suppress(InvalidInput):  # a broken stream is no retry of what was committed
            for preparation in self._preparations:
                preparation.gathered.pass_over_rest()

    def _progress_in(self, session: Session, drafts: Sequence[Draft]) -> Committed | None:
        progress = [draft.progress for draft in drafts]
        if not any(each.app_versions for each in progress):
            return None
        return find_applied(session.connection, progress)

    def _token_in(self, session: Session) -> Committed | None:
        if (use := self._token_use) is None:
            return None
        rows = session.rows(FIND_TOKEN, use.values)
        return use.answer(session.connection, rows, self._changed) if rows else None

    def _insert_token(self, session: Session, versions: Mapping[str, int], timestamp: int) -> None:
        if (use := self._token_use) is not None:
            row = {
                "token": use.token,
                "content": use.content,
                "txn_id": use.txn_id,
                "committed_at": timestamp,
                "versions": msgspec.json.encode(versions).decode(),
            }
            session.run(INSERT_TOKEN, row)

    def _look(self, error: DeltaMirrorError) -> Committed | None:
        """Ask the log what became of a COMMIT whose reply was lost; None if it did not take place."""
        for attempt in range(self._settings.writer.retries + 1):
            self._pause(attempt)
            try:
                return self._find_by_txn_id()
            except DeltaMirrorError:  # also one that refuses to be asked says nothing of the COMMIT
                continue
        raise CommitUnknown(
            f"{error.message}; the database cannot be asked what became of the transaction {self.txn_id}",
            hint=_COMMIT_AGAIN,
        ) from error

    def _find_by_txn_id(self) -> Committed | None:
        with self._database.write(Step.FIND_COMMIT) as session:
            # A COMMIT that is still on its way holds the heads: once they are ours, its fate is sealed.
            for table_id in sorted(self._after):
                self._database.lock_head(session, table_id)
            return self._versions_in(session)

    def _ratified_in(self, session: Session) -> Committed | None:
        """The answer if the transaction is there: a statement that was delayed may arrive after any look."""
        return self._versions_in(session) if self._in_doubt else None

    def _versions_in(self, session: Session) -> Committed | None:
        """The versions that the transaction has, under the locks of its tables; None if it has none."""
        found: dict[str, int] = {}
        timestamp = 0
        for table_id, (name, after) in self._after.items():
            values = {"table_id": table_id, "after": after, "txn_id": self.txn_id}
            # An adoption may have given it another version since.
            for query in (COMMITTED_BY, SUPERSEDED_BY):
                for version, committed_at in session.rows(query, values):
                    found[name], timestamp = version, committed_at
        return Committed(versions=found, timestamp=timestamp) if found else None

    def _pause(self, attempt: int) -> None:
        writer = self._settings.writer
        nominal = min(writer.retry_max, writer.retry_base * 2 ** max(attempt - 1, 0))
        if attempt > 1:  # the first retry comes at once: most failures are gone by then
            time.sleep(nominal * random.uniform(0.9, 1.1))  # noqa: S311 - jitter, not a secret

    def _clock(self) -> int:
        """The time at which the transaction first asked for it."""
        if self._now is None:
            with self._database.read() as connection:
                self._now = int(connection.execute(select(CLOCK)).scalar_one())
        return self._now


def _sound(request: Request) -> Request:
    names = [change.table for change in request.changes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"the transaction changes the table {name!r} twice", hint="put all actions into one change"
            )
    for change in request.changes:
        for version in (change.read_version, change.at_version):
            if version is not None and not 0 <= version < _VERSIONS:
                raise InvalidInput(
                    f"the change of {change.table!r} names version {version}", hint="versions are counted from 0"
                )
        if change.at_version is not None and (change.read_version or 0) > max(change.at_version - 1, 0):
            raise InvalidInput(
                f"the change of {change.table!r} cannot become version {change.at_version}: "
                f"it was computed from version {change.read_version}",
                hint="a commit comes after what it was computed from: leave one of the two versions out",
            )
    return request


def _is_small_append(draft: Draft) -> bool:
    """Whether a draft is nothing but some adds, and leaves nothing else to decide."""
    return (
        draft.standing is None
        and draft.staged is None
        and not draft.is_verbatim
        and not draft.foundation
        and 0 < len(draft.body) <= MOST_FILES
        and all(type(action) is Add for action in draft.body)
        and not draft.tracks_rows
    )


def _small_append(draft: Draft, txn_id: str, engine_info: str, token: TokenUse | None) -> SmallAppend:
    """What the database needs of a draft; it puts its time in front of the rest."""
    info = authored_info(draft, time=0, txn_id=txn_id, engine_info=engine_info)
    state, commit_id, opening = draft.state, fresh_commit_id(), opening_of(0, timestamped=draft.state.timestamped)
    adds = [action for action in draft.body if type(action) is Add]
    return SmallAppend(
        table_id=state.table_id,
        commit_id=commit_id,
        metadata_version=state.metadata_version,
        protocol_version=state.protocol_version,
        lineage=state.lineage,
        at_version=draft.change.at_version,
        timestamped=state.timestamped,
        rest=lines.encode(info).removeprefix(opening) + b"\n" + lines.encode_commit(draft.body),
        txn_id=txn_id,
        operation=info.operation,
        read_version=draft.read_version,
        files=[file_row(state.table_id, commit_id, ordinal, add) for ordinal, add in enumerate(adds)],
        name=json_text(state.name),
        **({} if token is None else {**token.values, "content": token.content}),
    )
