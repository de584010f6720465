"""Lives of tables: each commits twelve times after its creation, with real data files, once a step."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltamirror import Add, Catalog, Table
from deltamirror.delta.paths import PartitionValue
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.storage.location import canonical_location
from tests.support.logs.folder import read_log
from tests.support.readers.reader import Reader, SeenTable
from tests.support.readers.rows import fingerprint
from tests.support.reference_logs.files import begin_table, committed_verbatim
from tests.support.rows.datafiles import data_file, seen_by_us

NEWEST = 12
INTERVAL = 5
CITIES = ["São Paulo", "a/b %20", "x=y", '"q"', "tab\there", "#?&+;:@", "日本 🚀", "back\\slash", "", None, "'", "{}"]


@dataclass(frozen=True)
class Life:
    """A table of a catalog, and the folder in which its data files are written."""

    catalog: Catalog
    table: Table
    folder: Path
    models: dict[int, list[int]] = field(default_factory=dict)
    """The ids that a version holds, where deletion vectors keep us from reading them ourselves."""

    def file(self, rows: Mapping[str, list[Any]], partition: Mapping[str, PartitionValue] | None = None) -> Add:
        """A data file with these rows."""
        schema = self.table.snapshot().schema
        columns = [pa.array(values, to_arrow(schema).field(name).type) for name, values in rows.items()]
        return data_file(self.folder, pa.table(columns, list(rows)), schema=schema, partition=partition)

    def seen(self, version: int) -> SeenTable:
        """What SQL says of a version."""
        ours = seen_by_us(self.table.snapshot(version), self.folder)
        if version not in self.models:
            return ours
        rows = fingerprint(pa.table({"id": self.models[version]}))
        return replace(ours, row_count=int(str(rows["count"])), row_digest=str(rows["digest"]))


@dataclass(frozen=True, slots=True)
class Story:
    """How a table lives: a commit a step. ``folder`` is the name of its place."""

    steps: Callable[[Life], Iterator[None]]
    definition: Mapping[str, Any]
    folder: str = "table"

    def begin(self, catalog: Catalog, name: str, *, location: str, folder: Path) -> Life:
        """Create the table, with checkpoints at short intervals."""
        properties = {"delta.checkpointInterval": str(INTERVAL), **self.definition.get("properties", {})}
        table = catalog.create_table(name, location=location, **{**self.definition, "properties": properties})
        return Life(catalog, table, folder)


def appended(life: Life) -> Iterator[None]:
    """One file a commit."""
    for n in range(NEWEST):
        life.table.append([life.file({"id": [2 * n, 2 * n + 1], "name": [f'ä "{n}"', None]})])
        yield


def removed(life: Life) -> Iterator[None]:
    """Files of three partitions come, some go, and one that was gone comes back."""
    days, files = [date(2024, 2, 29), date(2024, 3, 1), None], list[Add]()
    for n in range(NEWEST):
        if n % 4 == 3:
            life.table.remove([files[n // 4].path])
        elif n == 8:
            life.table.append([files[0]])
        else:
            files += [life.file({"id": [10 * n + m], "name": [f"{n}-{m}"]}, {"day": days[m]}) for m in range(3)]
            life.table.append(files[-3:])
        yield


def mapped(life: Life) -> Iterator[None]:
    """Columns that have physical names, one of them a partition's; one is renamed half way."""
    name = "a b"
    for n in range(NEWEST):
        if n == NEWEST // 2:
            _rename(life, name, "(renamed)")
            name = "(renamed)"
        else:
            part = {"part, of": None if n % 3 else f"p={n}"}
            life.table.append([life.file({"id": [n], name: [f"x{n}"]}, part)])
        yield


def _rename(life: Life, column: str, name: str) -> None:
    schema = life.table.snapshot().schema
    fields = tuple(replace(field, name=name) if field.name == column else field for field in schema.fields)
    with life.catalog.transaction(operation="RENAME COLUMN") as tx:
        tx.set_metadata(life.table.name, schema=replace(schema, fields=fields))


def special(life: Life) -> Iterator[None]:
    """Partition values with all that a path, a URI or a JSON text could stumble over; nulls; the empty string."""
    files = [life.file({"id": [n]}, {"city": city, "n": n}) for n, city in enumerate(CITIES)]
    for n in range(NEWEST - 2):
        life.table.append(files[n : n + 1] if n else [files[0], *files[-2:]])
        yield
    life.table.remove([file.path for file in files[1:10:2]])
    yield
    life.table.append([files[1], files[5], life.file({"id": [99]}, {"city": None, "n": None})])
    yield


STORIES: Mapping[str, Story] = {
    "appended": Story(appended, {"schema": "id long, name string"}),
    "removed": Story(removed, {"schema": "id long, day date, name string", "partition_by": ["day"]}),
    "sidecars": Story(
        removed,
        {
            "schema": "id long, day date, name string",
            "partition_by": ["day"],
            "properties": {"delta.checkpointPolicy": "v2"},
        },
    ),
    "mapped": Story(
        mapped,
        {
            "schema": "id long, `a b` string, `part, of` string",
            "partition_by": ["part, of"],
            "properties": {"delta.columnMapping.mode": "name"},
        },
    ),
    "special": Story(
        special,
        {"schema": "id long, city string, n int", "partition_by": ["city", "n"]},
        folder="lake of São Paulo + x=y & 'co'",
    ),
}


@dataclass(frozen=True, slots=True)
class SparkVectors:
    """A table that Delta Lake on Spark wrote, deletion vectors and all, and that we take in and go on with."""

    source: Path
    models: Mapping[int, list[int]]

    def begin(self, catalog: Catalog, name: str, *, location: str, folder: Path) -> Life:
        """Take in version 0, and all data files."""
        shutil.copytree(self.source, folder, ignore=shutil.ignore_patterns("_delta_log"), dirs_exist_ok=True)
        begin_table(catalog, name, read_log(self.source)[0], location=canonical_location(location))
        return Life(catalog, catalog.table(name), folder, dict(self.models))

    def steps(self, life: Life) -> Iterator[None]:
        """Spark's commits, verbatim; then files of ours, and the end of one with a vector."""
        for _ in committed_verbatim(life.catalog, life.table.name, read_log(self.source)):
            yield
        for version in range(max(self.models) + 1, NEWEST + 1):
            ids = life.models[version - 1]
            if version == NEWEST - 2:
                life.table.remove([_holder_of_the_first(life)])
                life.models[version] = [number for number in ids if number >= 10]
            else:
                life.table.append([life.file({"id": [100 + version]})])
                life.models[version] = [*ids, 100 + version]
            yield


def _holder_of_the_first(life: Life) -> str:
    added = life.table.snapshot(1).files().column("path").to_pylist()
    assert len(added) == 1
    return str(added[0])


def spark_vectors(spark: Reader, folder: Path) -> SparkVectors:
    """Let Spark write the first versions of a table with deletion vectors."""
    table, models = f"delta.`{folder}`", {0: list[int](), 1: list(range(10))}
    spark.sql(
        f"CREATE TABLE {table} (id LONG) USING delta TBLPROPERTIES"
        f" ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '{INTERVAL}')"
    )
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id FROM range(10)")
    for version, gone in ((2, 3), (3, 4)):
        spark.sql(f"DELETE FROM {table} WHERE id = {gone}")
        models[version] = [number for number in models[version - 1] if number != gone]
    return SparkVectors(folder, models)
