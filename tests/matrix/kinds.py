"""Kinds of tables, each with the rows that every reader has to find.

Most are written by us, from Arrow data. What we do not write ourselves, such as deletion vectors, Delta Lake on Spark
writes, and its commits are taken in line by line; the log and its checkpoints are ours in any case.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from deltamirror import Catalog, Table
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.storage.location import canonical_location
from tests.support.logs.folder import read_log
from tests.support.readers.reader import Reader
from tests.support.reference_logs.files import begin_table, committed_verbatim

Row: TypeAlias = dict[str, Any]
Mirror: TypeAlias = Callable[[], None]

CHECKPOINT: Final = 3
"""The version that has a checkpoint; a table has at least one more."""

_INTERVAL: Final = {"delta.checkpointInterval": str(CHECKPOINT)}
_MOMENT: Final = datetime(2024, 2, 29, 1, 2, 3, 456_000, tzinfo=UTC)
_TEXTS: Final = ["São Paulo", "a/b %20", "x=y", '"q"', "#?&+;:@", "日本 🚀", "back\\slash", "'", "{}", "a%2Fb"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table that we write: four appends, and what comes between."""

    definition: Mapping[str, Any]
    row: Callable[[int], Row]
    """The row of a number, as it is given."""
    shown: Callable[[Row], Row] = lambda row: row
    """The row as readers show it."""
    then: Callable[[Table], object] = lambda _: None
    """What happens after the first append."""

    def make(self, catalog: Catalog, name: str, folder: Path, *, mirror: Mirror, spark: Reader | None) -> list[Row]:
        """The rows of the newest version. Each is mirrored before the next: of a backlog, one checkpoint is written."""
        properties = {**_INTERVAL, **self.definition.get("properties", {})}
        table = catalog.create_table(name, location=folder, **{**self.definition, "properties": properties})
        self._append(table, range(4))
        self.then(table)
        mirror()
        for numbers in (range(4, 6), range(6, 8), range(8, 10)):
            self._append(table, numbers)
            mirror()
        return [self.shown(self.row(number)) for number in range(10)]

    def _append(self, table: Table, numbers: range) -> None:
        rows = [self.row(number) for number in numbers]
        columns = to_arrow(table.snapshot().schema)
        table.append(pa.Table.from_pylist(rows, schema=pa.schema([columns.field(name) for name in rows[0]])))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBySpark:
    """A table that Delta Lake on Spark writes, a commit a statement; ``{t}`` is its name."""

    statements: Sequence[str]
    rows: Sequence[Row]

    def make(self, catalog: Catalog, name: str, folder: Path, *, mirror: Mirror, spark: Reader | None) -> list[Row]:
        """The rows of the newest version."""
        assert spark is not None, "Delta Lake on Spark writes this table"
        source = folder.parent / f"{folder.name} of Spark"
        for statement in self.statements:
            spark.sql(statement.format(t=f"delta.`{source}`"))
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("_delta_log"), dirs_exist_ok=True)
        log = read_log(source)
        begin_table(catalog, name, log[0], location=canonical_location(str(folder)))
        assert len(log) > CHECKPOINT + 1
        for _ in committed_verbatim(catalog, name, log):
            mirror()
        return [dict(row) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Kind:
    """What is special about a table, and how it comes about."""

    says: str
    made: Written | WrittenBySpark
    opaque: tuple[str, ...] = ()
    """Columns whose values readers show each in its own way: of such a table, rows are counted."""


def _plain(number: int) -> Row:
    return {"id": number, "name": None if number % 3 == 2 else f'n "{number}" ä'}


_PLAIN: Final = "id long, name string"


def _partitioned(kind: str, values: Sequence[Any]) -> Written:
    def row(number: int) -> Row:
        return {"id": number, "p": [*values, None][number % (len(values) + 1)]}

    return Written(definition={"schema": f"id long, p {kind}", "partition_by": ["p"]}, row=row)


def _with(**properties: str) -> Written:
    named = {f"delta.{name}": value for name, value in properties.items()}
    return Written(definition={"schema": _PLAIN, "properties": named}, row=_plain)


def _defined(**definition: Sequence[str]) -> Written:
    return Written(definition={"schema": _PLAIN, **definition}, row=_plain)


def _nested(number: int) -> Row:
    items = [] if number % 3 == 0 else [{"sku": f"s{number}", "n": number}]
    return {"id": number, "items": items, "tags": [("a", number)], "at": {"x": number, "y": None}}


def _types(number: int) -> Row:
    return {
        "id": number,
        "s": number,
        "b": number % 128,
        "i": number,
        "f": number / 2,
        "d": number / 3,
        "c": Decimal(number).quantize(Decimal("0.01")),
        "t": _MOMENT.replace(second=number),
        "day": date(2024, 2, 20 + number),
        "yes": number % 2 == 0,
        "raw": bytes([number]),
    }


PARTITIONS: Final[Mapping[str, Sequence[Any]]] = {
    "string": _TEXTS[:3],
    "int": [0, -1, 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "short": [-1, 5],
    "byte": [-128, 127],
    "boolean": [True, False],
    "date": [date(2024, 2, 29), date(1900, 1, 1)],
    "timestamp": [_MOMENT, datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)],
    "decimal(10,2)": [Decimal("0.01"), Decimal("12345678.90")],
    "double": [0.5, -1e300],
    "float": [0.5, -2.0],
}
"""The types of partition columns, with values; null is among those of each."""

KINDS: Final[Mapping[str, Kind]] = {
    "plain": Kind("a long and a string", Written(definition={"schema": _PLAIN}, row=_plain)),
    "types": Kind(
        "a column of each simple type",
        Written(
            definition={
                "schema": "id long, s short, b byte, i int, f float, d double, c decimal(10,2), t timestamp, day date,"
                " yes boolean, raw binary"
            },
            row=_types,
        ),
    ),
    "nested": Kind(
        "structs, arrays and maps",
        Written(
            definition={
                "schema": "id long, items array<struct<sku: string, n: int>>, tags map<string, long>,"
                " at struct<x: int, y: string>"
            },
            row=_nested,
        ),
    ),
    **{
        f"partitioned by {kind}": Kind(f"a partition column of the type {kind}, with null", _partitioned(kind, values))
        for kind, values in PARTITIONS.items()
    },
    "odd partition values": Kind("values that paths, URIs and JSON have to escape", _partitioned("string", _TEXTS)),
    "column mapping by name": Kind("physical names", _with(**{"columnMapping.mode": "name"})),
    "column mapping by id": Kind("field ids", _with(**{"columnMapping.mode": "id"})),
    "a renamed column": Kind(
        "column mapping, and a name that changed",
        Written(
            definition={"schema": "id long, old string", "properties": {"delta.columnMapping.mode": "name"}},
            row=lambda number: {"id": number, "old" if number < 4 else "new": str(number)},
            shown=lambda row: {"id": row["id"], "new": row.get("old") or row.get("new")},
            then=lambda table: table.alter(rename_columns={"old": "new"}),
        ),
    ),
    "an added column": Kind(
        "files from before a column was there",
        Written(
            definition={"schema": "id long"},
            row=lambda number: {"id": number} if number < 4 else {"id": number, "more": number / 2},
            shown=lambda row: {"more": None, **row},
            then=lambda table: table.alter(columns="more double"),
        ),
    ),
    "type widening": Kind(
        "an int that became a long",
        Written(
            definition={"schema": "id int", "properties": {"delta.enableTypeWidening": "true"}},
            row=lambda number: {"id": number},
            then=lambda table: table.alter(change_columns={"id": "TYPE bigint"}),
        ),
    ),
    "deletion vectors": Kind(
        "rows that files still have",
        WrittenBySpark(
            statements=[
                "CREATE TABLE {t} (id LONG) USING delta TBLPROPERTIES"
                " ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '3')",
                "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id FROM range(10)",
                "DELETE FROM {t} WHERE id = 3",
                "DELETE FROM {t} WHERE id = 7",
                "INSERT INTO {t} VALUES (10)",
            ],
            rows=[{"id": number} for number in range(11) if number not in (3, 7)],
        ),
    ),
    "row tracking": Kind("ids of rows", _with(enableRowTracking="true")),
    "clustering": Kind("clustered by a column", _defined(cluster_by=["name"])),
    "timestamp without zone": Kind(
        "the type timestamp_ntz",
        Written(
            definition={"schema": "id long, t timestamp_ntz"},
            row=lambda number: {"id": number, "t": _MOMENT.replace(tzinfo=None, second=number)},
        ),
    ),
    "variant": Kind(
        "the type variant",
        WrittenBySpark(
            statements=[
                "CREATE TABLE {t} (id LONG, v VARIANT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '3')",
                "INSERT INTO {t} SELECT 1, parse_json('{{\"a\": 1}}')",
                "INSERT INTO {t} SELECT 2, parse_json('[true]')",
                "INSERT INTO {t} SELECT 3, parse_json('null')",
                "INSERT INTO {t} SELECT 4, parse_json('1')",
            ],
            rows=[{"id": number} for number in range(1, 5)],
        ),
        opaque=("v",),
    ),
    "generated columns": Kind(
        "values that follow from others",
        WrittenBySpark(
            statements=[
                "CREATE TABLE {t} (id LONG, twice LONG GENERATED ALWAYS AS (id * 2)) USING delta TBLPROPERTIES"
                " ('delta.checkpointInterval' = '3')",
                *(f"INSERT INTO {{t}} (id) VALUES ({number})" for number in range(4)),
            ],
            rows=[{"id": number, "twice": 2 * number} for number in range(4)],
        ),
    ),
    "identity columns": Kind(
        "numbers that the table gives",
        WrittenBySpark(
            statements=[
                "CREATE TABLE {t} (id LONG, n LONG GENERATED ALWAYS AS IDENTITY) USING delta TBLPROPERTIES"
                " ('delta.checkpointInterval' = '3')",
                *(f"INSERT INTO {{t}} (id) VALUES ({number})" for number in range(4)),
            ],
            rows=[{"id": number, "n": number + 1} for number in range(4)],
        ),
    ),
    "v2 checkpoints": Kind("sidecars", _with(checkpointPolicy="v2")),
    "in-commit timestamps": Kind("times in the commits", _with(enableInCommitTimestamps="true")),
    "check constraints": Kind(
        "a rule for rows",
        WrittenBySpark(
            statements=[
                "CREATE TABLE {t} (id LONG) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '3')",
                "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)",
                *(f"INSERT INTO {{t}} VALUES ({number})" for number in range(3)),
            ],
            rows=[{"id": number} for number in range(3)],
        ),
    ),
    "append only": Kind("files are never removed", _with(appendOnly="true")),
    "change data feed": Kind("the feed is switched on", _with(enableChangeDataFeed="true")),
    "vacuum protocol check": Kind("the feature vacuumProtocolCheck", _defined(features=["vacuumProtocolCheck"])),
    "odd column names": Kind(
        "names that no one would choose",
        Written(
            definition={
                "schema": "id long, `a b` long, `ä;{}` string",
                "properties": {"delta.columnMapping.mode": "name"},
            },
            row=lambda number: {"id": number, "a b": number, "ä;{}": str(number)},
        ),
    ),
}
"""All kinds, by their names."""
