"""Taking a table's history into the catalog: stored in parts, under an id that no table has before it is complete.

An import has a row of ``dl_imports``, which says who owns it and how far it is. A transaction moves that row and stores
the parts that belong to it, or does neither: an import whose owner died goes on where it was, when it is begun again.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Table, delete, func, insert, select, update

from deltamirror.errors import Internal, InvalidInput
from deltamirror.steps import Step
from deltamirror.storage.location import canonical_location
from deltamirror.txnlog.content.projection import hash_of
from deltamirror.txnlog.database.access import Database, Row, Session
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    checkpoints,
    checksums,
    chunks,
    file_ends,
    files,
    heads,
    metadata,
    mirror_status,
    protocols,
    removes,
    versions,
)
from deltamirror.txnlog.imports.file_ends import ends_between, hash_ranges
from deltamirror.txnlog.imports.part_rows import ImportProgress, Intake, StoredParts
from deltamirror.txnlog.imports.parts import BasePart, CommitPart
from deltamirror.txnlog.imports.record import ImportRecord, Source, claim_import, delete_rows, load_progress
from deltamirror.txnlog.tables.registry import TableInfo, insert_table, require_free, require_name, table_info
from deltamirror.work import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedCheckpoint:
    """A checkpoint of an imported log that later ones may be built on."""

    version: int
    name: str
    digest: bytes
    """The sha256 of its file."""
    num_bytes: int
    modified: int
    """The time of its file (ms)."""
    num_rows: int | None = None
    num_files: int | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A commit file that is wholly stored; of a base without one, the time is that of the checkpoint."""

    version: int
    num_bytes: int
    modified: int
    """The time of the file (ms)."""


def begin_import(
    database: Database,
    *,
    name: str,
    location: str,
    first: int,
    base: str | None,
    owner: str,
    is_gone: Callable[[str], bool] = lambda _: False,
) -> "Import":
    """Begin to import a table from version ``first`` on, whose state is in the checkpoint ``base`` if it is in one.

    An import of the same that its owner abandoned goes on; one of something else at that location is discarded.
    Refused while another process is at either. ``is_gone`` says of an owner whether it is surely dead; others are taken
    for abandoned after a minute without a sign of them.
    """
    require_name(name)
    source = Source(name=name, location=canonical_location(location), first=first, base=base)
    with database.write(Step.BEGIN_IMPORT) as session:
        session.lock_tables()
        require_free(session.connection, name=name, location=source.location)
        record = claim_import(session, source, owner=owner, is_gone=is_gone)
        progress = load_progress(session.connection, record.table_id)
    return Import(database, record, progress)


def no_foundation(location: str, action: str) -> InvalidInput:
    """The error for a log that nowhere states what every table has to have."""
    return InvalidInput(
        f"the log of {location} states no {action}",
        hint="it is not the log of a Delta table, or its beginning is missing: import from a checkpoint",
    )


