"""The commitInfo of commits that we author: operation, parameters and metrics as Delta Lake on Spark words them.

A parameter is a JSON value: strings are quoted once, and collections are *strings that hold JSON*. Each function
``…_parameters`` gives those of one operation; operations without parameters (``Manual Update``) have an empty map.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from deltamirror.delta.actions import Action, Add, CommitInfo, Protocol, Remove
from deltamirror.delta.columnchanges import PlacedColumn
from deltamirror.delta.lines import json_text
from deltamirror.delta.order import ordered
from deltamirror.delta.schema import Primitive
from deltamirror.delta.schema.columns import ColumnPath, path_text
from deltamirror.delta.schema.keys import CHAR_VARCHAR
from deltamirror.delta.widening import type_name

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


def predicate_parameters(predicate: str | None, *, otherwise: Sequence[str] = ()) -> Parameters:
    """DELETE and UPDATE. ``otherwise`` is what the reference writes where there is no condition."""
    return {"predicate": json_text(list(otherwise) if predicate is None else [predicate])}


def merge_parameters(
    predicate: str,
    *,
    matched: Iterable[tuple[str, str | None]],
    not_matched: Iterable[tuple[str, str | None]],
    not_matched_by_source: Iterable[tuple[str, str | None]],
) -> Parameters:
    """MERGE. A clause is what it does (``update``, ``delete``, ``insert``), and its condition, if it has one."""
    clauses = {"matched": matched, "notMatched": not_matched, "notMatchedBySource": not_matched_by_source}
    return {
        "predicate": json_text([predicate]),
        **{f"{name}Predicates": json_text([_clause(*each) for each in found]) for name, found in clauses.items()},
    }


def _clause(action: str, predicate: str | None) -> dict[str, str]:
    return {"actionType": action} if predicate is None else {"predicate": predicate, "actionType": action}


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
    """UPGRADE PROTOCOL. Features are told, and be it as null, also of a protocol that has none."""
    versions = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    return {"newProtocol": json_text({**versions, **features})}


def vacuum_start_parameters(is_checked: bool, *, default: int, specified: int | None) -> Parameters:
    """VACUUM START. Both times are in milliseconds; ``specified`` is ``None`` where the table's own holds."""
    parameters: Parameters = {"retentionCheckEnabled": is_checked, "defaultRetentionMillis": default}
    return parameters if specified is None else {**parameters, "specifiedRetentionMillis": specified}


def vacuum_end_parameters(*, is_complete: bool) -> Parameters:
    """VACUUM END."""
    return {"status": "COMPLETED" if is_complete else "FAILED"}


def restore_parameters(version: int | None, timestamp: str | None) -> Parameters:
    """RESTORE, to a version or to a time."""
    return {"version": version, "timestamp": timestamp}


def restore_metrics(
    added: Collection[Add], removed: Collection[Add], *, num_files: int, num_bytes: int
) -> dict[str, str]:
    """The metrics of a RESTORE, after which the table has so many files and bytes."""
    counts = {
        "tableSizeAfterRestore": num_bytes,
        "numOfFilesAfterRestore": num_files,
        "numRemovedFiles": len(removed),
        "numRestoredFiles": len(added),
        "removedFilesSize": sum(each.size for each in removed),
        "restoredFilesSize": sum(each.size for each in added),
    }
    return {name: str(count) for name, count in counts.items()}


def optimize_parameters(
    predicate: str | None, *, zorder_by: Sequence[str] = (), cluster_by: Sequence[str] = ()
) -> Parameters:
    """OPTIMIZE, of all files or of those of some partitions; members are in the order of Delta Spark."""
    predicates, clustering = json_text([] if predicate is None else [predicate]), json_text(list(cluster_by))
    if cluster_by:
        return {"clusterBy": clustering, "predicate": predicates, "auto": False, "isFull": False, "zOrderBy": "[]"}
    return {"predicate": predicates, "zOrderBy": json_text(list(zorder_by)), "clusterBy": clustering, "auto": False}


