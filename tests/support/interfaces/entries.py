"""Every public entry of the package, found by looking at it, each with a way to call it.

A case is called with what is there (``Hands``), a text and a number; these are good ones, or whatever a caller may get
wrong. A public method without a case is named by ``missing_cases``.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

import deltamirror
from deltamirror import (
    Catalog,
    Delete,
    DeletionVector,
    Insert,
    MirrorEngine,
    Snapshot,
    SqlTxnLogWriter,
    Table,
    Transaction,
    Txn,
)
from deltamirror.config import Settings
from deltamirror.delta.definition import TableDefinition
from deltamirror.delta.schema import from_ddl
from deltamirror.txnlog.commit.request import Change, Request
from tests.support.lakes.lake import add

TABLE = "t"


class Hands:
    """A catalog, its mirror and a table, opened while all was well."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._stack = ExitStack()
        self.settings = settings
        self.folder = folder
        self.catalog = self._stack.enter_context(Catalog(settings=settings))
        self.engine = self._stack.enter_context(MirrorEngine(settings=settings))
        self.table: Table = self.catalog.table(TABLE)
        self.snapshot: Snapshot = self.table.snapshot()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def writer(self) -> SqlTxnLogWriter:
        """The log behind the catalog."""
        return self.catalog.writer

    def begun(self) -> Transaction:
        """A transaction with something to commit."""
        transaction = self.catalog.transaction()
        transaction.append(TABLE, [add("begun.parquet")])
        return transaction


@dataclass(frozen=True, slots=True)
class _Given:
    """What a case is called with."""

    hands: Hands
    text: str
    number: int

    def definition(self) -> TableDefinition:
        return TableDefinition(name=self.text, location=f"file://{self.hands.folder}/made", schema=from_ddl("id long"))

    def change(self) -> Change:
        return Change(table=self.text, actions=[add("staged.parquet")])


Case = Callable[[_Given], object]


def _in_transaction(act: Callable[[Transaction, _Given], object]) -> Case:
    def case(given: _Given) -> object:
        with given.hands.catalog.transaction() as transaction:
            act(transaction, given)
        return None

    return case


def _open_engine(given: _Given) -> None:
    with MirrorEngine(given.text, settings=given.hands.settings) as engine:
        engine.status()


def _open_catalog(given: _Given) -> None:
    with Catalog(given.text, settings=given.hands.settings) as catalog:
        catalog.tables()


def _check(given: _Given) -> None:
    with Catalog(settings=given.hands.settings) as catalog:
        catalog.check()


def _stop(given: _Given) -> None:
    with MirrorEngine(settings=given.hands.settings) as engine:
        engine.stop()


def _begin(given: _Given) -> None:
    transaction = given.hands.writer.begin(token=given.text)
    transaction.stage(given.change())
    transaction.commit()


def _vector(given: _Given) -> DeletionVector:
    return DeletionVector(storage_type="u", path_or_inline_dv=given.text, size_in_bytes=given.number, cardinality=1)


def _create(given: _Given) -> Table:
    return given.hands.catalog.create_table(given.text, location=f"{given.hands.folder}/made", schema="id long")


def _create_at(given: _Given) -> Table:
    return given.hands.catalog.create_table("elsewhere", location=given.text, schema="id long")


def _rows(given: _Given) -> pa.Table:
    return pa.table({"id": [str(given.number)]})


_WRITER: dict[str, Case] = {
    "begin": _begin,
    "commit": lambda g: g.hands.writer.commit(Request(changes=(g.change(),))),
    "commit_at": lambda g: g.hands.writer.commit_at(g.text, g.number, [add("at.parquet")]),
    "create_table": lambda g: g.hands.writer.create_table(g.definition()),
    "drop_table": lambda g: g.hands.writer.drop_table(f"no-{g.text}"),
    "exists": lambda g: g.hands.writer.exists(g.text),
    "find_applied": lambda g: g.hands.writer.find_applied({g.text: {g.text: g.number}}, {}),
    "find_token": lambda g: g.hands.writer.find_token(g.text, b"content", [g.text]),
    "metadata": lambda g: g.hands.writer.metadata(g.text),
    "next_version": lambda g: g.hands.writer.next_version(g.text),
    "optimise": lambda g: g.hands.writer.optimise(older_than=float(g.number)),
    "rename_table": lambda g: g.hands.writer.rename_table(f"no-{g.text}", g.text),
    "retained_from": lambda g: g.hands.writer.retained_from(g.text),
    "state": lambda g: g.hands.writer.state(g.text),
}

