"""A transaction over one table or many: all of it takes place, or none."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from itertools import chain
from typing import Self

import msgspec

from deltamirror.arguments import (
    flag,
    number,
    optional_number,
    optional_text,
    shown,
    table_name,
    text,
    texts,
)
from deltamirror.catalog.alteration import altered_by
from deltamirror.catalog.edits import Assignments, Deletion, Edit, Editor, Updating, assignments_of, condition_text
from deltamirror.catalog.files import Files, adds, is_listing
from deltamirror.catalog.foundation import changed_foundation, unclustered
from deltamirror.catalog.inputs import (
    Schema,
    actions_of,
    lines_of,
    moment,
    partition_reads,
    paths_to_remove,
    schema_of,
    table_properties,
)
from deltamirror.catalog.maintenance.restore import Restoration
from deltamirror.catalog.merges import Delete, Insert, Merge, OneOrMore, Update, clauses_of, join_text
from deltamirror.catalog.rows import RowWrite, RowWriter, partitioning_of, replacement_of
from deltamirror.catalog.table_work import Partitions, TableWork, idle_answer, oldest, partition_read
from deltamirror.catalog.verification import FileVerifier
from deltamirror.delta.actions import Action, Add, DomainMetadata, Metadata, Protocol, Remove, Txn
from deltamirror.delta.definition import Alteration
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.rows.casting import require_castable
from deltamirror.rows.discarding import discarded_if_refused, discarded_on_failure
from deltamirror.rows.duties import require_writable_rows
from deltamirror.rows.layout import Layout
from deltamirror.rows.sources import ArrowRows, RowData, is_row_data, row_source, rows_of, spark_session
from deltamirror.rows.writing import WrittenRows
from deltamirror.txnlog.commit.fingerprint import content_digest
from deltamirror.txnlog.commit.request import Change, Committed, Operation, Request
from deltamirror.txnlog.content.state import TableState
from deltamirror.txnlog.tables.reading import Snapshot, snapshot
from deltamirror.txnlog.writer import SqlTxnLogWriter


class Transaction:
    """Collects changes to tables; commits them at the end of its ``with`` block, or by ``commit()``.

    The first time that it names a table, it takes the table as it is then. Later commits of others are checked by
    Delta's rules, when it commits. Files that are only added go after everything but changes of metadata or protocol;
    for them, the table is as this catalog last saw it, by a snapshot or by a commit.
    """

    def __init__(
        self,
        writer: SqlTxnLogWriter,
        *,
        operation: Operation,
        token: str | None,
        rows_checked: bool = False,
        verifier: Callable[[str], FileVerifier],
        row_writer: RowWriter,
        before_commit: Callable[[Iterable[str]], None] | None = None,
        after_commit: Callable[[Committed], None] | None = None,
    ) -> None:
        if token is not None and not token.strip():
            raise InvalidInput("the token is empty", hint="name the transaction, or leave the token out")
        self._writer = writer
        self._rows_checked = rows_checked
        self._verifier = verifier
        self._row_writer = row_writer
        self._before_commit = before_commit
        self._after_commit = after_commit
        self._operation = operation
        self._token = token
        self._work: dict[str, TableWork] = {}
        self._result: Committed | None = None
        self._sent = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._sent and any(work.writes for work in self._work.values()):
            self.commit()

    @property
    def result(self) -> Committed:
        """The answer, once it is committed."""
        if self._result is None:
            raise InvalidInput("the transaction is not committed", hint="leave its `with` block, or call commit()")
        return self._result

    def append(
        self, table: str, data: Files | RowData, *, verify_files: bool = False, merge_schema: bool = False
    ) -> None:
        """Add rows, as Arrow data of any library or as a DataFrame of Spark, or data files that are there already.

        Rows are written to files of the table when the transaction commits, those of a DataFrame by executors. Data
        files are taken bit by bit; of a file, only its path stays in memory. ``verify_files`` looks each of them up in
        the store before the commit: it has to be there, with the stated size. Arrow data with the columns of a file
        listing is one. ``merge_schema`` adds columns of rows that the table lacks, in the same commit.
        """
        verify_files, merges = flag(verify_files, "verify_files"), flag(merge_schema, "merge_schema")
        work = self._taken(table) if merges else self._of(table)
        if work.seen is None and work.snapshot is None:
            work.seen = self._state(table, remembered=True)
        if is_row_data(data):
            source = row_source(data)
            if merges or not isinstance(source, ArrowRows) or not is_listing(source.schema, work.columns, table):
                self._add_rows(table, work, RowWrite(source, merges_schema=merges))
                return
            data = source.reader
        if merges:
            hint = "change the schema by Table.alter, and leave merge_schema out"
            raise InvalidInput(f"merge_schema is for rows, and data is files: {shown(data)}", hint=hint)
        named, work.adds_files = adds(data), True
        work.streams.append(self._verifier(table).verified(named) if verify_files else named)

    def overwrite(
        self,
        table: str,
        data: RowData,
        *,
        replace_where: str | Mapping[str, object] | None = None,
        dynamic: bool = False,
        merge_schema: bool = False,
        overwrite_schema: bool = False,
        partition_by: Sequence[str] | str | None = None,
    ) -> None:
        """Put rows in the place of all rows of a table, or of some of its partitions.

        ``replace_where`` names them, as ``"day = '2026-11-16'"`` or ``{"day": "2026-11-16"}``; all rows have to be of
        these. ``dynamic`` replaces the partitions that the rows are of. ``merge_schema``: see ``append``.
        ``overwrite_schema`` gives the table the columns of the rows, and the partition columns of ``partition_by``.
        """
        source, is_dynamic, merges = rows_of(data, "data"), flag(dynamic, "dynamic"), flag(merge_schema, "merge_schema")
        by = partitioning_of(flag(overwrite_schema, "overwrite_schema"), partition_by)
        work = self._taken(table)
        work.require_untouched(table, "overwrite")
        replaces = replacement_of(replace_where, is_dynamic, self._layout(table, work), partition_by=by)
        self._add_rows(table, work, RowWrite(source, replaces, merges))
        work.replaces = replaces

    def delete(self, table: str, where: str | None = None, *, spark: object = None) -> None:
        """Delete the rows of which a condition is true; without one, all rows.

        Files whose partition values or statistics exclude it are not opened; of the others, those that have such rows
        are rewritten without them when the transaction commits. A table is changed once in a transaction, before rows
        are appended to it. With a session as ``spark``, executors read and write the files.
        """
        self._edit(table, Deletion(condition_text(where, "where")), spark_session(spark))

    def update(
        self,
        table: str,
        set: Assignments,  # noqa: A002 - the word of SQL
        where: str | None = None,
        *,
        spark: object = None,
    ) -> None:
        """Give columns other values, in the rows of which a condition is true; without one, in all rows.

        ``set`` maps columns to expressions of SQL, as ``{"amount": "amount * 1.1", "note": "'raised'"}``, or to values
        of Python that are no texts. All expressions see the row as it was.
        """
        edit = Updating(assignments_of(set, "set"), condition_text(where, "where"))
        self._edit(table, edit, spark_session(spark))

    def merge(
        self,
        table: str,
        source: RowData,
        on: str | Sequence[str],
        *,
        matched: OneOrMore[Update | Delete] = (),
        not_matched: OneOrMore[Insert] = (),
        not_matched_by_source: OneOrMore[Update | Delete] = (),
        spark: object = None,
    ) -> None:
        """Change the rows of a table by those of a source; ``on`` says which match: ``["id"]``, or a condition.

        Expressions name columns as ``target.id`` and ``source.id``, or by their name alone where one of both has it.
        Of each list of clauses, the first whose condition holds decides. The source is held in memory.
        """
        clauses = clauses_of(matched, not_matched, not_matched_by_source)
        self._edit(table, Merge(rows_of(source, "source"), join_text(on), clauses), spark_session(spark, source))

    def remove(
        self, table: str, files: Iterable[str | Add | Remove] | str | Add | Remove, *, data_change: bool = True
    ) -> None:
        """Remove files: by path (its other fields come from the table), or as complete actions.

        Without a ``read``, it is taken that the whole table was read to find them.
        """
        given, data_change = list(paths_to_remove(files)), flag(data_change, "data_change")
        work = self._taken(table)
        if work.replaces is not None or work.edit is not None:
            hint = "commit the removes in a transaction of their own"
            raise InvalidInput(f"the transaction replaces rows of {table!r} already", hint=hint)
        complete: list[Action] = []
        for file in given:
            if isinstance(file, Remove):
                complete.append(file)
            else:
                work.removed.append((file, data_change))
        work.streams.append(complete)

    def read(
        self,
        table: str,
        *,
        partitions: Partitions | Sequence[Partitions] | None = None,
        files: Iterable[str] | str | None = None,
        all: bool = False,  # noqa: A002 - the word of the interface
        version: int | None = None,
    ) -> Snapshot:
        """Say what was read, in the newest version or in ``version``, so that only later commits to that conflict."""
        boxes, paths, whole = partition_reads(partitions), texts(files, "files"), flag(all, "all")
        work = self._taken(table)
        work.read_at(optional_number(version, "version"), table)
        work.reads = True
        work.whole_table |= whole or (partitions is None and files is None)
        work.files.update(paths)
        work.partitions += [partition_read(work.taken, box) for box in boxes]
        return work.taken

    def set_metadata(
        self,
        table: str,
        *,
        schema: Schema | None = None,
        properties: Mapping[str, str | bool | int] | None = None,
        unset: Iterable[str] | str = (),
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        """Change schema, properties, name or description; the protocol is upgraded where that needs it.

        A table with files may not change everything: ``docs/guides/writing.md`` says what, and what to do instead.
        """
        alteration = Alteration(
            schema=None if schema is None else schema_of(schema),
            properties=table_properties(properties),
            unset=texts(unset, "unset"),
            name=optional_text(name, "name"),
            description=optional_text(description, "description"),
        )
        self._taken(table).alterations.append(alteration)

    def upgrade_protocol(self, table: str, *features: str) -> None:
        """Add table features, with what they depend on."""
        named = tuple(name for given in features for name in texts(given, "features"))
        self._taken(table).alterations.append(Alteration(features=named))

    def set_transaction(self, table: str, app_id: str, version: int) -> None:
        """Record the progress of an application. At or below its latest version, the transaction is already applied."""
        work, app_id, version = self._looked(table), text(app_id, "app_id"), number(version, "version")
        work.app_versions[app_id] = version
        work.streams.append([Txn(app_id=app_id, version=version)])

    def set_domain(self, table: str, domain: str, configuration: str) -> None:
        """Set the configuration of a domain."""
        configured = text(configuration, "configuration", hint="give the configuration as text, such as JSON")
        action = DomainMetadata(domain=text(domain, "domain"), configuration=configured, removed=False)
        self._taken(table).streams.append([action])

    def remove_domain(self, table: str, domain: str) -> None:
        """Remove a domain."""
        current = self._taken(table).taken.domain_metadata().get(text(domain, "domain"))
        if current is None:
            raise InvalidInput(f"table {table!r} has no domain {domain!r}", hint="`deltamirror table show` lists them")
        self._of(table).streams.append([msgspec.structs.replace(current, removed=True)])

    def stage(
        self,
        table: str,
        actions: Iterable[Action] | Action,
        *,
        read_version: int | None = None,
        at_version: int | None = None,
        verify_files: bool = False,
    ) -> None:
        """Add any actions. They may say which version they were computed from, or which exact one they become.

        Of several versions that a transaction read, the oldest counts.
        """
        read_version = optional_number(read_version, "read_version")
        at_version, stream = optional_number(at_version, "at_version"), actions_of(actions)
        work = self._looked(table) if read_version is None and at_version is None else self._of(table)
        work.adds_files = True
        work.streams.append(self._verifier(table).verified(stream) if flag(verify_files, "verify_files") else stream)
        work.read_version = oldest(work.read_version, read_version)
        work.at_version = work.at_version if at_version is None else at_version

    def stage_lines(
        self, table: str, lines: bytes | str | Iterable[bytes | str], *, at_version: int, verify_files: bool = False
    ) -> None:
        """Take complete lines of another writer, commitInfo included, as exactly this version."""
        given, exact = lines_of(lines), number(at_version, "at_version")
        work = self._of(table)
        work.lines = self._verifier(table).verified_lines(given) if flag(verify_files, "verify_files") else given
        work.at_version = exact

    def restore(
        self, table: str, version: int | None = None, *, as_of: int | str | datetime | date | None = None
    ) -> bool:
        """Bring back a version of a table, or the one of a time: its rows and its metadata; whether that changes it.

        Its files have to be in the store. Every change of the table meanwhile conflicts with it.
        """
        exact, time = optional_number(version, "version"), moment(as_of)
        if (exact is None) == (time is None):
            raise InvalidInput("a table is restored to a version or to a time", hint="give one of version and as_of")
        work = self._taken(table)
        if work.writes:
            hint = "restore it in a transaction of its own"
            raise InvalidInput(f"the transaction changes {table!r} already", hint=hint)
        wanted = snapshot(self._writer.database, table, version=exact, as_of=time)
        found = Restoration.of(work.taken, wanted, None if time is None else str(time))
        work.reads = work.whole_table = True
        if not found.is_needed:
            return False
        found.require_possible(self._verifier(table))
        work.restores = found
        work.streams.append(found.actions())
        return True

    def record(self, table: str) -> None:
        """Give a table a version that says only what was done: the operation of the transaction, with its metrics."""
        self._of(table).is_record = True

    def commit(self) -> Committed:
        """Commit all changes, or none; the same answer if called again. After a failure, begin another transaction."""
        if self._result is None:
            if self._sent:
                # What was handed in as a stream is used up: what is left would be committed as if it were all.
                raise InvalidInput("the transaction has failed", hint="begin another one, with the same token")
            self._sent = True
            content = self._content()
            self._result = self._known(content) or self._committed(content)
            if self._after_commit is not None:
                self._after_commit(self._result)
        return self._result

    def _committed(self, content: bytes | None) -> Committed:
        """Write the data files of all tables, then commit. Files of a commit that is refused are deleted again."""
        if self._before_commit is not None:
            self._before_commit(self._work)
        written: list[WrittenRows] = []
        with discarded_on_failure(written):
            for table, work in self._work.items():
                work.require_consistent(table)
            for table, work in self._work.items():
                self._edit_rows(table, work, written)
                self._write_rows(table, work, written)
            if (idle := idle_answer(self._work.values())) is not None:
                return idle
            request = self._request(content)
        with discarded_if_refused(written):
            return self._writer.commit(request)

    def _edit(self, table: str, edit: Edit, session: object) -> None:
        """Take an edit in; a wrong one is refused at once, but for the values of rows."""
        work = self._taken(table)
        work.require_untouched(table, edit.operation.lower(), by_files=True)
        edit.plan(self._layout(table, work), rows_checked=self._rows_checked)
        work.edit, work.session = edit, session

    def _edit_rows(self, table: str, work: TableWork, written: list[WrittenRows]) -> None:
        if work.edit is None:
            return
        taken, location = work.taken, self._writer.state(table, remembered=True).location
        editor = Editor(self._layout(table, work), taken, self._row_writer, location, work.session)
        plan = work.edit.plan(editor.layout, rows_checked=self._rows_checked)
        if plan.has_change_data(editor.layout):
            work.require_alone(table)
        edited = editor.carry_out(work.edit, plan)
        written.append(edited.written)
        work.founded = (editor.layout.metadata, editor.layout.protocol)
        work.take(edited, taken)

    def _write_rows(self, table: str, work: TableWork, written: list[WrittenRows]) -> None:
        if not work.rows:
            return
        layout = self._layout(table, work)
        work.founded = (layout.metadata, layout.protocol)
        for each in work.rows:
            location = self._writer.state(table, remembered=True).location
            files = self._row_writer.write(each, layout, location, rows_checked=self._rows_checked)
            written.append(files)
            work.streams += [unclustered(work.taken) if each.overwrites_schema else (), files.adds]
            if each.replaces is not None:
                work.streams.append(work.replaced(each.replaces.boxes(files.partitions)))

    def _add_rows(self, table: str, work: TableWork, rows: RowWrite) -> None:
        """Take rows in; types that do not fit are refused at once, values when they are written."""
        if work.seen is not None or work.snapshot is not None:
            layout = self._layout(table, work, rows)
            require_writable_rows(layout, rows_checked=self._rows_checked)
            require_castable(rows.source.schema, layout)
        work.rows.append(rows)

    def _layout(self, table: str, work: TableWork, *more: RowWrite) -> Layout:
        return Layout.of(table, *self._altered(table, work, *more))

    def _request(self, content: bytes | None) -> Request:
        changes = tuple(self._change(table, work) for table, work in self._work.items())
        return Request(changes=changes, token=self._token, content=content)

    def _known(self, content: bytes | None) -> Committed | None:
        """The answer of the log, if it has the transaction: the files that it removed cannot be looked up any more."""
        if not any(work.is_looked_up for work in self._work.values()):
            return None
        changed = [table for table, work in self._work.items() if work.writes]
        known = self._writer.find_token(self._token, content, changed)
        return known or self._writer.find_applied(
            {table: work.app_versions for table, work in self._work.items()},
            {table: work.at_version for table, work in self._work.items()},
        )

    def _of(self, table: str) -> TableWork:
        if self._sent:
            raise InvalidInput("the transaction was committed, or has failed", hint="begin another one")
        return self._work.setdefault(table_name(table), TableWork())

    def _looked(self, table: str) -> TableWork:
        """What the transaction does to a table, at which it has looked."""
        work = self._of(table)
        if work.snapshot is None and work.looked is None and work.read_version is None:
            state = self._state(table)
            work.looked = None if state is None else state.version
            work.seen = work.seen or state
        return work

    def _state(self, table: str, *, remembered: bool = False) -> TableState | None:
        try:
            return self._writer.state(table, remembered=remembered)
        except NotFound:
            return None  # for the commit to say, which may have taken place before

    def _taken(self, table: str) -> TableWork:
        work = self._of(table)
        if work.snapshot is None:
            work.snapshot = snapshot(self._writer.database, table)
        return work

    def _change(self, table: str, work: TableWork) -> Change:
        taken = work.snapshot
        return Change(
            table=table,
            table_id=None if taken is None else taken.table_id,
            seen=work.seen if work.at_version is None else None,
            actions=chain(self._foundation(table, work), *work.streams, work.removes()),
            lines=work.lines,
            read_version=work.computed_from,
            at_version=work.at_version,
            lineage=None if taken is None else taken.lineage,
            reads=work.read_set,
            operation=work.described(self._operation),
            rows_checked=self._rows_checked or work.meets_rules,
            is_record=work.is_record,
            restores=work.restores is not None,
        )

    def _foundation(self, table: str, work: TableWork) -> Iterable[Action]:
        if not work.changes_metadata:
            return []
        return changed_foundation(work.taken, *(work.founded or self._altered(table, work)))

    def _altered(self, table: str, work: TableWork, *more: RowWrite) -> tuple[Metadata, Protocol]:
        """Metadata and protocol as the transaction leaves them, with ``more`` rows."""
        known = work.snapshot or work.seen or self._writer.state(table)
        metadata, protocol = known.metadata, known.protocol
        for alteration in work.alterations:
            metadata, protocol = altered_by(alteration, metadata, protocol)
        for rows in (*work.rows, *more):
            metadata, protocol = rows.founded(metadata, protocol)
        return metadata, protocol

    def _content(self) -> bytes | None:
        """A digest of what was asked for, where that is not simply the actions; None leaves it to the log."""
        if self._token is None or not any(work.is_looked_up for work in self._work.values()):
            return None
        return content_digest(work.content(table, self._operation) for table, work in self._work.items())