def optimize_metrics(added: Sequence[Add], removed: Sequence[Add]) -> dict[str, str]:
    """The metrics of an OPTIMIZE that puts some files in the place of others."""
    sizes = sorted(each.size for each in added) or [0]
    counts = {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(each.size for each in removed),
        "numAddedFiles": len(added),
        "numAddedBytes": sum(each.size for each in added),
        "numDeletionVectorsRemoved": sum(each.deletion_vector is not None for each in removed),
        "minFileSize": sizes[0],
        "p25FileSize": sizes[len(sizes) // 4],
        "p50FileSize": sizes[len(sizes) // 2],
        "p75FileSize": sizes[3 * len(sizes) // 4],
        "maxFileSize": sizes[-1],
    }
    return {name: str(count) for name, count in counts.items()}


def record_count(stats: str | None) -> str | None:
    """Of the statistics of a file the number of its rows alone, as removes of an OPTIMIZE have it."""
    rows = _rows(stats)
    return None if rows is None else json_text({"numRecords": rows})


def drop_feature_parameters(name: str) -> Parameters:
    """DROP FEATURE, of one that left nothing in the history that would have to be truncated."""
    return {"featureName": name, "truncateHistory": False}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteMetrics:
    """The files that a change of rows rewrote, and how long that took."""

    added: Sequence[Add]
    removed: Sequence[Remove]
    change_files: int = 0
    scan_ms: int = 0
    rewrite_ms: int = 0

    def files(self) -> dict[str, int]:
        """The members that DELETE and UPDATE have in common; deletion vectors are never written, only given up."""
        return {
            "numRemovedFiles": len(self.removed),
            "numRemovedBytes": sum(each.size or 0 for each in self.removed),
            "numDeletionVectorsAdded": 0,
            "numDeletionVectorsUpdated": 0,
            "numDeletionVectorsRemoved": sum(each.deletion_vector is not None for each in self.removed),
            "numAddedFiles": len(self.added),
            "numAddedBytes": sum(each.size for each in self.added),
            "numAddedChangeFiles": self.change_files,
            "executionTimeMs": self.scan_ms + self.rewrite_ms,
            "scanTimeMs": self.scan_ms,
            "rewriteTimeMs": self.rewrite_ms,
        }


def delete_metrics(rewrite: RewriteMetrics, *, copied: int, deleted: int | None) -> dict[str, str]:
    """The ``operationMetrics`` of a DELETE; ``deleted`` is not known where files without statistics were removed."""
    return _texts({**rewrite.files(), "numCopiedRows": copied, "numDeletedRows": deleted})


def update_metrics(rewrite: RewriteMetrics, *, copied: int, updated: int) -> dict[str, str]:
    """The ``operationMetrics`` of an UPDATE."""
    return _texts({**rewrite.files(), "numCopiedRows": copied, "numUpdatedRows": updated})


def merge_metrics(
    rewrite: RewriteMetrics,
    *,
    source_rows: int,
    copied: int,
    inserted: int,
    matched: tuple[int, int],
    by_source: tuple[int, int],
) -> dict[str, str]:
    """The ``operationMetrics`` of a MERGE; of the rows that matched, or were not in the source: (updated, deleted)."""
    files = rewrite.files()
    updated, deleted = matched[0] + by_source[0], matched[1] + by_source[1]
    return _texts(
        {
            "numSourceRows": source_rows,
            "numTargetRowsInserted": inserted,
            "numTargetRowsUpdated": updated,
            "numTargetRowsMatchedUpdated": matched[0],
            "numTargetRowsNotMatchedBySourceUpdated": by_source[0],
            "numTargetRowsDeleted": deleted,
            "numTargetRowsMatchedDeleted": matched[1],
            "numTargetRowsNotMatchedBySourceDeleted": by_source[1],
            "numTargetRowsCopied": copied,
            "numOutputRows": copied + updated + inserted,
            "numTargetFilesAdded": files["numAddedFiles"],
            "numTargetFilesRemoved": files["numRemovedFiles"],
            "numTargetBytesAdded": files["numAddedBytes"],
            "numTargetBytesRemoved": files["numRemovedBytes"],
            "numTargetChangeFilesAdded": files["numAddedChangeFiles"],
            "numTargetDeletionVectorsAdded": files["numDeletionVectorsAdded"],
            "numTargetDeletionVectorsUpdated": files["numDeletionVectorsUpdated"],
            "numTargetDeletionVectorsRemoved": files["numDeletionVectorsRemoved"],
            "executionTimeMs": files["executionTimeMs"],
            "materializeSourceTimeMs": 0,
            "scanTimeMs": files["scanTimeMs"],
            "rewriteTimeMs": files["rewriteTimeMs"],
        }
    )


def _texts(metrics: Mapping[str, int | None]) -> dict[str, str]:
    return ordered({name: str(value) for name, value in metrics.items() if value is not None})


def _plus(total: int | None, value: int | None) -> int | None:
    return None if total is None or value is None else total + value


def _rows(stats: str | None) -> int | None:
    if not stats:
        return None
    try:
        return _STATS.decode(stats).numRecords
    except msgspec.DecodeError:  # statistics are raw text; whether they are sound is not asked here
        return None
