"""A checkpoint, as Arrow reads it, back to the state that it records.

Writers differ in what they leave out: columns and fields that are missing are null, maps that have to be there are
empty, an action without the field that identifies it is none. No file action of a checkpoint changes data, whatever it
says.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.features.table import READER_FEATURES_VERSION, WRITER_FEATURES_VERSION
from deltamirror.delta.replay import State
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.checkpoint.maps import TEXT_MAP, in_order
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.errors import InvalidAction

_OTHERS: Final[Mapping[str, tuple[str, type[Action]]]] = {
    "protocol": ("minReaderVersion", Protocol),
    "metaData": ("id", Metadata),
    "domainMetadata": ("domain", DomainMetadata),
    "txn": ("appId", Txn),
}
"""The columns of actions that are no files: the field that is never null in one, and its struct."""

OTHER_KEYS: Final = {name: key for name, (key, _) in _OTHERS.items()}
"""The columns of actions that are no files, and the field that is never null in one."""

_NEEDED: Final = ("size", "modificationTime")
_NOT_COLUMNS: Final = (pa.ArrowException, msgspec.ValidationError, LookupError, TypeError)


class CheckpointActions(NamedTuple):
    """The actions of a checkpoint, or of some of its rows."""

    others: Sequence[Action]
    files: pa.Table
    """The columns of ``layout.FILES``."""
    removes: pa.Table
    """The columns of ``layout.REMOVES``."""


def actions_of_table(table: pa.Table, *, columns: pa.Schema = FILES) -> CheckpointActions:
    """The actions in rows of a checkpoint. Others than a state has are passed over; InvalidAction where it is none."""
    others = other_actions(table)
    try:
        found = CheckpointActions(others, _files(table, "add", columns), _files(table, "remove", REMOVES))
    except _NOT_COLUMNS as error:
        raise _not_columns(str(error)) from error
    for name in _NEEDED:
        if found.files.column(name).null_count:
            raise _not_columns(f"an add has no {name}")
    return found


def other_actions(table: pa.Table) -> list[Action]:
    """The actions in rows of a checkpoint that are no files; InvalidAction where it is none."""
    try:
        return list(_others(table))
    except _NOT_COLUMNS as error:
        raise _not_columns(str(error)) from error


def state_of_actions(actions: CheckpointActions, *, version: int) -> CheckpointState:
    """The state of a checkpoint that has these actions."""
    others = State()
    others.apply(actions.others)
    return CheckpointState(
        version=version,
        protocol=others.protocol,
        metadata=others.metadata,
        transactions=tuple(sorted(others.txns.values(), key=lambda each: each.app_id)),
        domains=tuple(sorted(others.domains.values(), key=lambda each: each.domain)),
        files=actions.files,
        removes=actions.removes,
    )


def _not_columns(found: str) -> InvalidAction:
    message = f"these are not the columns of a checkpoint: {found}"
    return InvalidAction(message, rule="checkpoint.schema", found=found)


def _others(table: pa.Table) -> Iterator[Action]:
    for name, (key, struct) in _OTHERS.items():
        if name in table.column_names:
            bodies = table.column(name).drop_null().to_pylist(maps_as_pydicts="strict")
            found = (msgspec.convert(_completed(name, each), struct) for each in bodies if each[key] is not None)
            yield from (each for each in found if not (isinstance(each, DomainMetadata) and each.removed))


def _completed(name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    stated = {field: value for field, value in body.items() if value is not None}
    match name:
        case "metaData":
            form = {field: value for field, value in stated.get("format", {}).items() if value is not None}
            return {"partitionColumns": [], "configuration": {}, **stated, "format": {"options": {}, **form}}
        case "protocol":
            return _with_listed_features(stated)
        case _:
            return stated


def _with_listed_features(protocol: dict[str, Any]) -> Mapping[str, Any]:
    """Features are listed by the versions that list them; a writer may have an empty list in others."""
    if protocol["minReaderVersion"] < READER_FEATURES_VERSION:
        protocol.pop("readerFeatures", None)
    if protocol["minWriterVersion"] < WRITER_FEATURES_VERSION:
        protocol.pop("writerFeatures", None)
    return protocol


def _files(table: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    chunks = table.column(name).chunks if name in table.column_names else []
    found = [_table(chunk, schema) for chunk in chunks if chunk.null_count < len(chunk)]
    return pa.concat_tables([schema.empty_table(), *found])


def _table(actions: pa.StructArray, schema: pa.Schema) -> pa.Table:
    """The actions that have a path; where they are together, as in a checkpoint of ours, nothing is copied."""
    if not pa.types.is_struct(actions.type):
        raise TypeError(f"actions are structs, not {actions.type}")
    rows = pc.indices_nonzero(pc.and_(actions.is_valid(), actions.field("path").is_valid()))
    if not len(rows):
        return schema.empty_table()
    first, last = rows[0].as_py(), rows[-1].as_py()
    together = last - first == len(rows) - 1
    known = actions.slice(first, len(rows)) if together else actions
    columns = [_column(known, each) for each in schema]
    found = pa.table(columns if together else [each.take(rows) for each in columns], schema)
    return _with_partition_values(found) if schema is not REMOVES else found


def _column(actions: pa.StructArray, field: pa.Field) -> pa.Array:
    if field.name == "dataChange":
        return pa.repeat(False, len(actions))
    if actions.type.get_field_index(field.name) < 0:
        return pa.nulls(len(actions), field.type)
    column = actions.field(field.name).cast(field.type)
    return in_order(column) if pa.types.is_map(field.type) else column


def _with_partition_values(files: pa.Table) -> pa.Table:
    place = files.schema.get_field_index("partitionValues")
    values = files.column(place)
    if not values.null_count:
        return files
    return files.set_column(place, files.schema.field(place), pc.coalesce(values, pa.scalar([], TEXT_MAP)))