class Import:
    """An import under way. No reader sees any of it before it is complete."""

    def __init__(self, database: Database, record: ImportRecord, progress: ImportProgress) -> None:
        self._database = database
        self._record = record
        self._source = record.source
        self._progress = progress

    @property
    def table_id(self) -> int:
        """The id that the table gets."""
        return self._record.table_id

    @property
    def next_version(self) -> int:
        """The first version that is not wholly stored."""
        return self._progress.next_version

    @property
    def next_part(self) -> int:
        """How many parts of that version are stored: of the base, then of the commit file."""
        return self._progress.next_part

    def store(self, parts: Sequence[CommitPart | BasePart]) -> None:
        """Store the next parts, in order, in one transaction. LeaseLost where another process took over."""
        before = self._progress
        intake = Intake(before, table_id=self.table_id, base=self._source.base_version)
        for part in parts:
            intake.take(part)
        with self._database.write(Step.STORE_PARTS) as session:
            self._record.move(session, before, intake.progress)
            self._insert_versions(session, intake, known=None if before.tally is None else before.tally.version)
            _insert_rows(session, intake)
        self._progress = intake.progress

    def stored_files(self) -> list[StoredFile]:
        """The commits before the next version, in order: small rows, one for each."""
        v, status = versions.c, mirror_status.c
        query = select(v.version, v.num_bytes, status.published_at).where(
            v.table_id == self.table_id,
            v.version < self.next_version,
            status.table_id == v.table_id,
            status.version == v.version,
        )
        with self._database.read() as connection:
            return [StoredFile(*row) for row in connection.execute(query.order_by(v.version))]

    def touch(self) -> None:
        """Stay the owner while nothing is stored. LeaseLost where another process took over."""
        with self._database.write(Step.KEEP_IMPORT) as session:
            self._record.move(session, self._progress, self._progress)

    def complete(
        self,
        *,
        base: ImportedCheckpoint | None = None,
        checksum: bytes | None = None,
        compared: Collection[str] | None = None,
    ) -> TableInfo:
        """Make the table visible, with all versions that were stored, as published.

        ``base`` is a checkpoint of its log that others may be built on, ``checksum`` the ``.crc`` of the last version.
        ``PlacesMoved`` where there are tables on disk at other locations than were ``compared``.
        """
        self._store_ends()
        source = self._source
        with self._database.write(Step.COMPLETE_IMPORT) as session:
            session.lock_tables()
            require_free(session.connection, name=source.name, location=source.location, compared=compared)
            if not self._record.let_go(session, self._progress):
                raise self._record.lost()
            head = self._insert_head(session)
            self._insert_table(session, head)
            if base is not None:
                session.execute(insert(checkpoints).values(_checkpoint(self.table_id, base)))
            if checksum is not None:
                session.insert_many(checksums, [(self.table_id, head, checksum)])
            return table_info(session.connection, source.name)

    def discard(self) -> None:
        """Leave nothing behind, unless another process took over."""
        with self._database.write(Step.DISCARD_IMPORT) as session:
            if self._record.let_go(session, self._progress):
                delete_rows(session, self.table_id)

    def _insert_versions(self, session: Session, intake: Intake, *, known: int | None) -> None:
        """Of a ``known`` version, some parts are stored already, and so it has its rows."""
        fresh = [tally for tally in intake.tallies.values() if tally.version != known]
        session.insert_many(versions, [self._version_row(each) for each in fresh])
        session.insert_many(mirror_status, [each.status_row(self.table_id) for each in fresh])
        if known in intake.tallies:
            _update_row(session, versions, self._version_row(intake.tallies[known]))
            _update_row(session, mirror_status, intake.tallies[known].status_row(self.table_id))

    def _version_row(self, tally: StoredParts) -> Row:
        return tally.version_row(self.table_id, is_first=tally.version == self._source.first)

    def _store_ends(self) -> None:
        """Store which files ended, in transactions of their own; from the beginning, if that was begun before."""
        with self._database.write(Step.FORGET_ENDS) as session:
            self._record.move(session, self._progress, self._progress)
            session.execute(delete(file_ends).where(file_ends.c.table_id == self.table_id))
        with self._database.read() as connection:
            ranges = list(hash_ranges(connection, self.table_id))
        for first, last in ranges:
            with self._database.read() as connection:
                ends = ends_between(connection, self.table_id, first, last)
            with self._database.write(Step.STORE_ENDS) as session:
                self._record.move(session, self._progress, self._progress)
                session.insert_many(file_ends, ends)

    def _insert_head(self, session: Session) -> int:
        c, last = versions.c, self._last_version()
        committed_at = select(c.committed_at).where(c.table_id == self.table_id, c.version == last)
        session.execute(
            insert(heads).values(
                table_id=self.table_id,
                version=last,
                committed_at=session.execute(committed_at).scalar_one(),
                metadata_version=self._newest(session, metadata, "metaData"),
                protocol_version=self._newest(session, protocols, "protocol"),
            )
        )
        return last

    def _last_version(self) -> int:
        """The last version that is stored; one of which parts are missing is refused."""
        at, tally = self._progress, self._progress.tally
        if tally is None and at.next_version > self._source.first:
            return at.next_version - 1
        if tally is not None and tally.version == self._source.base_version and not tally.digests:
            return tally.version  # the base alone, without a commit file
        raise Internal(f"the import of {self._source.location} is not complete: version {at.next_version} is missing")

    def _newest(self, session: Session, projection: Table, action: str) -> int:
        newest = select(func.max(projection.c.version)).where(projection.c.table_id == self.table_id)
        found: int | None = session.execute(newest).scalar_one()
        if found is None:
            raise no_foundation(self._source.location, action)
        return found

    def _insert_table(self, session: Session, head: int) -> None:
        insert_table(
            session,
            self.table_id,
            name=self._source.name,
            location=self._source.location,
            created_at=int(session.execute(select(CLOCK)).scalar_one()),
            log_start=self._source.first,
            published=head,
        )


def _insert_rows(session: Session, intake: Intake) -> None:
    session.insert_many(chunks, intake.chunks)
    session.insert_many(files, sorted(intake.added, key=hash_of))
    session.insert_many(removes, sorted(intake.removed, key=hash_of))
    for projection, rows in intake.small.items():
        session.insert_many(projection, rows)


def _update_row(session: Session, table: Table, row: Row) -> None:
    values = dict(zip(table.columns.keys(), row, strict=True))
    own = [column == values.pop(column.name) for column in table.primary_key]
    values.pop("commit_id", None)  # stays as it is, and DuckDB would take it for a second one
    session.execute(update(table).where(*own).values(values))


def _checkpoint(table_id: int, base: ImportedCheckpoint) -> dict[str, object]:
    return {
        "table_id": table_id,
        "version": base.version,
        "state": Status.SUCCESS,
        "attempts": 0,
        "reason": "imported",
        "created_at": base.modified,
        "updated_at": base.modified,
        "name": base.name,
        "digest": base.digest,
        "num_rows": base.num_rows,
        "num_files": base.num_files,
        "num_bytes": base.num_bytes,
    }
