"""The commitInfo of commits that we author: operation, parameters and metrics as Delta Lake on Spark words them.

A parameter is a JSON value: strings are quoted once, and collections are *strings that hold JSON*. Each function
``…_parameters`` gives those of one operation; operations without parameters (``Manual Update``) have an empty map.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from deltamirror.delta.actions import Action, Add, CommitInfo, Protocol, Remove
from deltamirror.delta.columnchanges import PlacedColumn
from deltamirror.delta.lines import json_text
from deltamirror.delta.order import ordered
from deltamirror.delta.schema import Primitive
from deltamirror.delta.schema.columns import ColumnPath, path_text
from deltamirror.delta.schema.ddl import CHAR_VARCHAR
from deltamirror.delta.widening import type_name

__all__ = [
    "WriteMetrics",
    "add_columns_parameters",
    "add_constraint_parameters",
    "change_column_parameters",
    "change_columns_parameters",
    "commit_info",
    "create_table_parameters",
    "drop_columns_parameters",
    "drop_constraint_parameters",
    "metrics_for",
    "rename_column_parameters",
    "set_properties_parameters",
    "unset_properties_parameters",
    "upgrade_protocol_parameters",
    "write_parameters",
]

WriteMode = Literal["Append", "Overwrite", "ErrorIfExists", "Ignore"]
Parameters = dict[str, object]
_STRING = Primitive("string")


def commit_info(
    *,
    operation: str,
    parameters: Mapping[str, object],
    timestamp: int,
    in_commit_timestamp: int | None,
    read_version: int | None,
    isolation: str,
    is_blind_append: bool,
    metrics: Mapping[str, str],
    user_metadata: str | None,
    tags: Mapping[str, str] | None,
    engine_info: str,
    txn_id: str,
) -> CommitInfo:
    """The first line of a commit. ``read_version`` is ``None`` where the table did not exist."""
    raw = {name: msgspec.Raw(json_text(value).encode()) for name, value in ordered(parameters).items()}
    return CommitInfo(
        in_commit_timestamp=in_commit_timestamp,
        timestamp=timestamp,
        operation=operation,
        operation_parameters=raw,
        read_version=read_version,
        isolation_level=isolation,
        is_blind_append=is_blind_append,
        operation_metrics=ordered(metrics),
        user_metadata=user_metadata,
        tags=None if tags is None else ordered(tags),
        engine_info=engine_info,
        txn_id=txn_id,
    )


def create_table_parameters(
    *,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    description: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Parameters:
    """CREATE TABLE. The table is external: its location is the caller's."""
    parameters: Parameters = {
        "isManaged": "false",
        "description": description,
        "partitionBy": json_text(list(partition_by)),
        "clusterBy": json_text(list(cluster_by)),
        "properties": json_text(ordered(properties or {})),
    }
    return ordered(parameters)


def write_parameters(
    mode: WriteMode = "Append", *, partition_by: Sequence[str] = (), predicate: str | None = None
) -> Parameters:
    """WRITE. Delta Spark names the partition columns when it creates the table, not when it appends."""
    parameters: Parameters = {"mode": mode, "partitionBy": json_text(list(partition_by))}
    return parameters if predicate is None else {**parameters, "predicate": predicate}


def set_properties_parameters(properties: Mapping[str, str]) -> Parameters:
    """SET TBLPROPERTIES."""
    return {"properties": json_text(ordered(properties))}


def unset_properties_parameters(names: Iterable[str], *, if_exists: bool) -> Parameters:
    """UNSET TBLPROPERTIES."""
    return {"properties": json_text(list(names)), "ifExists": if_exists}


def add_columns_parameters(columns: Iterable[PlacedColumn]) -> Parameters:
    """ADD COLUMNS. A char or varchar is named as it was declared."""
    told = ({"column": _declared(each), **_position(each)} for each in columns)
    return {"columns": json_text(list(told))}


def change_column_parameters(column: PlacedColumn) -> Parameters:
    """CHANGE COLUMN."""
    return {"column": json_text(_column(column)), **_position(column)}


def change_columns_parameters(columns: Iterable[PlacedColumn]) -> Parameters:
    """CHANGE COLUMNS."""
    return {"columns": json_text([{**_column(each), **_position(each)} for each in columns])}


