"""The chapters of the tour. The code that a chapter shows is the source of the function that it runs."""

import inspect
import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.catalog import Catalog, Committed
from deltamirror.config import Settings
from deltamirror.delta.actions import Add
from deltamirror.errors import Conflict, Internal
from deltamirror.ops.engine import MirrorEngine

_Rows: TypeAlias = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Reader:
    """A reader that knows nothing of the catalog."""

    name: str
    packages: str
    """What pip installs it by."""
    read: Callable[[str], pa.Table]

    def rows(self, folder: Path) -> _Rows | None:
        """The rows of the table in a folder, as text, sorted; None where the reader is not installed."""
        try:
            found = self.read(str(folder))
        except ModuleNotFoundError:
            return None
        return sorted(tuple(str(value) for value in row.values()) for row in found.to_pylist())


# Imported by name, since neither is a dependency. This DuckDB is no catalog's database, which only txnlog may open: it
# reads files, as any other program would.
def _delta_rs(folder: str) -> pa.Table:
    return import_module("deltalake").DeltaTable(folder).to_pyarrow_table()


def _duckdb(folder: str) -> pa.Table:
    duckdb, extension = import_module("duckdb"), import_module("duckdb_extension_delta")
    file = Path(extension.__file__ or "").parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
    if not file.exists():
        raise ModuleNotFoundError(f"no Delta extension for DuckDB {duckdb.__version__}")
    with duckdb.connect() as connection:
        connection.load_extension(str(file))
        return connection.table_function("delta_scan", [folder]).to_arrow_table()


READERS = (
    Reader("delta-rs", "deltalake pyarrow", _delta_rs),
    Reader("DuckDB", "duckdb duckdb-extension-delta", _duckdb),
)
"""Delta readers of other people. Any of them may be missing."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A heading, what there is to see, and a function whose lines are shown and run; it returns what came of them."""

    title: str
    text: str
    run: Callable[[Catalog, Path, Settings], Sequence[str]]

    @property
    def code(self) -> str:
        """The body of the function, up to the blank line before it puts its outcome into words."""
        body = inspect.getsource(self.run).partition(":\n")[2]
        return textwrap.dedent(body.partition("\n\n")[0])


def data_file(folder: Path, name: str, *, day: str | None = None, **columns: Sequence[float]) -> Add:
    """Write a small Parquet file, and describe it as Delta does."""
    partition: dict[str, str | None] = {} if day is None else {"day": day}
    path = name if day is None else f"day={day}/{name}"
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table(dict(columns))
    pq.write_table(rows, target)
    facts = target.stat()
    return Add(
        path=path,
        partition_values=partition,
        size=facts.st_size,
        modification_time=facts.st_mtime_ns // 1_000_000,
        data_change=True,
        stats=json.dumps({"numRecords": rows.num_rows}, separators=(",", ":")),
    )


