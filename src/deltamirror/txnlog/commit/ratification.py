"""Under the lock: whether a transaction may follow what came before it, and making it part of the log.

Everything here runs inside the one short SQL transaction of a commit, after the heads are locked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from sqlalchemy import Connection, func, select

from deltamirror.delta import lines
from deltamirror.delta.actions import Action, CommitInfo, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.chunks import Chunk, commit_digest, plain_chunk
from deltamirror.delta.commitinfo import commit_info
from deltamirror.delta.conflicts import isolation_for, table_isolation
from deltamirror.delta.evolution import check_change
from deltamirror.delta.properties import in_commit_timestamps
from deltamirror.delta.rowtracking import ROW_TRACKING_DOMAIN, RowIds, assign, high_water_mark
from deltamirror.delta.timestamps import with_enablement
from deltamirror.errors import Conflict, Diverged, InvalidAction, Refused, Unavailable
from deltamirror.txnlog.commit.conflicts import require_no_conflict
from deltamirror.txnlog.commit.draft import Draft, after
from deltamirror.txnlog.commit.request import Change
from deltamirror.txnlog.commit.staging import (
    catch_up,
    catch_up_unlocked,
    claim,
    fresh_commit_id,
    meet_winners,
    move_ids,
    move_ids_unlocked,
)
from deltamirror.txnlog.commit.times import require_provenance, verbatim_time
from deltamirror.txnlog.content.chunks import chunk_row
from deltamirror.txnlog.content.projection import (
    FileChanges,
    LiveFile,
    MetFiles,
    RemainingFiles,
    insert_small_actions,
    require_live_once,
    require_own_ids,
)
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.schema import chunks, domains, heads, tables, versions
from deltamirror.txnlog.database.statements import INSERT_CHUNK, INSERT_STATUS, INSERT_VERSION, MOVE_HEAD
from deltamirror.work import Status

LINES_UNDER_LOCK = 1_000
"""How much of what others committed since a draft was checked is read while its table is locked."""


@dataclass(frozen=True, slots=True)
class Head:
    """The newest version of a table, locked."""

    version: int
    committed_at: int
    metadata_version: int
    protocol_version: int
    lineage: int = 0
    diverged_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratified:
    """A version that the transaction gave to a table."""

    version: int
    committed_at: int


class StateMoved(Exception):
    """Metadata, protocol or history of the table are not those that the draft was checked against: check it again."""


class LeftBehind(Exception):
    """So much was committed since the draft was checked that reading it would keep others from the table for long."""


def lock_heads(database: Database, session: Session, drafts: Sequence[Draft]) -> tuple[dict[int, Head], int]:
    """Lock the heads of all tables of the transaction, in one order for all writers; then look at the clock."""
    found, clock = {}, 0
    for draft in sorted(drafts, key=lambda draft: draft.state.table_id):
        rows = database.lock_head(session, draft.state.table_id)
        if not rows:
            raise StateMoved  # dropped; by this name there may be another one
        *head, clock = rows[0]
        found[draft.state.table_id] = Head(*head)
    return found, clock


def require_exact(change: Change, head: int) -> None:
    """Refuse a change that asks for another version than the next one."""
    exact = change.at_version
    if exact is not None and head != exact - 1:
        raise Conflict(
            f"table {change.table!r}: version {exact} was asked for, but the next version is {head + 1}",
            hint="read the table again; leave out --at-version to let the commit be rebased",
            table=change.table,
            reason="version-taken" if head >= exact else "version-ahead",
            read_version=exact - 1,
            actual_version=head,
        )


def require_follows(session: Session, draft: Draft, head: Head) -> Draft:
    """Check the draft against everything that was committed since it was computed."""
    state = draft.state
    if head.lineage != state.lineage:
        raise StateMoved
    require_exact(draft.change, head.version)
    if draft.standing is not None:
        draft = replace(draft, standing=require_no_conflict(session.connection, draft.standing, head.version))
    if (head.metadata_version, head.protocol_version) != (state.metadata_version, state.protocol_version):
        raise StateMoved
    return draft


def require_near(session: Session, draft: Draft, head: Head) -> None:
    """Refuse to read, under the lock, more of what others committed than takes a moment."""
    if draft.staged is not None and _has_other_ids(session, draft, head):
        raise LeftBehind
    if (since := draft.checked_version) is not None and since < head.version:
        c = versions.c
        lines_since = select(func.sum(c.num_lines)).where(c.table_id == draft.state.table_id, c.version > since)
        if int(session.execute(lines_since).scalar() or 0) > LINES_UNDER_LOCK:
            raise LeftBehind


def caught_up(database: Database, draft: Draft) -> Draft:
    """The draft, held against everything that was committed so far, before its table is locked."""
    state, staged = draft.state, draft.staged
    if draft.checked_version is None:
        return draft
    with database.read() as connection:
        head = connection.execute(select(heads.c.version).where(heads.c.table_id == state.table_id)).scalar()
        if head is None:
            return draft  # dropped, which is noticed under the lock
        if draft.standing is not None:
            draft = replace(draft, standing=require_no_conflict(connection, draft.standing, head))
        if staged is None:
            return draft
        winners = _commits_since(connection, state.table_id, staged.resolved_version)
        met = meet_winners(connection, staged, table_id=state.table_id, winners=winners)
        start = RowIds(high_water_mark=row_id_mark(connection, state.table_id), version=head + 1).start
    staged = catch_up_unlocked(database, staged, table_id=state.table_id, head=head, met=met)
    staged = move_ids_unlocked(database, staged, table_id=state.table_id, version=head + 1, start=start)
    return replace(draft, staged=staged)


def _has_other_ids(session: Session, draft: Draft, head: Head) -> bool:
    """Whether the row ids of a stage are not those that follow the head."""
    ids = None if draft.staged is None else draft.staged.row_ids
    return ids is not None and (ids.version, ids.start) != (head.version + 1, _first_ids(session, draft, head).start)


def _first_ids(session: Session, draft: Draft, head: Head) -> RowIds:
    mark = row_id_mark(session.connection, draft.state.table_id)
    return RowIds(high_water_mark=mark, version=head.version + 1)


def require_undiverged(draft: Draft, head: Head) -> None:
    """Refuse a commit to a table whose log holds foreign commits: it could not be published as it is."""
    if (found := head.diverged_version) is None:
        return
    name = draft.state.name
    raise Diverged(
        f"another writer wrote version {found} to the log of table {name!r}; the database is at version {head.version}",
        hint=f"`deltamirror adopt {name}` takes it in; `deltamirror report {name}` shows what was found",
        table=name,
        version=found,
    )


def require_room(session: Session, draft: Draft, head: Head, limit: int) -> None:
    """Refuse a commit to a table whose mirror is too far behind."""
    query = select(tables.c.published_version).where(tables.c.table_id == draft.state.table_id)
    backlog = head.version - int(session.execute(query).scalar_one())
    if backlog >= limit:
        raise Refused(
            f"table {draft.state.name!r} has {backlog} unpublished versions; the limit is {limit}",
            hint="let the mirror catch up, or raise writer.backlog_limit",
            table=draft.state.name,
        )


def ratify(session: Session, draft: Draft, head: Head, *, time: int, txn_id: str, engine_info: str) -> Ratified:
    """Write the next version of a table: bytes, projections, status, head."""
    version = head.version + 1
    draft = _with_next_ids(session, draft, head)
    if draft.is_verbatim:
        info = draft.info
        time, opening, actions = verbatim_time(draft, head.committed_at, time), draft.raw or b"", draft.body
    else:
        foundation, actions = _computed(session, draft, version=version, time=time)
        info = authored_info(draft, time=time, txn_id=txn_id, engine_info=engine_info)
        opening = lines.encode_commit((info, *foundation, *actions))
        actions = (*foundation, *actions)
    commit_id = _insert_files(session, draft, actions) if draft.staged is None else _adopt_stage(session, draft)
    small = actions if draft.staged is None else (*actions, *draft.staged.small_actions, *_closing(draft))
    insert_small_actions(session, draft.state.table_id, version, small)
    operation = None if info is None else info.operation
    written = _Written(
        version=version,
        time=time,
        commit_id=commit_id,
        txn_id=txn_id,
        operation=operation,
        opening=opening,
        num_lines=len(actions) + (0 if draft.is_verbatim else 1),
        changes_metadata=any(isinstance(action, Metadata) for action in small),
        changes_protocol=any(isinstance(action, Protocol) for action in small),
    )
    _insert_version(session, draft, written, small)
    _move_head(session, draft.state.table_id, head, written)
    return Ratified(version=version, committed_at=time)


def _with_next_ids(session: Session, draft: Draft, head: Head) -> Draft:
    """The draft, the files of its stage with the row ids that follow the head."""
    if draft.staged is None or not _has_other_ids(session, draft, head):
        return draft
    ids = _first_ids(session, draft, head)
    table_id = draft.state.table_id
    staged = move_ids(session, draft.staged, table_id=table_id, version=ids.version, start=ids.start)
    return replace(draft, staged=staged)


def _closing(draft: Draft) -> tuple[Action, ...]:
    """What comes after the lines of a stage: how far its row ids have come."""
    ids = None if draft.staged is None else draft.staged.row_ids
    return () if ids is None or ids.domain is None else (ids.domain,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    version: int
    time: int
    commit_id: int
    txn_id: str
    operation: str | None
    opening: bytes
    num_lines: int
    changes_metadata: bool
    changes_protocol: bool


def authored_info(draft: Draft, *, time: int, txn_id: str, engine_info: str) -> CommitInfo:
    """The commitInfo of a commit that we author."""
    told, state = draft.description, draft.state
    metadata = next((action for action in draft.foundation if isinstance(action, Metadata)), None)
    timestamped = state.timestamped if metadata is None else in_commit_timestamps(metadata)
    level = state.isolation if metadata is None else table_isolation(metadata)
    return commit_info(
        operation=told.name or "",
        parameters=told.parameters or {},
        timestamp=time,
        in_commit_timestamp=time if timestamped else None,
        read_version=None if draft.read_version < 0 else draft.read_version,
        isolation=isolation_for(draft.facts, level).value,
        is_blind_append=draft.facts.is_blind_append,
        metrics=told.metrics or {},
        user_metadata=told.user_metadata,
        tags=_tags(draft, told.tags),
        engine_info=engine_info,
        txn_id=txn_id,
    )


def _tags(draft: Draft, told: Mapping[str, str] | None) -> Mapping[str, str] | None:
    if draft.standing is None or not draft.standing.adopted.row_tracking_enabled:
        return told
    # Rows that were copied before their table tracked rows have not kept ids that they did not have.
    return {**(told or {}), "delta.rowTracking.preserved": "false"}


def _computed(
    session: Session, draft: Draft, *, version: int, time: int
) -> tuple[tuple[Metadata | Protocol, ...], tuple[Action, ...]]:
    """Foundation and body with everything that depends on version, time and state."""
    state = draft.state
    before = None if version == 0 else state.metadata
    foundation = tuple(
        with_enablement(before, action, version=version, timestamp=time) if isinstance(action, Metadata) else action
        for action in draft.foundation
    )
    if draft.staged is not None or not draft.tracks_rows:
        return foundation, draft.body
    try:
        require_own_ids(session.connection, state.table_id, draft.body)
        body, _ = assign(draft.body, high_water_mark=row_id_mark(session.connection, state.table_id), version=version)
    except InvalidAction as error:
        error.table = state.name
        raise
    return foundation, tuple(body)


def row_id_mark(connection: Connection, table_id: int) -> int | None:
    """The last row id that a table has handed out; None if none."""
    c = domains.c
    newest = select(domains).where(c.table_id == table_id, c.domain == ROW_TRACKING_DOMAIN).order_by(c.version.desc())
    row = connection.execute(newest.limit(1)).one_or_none()
    if row is None:
        return None
    stored = DomainMetadata(domain=row.domain, configuration=row.configuration, removed=row.removed)
    return high_water_mark({row.domain: stored})


def _insert_files(session: Session, draft: Draft, actions: Sequence[Action]) -> int:
    commit_id, table_id = fresh_commit_id(), draft.state.table_id
    changes = FileChanges(table_id, commit_id, actions)
    met = changes.meet(session) if changes else MetFiles()
    missing = changes.missing(met.ended)
    if missing and not draft.is_verbatim:
        raise not_in_table(draft.state.name, sorted(path for path, _ in missing))
    if met.doubled or draft.facts.metadata is not None:
        added = {path for path, _ in changes.added}
        left = RemainingFiles(session=session, table_id=table_id, ended=met.ended, added=added, kept=met.kept)
        _require_lawful(draft, doubled=met.doubled, left=left)
    changes.insert(session, met.ended)
    return commit_id


def _adopt_stage(session: Session, draft: Draft) -> int:
    staged, table_id = draft.staged, draft.state.table_id
    assert staged is not None  # noqa: S101 - narrows the type; the caller has just tested it
    if staged.num_missing and not draft.is_verbatim:
        raise not_in_table(draft.state.name, [f"{staged.num_missing} of {staged.num_removed} files"])
    winners = _commits_since(session.connection, table_id, staged.resolved_version)
    kept = catch_up(session, staged, table_id=table_id, winners=winners) or staged.keeps_files
    if draft.facts.metadata is not None:
        left = RemainingFiles(session=session, table_id=table_id, kept=kept, stage=staged.commit_id)
        _require_lawful(draft, doubled=(), left=left)
    if not claim(session, staged):
        raise Unavailable(
            f"the staged commit to {draft.state.name!r} took so long that it was swept",
            hint="commit again; if this repeats, raise catalog.stage_ttl",
        )
    return staged.commit_id


def _require_lawful(draft: Draft, *, doubled: Sequence[LiveFile], left: RemainingFiles) -> None:
    """Refuse a commit after which the files that stay could not be read as they were; before anything is written.

    Under the lock, since an append that came in between has files, too. A version that is in the log already is taken
    as it is: its readers have it, and the table could not go on without it.
    """
    state, change = draft.state, draft.change
    if change.is_in_log:
        return
    try:
        require_live_once(doubled)
        metadata = next((action for action in draft.small_actions if isinstance(action, Metadata)), None)
        if metadata is not None and state.version >= 0 and not change.restores:
            protocol, _ = after(state, draft.small_actions)
            checked = draft.is_verbatim or change.rows_checked
            known = _restores(draft) and left.were_there_under(metadata)
            check_change(
                state.metadata, metadata, protocol=protocol, left=left, rows_checked=checked, columns_known=known
            )
            if draft.is_verbatim:
                require_provenance(draft, metadata)
    except InvalidAction as error:
        error.table = state.name
        raise


def _restores(draft: Draft) -> bool:
    """Whether complete lines of another writer say that they bring back an earlier version."""
    return draft.is_verbatim and draft.info is not None and draft.info.operation == "RESTORE"


def _commits_since(connection: Connection, table_id: int, version: int) -> Sequence[int]:
    c = versions.c
    return connection.execute(select(c.commit_id).where(c.table_id == table_id, c.version > version)).scalars().all()


def _insert_version(session: Session, draft: Draft, written: _Written, small: Sequence[Action]) -> None:
    staged, opening, closing = draft.staged, plain_chunk(written.opening), _closing(draft)
    digests = (opening.digest,) if staged is None else (opening.digest, *staged.digests)
    _insert_chunk(session, opening, written.commit_id, 0)
    last = plain_chunk(lines.encode_commit(closing))
    if closing:
        _insert_chunk(session, last, written.commit_id, len(digests))
        digests = (*digests, last.digest)
    app_ids = [action.app_id for action in small if isinstance(action, Txn)]
    set_domains = [action.domain for action in small if isinstance(action, DomainMetadata)]
    session.run(
        INSERT_VERSION,
        {
            "table_id": draft.state.table_id,
            "version": written.version,
            "commit_id": written.commit_id,
            "committed_at": written.time,
            "txn_id": written.txn_id,
            "kind": "verbatim" if draft.is_verbatim else "authored",
            "operation": written.operation,
            "read_version": draft.read_version if draft.read_version >= 0 else None,
            "is_blind_append": draft.facts.is_blind_append,
            "changes_metadata": written.changes_metadata,
            "changes_protocol": written.changes_protocol,
            "app_ids": _json_array(app_ids),
            "domains": _json_array(set_domains),
            "num_lines": written.num_lines + (0 if staged is None else staged.num_lines) + len(closing),
            "num_bytes": len(written.opening) + (0 if staged is None else staged.num_bytes) + last.raw_bytes,
            "num_added": draft.num_added,
            "num_removed": draft.num_removed,
            "num_chunks": len(digests),
            "digest": commit_digest(digests),
        },
    )
    pending = {"state": Status.PENDING, "attempts": 0, "updated_at": written.time}
    session.run(INSERT_STATUS, {"table_id": draft.state.table_id, "version": written.version, **pending})


def _insert_chunk(session: Session, chunk: Chunk, commit_id: int, number: int) -> None:
    session.run(INSERT_CHUNK, dict(zip(_CHUNK_COLUMNS, chunk_row(chunk, commit_id, number), strict=True)))


def _move_head(session: Session, table_id: int, head: Head, written: _Written) -> None:
    session.run(
        MOVE_HEAD,
        {
            "head_of": table_id,
            "new_version": written.version,
            "new_time": written.time,
            "new_metadata": written.version if written.changes_metadata else head.metadata_version,
            "new_protocol": written.version if written.changes_protocol else head.protocol_version,
        },
    )


_CHUNK_COLUMNS = tuple(column.name for column in chunks.columns)


def _json_array(names: list[str]) -> str | None:
    return msgspec.json.encode(names).decode() if names else None


def not_in_table(table: str, paths: Sequence[str]) -> InvalidAction:
    """The error for removing files that the table does not have."""
    return InvalidAction(
        f"the commit removes files that are not in table {table!r}: {', '.join(paths[:3])}"
        + (f" and {len(paths) - 3} more" if len(paths) > 3 else ""),
        hint="`deltamirror table files` shows the files; a path has to be spelled as it was added",
        rule="remove.path.not-in-table",
        action="remove",
        field="path",
        found=paths[0],
        table=table,
    )
