"""The thread through everything: commits to SQL, joined into a ``_delta_log/``, are Delta tables for everybody.

Real data files are written and committed through a catalog on SQLite. Its stored bytes become a log folder, and
independent readers open every version of it; Delta Lake on Spark, which costs most, the newest. Tables as the mirror
publishes them, with odd partition values and mapped columns, are in ``test_every_reader``.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.delta.paths import PartitionValue
from deltamirror.delta.schema.arrow import to_arrow
from tests.support.logs.folder import read_log, write_log
from tests.support.readers.reader import Reader, SeenFile, SeenTable, assert_same_table
from tests.support.rows.datafiles import data_file, seen_by_us

pytestmark = [pytest.mark.spark, pytest.mark.requirement("R7"), pytest.mark.requirement("R89")]

LEAP, NEXT = date(2024, 2, 29), date(2024, 3, 1)


@dataclass(frozen=True)
class Written:
    """A table of the catalog, and the folder that other readers see."""

    catalog: Catalog
    table: Table
    folder: Path

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def versions(self) -> range:
        return range(self.table.info().head + 1)

    def file(self, rows: dict[str, list[object]], partition: dict[str, PartitionValue] | None = None) -> Add:
        """A data file with these rows, written where the table lies."""
        schema = self.table.snapshot().schema
        columns = [pa.array(values, to_arrow(schema).field(name).type) for name, values in rows.items()]
        return data_file(self.folder, pa.table(columns, list(rows)), schema=schema, partition=partition)

    def publish(self) -> None:
        """Join the stored bytes into a log, as the mirror does."""
        write_log(self.folder, {version: self.table.commit_file(version) for version in self.versions})


def evolving(written: Written) -> None:
    """Append, remove, add again, overwrite, add a column, record an application's progress, set and remove a domain."""
    catalog, name = written.catalog, written.name
    first = written.file({"id": [1, 2], "name": ["ä", None]}, {"day": LEAP})
    second = written.file({"id": [3], "name": ['quo"te']}, {"day": NEXT})
    written.table.append([first, second])
    written.table.remove([first.path])
    written.table.append([first])
    with catalog.transaction(operation="WRITE", parameters={"mode": "Overwrite", "partitionBy": "[]"}) as tx:
        tx.read(name, partitions={"day": NEXT})
        tx.remove(name, [second.path])
        tx.append(name, [written.file({"id": [30, 31], "name": ["x", "y"]}, {"day": NEXT})])
    with catalog.transaction(user_metadata="wider") as tx:
        tx.set_metadata(name, schema="id long, day date, name string, price decimal(10,2)", properties={"owner": "ä"})
    with catalog.transaction() as tx:
        tx.set_transaction(name, "loader", 7)
        tx.append(name, [written.file({"id": [4], "name": ["n"], "price": [Decimal("1.50")]}, {"day": NEXT})])
    with catalog.transaction() as tx:
        tx.set_domain(name, "our.domain", '{"a":"é"}')
    with catalog.transaction() as tx:
        tx.remove_domain(name, "our.domain")


def mapped_partitions(written: Written) -> None:
    """Partition columns that have physical names: their values are logged under these."""
    table = written.table
    table.append([written.file({"id": [1, 2]}, {"part, of": "p=1"}), written.file({"id": [3]}, {"part, of": None})])
    _rename(written, "id", "{id}")
    table.append([written.file({"{id}": [4]}, {"part, of": "p=1"})])


def _rename(written: Written, column: str, name: str) -> None:
    schema = written.table.snapshot().schema
    fields = tuple(replace(field, name=name) if field.name == column else field for field in schema.fields)
    with written.catalog.transaction(operation="RENAME COLUMN") as tx:
        tx.set_metadata(written.name, schema=replace(schema, fields=fields))


def upgraded(written: Written) -> None:
    """From protocol (1,2) to (3,7), and in-commit timestamps on a table that began without them."""
    table, catalog, name = written.table, written.catalog, written.name
    table.append([written.file({"id": [1]})])
    with catalog.transaction() as tx:
        tx.upgrade_protocol(name, "timestampNtz")
    table.append([written.file({"id": [2]})])
    table.alter(properties={"delta.enableInCommitTimestamps": "true"})
    table.append([written.file({"id": [3]})])
    table.alter(unset=["gone"], properties={"delta.enableDeletionVectors": "true"})