def _create(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    catalog.init()
    catalog.create_table(
        "orders",
        location=f"{lake}/orders",
        schema="id long, amount double, day date",
        partition_by=["day"],
    )
    catalog.create_table("payments", location=f"{lake}/payments", schema="order_id long, paid double")

    return [f"{info.name} is at version {info.head}, its files go to {info.location}" for info in catalog.tables()]


def _commit_both(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    with catalog.transaction() as tx:
        order = data_file(lake / "orders", "a.parquet", day="2024-05-01", id=[1, 2], amount=[9.5, 20.0])
        tx.append("orders", [order])
        payment = data_file(lake / "payments", "a.parquet", order_id=[1], paid=[9.5])
        tx.append("payments", [payment])

    return [f"{table} is at version {version}" for table, version in sorted(tx.result.versions.items())]


def _append_late(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    mine = data_file(lake / "orders", "b.parquet", day="2024-05-02", id=[3], amount=[7.0])
    theirs = data_file(lake / "orders", "c.parquet", day="2024-05-02", id=[4], amount=[3.0])
    slow = catalog.transaction()
    slow.append("orders", [mine])
    # Before it commits, another writer is faster.
    quick = catalog.table("orders").append([theirs])
    late = slow.commit()

    return [f"the quick writer got version {quick.versions['orders']}, the slow one {late.versions['orders']}"]


def _delete_twice(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    day = {"day": "2024-05-01"}
    slow = catalog.transaction(operation="DELETE")
    paths = slow.read("orders", partitions=day).files(day).column("path").to_pylist()
    # Before it commits, another writer removes the very files that it looked at.
    with catalog.transaction(operation="DELETE") as quick:
        quick.remove("orders", paths)
    try:
        slow.remove("orders", paths)
        slow.commit()
    except Conflict as conflict:
        refused = conflict

    return [f"Conflict: {refused.message}", f"hint: {refused.hint}"]


def _retry(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    invoice = "invoice-4711"
    payment = data_file(lake / "payments", "b.parquet", order_id=[2], paid=[20.0])
    first = catalog.table("payments").append([payment], token=invoice)
    # The answer got lost on its way, so the writer sends the same again.
    again = catalog.table("payments").append([payment], token=invoice)

    return [f"first: {_told(first)}", f"again: {_told(again)}"]


def _travel(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    orders = catalog.table("orders")
    earlier = orders.snapshot(version=1)
    head = orders.snapshot()

    counts = [f"version {each.version} has {_files(each.files())}" for each in (earlier, head)]
    lines = [
        f"  version {entry.version}: {entry.operation}, {entry.num_added} added, {entry.num_removed} removed"
        for entry in orders.history()
    ]
    return [*counts, "history:", *lines]


def _ask_sql(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    query = """
        SELECT t.name, v.version, v.operation, v.num_lines, v.num_bytes, s.state
        FROM dl_table_versions v
        JOIN dl_tables t ON t.table_id = v.table_id
        JOIN dl_mirror_status s ON s.table_id = v.table_id AND s.version = v.version
        ORDER BY t.name, v.version
    """
    with catalog.database.read() as connection:
        result = connection.exec_driver_sql(query)
        rows = [tuple(result.keys()), *result.all()]

    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{value!s:<{width}}" for value, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _show_bytes(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    commit = catalog.table("orders").commit_file(version=1)

    return commit.decode().splitlines()


def _mirror(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    with MirrorEngine(settings=settings) as engine:
        done = engine.run(once=True)
        newest = engine.checkpoint("orders")
        tables = engine.status()

    for failure in done.failures:
        raise failure.error
    lags = [f"{each.name}: head {each.head}, published {each.published}" for each in tables]
    return [f"published {done.versions} versions, and the checkpoint of version {newest} of orders", *lags]


def _list_log(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    log = lake / "orders" / "_delta_log"
    same = (log / f"{1:020}.json").read_bytes() == catalog.table("orders").commit_file(version=1)

    files = [f"{file.stat().st_size:>8,}  {file.name}" for file in sorted(log.iterdir())]
    return [*files, f"the bytes of version 1 are {'those' if same else 'NOT those'} that the catalog keeps"]


def _read(catalog: Catalog, lake: Path, settings: Settings) -> Sequence[str]:
    tables = ("orders", "payments")
    seen = {reader: [reader.rows(lake / table) for table in tables] for reader in READERS}
    in_sql = [catalog.table(table).snapshot().files().column("stats").to_pylist() for table in tables]

    counts = [sum(json.loads(stats)["numRecords"] for stats in each) for each in in_sql]
    found = {reader.name: [rows or [] for rows in seen[reader]] for reader in READERS if None not in seen[reader]}
    lines = [f"{name:<9} {_rows(tables, rows)}" for name, rows in found.items()]
    lines.append(f"{'SQL':<9} " + ", ".join(f"{t}: {n} rows" for t, n in zip(tables, counts, strict=True)))
    first = next(iter(found.values()), [])
    if any(rows != first or [len(each) for each in rows] != counts for rows in found.values()):
        raise Internal(f"the readers differ: {'; '.join(lines)}")
    missing = [reader for reader in READERS if reader.name not in found]
    lines += [f"{reader.name} is not installed: pip install {reader.packages}" for reader in missing]
    return [*lines, "all readers see the same rows"] if found else lines


def _rows(tables: Sequence[str], seen: Sequence[_Rows]) -> str:
    texts = [" ".join(f"({', '.join(row)})" for row in rows) for rows in seen]
    return ", ".join(f"{table}: {text}" for table, text in zip(tables, texts, strict=True))


def _told(done: Committed) -> str:
    return f"version {done.versions['payments']}{', applied already' if done.already_applied else ''}"


def _files(found: pa.Table) -> str:
    paths = sorted(found.column("path").to_pylist())
    return f"{len(paths)} {'file' if len(paths) == 1 else 'files'}: {', '.join(paths)}"


CHAPTERS = (
    Chapter(
        "A catalog, and two tables in it",
        "The catalog is a SQL database: here one SQLite file. The data of a table are Parquet files in a folder. Its "
        "transaction log, which says what belongs to the table, lives in the catalog. (Below, lake is a folder, and "
        'catalog is Catalog(f"sqlite:///{lake}/deltamirror.db").)',
        _create,
    ),
    Chapter(
        "One commit over both tables",
        "A transaction takes place in all of its tables, or in none. A log that is made of files cannot do this. "
        "(data_file writes a small Parquet file and describes it as Delta does.)",
        _commit_both,
    ),
    Chapter(
        "Two writers that do not disturb each other",
        "Files that are only added depend on nothing that was read. The slower writer goes after the quicker one; "
        "no writer has to begin again.",
        _append_late,
    ),
    Chapter(
        "Two writers in each other's way",
        "A writer that removes files has read the table before. If another one changed the files that it read, the "
        "slower writer is told, and nothing of its transaction takes place.",
        _delete_twice,
    ),
    Chapter(
        "A retry is not a second commit",
        "A token belongs to a transaction. Sent again, it is answered with the version that it got the first time.",
        _retry,
    ),
    Chapter(
        "Time travel, and history",
        "Every version stays readable. (All files are still in the folder: removing one from a table deletes nothing.)",
        _travel,
    ),
    Chapter(
        "What SQL knows",
        "Ask the catalog whatever SQL can ask. PENDING are versions that wait to be mirrored to _delta_log/.",
        _ask_sql,
    ),
    Chapter(
        "The bytes of a commit",
        "The catalog keeps each commit as the exact bytes that its file in _delta_log/ has: the lines that Delta Lake "
        "on Spark would have written.",
        _show_bytes,
    ),
    Chapter(
        "The mirror writes _delta_log/",
        "The mirror is a job on Spark, or, for small machines, a thread. It publishes every commit in order, and "
        "checkpoints beside them; here for all tables, once. (settings name the catalog, and Spark or not. A Spark of "
        "one's own takes some seconds to start.)",
        _mirror,
    ),
    Chapter(
        "A log of files, like any other",
        "PENDING versions are published: commits (.json), their checksums (.crc), and a checkpoint with the pointer to "
        "it.",
        _list_log,
    ),
    Chapter(
        "All readers see the same rows",
        "Readers that know nothing of the catalog open the folders. (For delta-rs, rows is "
        "DeltaTable(folder).to_pyarrow_table(); for DuckDB, SELECT * FROM delta_scan(folder). The statistics of the "
        "files in SQL say how many rows there are.)",
        _read,
    ),
)
