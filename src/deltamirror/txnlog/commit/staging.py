"""Large commits: their lines and file rows go into the database before any head is locked.

They are stored under a commit id that no version names, so no reader sees them. Ratifying the commit names the id.
A stage whose writer died is an orphan: ``sweep`` deletes it.
"""

import secrets
import time
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from sqlalchemy import Connection, delete, select, update

from deltamirror.batches import batched
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, Remove
from deltamirror.delta.chunks import Chunk, compressed_chunk
from deltamirror.delta.commitinfo import WriteMetrics
from deltamirror.delta.validation import PlainBlock
from deltamirror.errors import DeltaMirrorError, Unavailable
from deltamirror.steps import Step
from deltamirror.txnlog.commit.input import InputBlock
from deltamirror.txnlog.commit.staged_row_ids import StagedIds, move_rows, moved_chunks, replace_chunks
from deltamirror.txnlog.content.chunks import chunk_row, chunks_numbered, commit_actions
from deltamirror.txnlog.content.projection import (
    LiveFile,
    MetFiles,
    hash_of,
    insert_ends,
    insert_missing_ends,
    live_files_in,
    require_live_once,
    staged_keys,
    staged_overlaps,
)
from deltamirror.txnlog.content.rows import file_columns, file_row, remove_row
from deltamirror.txnlog.database.access import Database, Row, Session
from deltamirror.txnlog.database.clock import time_of
from deltamirror.txnlog.database.schema import chunks, file_ends, files, heads, removes, stages

# Lines in one transaction: few enough that other writers get their turn on SQLite, many enough to be fast.
_LINES_AT_ONCE = 100_000
_CHUNKS_AT_ONCE = 50
_PATHS_AT_ONCE = 10_000
_HASH = files.c.path_hash.name