def rename_column_parameters(old: ColumnPath, new: ColumnPath) -> Parameters:
    """RENAME COLUMN."""
    return {"oldColumnPath": path_text(old), "newColumnPath": path_text(new)}


def drop_columns_parameters(columns: Iterable[ColumnPath]) -> Parameters:
    """DROP COLUMNS."""
    return {"columns": json_text([path_text(each) for each in columns])}


def _column(column: PlacedColumn) -> Parameters:
    field = column.field
    kind = {"name": path_text(column.path), "type": type_name(field.type)}
    return {**kind, "nullable": field.nullable, "metadata": field.metadata}


def _declared(column: PlacedColumn) -> Parameters:
    metadata = dict(column.field.metadata)
    declared = metadata.pop(CHAR_VARCHAR, None)
    kind = {"type": declared} if declared is not None and column.field.type == _STRING else {}
    return {**_column(column), **kind, "metadata": metadata}


def _position(column: PlacedColumn) -> Parameters:
    return {} if column.position is None else {"position": str(column.position)}


def add_constraint_parameters(name: str, expression: str) -> Parameters:
    """ADD CONSTRAINT."""
    return {"name": name, "expr": expression}


def drop_constraint_parameters(name: str, expression: str | None) -> Parameters:
    """DROP CONSTRAINT. ``expression`` is ``None`` where there was no such constraint."""
    if expression is None:
        return {"name": name, "existed": "false"}
    return {"name": name, "expr": expression, "existed": "true"}


def upgrade_protocol_parameters(protocol: Protocol) -> Parameters:
    """UPGRADE PROTOCOL."""
    return {"newProtocol": json_text(protocol)}


def drop_feature_parameters(name: str) -> Parameters:
    """DROP FEATURE, of one that left nothing in the history that would have to be truncated."""
    return {"featureName": name, "truncateHistory": "false"}


class _Stats(msgspec.Struct):
    numRecords: int | None = None  # noqa: N815  # the member's name on the wire


_STATS = msgspec.json.Decoder(_Stats)


@dataclass(slots=True)
class WriteMetrics:
    """A running count of what a commit writes and removes; a sum that is not known for every file is left out."""

    files: int = 0
    rows: int | None = 0
    bytes: int = 0
    removed_files: int = 0
    removed_bytes: int | None = 0

    def see(self, action: Action) -> None:
        """Count one action; actions without a file do not count."""
        if isinstance(action, Add):
            self.files += 1
            self.bytes += action.size
            self.rows = _plus(self.rows, _rows(action.stats))
        elif isinstance(action, Remove):
            self.removed_files += 1
            self.removed_bytes = _plus(self.removed_bytes, action.size)

    def see_files(self, sizes: Sequence[int], rows: Sequence[int | None]) -> None:
        """Count many adds at once."""
        self.files += len(sizes)
        self.bytes += sum(sizes)
        counted = [number for number in rows if number is not None]
        self.rows = _plus(self.rows, sum(counted) if len(counted) == len(rows) else None)

    def texts(self) -> dict[str, str]:
        """The metrics of a WRITE; none where no file was seen."""
        if not self.files and not self.removed_files:
            return {}
        written = {"numFiles": self.files, "numOutputRows": self.rows, "numOutputBytes": self.bytes}
        removed = {"numRemovedFiles": self.removed_files, "numRemovedBytes": self.removed_bytes}
        metrics = {**written, **removed} if self.removed_files else written
        return ordered({name: str(value) for name, value in metrics.items() if value is not None})


def metrics_for(actions: Iterable[Action]) -> dict[str, str]:
    """The ``operationMetrics`` of a WRITE with these actions."""
    metrics = WriteMetrics()
    for action in actions:
        metrics.see(action)
    return metrics.texts()


def _plus(total: int | None, value: int | None) -> int | None:
    return None if total is None or value is None else total + value


def _rows(stats: str | None) -> int | None:
    if not stats:
        return None
    try:
        return _STATS.decode(stats).numRecords
    except msgspec.DecodeError:  # statistics are raw text; whether they are sound is not asked here
        return None
