"""Holding the log of a table against the database: by its objects, by its states, and by what a reader sees."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final

import msgspec
import pyarrow as pa

from deltamirror.delta.actions import DeletionVector
from deltamirror.delta.paths import decode_path
from deltamirror.deltalog.checkpoint.decoded import adds_table, files_of_columns
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.checkpoint.scratch import Gathering
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.deltalog.listing import LogListing, read_listing
from deltamirror.deltalog.rules.findings import Finding
from deltamirror.deltalog.states import state_at
from deltamirror.errors import DeltaMirrorError, NotFound
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.reconcile.examination import Findings, Look
from deltamirror.ops.reconcile.failures import place_gone
from deltamirror.ops.reconcile.repair import repair
from deltamirror.ops.reconcile.shortcuts import TableStates, unexpired
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.ops.validate.commit_sweep import Foundation
from deltamirror.ops.validate.states import UNDECODABLE
from deltamirror.ops.validate.validating import MOST_FINDINGS, validate_log
from deltamirror.ops.verify.commit_parts import CommitParts
from deltamirror.ops.verify.readers import ReaderAnswer, read_table
from deltamirror.ops.verify.report import ComparedWith, Level, StateDifference, TableVerified
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.storage.store import Store
from deltamirror.txnlog.content.row_audit import row_differences
from deltamirror.txnlog.content.rows import add_columns, add_of
from deltamirror.txnlog.content.state import in_force_before
from deltamirror.txnlog.queue.expected_objects import KeptLog, every_log, kept_log
from deltamirror.txnlog.queue.record_audit import record_differences
from deltamirror.txnlog.tables.reading import Snapshot, snapshot
from deltamirror.work import ObjectDifference

_VECTOR: Final = msgspec.json.Decoder(DeletionVector)
_ROWS: Final = 50_000
"""So many files are Python objects at a time."""
_DAMAGED: Final = (msgspec.MsgspecError, pa.ArrowException, LookupError, TypeError, ValueError)
"""What rows lead to that are not as they were stored."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Which versions are compared by their states: the newest published one, one of them, or all."""

    only: int | None = None
    every: bool = False

    def of(self, log: KeptLog) -> Sequence[int]:
        """Those of a log, ascending; NotFound for one that is not in it."""
        published = range(log.log_start, min(log.published, log.head) + 1)
        if self.only is not None and self.only not in published:
            raise NotFound(
                f"version {self.only} of table {log.name!r} is not in its log: there are {log.log_start} to "
                f"{log.published}",
                hint=f"`deltamirror status {log.name}` shows how far it is published",
                table=log.name,
                version=self.only,
            )
        if self.every:
            return published
        return [self.only] if self.only is not None else published[-1:]