STORIES: dict[str, tuple[Callable[[Written], None], dict[str, object]]] = {
    "evolving": (
        evolving,
        {"schema": "id long, day date, name string", "partition_by": ["day"], "features": ["domainMetadata"]},
    ),
    "mapped_partitions": (
        mapped_partitions,
        {
            "schema": "id long, `part, of` string",
            "partition_by": ["part, of"],
            "properties": {"delta.columnMapping.mode": "id"},
        },
    ),
    "upgraded": (
        upgraded,
        {
            "schema": "id long",
            "properties": {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2", "gone": "x"},
        },
    ),
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog(f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'lake.db'}") as opened:
        opened.init()
        yield opened


@pytest.fixture(scope="module", params=list(STORIES))
def written(request: pytest.FixtureRequest, catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Written:
    story, definition = STORIES[request.param]
    folder = tmp_path_factory.mktemp("lake") / request.param
    table = catalog.create_table(request.param, location=str(folder), **definition)  # type: ignore[arg-type]
    written = Written(catalog, table, folder)
    story(written)
    written.publish()
    return written


def assert_all_see(written: Written, folder: Path, readers: tuple[Reader, ...], *ours: SeenTable) -> None:
    """All readers agree with one another, and with us, on the table in a folder."""
    version, metadata = ours[0].version if ours else None, written.table.snapshot().metadata
    mapped = "delta.columnMapping.mode" in metadata.configuration
    if mapped and metadata.partition_columns:
        # delta_scan of DuckDB 1.5 reads null from a partition column with a physical name, whoever wrote the table.
        readers = tuple(reader for reader in readers if not reader.name.startswith("DuckDB"))
    tables = [*ours, *(reader.snapshot(folder, version, rows=True) for reader in readers)]
    if mapped:
        # Readers list partition values under physical names, logical ones, or not at all; the rows prove them.
        tables = [replace(table, files=_without_values(table)) for table in tables]
    assert_same_table(tables)


def _without_values(table: SeenTable) -> tuple[SeenFile, ...] | None:
    return None if table.files is None else tuple(replace(file, partition_values=None) for file in table.files)


def test_every_reader_sees_every_version_as_the_catalog_does(written: Written, all_readers: tuple[Reader, ...]) -> None:
    frugal = tuple(reader for reader in all_readers if reader.name.startswith(("delta-rs", "DuckDB")))
    for version in written.versions:
        ours = seen_by_us(written.table.snapshot(version), written.folder)
        assert_all_see(written, written.folder, all_readers if version == written.versions[-1] else frugal, ours)


@pytest.mark.elsewhere  # in test_fence Delta Spark appends to a table of ours
def test_delta_spark_writes_to_a_copy_without_complaint(
    written: Written, tmp_path: Path, all_readers: tuple[Reader, ...], delta_spark: Reader
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(written.folder, copy)
    number = written.table.snapshot().schema.fields[0].name
    delta_spark.sql(f"INSERT INTO delta.`{copy}` SELECT * FROM delta.`{copy}` WHERE `{number}` = 1")
    delta_spark.sql(f"DELETE FROM delta.`{copy}` WHERE `{number}` = 2")
    ours = read_log(written.folder)
    theirs = read_log(copy)
    assert {version: theirs[version] for version in ours} == ours
    assert sorted(theirs) == list(range(len(ours) + 2))
    assert_all_see(written, copy, all_readers)


def test_describe_history_shows_our_commits(written: Written, delta_spark: Reader) -> None:
    shown = {row["version"]: row for row in delta_spark.sql(f"DESCRIBE HISTORY delta.`{written.folder}`")}
    history = {entry.version: entry for entry in written.table.history()}
    assert shown.keys() == history.keys()
    for version, entry in history.items():
        row = shown[version]
        assert row["operation"] == entry.operation
        assert row["engineInfo"] == entry.engine_info
        assert row["isBlindAppend"] == entry.is_blind_append
        assert row["userMetadata"] == entry.user_metadata
        assert dict(row["operationMetrics"] or ()) == entry.metrics
        assert dict(row["operationParameters"] or ()).keys() == entry.parameters.keys()
