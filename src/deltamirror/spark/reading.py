"""A table read by Spark: planned from SQL by the driver, file by file read by executors."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from deltamirror.catalog.catalog import Catalog
from deltamirror.delta.paths import partition_text
from deltamirror.delta.schema.quoting import quoted
from deltamirror.errors import InvalidInput
from deltamirror.rows.layout import Layout
from deltamirror.rows.parsing import condition_of
from deltamirror.rows.scanning import file_groups
from deltamirror.rows.spark_scan import GroupReader, spark_schema
from deltamirror.spark.options import SourceOptions, with_hint
from deltamirror.storage.address import StoreAddress
from deltamirror.txnlog.tables.reading import Snapshot

# By the names of Spark's classes: Spark 4.0 has none of them. `<=>` is none of these: null makes it false, not null.
_SIGNS: Final = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_VALUES: Final = (str, bool, int, float, Decimal, date)


@dataclass
class FileGroup(InputPartition):
    """Some files of a table, which one task reads."""

    files: Sequence[Mapping[str, Any]]


class TableReader(DataSourceReader):
    """Reads the columns of one version of a table."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        with with_hint(), options.open() as catalog:
            taken = options.snapshot(catalog)
            self._rows = group_reader(catalog, taken, schema)
        self._options = replace(options, version=taken.version, as_of=None)

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        """Leave out files that have no row for these filters. Spark applies all of them to the rows."""
        self._rows = replace(self._rows, condition=_condition_text(filters, self._rows.layout))
        return filters

    def partitions(self) -> list[InputPartition]:
        """The files that may have rows, in groups of about the same size."""
        with with_hint(), self._options.open() as catalog:
            listing = self._options.snapshot(catalog).files_among
            return [FileGroup(group) for group in file_groups(self._rows.scan(listing).files)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group; the part that runs on executors."""
        return read_group(self._rows, partition)


def read_group(rows: GroupReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The rows of a group; the part that runs on executors."""
    if isinstance(partition, FileGroup):
        with with_hint():
            yield from rows.batches(partition.files)


def group_reader(catalog: Catalog, taken: Snapshot, schema: StructType) -> GroupReader:
    """What reads the columns of a schema from files of a table; InvalidInput for columns that it lacks."""
    layout = Layout.of(taken.table, taken.metadata, taken.protocol)
    _require_columns(schema, layout)
    address = StoreAddress.of(catalog.table(taken.table).location, catalog.settings.storage)
    return GroupReader(layout, address, tuple(schema.fieldNames()))


def _require_columns(wanted: StructType, layout: Layout) -> None:
    """Refuse a schema of the caller's own with columns that the table lacks, or of other types."""
    known = {each.name: each.dataType for each in spark_schema(layout.arrow_schema)}
    for each in wanted:
        if (kind := known.get(each.name)) != each.dataType:
            found = "lacks" if kind is None else f"has as {kind.simpleString()}"
            raise InvalidInput(
                f"the schema has the column {each.name!r} as {each.dataType.simpleString()}, which the table "
                f"{layout.table!r} {found}",
                hint="leave .schema(…) out, and select and cast columns of the DataFrame",
            )


def _condition_text(filters: Sequence[object], layout: Layout) -> str | None:
    """The condition that holds where all of these do, as far as it can be said; None: it says nothing."""
    return " AND ".join(_conditions(filters, layout)) or None


def _conditions(filters: Sequence[object], layout: Layout) -> Iterator[str]:
    for each in filters:
        with suppress(InvalidInput):  # a value that the column cannot have, or a column inside of a list
            if (text := _text(each)) is not None:
                condition_of(text, layout)
                yield f"({text})"


def _text(given: Any) -> str | None:
    kind = type(given).__name__
    if kind == "Not":
        inner = _text(given.child)
        return None if inner is None else f"NOT ({inner})"
    if kind not in (*_SIGNS, "In", "IsNull", "IsNotNull"):
        return None
    column = ".".join("`{}`".format(part.replace("`", "``")) for part in given.attribute)
    if kind in ("IsNull", "IsNotNull"):
        return f"{column} IS {'NOT ' if kind == 'IsNotNull' else ''}NULL"
    values = [_literal(each) for each in (given.value if kind == "In" else [given.value])]
    if not values or None in values:
        return None
    return f"{column} IN ({', '.join(map(str, values))})" if kind == "In" else f"{column} {_SIGNS[kind]} {values[0]}"


def _literal(value: object) -> str | None:
    if not isinstance(value, _VALUES):
        return None
    return quoted(partition_text(value) or "")