class Verifier:
    """Verifies logs, and changes nothing unless it is asked to repair."""

    def __init__(self, logs: Logs, *, level: Level, versions: Versions | None = None) -> None:
        self._logs, self._engine, self._level = logs, logs.engine, level
        self._versions = versions or Versions()

    def run(self, tables: Sequence[str] = ()) -> tuple[TableVerified, ...]:
        """Verify tables, or all of them; trouble of one stops no other."""
        return tuple(self._tried(log) for log in self._chosen(tables))

    def repaired(self, found: TableVerified, *, replace_altered: bool) -> TableVerified:
        """Repair what was found of a table where that is safe, and verify it again."""
        if found.error is not None or not (found.has_damaged_objects or found.findings or found.is_late):
            return found
        try:
            repair(self._logs, found.table, replace_altered=replace_altered)
        except DeltaMirrorError as error:
            return replace(found, error=error)
        [again] = self.run([found.table])
        return again

    def _chosen(self, tables: Sequence[str]) -> list[KeptLog]:
        with self._engine.database.read() as connection:
            if tables:
                return [kept_log(connection, name) for name in tables]
            return sorted(every_log(connection), key=lambda each: each.name)

    def _tried(self, log: KeptLog) -> TableVerified:
        """Whatever is the matter with a table, the others are verified, too: rows may hold anything."""
        told = TableVerified(table=log.name, level=self._level, head=log.head, published=log.published)
        steps = (self._with_objects, self._with_rows, self._with_states)
        for step in steps:
            try:
                told = step(log, told)
            except Exception as error:  # noqa: BLE001 - see above
                told = replace(told, error=told.error or our_error(error))
        return told

    def _with_objects(self, log: KeptLog, told: TableVerified) -> TableVerified:
        findings = self._logs.examine(log, Look(full=self._level is not Level.BASIC))
        if findings.is_place_gone:
            raise place_gone(log).error
        return _with_objects(told, findings)

    def _with_rows(self, log: KeptLog, told: TableVerified) -> TableVerified:
        database = self._engine.database
        found = record_differences(database, log.table_id, is_foreign=bool(told.foreign) or told.error is not None)
        if self._level is not Level.BASIC:
            found = chain(found, row_differences(database, log.table_id))
        remedied = (replace(each, remedy=each.remedy.format(table=log.name)) for each in found)
        return replace(told, rows=tuple(islice(remedied, MOST_FINDINGS)))

    def _with_states(self, log: KeptLog, told: TableVerified) -> TableVerified:
        versions = self._versions.of(log)
        if self._level is Level.BASIC or log.published < log.log_start or told.error is not None:
            return told
        store = self._logs.store(log)
        differences = list(self._state_differences(log, store, versions))
        told = replace(
            told,
            versions=len(versions),
            differences=tuple(differences),
            findings=self._broken_rules(log, store),
        )
        return self._read(log, told, versions[-1]) if self._level is Level.PARANOID else told

    def _state_differences(self, log: KeptLog, store: Store, versions: Sequence[int]) -> Iterator[StateDifference]:
        """Log and SQL rows, each against the committed lines."""
        states, listing = TableStates(self._engine.database, log), _listing(store)
        for version in versions:
            lines, committed_at = states.at(version)
            # Of the two that are compared with the lines, each is let go of before there is another.
            yield from self._of_projections(log, lines, committed_at)
            yield from _of_log(store, listing, lines, committed_at)

    def _of_projections(self, log: KeptLog, lines: CheckpointState, committed_at: int) -> Iterator[StateDifference]:
        try:
            taken = snapshot(self._engine.database, log.name, version=lines.version)
            projected = unexpired(_projected_state(taken), committed_at)
        except (*UNDECODABLE, NotFound, *_DAMAGED) as error:
            told = our_error(error).message
            yield StateDifference(compared=ComparedWith.PROJECTIONS, version=lines.version, first=told, counts={})
        else:
            yield from _difference(ComparedWith.PROJECTIONS, projected, lines)

    def _broken_rules(self, log: KeptLog, store: Store) -> tuple[Finding, ...]:
        inspector, address = self._logs.inspector, self._logs.address(log)
        try:
            return validate_log(
                store, examine=partial(CommitParts, inspector, address, partial(self._foundation_before, log))
            ).findings
        except (*UNDECODABLE, NotFound):
            return ()  # there is no log: all of its objects are missing

    def _foundation_before(self, log: KeptLog, version: int) -> Foundation | None:
        found = in_force_before(self._engine.database, log.table_id, version)
        return None if found is None else Foundation(version=version, protocol=found[0], metadata=found[1])

    def _read(self, log: KeptLog, told: TableVerified, version: int) -> TableVerified:
        taken = snapshot(self._engine.database, log.name, version=version)
        reading = read_table(taken, log.location, self._engine.settings.storage)
        if reading is None:
            return told
        found = tuple(_reader_differences(taken, reading))
        return replace(told, reader=reading.reader, differences=(*told.differences, *found))


def _with_objects(told: TableVerified, found: Findings) -> TableVerified:
    return replace(
        told,
        checked=found.checked,
        missing=_versions(found.missing),
        altered=_versions(found.altered),
        foreign=_versions(found.foreign),
        checkpoints=_versions(found.checkpoints),
        checksums=tuple(each for each in found.checksums if each not in found.late_checksums),
        late_checksums=tuple(found.late_checksums),
        misleading=tuple(each.meta.key for each in found.misleading),
        obstacles=tuple(each.key for each in found.obstacles),
    )


