"""Rows that a transaction writes: what was asked for, and the files and removes that it comes to."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from deltamirror.arguments import mapping, partition_filter, shown
from deltamirror.config import LiveSettings
from deltamirror.delta.commitinfo import Parameters, write_parameters
from deltamirror.delta.partitions import PartitionValue, partition_text
from deltamirror.errors import InvalidInput
from deltamirror.rows.layout import Layout
from deltamirror.rows.predicates import condition_of, partition_box
from deltamirror.rows.writing import PartitionValues, RowFiles
from deltamirror.storage.open import StoreAddress, Stores

__all__ = ["Replacement", "RowWrite", "RowWriter", "replacement_of"]

Box = Mapping[str, Sequence[PartitionValue]]
"""Partition columns with the values that they may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What the rows take the place of: all of a table, some of its partitions, or those that the rows are of."""

    box: Box | None = None
    predicate: str | None = None
    is_dynamic: bool = False

    @property
    def parameters(self) -> Parameters:
        """How the commit describes itself, in Delta Spark's words."""
        described = write_parameters("Overwrite", predicate=self.predicate)
        return {**described, "isDynamicPartitionOverwrite": True} if self.is_dynamic else described

    def boxes(self, written: Iterable[PartitionValues]) -> list[Box] | None:
        """The partitions whose files are replaced; None for all files."""
        if self.is_dynamic:
            return [{column: [value] for column, value in values.items()} for values in written]
        return None if self.box is None else [self.box]

    def accepts(self, layout: Layout) -> Callable[[PartitionValues], None]:
        """Raises for rows of a partition that is not replaced: they would stand beside the rows that are there."""
        kinds = {each.name: each.type for each in layout.partition_fields}
        box = {
            name: {partition_text(each, kinds[name]) for each in values} for name, values in (self.box or {}).items()
        }

        def accept(values: PartitionValues) -> None:
            for name, wanted in box.items():
                if values[name] not in wanted:
                    raise InvalidInput(
                        f"table {layout.table!r}: the data has rows with {name} = {values[name]!r}, which are outside "
                        f"of {self.predicate}",
                        hint="leave these rows out, or widen replace_where",
                    )

        return accept


@dataclass(frozen=True, slots=True)
class RowWrite:
    """Rows to be written, and what they replace; None: they are added."""

    reader: pa.RecordBatchReader
    replaces: Replacement | None = None

    @property
    def fingerprint(self) -> str:
        """What tells it from another write under the same token."""
        if self.replaces is None:
            return "append"
        return f"overwrite dynamic={self.replaces.is_dynamic} where={self.replaces.predicate}"


class RowWriter:
    """Opens the stores of tables for their data files. Safe to share between threads."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live
        self._stores = Stores.with_keys(live)

    def files(self, layout: Layout, location: str) -> RowFiles:
        """The data files that one table gets in one transaction."""
        settings = self._live.current
        store = self._stores.at(StoreAddress.of(location, settings.storage))
        return RowFiles(layout, store, settings.rows, lambda: time.time_ns() // 1_000_000)


def replacement_of(replace_where: object, is_dynamic: bool, layout: Layout) -> Replacement:
    """What an overwrite replaces: everything, unless it is told otherwise."""
    if is_dynamic and replace_where is not None:
        raise InvalidInput("dynamic and replace_where exclude each other", hint="give one of them")
    if is_dynamic and not layout.partition_fields:
        hint = "leave dynamic out to replace all rows"
        raise InvalidInput(f"table {layout.table!r} has no partitions to be overwritten dynamically", hint=hint)
    if replace_where is None:
        return Replacement(is_dynamic=is_dynamic)
    if isinstance(replace_where, str):
        box: Box = partition_box(condition_of(replace_where, layout), layout)
        return Replacement(box=box, predicate=replace_where)
    if isinstance(replace_where, Mapping):
        return _from_mapping(replace_where, layout)
    hint = "write it like \"day = '2026-11-16'\", or {'day': '2026-11-16'}"
    raise InvalidInput(f"replace_where has to be a condition, not {shown(replace_where)}", hint=hint)


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
    spelled = ["'" + str(each).replace("'", "''") + "'" for each in values if each is not None]
    parts = [f"{name} IN ({', '.join(spelled)})" if len(spelled) > 1 else f"{name} = {spelled[0]}"] if spelled else []
    parts += [f"{name} IS NULL"] if None in values else []
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"
