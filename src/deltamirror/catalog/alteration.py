"""What altering a table comes to: the actions of one commit, and the operation that its history names."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from deltamirror.delta.actions import Action
from deltamirror.delta.commitinfo import (
    add_columns_parameters,
    add_constraint_parameters,
    drop_constraint_parameters,
    drop_feature_parameters,
    set_properties_parameters,
    unset_properties_parameters,
    upgrade_protocol_parameters,
)
from deltamirror.delta.definition import Alteration, altered
from deltamirror.delta.features import FENCE_FEATURE, upgrade, without_fence
from deltamirror.delta.properties import CONSTRAINT_PREFIX
from deltamirror.delta.schema import Field, StructType, from_ddl, schema_string
from deltamirror.errors import AlreadyExists, InvalidInput, InvalidSchema, NotFound
from deltamirror.txnlog.tables.reading import Snapshot

__all__ = ["Plan", "Wishes", "plan_alteration", "plan_unfencing"]

SEVERAL = "ALTER TABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The changes to a table that a caller asks for."""

    properties: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    columns: Sequence[str] = ()
    features: Sequence[str] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The commit; without actions, the table is as it was asked to be."""

    operation: str
    parameters: Mapping[str, object]
    actions: tuple[Action, ...]


def plan_alteration(taken: Snapshot, wishes: Wishes) -> Plan:
    """The commit that makes of the table ``taken`` what ``wishes`` ask for."""
    constraints = {_constraint(name): expression for name, expression in wishes.constraints.items()}
    dropped = [_constraint(name) for name in wishes.dropped]
    _require_constraints(taken, added=constraints, dropped=dropped)
    alteration = Alteration(
        schema=_widened(taken.schema, wishes.columns),
        properties={**wishes.properties, **constraints},
        unset=(*wishes.unset, *dropped),
        features=tuple(wishes.features),
        description=wishes.comment,
    )
    changed = altered(alteration, taken.metadata, taken.protocol, fresh=lambda: str(uuid.uuid4()))
    operation, parameters = _described(list(_operations(taken, wishes)))
    return Plan(operation, parameters, tuple(action for action in changed if action is not None))


def plan_unfencing(taken: Snapshot) -> Plan:
    """The commit that takes the fence of the table ``taken`` away."""
    open_to_all = without_fence(taken.protocol)
    changed = () if open_to_all == taken.protocol else (open_to_all,)
    return Plan("DROP FEATURE", drop_feature_parameters(FENCE_FEATURE), changed)


def _described(operations: list[tuple[str, Mapping[str, object]]]) -> tuple[str, Mapping[str, object]]:
    return operations[0] if len(operations) == 1 else (SEVERAL, {})


def _operations(taken: Snapshot, wishes: Wishes) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Each operation by the name and with the parameters that Delta Lake on Spark gives it."""
    comment = {} if wishes.comment is None else {"comment": wishes.comment}
    if properties := {**wishes.properties, **comment}:
        yield "SET TBLPROPERTIES", set_properties_parameters(properties)
    if wishes.unset:
        yield "UNSET TBLPROPERTIES", unset_properties_parameters(wishes.unset, if_exists=False)
    if wishes.columns:
        yield "ADD COLUMNS", add_columns_parameters(_as_json(_added(wishes.columns)))
    if wishes.features:
        yield "UPGRADE PROTOCOL", upgrade_protocol_parameters(upgrade(taken.protocol, wishes.features))
    for name, expression in wishes.constraints.items():
        yield "ADD CONSTRAINT", add_constraint_parameters(name, expression)
    for name in wishes.dropped:
        expression_before = taken.metadata.configuration.get(_constraint(name))
        yield "DROP CONSTRAINT", drop_constraint_parameters(name, expression_before)


def _constraint(name: str) -> str:
    return CONSTRAINT_PREFIX + name.lower()


def _require_constraints(taken: Snapshot, *, added: Mapping[str, str], dropped: Sequence[str]) -> None:
    present = taken.metadata.configuration
    for key, expression in added.items():
        if not expression.strip():
            message = f"the constraint {key.removeprefix(CONSTRAINT_PREFIX)!r} has no expression"
            raise InvalidInput(message, hint='write one that is true of every row: "positive=amount > 0"')
        if present.get(key, expression) != expression:
            name = key.removeprefix(CONSTRAINT_PREFIX)
            message = f"table {taken.table!r} has a constraint {name!r} already: {present[key]}"
            raise AlreadyExists(message, hint=f"drop it first: --drop-constraint {name}", table=taken.table)
    for key in dropped:
        if key not in present:
            message = f"table {taken.table!r} has no constraint {key.removeprefix(CONSTRAINT_PREFIX)!r}"
            raise NotFound(message, hint="`deltamirror table show` lists the constraints", table=taken.table)


def _widened(schema: StructType, columns: Sequence[str]) -> StructType | None:
    return StructType((*schema.fields, *_added(columns))) if columns else None


def _added(columns: Sequence[str]) -> list[Field]:
    added = [column for text in columns for column in from_ddl(text).fields]
    for column in added:
        if not column.nullable:
            message = f"the column {column.name!r} cannot be NOT NULL: the rows that are there have no value for it"
            raise InvalidSchema(message, hint="add it without NOT NULL", column=column.name)
    return added


def _as_json(fields: Sequence[Field]) -> list[Mapping[str, object]]:
    decoded: dict[str, list[Mapping[str, object]]] = msgspec.json.decode(schema_string(StructType(tuple(fields))))
    return decoded["fields"]