CASES: dict[str, Case] = {
    "Catalog": _open_catalog,
    "Catalog.check": _check,
    "Catalog.create_table": _create,
    "Catalog.create_table at": _create_at,
    "Catalog.create_table of": lambda g: g.hands.catalog.create_table(
        "of", location=f"{g.hands.folder}/of", schema=g.text
    ),
    "Catalog.pause": lambda g: g.hands.catalog.pause(g.text),
    "Catalog.resume": lambda g: g.hands.catalog.resume(g.text),
    "Catalog.frame_of_snapshot": lambda g: g.hands.catalog.frame_of_snapshot(None, g.hands.snapshot, [g.text], g.text),
    "Catalog.scan_snapshot": lambda g: g.hands.catalog.scan_snapshot(g.hands.snapshot, [g.text], g.text).read_all(),
    "Catalog.settings": lambda g: g.hands.catalog.settings,
    "Catalog.snapshot": lambda g: g.hands.catalog.snapshot([g.text]),
    "Catalog.table": lambda g: g.hands.catalog.table(g.text),
    "Catalog.table_at": lambda g: g.hands.catalog.table_at(g.text),
    "Catalog.tables": lambda g: g.hands.catalog.tables(),
    "Catalog.transaction": lambda g: g.hands.catalog.transaction(token=g.text, operation=g.text, user_metadata=g.text),
    "Catalog.wait_until_published": lambda g: g.hands.catalog.wait_until_published({g.text: g.number}, seconds=0.05),
    "Catalog.rename_table": lambda g: g.hands.catalog.rename_table(f"no-{g.text}", g.text),
    "Catalog.drop_table": lambda g: g.hands.catalog.drop_table(f"no-{g.text}"),
    "DeletionVector.unique_id": lambda g: _vector(g).unique_id,
    "MirrorEngine": _open_engine,
    "MirrorEngine.check": lambda g: g.hands.engine.check(),
    "MirrorEngine.mirror": lambda g: g.hands.engine.mirror(g.text, g.number),
    "MirrorEngine.mirror_again": lambda g: g.hands.engine.mirror_again(g.number, g.text),
    "MirrorEngine.checkpoint": lambda g: g.hands.engine.checkpoint(g.text),
    "MirrorEngine.clean": lambda g: g.hands.engine.clean(g.text),
    "MirrorEngine.prune": lambda g: g.hands.engine.prune(g.text, keep=0.0),
    "MirrorEngine.status": lambda g: g.hands.engine.status(g.text),
    "MirrorEngine.monitor": lambda g: g.hands.engine.monitor().report(),
    "MirrorEngine.settings": lambda g: g.hands.engine.settings,
    "MirrorEngine.start": lambda g: g.hands.engine.start(),
    "MirrorEngine.run": lambda g: g.hands.engine.run(once=True),
    "Snapshot.adds": lambda g: list(g.hands.snapshot.adds()),
    "Snapshot.count_files": lambda g: g.hands.snapshot.count_files(),
    "Snapshot.domain_metadata": lambda g: g.hands.snapshot.domain_metadata(),
    "Snapshot.file_numbers": lambda g: g.hands.snapshot.file_numbers(limit=g.number),
    "Snapshot.files": lambda g: g.hands.snapshot.files({g.text: g.text}),
    "Snapshot.files_among": lambda g: g.hands.snapshot.files_among(lambda _: [g.text]),
    "Snapshot.files_query": lambda g: g.hands.snapshot.files_query(),
    "Snapshot.physical_partition": lambda g: g.hands.snapshot.physical_partition(g.text),
    "Snapshot.require_partition_values": lambda g: g.hands.snapshot.require_partition_values(g.text, [g.text]),
    "Snapshot.schema": lambda g: g.hands.snapshot.schema,
    "Snapshot.transactions": lambda g: g.hands.snapshot.transactions(),
    "Table.append": lambda g: g.hands.table.append([add(g.text)], token=g.text),
    "Table.append rows": lambda g: g.hands.table.append(_rows(g)),
    "Table.optimize": lambda g: g.hands.table.optimize(target_size=g.number),
    "Table.overwrite": lambda g: g.hands.table.overwrite(_rows(g), replace_where=g.text),
    "Table.overwrite schema": lambda g: g.hands.table.overwrite(_rows(g), overwrite_schema=True, partition_by=[g.text]),
    "Table.delete": lambda g: g.hands.table.delete(g.text, token=g.text),
    "Table.update": lambda g: g.hands.table.update({g.text: g.text}, g.text),
    "Table.merge": lambda g: g.hands.table.merge(_rows(g), g.text, matched=Delete(g.text)),
    "Table.restore": lambda g: g.hands.table.restore(g.number),
    "Table.scan": lambda g: g.hands.table.scan([g.text], g.text).read_all(),
    "Table.to_spark": lambda g: g.hands.table.to_spark(None, [g.text], g.text),
    "Table.to_arrow": lambda g: g.hands.table.to_arrow(version=g.number),
    "Table.alter": lambda g: g.hands.table.alter(properties={g.text: g.text}, comment=g.text),
    "Table.alter columns": lambda g: g.hands.table.alter(columns=[g.text]),
    "Table.alter drop_columns": lambda g: g.hands.table.alter(drop_columns=[g.text], enable_column_mapping=True),
    "Table.alter rename_columns": lambda g: g.hands.table.alter(rename_columns={g.text: g.text}),
    "Table.alter change_columns": lambda g: g.hands.table.alter(change_columns={g.text: g.text}),
    "Table.commit_file": lambda g: g.hands.table.commit_file(g.number),
    "Table.fence": lambda g: g.hands.table.fence(),
    "Table.history": lambda g: g.hands.table.history(limit=g.number),
    "Table.info": lambda g: Table(g.hands.catalog, g.text).info(),
    "Table.location": lambda g: g.hands.table.location,
    "Table.remove": lambda g: g.hands.table.remove([g.text], token=g.text),
    "Table.snapshot": lambda g: g.hands.table.snapshot(version=g.number),
    "Table.snapshot as of": lambda g: g.hands.table.snapshot(as_of=g.text),
    "Table.snapshot at a time": lambda g: g.hands.table.snapshot(as_of=g.number),
    "Table.unfence": lambda g: g.hands.table.unfence(),
    "Table.vacuum": lambda g: g.hands.table.vacuum(g.number, dry_run=True, retention_check=False),
    "TableInfo.unpublished": lambda g: g.hands.table.info().unpublished,
    "Transaction.append": _in_transaction(lambda tx, g: tx.append(g.text, [add("appended.parquet", size=g.number)])),
    "Transaction.overwrite": _in_transaction(lambda tx, g: tx.overwrite(g.text, _rows(g))),
    "Transaction.delete": _in_transaction(lambda tx, g: tx.delete(g.text, g.text)),
    "Transaction.update": _in_transaction(lambda tx, g: tx.update(g.text, {g.text: g.text}, g.text)),
    "Transaction.merge": _in_transaction(lambda tx, g: tx.merge(TABLE, _rows(g), [g.text], not_matched=Insert())),
    "Transaction.commit": lambda g: g.hands.begun().commit(),
    "Transaction.read": _in_transaction(lambda tx, g: tx.read(g.text, partitions={g.text: g.text})),
    "Transaction.remove": _in_transaction(lambda tx, g: tx.remove(TABLE, [g.text])),
    "Transaction.record": _in_transaction(lambda tx, g: tx.record(g.text)),
    "Transaction.remove_domain": _in_transaction(lambda tx, g: tx.remove_domain(TABLE, g.text)),
    "Transaction.restore": _in_transaction(lambda tx, g: tx.restore(g.text, g.number)),
    "Transaction.result": lambda g: g.hands.begun().result,
    "Transaction.set_domain": _in_transaction(lambda tx, g: tx.set_domain(TABLE, g.text, g.text)),
    "Transaction.set_metadata": _in_transaction(lambda tx, g: tx.set_metadata(TABLE, schema=g.text)),
    "Transaction.set_transaction": _in_transaction(lambda tx, g: tx.set_transaction(TABLE, g.text, g.number)),
    "Transaction.stage": _in_transaction(
        lambda tx, g: tx.stage(g.text, [Txn(app_id=g.text, version=g.number)], read_version=g.number)
    ),
    "Transaction.stage_lines": _in_transaction(
        lambda tx, g: tx.stage_lines(TABLE, g.text.encode(errors="surrogatepass"), at_version=g.number)
    ),
    "Transaction.upgrade_protocol": _in_transaction(lambda tx, g: tx.upgrade_protocol(TABLE, g.text)),
    **{f"SqlTxnLogWriter.{name}": case for name, case in _WRITER.items()},
    # Last: where there was a catalog, there is an empty one after it.
    "Catalog.init": lambda g: g.hands.catalog.init(),
    "MirrorEngine.stop": _stop,
    "MirrorEngine.close": lambda g: MirrorEngine(settings=g.hands.settings).close(),
    "Catalog.close": lambda g: Catalog(settings=g.hands.settings).close(),
}


def entries() -> Iterator[str]:
    """Every public class that does more than hold values, and every public method and property of all of them."""
    for name in deltamirror.__all__:
        public = getattr(deltamirror, name)
        if public in (Catalog, MirrorEngine):
            yield name
        yield from (f"{name}.{member}" for member, _ in inspect.getmembers(public, _does_something) if member[0] != "_")


def missing_cases() -> set[str]:
    """Entries that nothing here calls. The contract of a writer is called through the writer that has it."""
    covered = {name.partition(" ")[0] for name in CASES}
    covered |= {name.removeprefix("Sql") for name in covered}
    return set(entries()) - covered


def _does_something(member: Any) -> bool:
    return callable(member) or isinstance(member, property)


def called(case: Case, hands: Hands, *, text: str = TABLE, number: int = 0) -> object:
    """What a case comes to."""
    return case(_Given(hands, text, number))
