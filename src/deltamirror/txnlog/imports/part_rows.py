"""From parts to rows: what one transaction of an import stores, and how far the import is after it."""

import uuid
from dataclasses import dataclass, field, replace

from sqlalchemy import Table

from deltamirror.delta.actions import CommitInfo, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.chunks import commit_digest
from deltamirror.errors import Internal, LogChanged
from deltamirror.txnlog.content.chunks import chunk_row
from deltamirror.txnlog.content.rows import json_text, small_row
from deltamirror.txnlog.database.access import Row
from deltamirror.txnlog.database.schema import mirror_status
from deltamirror.txnlog.imports.parts import BasePart, CommitPart, imported_commit_id
from deltamirror.work import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredParts:
    """A version, as far as its parts are stored."""

    version: int
    committed_at: int = 0
    modified: int = 0
    """The time of its file (ms)."""
    txn_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    operation: str | None = None
    is_blind_append: bool = False
    changes_metadata: bool = False
    changes_protocol: bool = False
    app_ids: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    num_lines: int = 0
    num_bytes: int = 0
    num_added: int = 0
    num_removed: int = 0
    digests: tuple[bytes, ...] = ()
    """Of its chunks."""

    def with_base(self, part: BasePart) -> "StoredParts":
        """With a part of the state that the version comes from: all of its files count as added."""
        added = self.num_added + len(part.added)
        return replace(self, changes_metadata=True, changes_protocol=True, num_added=added)

    def with_lines(self, part: CommitPart, *, previous: int) -> "StoredParts":
        """With some lines of its file, whatever they do. ``previous`` is the time of the version before."""
        counted = replace(
            self,
            committed_at=self.committed_at if self.digests else max(part.modified, previous + 1),
            modified=part.modified,
            num_lines=self.num_lines + part.num_lines,
            num_bytes=self.num_bytes + part.chunk.raw_bytes,
            digests=(*self.digests, part.chunk.digest),
        )
        return next((counted.told(each) for each in part.small if isinstance(each, CommitInfo)), counted)

    def with_actions(self, part: CommitPart) -> "StoredParts":
        """With what some lines of its file do."""
        small = part.small
        return replace(
            self,
            changes_metadata=self.changes_metadata or any(isinstance(each, Metadata) for each in small),
            changes_protocol=self.changes_protocol or any(isinstance(each, Protocol) for each in small),
            app_ids=(*self.app_ids, *(each.app_id for each in small if isinstance(each, Txn))),
            domains=(*self.domains, *(each.domain for each in small if isinstance(each, DomainMetadata))),
            num_added=self.num_added + len(part.added),
            num_removed=self.num_removed + len(part.removed),
        )

    def told(self, info: CommitInfo) -> "StoredParts":
        """With what the commit says of itself: its in-commit timestamp goes before the time of the file."""
        stated = info.in_commit_timestamp
        return replace(
            self,
            committed_at=self.committed_at if stated is None else stated,
            txn_id=info.txn_id or self.txn_id,
            operation=info.operation,
            is_blind_append=info.is_blind_append is True,
        )

    def version_row(self, table_id: int, *, is_first: bool) -> Row:
        """The row of ``dl_table_versions``."""
        return (
            table_id,
            self.version,
            imported_commit_id(table_id, self.version),
            self.committed_at,
            self.txn_id,
            "verbatim",
            self.operation,
            None if is_first else self.version - 1,
            self.is_blind_append,
            self.changes_metadata,
            self.changes_protocol,
            json_text(self.app_ids) if self.app_ids else None,
            json_text(self.domains) if self.domains else None,
            self.num_lines,
            self.num_bytes,
            self.num_added,
            self.num_removed,
            len(self.digests),
            commit_digest(self.digests) if self.digests else b"",
        )

    def status_row(self, table_id: int) -> Row:
        """The row of ``dl_mirror_status``: the version was published when its file was written."""
        told = (table_id, self.version, Status.SUCCESS.value, 0, self.modified, self.modified)
        return (*told, *[None] * (len(mirror_status.columns) - len(told)))  # none of it was our work


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """How far an import is."""

    next_version: int
    next_part: int = 0
    """How many parts of it are stored: of its base, then of its file."""
    previous: int = -1
    """The time of the version before it; -1 for none."""
    tally: StoredParts | None = None
    """Of the next version, where parts of it are stored."""


class Intake:
    """The rows that parts come to, which have to be the next ones, in order. ``base`` is the version of the base.

    Parts of the next version that are stored already are passed over: a file is read from its beginning.
    """

    def __init__(self, progress: ImportProgress, *, table_id: int, base: int | None) -> None:
        self.progress = progress
        self._table_id = table_id
        self._base = base
        self.tallies: dict[int, StoredParts] = {}
        """Every version that parts were of."""
        self.chunks: list[Row] = []
        self.added: list[Row] = []
        self.removed: list[Row] = []
        self.small: dict[Table, list[Row]] = {}

    def take(self, part: CommitPart | BasePart) -> None:
        """The next part."""
        if isinstance(part, BasePart):
            self._take_base(part)
        else:
            self._take_lines(part)

    def _take_base(self, part: BasePart) -> None:
        at, version = self.progress, self.progress.next_version
        tally = at.tally or StoredParts(version=version, committed_at=part.modified, modified=part.modified)
        if version == self._base and part.part < at.next_part - len(tally.digests):
            return
        if version != self._base or part.part != at.next_part or tally.digests:
            raise _unexpected(f"part {part.part} of the base", at)
        self._project(version, part)
        self._move(tally.with_base(part), last=False)

    def _take_lines(self, part: CommitPart) -> None:
        self._pass_base(part)
        at, is_base = self.progress, part.version == self._base
        tally = at.tally or StoredParts(version=at.next_version)
        due = (at.next_version, len(tally.digests))
        if part.version == at.next_version and part.part < len(tally.digests):
            _require_same(part, tally)
            return
        if (part.version, part.part) != due or (is_base and at.tally is None):
            raise _unexpected(f"part {part.part} of version {part.version}", at)
        tally = tally.with_lines(part, previous=at.previous)
        self.chunks.append(chunk_row(part.chunk, imported_commit_id(self._table_id, part.version), part.part))
        if not is_base:  # the state of a base has all that its file says
            self._project(part.version, part)
            tally = tally.with_actions(part)
        self._move(tally, last=part.last)

    def _pass_base(self, part: CommitPart) -> None:
        """A base whose commit file is missing ends where the next version begins."""
        tally = self.progress.tally
        if tally is not None and tally.version == self._base == part.version - 1 and not tally.digests:
            self.progress = _after(tally)

    def _project(self, version: int, part: CommitPart | BasePart) -> None:
        self.added += part.added
        self.removed += part.removed
        for action in part.small:
            if (found := small_row(self._table_id, version, action)) is not None:
                projection, row = found
                self.small.setdefault(projection, []).append(row)

    def _move(self, tally: StoredParts, *, last: bool) -> None:
        self.tallies[tally.version] = tally
        at = self.progress
        self.progress = _after(tally) if last else replace(at, next_part=at.next_part + 1, tally=tally)


def _after(tally: StoredParts) -> ImportProgress:
    return ImportProgress(next_version=tally.version + 1, previous=tally.committed_at)


def _require_same(part: CommitPart, tally: StoredParts) -> None:
    if part.chunk.digest != tally.digests[part.part]:
        raise LogChanged(f"the file of version {part.version} is not the one that was read before", hint="begin again")


def _unexpected(what: str, at: ImportProgress) -> Internal:
    return Internal(f"{what} came to an import that is at part {at.next_part} of version {at.next_version}")
