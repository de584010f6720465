"""Rows that a transaction writes: what was asked for, and the files and removes that it comes to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from deltamirror.arguments import mapping, partition_filter, shown, texts
from deltamirror.catalog.foundation import founded_on
from deltamirror.config import LiveSettings, Settings
from deltamirror.delta.actions import Add, Metadata, Protocol, Remove
from deltamirror.delta.commitinfo import Parameters, write_parameters
from deltamirror.delta.partitions import PartitionValue, partition_text
from deltamirror.delta.schema.quoting import quoted
from deltamirror.errors import InvalidInput
from deltamirror.rows.layout import Layout
from deltamirror.rows.parsing import condition_of
from deltamirror.rows.predicates import partition_box
from deltamirror.rows.sources import RowSource
from deltamirror.rows.writing import AcceptedPartitions, PartitionValues, RowOrder, WrittenRows
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import Stores
from deltamirror.storage.store import Store
from deltamirror.txnlog.tables.reading import Snapshot

Box = Mapping[str, Sequence[PartitionValue]]
"""Partition columns with the values that they may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What the rows take the place of: all of a table, some of its partitions, or those that the rows are of."""

    box: Box | None = None
    predicate: str | None = None
    is_dynamic: bool = False
    partition_by: tuple[str, ...] | None = None
    """The partition columns of a table that gets the schema of the rows, too; None: it keeps its own."""

    @property
    def parameters(self) -> Parameters:
        """How the commit describes itself, in Delta Spark's words."""
        described = write_parameters("Overwrite", partition_by=self.partition_by or (), predicate=self.predicate)
        described |= {"isDynamicPartitionOverwrite": True} if self.is_dynamic else {}
        return described if self.partition_by is None else {**described, "canOverwriteSchema": True}

    def boxes(self, written: Iterable[PartitionValues]) -> list[Box] | None:
        """The partitions whose files are replaced; None for all files."""
        if self.is_dynamic:
            return [{column: [value] for column, value in values.items()} for values in written]
        return None if self.box is None else [self.box]

    def accepted(self, layout: Layout) -> AcceptedPartitions:
        """The partitions that rows may be of."""
        kinds = {each.name: each.type for each in layout.partition_fields}
        box = self.box or {}
        texts = {name: frozenset(partition_text(each, kinds[name]) for each in box[name]) for name in box}
        return AcceptedPartitions(texts, self.predicate)


@dataclass(frozen=True, slots=True)
class RowWrite:
    """Rows to be written, and what they replace; None: they are added."""

    source: RowSource
    replaces: Replacement | None = None
    merges_schema: bool = False
    """Columns that the table lacks are added to it."""

    @property
    def parameters(self) -> Parameters:
        """How the commit describes itself, in Delta Spark's words."""
        return write_description(self.replaces, merges_schema=self.merges_schema)

    @property
    def fingerprint(self) -> str:
        """What tells it from another write under the same token."""
        merges = " merge" if self.merges_schema else ""
        if self.replaces is None:
            return f"append{merges}"
        by = "" if self.replaces.partition_by is None else f" schema by={list(self.replaces.partition_by)}"
        return f"overwrite{merges}{by} dynamic={self.replaces.is_dynamic} where={self.replaces.predicate}"

    @property
    def changes_schema(self) -> bool:
        """Whether the table may have other columns afterwards."""
        return self.merges_schema or self.overwrites_schema

    @property
    def overwrites_schema(self) -> bool:
        """Whether the table gets the columns of the rows, and no others."""
        return self.replaces is not None and self.replaces.partition_by is not None

    def founded(self, metadata: Metadata, protocol: Protocol) -> tuple[Metadata, Protocol]:
        """Metadata and protocol of the table that the rows are written to."""
        by = None if self.replaces is None else self.replaces.partition_by
        return founded_on(metadata, protocol, self.source.schema, merges=self.merges_schema, partition_by=by)


def write_description(replaces: Replacement | None, *, merges_schema: bool) -> Parameters:
    """How a write describes itself, in Delta Spark's words."""
    described = write_parameters() if replaces is None else replaces.parameters
    return {**described, "canMergeSchema": True} if merges_schema else described