def fresh_commit_id() -> int:
    """An id for the rows of a commit: 42 bits of time, so that its rows lie together, and 20 bits of chance."""
    return (time.time_ns() // 1_000_000 << 21) | (secrets.randbits(20) << 1)


def fresh_stage_id() -> int:
    """One for the rows of a stage. The last bit tells it from all others: to delete a stage touches no other commit."""
    return fresh_commit_id() | 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A commit's body in the database, not yet part of any table."""

    commit_id: int
    resolved_version: int
    """Up to which version of the table it is known which files the commit ends."""
    num_lines: int
    num_bytes: int
    num_added: int
    num_removed: int
    num_missing: int
    """How many of the files that it removes the table did not have when the stage was resolved."""
    keeps_files: bool
    """Whether it adds paths that the table had when the stage was resolved."""
    digests: tuple[bytes, ...]
    small_actions: tuple[Action, ...]
    sample: tuple[Remove, ...]
    """One of its removes, if it has any."""
    metrics: dict[str, str]
    data_change: bool
    row_ids: StagedIds | None = None
    """The ids of its files' rows, where the table tracks them."""


@dataclass(frozen=True, slots=True)
class _Resolved:
    """What a stage comes to in the table as it was at a version."""

    version: int
    num_removed: int = 0
    """How many of the files that it removes the table had."""
    keeps_files: bool = False


@dataclass(slots=True)
class _Batch:
    """What goes into the database in one transaction."""

    chunks: list[Future[Chunk]] = field(default_factory=list)
    plain: list[tuple[int, PlainBlock]] = field(default_factory=list)
    """Blocks of adds, each with the ordinal of its first."""
    added: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class _Tally:
    """What a stage has seen so far."""

    lines: int = 0
    size: int = 0
    added: int = 0
    removed: int = 0
    data_change: bool = False
    digests: list[bytes] = field(default_factory=list)
    small: list[Action] = field(default_factory=list)
    sample: tuple[Remove, ...] = ()
    metrics: WriteMetrics = field(default_factory=WriteMetrics)
    added_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    removed_hashes: "array[int]" = field(default_factory=lambda: array("q"))
    """Of the paths that the commit adds, and removes: by them it is found what they meet in the table."""


class StagedBody:
    """Puts one commit's body into the database, a hundred thousand lines at a time.

    While one thread writes a batch, the next is encoded, and another thread compresses its chunks.
    """

    def __init__(self, database: Database, table_id: int) -> None:
        self._database = database
        self._table_id = table_id
        self.commit_id = fresh_stage_id()
        self._has_begun = False
        self._tally = _Tally()

    def fill(self, blocks: Iterable[InputBlock]) -> Staged:
        """Store all lines; on any error nothing is left behind."""
        try:
            with self._database.write(Step.BEGIN_STAGE) as session:
                # The head first: a file that comes between the two is found, not overlooked.
                begun_at, had_files = self._head(session.connection), _has_files(session, self._table_id)
                self._begin(session)
                self._has_begun = True  # before COMMIT: its reply may be lost
            self._store(iter(blocks))
            resolved = self._resolve() if had_files else _Resolved(begun_at)
        except BaseException:
            if self._has_begun:
                discard(self._database, self._table_id, self.commit_id)
            raise
        tally = self._tally
        return Staged(
            commit_id=self.commit_id,
            resolved_version=resolved.version,
            num_lines=tally.lines,
            num_bytes=tally.size,
            num_added=tally.added,
            num_removed=tally.removed,
            num_missing=tally.removed - resolved.num_removed,
            keeps_files=resolved.keeps_files,
            digests=tuple(tally.digests),
            small_actions=tuple(tally.small),
            sample=tally.sample,
            metrics=tally.metrics.texts(),
            data_change=tally.data_change,
        )

    def _begin(self, session: Session) -> None:
        """Record the stage under an id that has no rows yet: those of another one would be deleted with ours."""
        while _is_taken(session, self.commit_id):
            self.commit_id = fresh_stage_id()
        session.insert_many(stages, [(self.commit_id, self._table_id, time_of(session.connection))])

    def _store(self, blocks: Iterator[InputBlock]) -> None:
        # One batch is written at a time; the other thread compresses the chunks of the next.
        with ThreadPoolExecutor(max_workers=2, thread_name_prefix="deltamirror-stage") as executor:
            writing: Future[None] | None = None
            while (batch := self._next_batch(blocks, executor)).chunks:
                if writing is not None:
                    writing.result()
                writing = executor.submit(self._write, batch)
            if writing is not None:
                writing.result()

    def _next_batch(self, blocks: Iterator[InputBlock], executor: ThreadPoolExecutor) -> _Batch:
        batch, number = _Batch(), 0
        for block in blocks:
            batch.chunks.append(executor.submit(compressed_chunk, block.data))
            if block.plain is not None:
                self._count_plain(block.plain, batch)
            else:
                for action in block.actions:
                    self._count(action, batch)
            number += len(block.actions)
            if number >= _LINES_AT_ONCE:
                break
        return batch

    def _count_plain(self, block: PlainBlock, batch: _Batch) -> None:
        tally, number = self._tally, len(block.paths)
        batch.plain.append((tally.lines, block))
        tally.added += number
        tally.lines += number
        tally.data_change |= any(block.data_changes)
        tally.metrics.see_files(block.sizes, block.num_records)

    def _count(self, action: Action, batch: _Batch) -> None:
        tally = self._tally
        if isinstance(action, Add):
            batch.added.append(file_row(self._table_id, self.commit_id, tally.lines, action))
            tally.added += 1
            tally.data_change |= action.data_change
        elif isinstance(action, Remove):
            batch.removed.append(remove_row(self._table_id, self.commit_id, tally.lines, action))
            tally.removed += 1
            tally.sample = (action,)
            tally.data_change |= action.data_change
        else:
            tally.small.append(action)
        tally.metrics.see(action)
        tally.lines += 1

    def _write(self, batch: _Batch) -> None:
        packed = [chunk.result() for chunk in batch.chunks]
        first = len(self._tally.digests) + 1  # chunk 0 is written when the commit is ratified
        self._tally.digests += [chunk.digest for chunk in packed]
        self._tally.size += sum(chunk.raw_bytes for chunk in packed)
        plain = file_columns(self._table_id, self.commit_id, batch.plain)
        batch.added.sort(key=hash_of)
        batch.removed.sort(key=hash_of)
        self._tally.added_hashes.extend(chain(plain[_HASH], map(hash_of, batch.added)))
        self._tally.removed_hashes.extend(map(hash_of, batch.removed))
        with self._database.write(Step.STORE_LINES) as session:
            _touch(session, self.commit_id)
            session.insert_many(chunks, [chunk_row(chunk, self.commit_id, first + n) for n, chunk in enumerate(packed)])
            session.insert_columns(files, plain, by=_HASH)
            session.insert_many(files, batch.added)
            session.insert_many(removes, batch.removed)

    def _resolve(self) -> "_Resolved":
        """Record which files the commit ends. Refuse to add a path that stays with another deletion vector."""
        with self._database.read() as connection:
            head = self._head(connection)
            own, tally = (self._table_id, self.commit_id), self._tally
            replaced, beside = staged_overlaps(connection, files, *own, tally.added_hashes)
            removed, _ = staged_overlaps(connection, removes, *own, tally.removed_hashes)
        require_live_once(beside - removed)
        with self._database.write(Step.END_FILES) as session:
            _touch(session, self.commit_id)
            insert_ends(session, self._table_id, self.commit_id, replaced | removed)
        return _Resolved(head, num_removed=len(removed), keeps_files=bool(replaced or beside))

    def _head(self, connection: Connection) -> int:
        """The head of the table; -1 for one that was dropped, which is noticed when the commit is ratified."""
        head = connection.execute(select(heads.c.version).where(heads.c.table_id == self._table_id)).scalar()
        return -1 if head is None else int(head)


def staged_actions(database: Database, staged: Staged) -> Iterator[Action]:
    """The actions of a stage, in order, read in small transactions."""
    for numbers in _chunk_numbers(staged):
        with database.read() as connection:
            some = chunks_numbered(connection, staged.commit_id, numbers)
        for chunk in some:
            yield from lines.decode_commit(chunk.decoded())


def catch_up(session: Session, staged: Staged, *, table_id: int, winners: Collection[int]) -> bool:
    """End the files of these winners that the staged commit adds or removes; whether it adds one of them."""
    met = meet_winners(session.connection, staged, table_id=table_id, winners=winners)
    insert_missing_ends(session, table_id, staged.commit_id, met.ended)
    return met.kept


def meet_winners(connection: Connection, staged: Staged, *, table_id: int, winners: Collection[int]) -> MetFiles:
    """The files that these winners added, and that the staged commit ends.

    Refuse to add a path that a winner added with another deletion vector.
    """
    actions = chain.from_iterable(commit_actions(connection, winner) for winner in winners)
    added = (action.path for action in actions if isinstance(action, Add))
    ended: set[LiveFile] = set()
    kept = False
    for some in batched(added, _PATHS_AT_ONCE):
        met = _meet(connection, staged, some, table_id=table_id, winners=winners)
        ended.update(met.ended)
        kept |= met.kept
    return MetFiles(ended=tuple(ended), kept=kept)


def _meet(
    connection: Connection, staged: Staged, added: Sequence[str], *, table_id: int, winners: Collection[int]
) -> MetFiles:
    """The same of some paths that they added."""
    keys = staged_keys(connection, table_id, staged.commit_id, added)
    live = live_files_in(connection, table_id, [path for path, _ in keys])
    theirs = [file for file in live if file.commit_id in winners]
    ended = {file for file in theirs if file.key in keys}
    adds = staged_keys(connection, table_id, staged.commit_id, [file.key[0] for file in theirs], sources=[files])
    paths = {path for path, _ in adds}
    require_live_once(file for file in theirs if file.key[0] in paths and file not in ended)
    return MetFiles(ended=tuple(ended), kept=any(file.key[0] in paths for file in ended))


def catch_up_unlocked(database: Database, staged: Staged, *, table_id: int, head: int, met: MetFiles) -> Staged:
    """Record what winners up to ``head`` make the stage end, before its table is locked."""
    with database.write(Step.CATCH_UP) as session:
        _touch(session, staged.commit_id)
        insert_missing_ends(session, table_id, staged.commit_id, met.ended)
    return replace(staged, resolved_version=head, keeps_files=staged.keeps_files or met.kept)


def move_ids(session: Session, staged: Staged, *, table_id: int, version: int, start: int) -> Staged:
    """Give a stage the row ids of another version, in this transaction."""
    if (old := staged.row_ids) is None:
        return staged
    new, numbers = old.moved(version=version, start=start), range(1, len(staged.digests) + 1)
    packed = moved_chunks(session.connection, staged.commit_id, numbers, old=old, new=new)
    replace_chunks(session, staged.commit_id, numbers, packed)
    move_rows(session, table_id, staged.commit_id, range(staged.num_lines), old=old, new=new)
    return _with_chunks(staged, packed, new)


def move_ids_unlocked(database: Database, staged: Staged, *, table_id: int, version: int, start: int) -> Staged:
    """Give a stage the row ids of another version, in small transactions; a failure leaves a useless stage."""
    if (old := staged.row_ids) is None or (old.version, old.start) == (version, start):
        return staged
    new, packed = old.moved(version=version, start=start), list[Chunk]()
    for numbers in _chunk_numbers(staged):
        with database.read() as connection:
            some = moved_chunks(connection, staged.commit_id, numbers, old=old, new=new)
        with database.write(Step.MOVE_ROW_IDS) as session:
            _touch(session, staged.commit_id)
            replace_chunks(session, staged.commit_id, numbers, some)
        packed += some
    for first in range(0, staged.num_lines, _LINES_AT_ONCE):
        with database.write(Step.MOVE_ROW_IDS) as session:
            _touch(session, staged.commit_id)
            move_rows(session, table_id, staged.commit_id, range(first, first + _LINES_AT_ONCE), old=old, new=new)
    return _with_chunks(staged, packed, new)


def _chunk_numbers(staged: Staged) -> Iterator[range]:
    """The numbers of a stage's chunks, as many at a time as are read in one transaction."""
    end = len(staged.digests) + 1
    return (range(first, min(first + _CHUNKS_AT_ONCE, end)) for first in range(1, end, _CHUNKS_AT_ONCE))


def _with_chunks(staged: Staged, packed: Sequence[Chunk], ids: StagedIds) -> Staged:
    size = sum(chunk.raw_bytes for chunk in packed)
    return replace(staged, digests=tuple(chunk.digest for chunk in packed), num_bytes=size, row_ids=ids)


def claim(session: Session, staged: Staged) -> bool:
    """Take a stage out of the reach of ``discard`` and ``sweep_stages``; False if one of them was faster."""
    return _take(session, staged.commit_id)


def discard(database: Database, table_id: int, commit_id: int) -> None:
    """Delete all rows of a stage, unless it was ratified; if that fails, too, they are left to ``sweep_stages``."""
    # A caller that discards a stage has a failure to report that matters more than one of cleaning up.
    with suppress(DeltaMirrorError), database.write(Step.DISCARD_STAGE) as session:
        if _take(session, commit_id):
            _delete_rows(session, table_id, commit_id)


def sweep_stages(database: Database, *, older_than: float) -> int:
    """Delete the stages that were not touched for this many seconds; how many there were."""
    swept = 0
    with database.write(Step.SWEEP_STAGES) as session:
        deadline = time_of(session.connection) - int(older_than * 1000)
        # In one order for all processes: two that sweep at once wait for each other in turn.
        old = select(stages).where(stages.c.touched_at < deadline).order_by(stages.c.commit_id)
        orphans = session.execute(old).all()
        for orphan in orphans:
            if _take(session, orphan.commit_id):
                _delete_rows(session, orphan.table_id, orphan.commit_id)
                swept += 1
    return swept


def _touch(session: Session, commit_id: int) -> None:
    """Keep a stage from being swept; rows of one that was swept would have no owner."""
    mine = update(stages).where(stages.c.commit_id == commit_id).returning(stages.c.commit_id)
    if session.execute(mine.values(touched_at=time_of(session.connection))).first() is None:
        raise Unavailable(
            "the commit was being staged for so long that it was swept",
            hint="commit again; if this repeats, raise catalog.stage_ttl",
        )


def _take(session: Session, commit_id: int) -> bool:
    # The process that deletes the row owns the stage: a second one waits for the first, and then finds nothing.
    taken = delete(stages).where(stages.c.commit_id == commit_id).returning(stages.c.commit_id)
    return session.execute(taken).first() is not None


def _delete_rows(session: Session, table_id: int, commit_id: int) -> None:
    session.execute(delete(chunks).where(chunks.c.commit_id == commit_id))
    for projection in (files, removes, file_ends):
        mine = (projection.c.table_id == table_id) & (projection.c.commit_id == commit_id)
        session.execute(delete(projection).where(mine))


def _is_taken(session: Session, commit_id: int) -> bool:
    # Each commit has chunks; each stage has its row from the beginning.
    return any(
        session.execute(select(column).where(column == commit_id).limit(1)).first() is not None
        for column in (chunks.c.commit_id, stages.c.commit_id)
    )


def _has_files(session: Session, table_id: int) -> bool:
    return session.execute(select(files.c.table_id).where(files.c.table_id == table_id).limit(1)).first() is not None
