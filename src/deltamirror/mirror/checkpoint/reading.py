"""A checkpoint, as Arrow reads it, back to the state that it records."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltamirror.delta.replay import State
from deltamirror.errors import InvalidInput
from deltamirror.mirror.checkpoint.layout import FILES, REMOVES
from deltamirror.mirror.checkpoint.maps import in_order
from deltamirror.mirror.checkpoint.state import CheckpointState

__all__ = ["state_of_table"]

_OTHERS: Final[Mapping[str, type[Action]]] = {
    "protocol": Protocol,
    "metaData": Metadata,
    "domainMetadata": DomainMetadata,
    "txn": Txn,
}


def state_of_table(table: pa.Table, *, version: int, columns: pa.Schema = FILES) -> CheckpointState:
    """What a classic checkpoint says: the inverse of ``rows``. Files and removes are in the order of its rows.

    Files have these ``columns``.

    Columns and fields that the table lacks are null, those that a state does not have are passed over; InvalidInput
    where it is no checkpoint.
    """
    others = State()
    try:
        others.apply(list(_others(table)))
        files, removes = _files(table, "add", columns), _files(table, "remove", REMOVES)
    except (pa.ArrowException, msgspec.ValidationError, TypeError) as error:
        raise InvalidInput(f"these are not the columns of a checkpoint: {error}") from error
    return CheckpointState(
        version=version,
        protocol=others.protocol,
        metadata=others.metadata,
        transactions=tuple(sorted(others.txns.values(), key=lambda each: each.app_id)),
        domains=tuple(sorted(others.domains.values(), key=lambda each: each.domain)),
        files=files,
        removes=removes,
    )


def _others(table: pa.Table) -> Iterator[Action]:
    for name, struct in _OTHERS.items():
        if name in table.column_names:
            found = table.column(name).drop_null().to_pylist(maps_as_pydicts="strict")
            yield from (msgspec.convert(each, struct) for each in found)


def _files(table: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    chunks = table.column(name).chunks if name in table.column_names else []
    found = [_table(chunk, schema) for chunk in chunks if chunk.null_count < len(chunk)]
    return pa.concat_tables([schema.empty_table(), *found])


def _table(actions: pa.StructArray, schema: pa.Schema) -> pa.Table:
    """The actions that are not null; where they are together, as in a checkpoint of ours, nothing is copied."""
    rows = pc.indices_nonzero(actions.is_valid())
    first, last = rows[0].as_py(), rows[-1].as_py()
    together = last - first == len(rows) - 1
    known = actions.slice(first, len(rows)) if together else actions
    columns = [_column(known, each) for each in schema]
    return pa.table(columns if together else [each.take(rows) for each in columns], schema)


def _column(actions: pa.StructArray, field: pa.Field) -> pa.Array:
    if actions.type.get_field_index(field.name) < 0:
        return pa.nulls(len(actions), field.type)
    column = actions.field(field.name).cast(field.type)
    return in_order(column) if pa.types.is_map(field.type) else column