def _versions(found: Sequence[ObjectDifference]) -> tuple[int, ...]:
    return tuple(sorted(each.version for each in found))


def _listing(store: Store) -> LogListing | str:
    try:
        return read_listing(store)
    except (*UNDECODABLE, NotFound) as error:
        return error.message


def _of_log(
    store: Store, listing: LogListing | str, lines: CheckpointState, committed_at: int
) -> Iterator[StateDifference]:
    found = _log_state(store, listing, lines.version)
    if isinstance(found, CheckpointState):
        yield from _difference(ComparedWith.LOG, unexpired(found, committed_at), lines)
    else:
        yield StateDifference(compared=ComparedWith.LOG, version=lines.version, first=found, counts={})


def _log_state(store: Store, listing: LogListing | str, version: int) -> CheckpointState | str:
    """What a reader makes of the log at a version; why it makes nothing of it."""
    if isinstance(listing, str):
        return listing
    try:
        return state_at(store, listing, version)
    except (*UNDECODABLE, NotFound) as error:
        return error.message


def _difference(compared: ComparedWith, found: CheckpointState, lines: CheckpointState) -> Iterator[StateDifference]:
    difference = compare(found, lines)
    if difference.first is not None:
        yield StateDifference(
            compared=compared, version=lines.version, first=difference.first, counts=difference.counts
        )


def _projected_state(taken: Snapshot) -> CheckpointState:
    """What the rows of SQL say of files, protocol, metadata, transactions and domains; tombstones have none."""
    return CheckpointState(
        version=taken.version,
        protocol=taken.protocol,
        metadata=taken.metadata,
        transactions=tuple(sorted(taken.transactions().values(), key=lambda each: each.app_id)),
        domains=tuple(sorted(taken.domain_metadata().values(), key=lambda each: each.domain)),
        files=_files(taken),
        removes=REMOVES.empty_table(),
    )


def _files(taken: Snapshot) -> pa.Table:
    found = Gathering(FILES)
    with taken.database.read() as connection:
        rows = connection.execution_options(yield_per=_ROWS).execute(taken.files_query())
        for some in rows.partitions(_ROWS):
            found.add(_rows_table(some))
    return found.whole()


def _rows_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """As Arrow, column by column; where one does not become what it should, the rows say why."""
    try:
        return files_of_columns(add_columns(rows))
    except (*_DAMAGED, AttributeError):
        return adds_table([(0, add_of(row)) for row in rows]).select(FILES.names)


def _reader_differences(taken: Snapshot, reading: ReaderAnswer) -> Iterator[StateDifference]:
    first = reading.failure or _unlike(taken, reading)
    if first:
        told = f"{reading.reader}: {first}"
        yield StateDifference(compared=ComparedWith.READER, version=taken.version, first=told, counts={})


def _unlike(taken: Snapshot, reading: ReaderAnswer) -> str:
    """What a reader sees otherwise: files first, then the number of rows, where statistics tell it."""
    table = taken.files()
    expected = {decode_path(path): size for path, size in zip(*_columns(table, "path", "size"), strict=True)}
    if reading.files is not None and reading.files != expected:
        path = min(key for key in {*expected, *reading.files} if expected.get(key) != reading.files.get(key))
        return f"file {path} has {reading.files.get(path)} bytes in A and {expected.get(path)} in B"
    rows = _num_rows(*_columns(table, "stats", "deletion_vector"))
    return "" if rows in (None, reading.num_rows) else f"there are {reading.num_rows} rows in A and {rows} in B"


def _columns(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table.column(name).to_pylist() for name in names]


def _num_rows(stats: Sequence[str | None], vectors: Sequence[str | None]) -> int | None:
    """How many rows there are, by the statistics of all files; None where one has none."""
    total = 0
    for text, vector in zip(stats, vectors, strict=True):
        records = None if text is None else msgspec.json.decode(text).get("numRecords")
        if records is None:
            return None
        total += records - (0 if vector is None else _VECTOR.decode(vector).cardinality)
    return total