class RowWriter:
    """Writes rows to data files in the stores of their tables. Safe to share between threads."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live
        self._stores = Stores.with_keys(live)

    def write(self, rows: RowWrite, layout: Layout, location: str, *, rows_checked: bool) -> WrittenRows:
        """Write the data files that one write of a transaction comes to."""
        address, store = self.place(location)
        order = row_order(layout, self.settings, rows.replaces, rows_checked=rows_checked)
        return WrittenRows(layout, store, rows.source.write(order, address, store))

    @property
    def settings(self) -> Settings:
        """Those in force at this moment."""
        return self._live.current

    def place(self, location: str) -> tuple[StoreAddress, Store]:
        """Where the files of a table go, and the store there."""
        address = StoreAddress.of(location, self.settings.storage)
        return address, self._stores.at(address)


def row_order(
    layout: Layout, settings: Settings, replaces: Replacement | None, *, rows_checked: bool = False
) -> RowOrder:
    """How rows are to be written that replace others, or are added."""
    accepted = AcceptedPartitions() if replaces is None else replaces.accepted(layout)
    return RowOrder(layout=layout, settings=settings.rows, rows_checked=rows_checked, accepted=accepted)


def replaced_files(taken: Snapshot, boxes: Sequence[Box] | None) -> list[Remove]:
    """The removes of all files of a snapshot, or of those in some partitions."""
    found = taken.adds() if boxes is None else [add for box in boxes for add in taken.adds(box)]
    return [removed_file(add, data_change=True) for add in found]


def removed_file(add: Add, data_change: bool) -> Remove:
    """The remove of a file, with all that the table knows of it."""
    return Remove(
        path=add.path,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
        stats=add.stats,
    )


def replacement_of(
    replace_where: object, is_dynamic: bool, layout: Layout, *, partition_by: tuple[str, ...] | None = None
) -> Replacement:
    """What an overwrite replaces: all rows, unless it is told otherwise; with ``partition_by``, the schema, too."""
    if partition_by is not None and (is_dynamic or replace_where is not None):
        hint = "replace all rows, or keep the schema"
        raise InvalidInput("overwrite_schema excludes dynamic and replace_where: other rows would stay", hint=hint)
    if is_dynamic and replace_where is not None:
        raise InvalidInput("dynamic and replace_where exclude each other", hint="give one of them")
    if is_dynamic and not layout.partition_fields:
        hint = "leave dynamic out to replace all rows"
        raise InvalidInput(f"table {layout.table!r} has no partitions to be overwritten dynamically", hint=hint)
    if replace_where is None:
        return Replacement(is_dynamic=is_dynamic, partition_by=partition_by)
    if isinstance(replace_where, str):
        box: Box = partition_box(condition_of(replace_where, layout), layout)
        return Replacement(box=box, predicate=replace_where)
    if isinstance(replace_where, Mapping):
        return _from_mapping(replace_where, layout)
    hint = "write it like \"day = '2026-11-16'\", or {'day': '2026-11-16'}"
    raise InvalidInput(f"replace_where has to be a condition, not {shown(replace_where)}", hint=hint)


def partitioning_of(overwrite_schema: bool, partition_by: object) -> tuple[str, ...] | None:
    """The partition columns of a table whose schema is overwritten; None: it keeps its schema."""
    if not overwrite_schema and partition_by is not None:
        hint = "add overwrite_schema=True, or leave partition_by out"
        raise InvalidInput("partition_by goes with overwrite_schema: tables keep their partition columns", hint=hint)
    return texts(partition_by, "partition_by") if overwrite_schema else None


def _from_mapping(wanted: Mapping[object, object], layout: Layout) -> Replacement:
    known = {each.name.lower(): each for each in layout.partition_fields}
    box: dict[str, list[PartitionValue]] = {}
    for column, values in partition_filter(mapping(wanted, "replace_where")).items():
        if (field := known.get(column.lower())) is None:
            hint = f"its partition columns: {', '.join(each.name for each in known.values()) or 'none'}"
            raise InvalidInput(f"table {layout.table!r} is not partitioned by {column!r}", hint=hint)
        box[field.name] = [_checked(value, field.name, layout) for value in values]
    if not box:
        raise InvalidInput("replace_where names no partition column", hint="leave it out to replace all rows")
    return Replacement(box=box, predicate=" AND ".join(_text(name, values) for name, values in box.items()))


def _checked(value: PartitionValue, name: str, layout: Layout) -> PartitionValue:
    kind = next(each.type for each in layout.partition_fields if each.name == name)
    try:
        return partition_text(value, kind)
    except ValueError as error:
        hint = "give a value of the column's type"
        raise InvalidInput(f"table {layout.table!r}, partition column {name!r}: {error}", hint=hint) from None


def _text(name: str, values: Sequence[PartitionValue]) -> str:
    spelled = [quoted(str(each)) for each in values if each is not None]
    parts = [f"{name} IN ({', '.join(spelled)})" if len(spelled) > 1 else f"{name} = {spelled[0]}"] if spelled else []
    parts += [f"{name} IS NULL"] if None in values else []
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"
