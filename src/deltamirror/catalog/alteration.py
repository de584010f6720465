"""What altering a table comes to: the actions of one commit, and the operation that its history names."""

import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from deltamirror.delta.actions import Action, Metadata, Protocol
from deltamirror.delta.columnchanges import ColumnChanges, EvolvedSchema, evolve
from deltamirror.delta.commitinfo import (
    add_columns_parameters,
    add_constraint_parameters,
    change_column_parameters,
    change_columns_parameters,
    drop_columns_parameters,
    drop_constraint_parameters,
    drop_feature_parameters,
    rename_column_parameters,
    set_properties_parameters,
    unset_properties_parameters,
    upgrade_protocol_parameters,
)
from deltamirror.delta.definition import CLUSTERING_DOMAIN, Alteration, altered
from deltamirror.delta.features import FENCE_FEATURE, upgrade, without_fence, writer_features_of
from deltamirror.delta.properties import COLUMN_MAPPING_MODE, CONSTRAINT_PREFIX, column_mapping_mode
from deltamirror.delta.schema.clauses import added_columns, changed_column
from deltamirror.delta.schema.columns import column_path
from deltamirror.errors import AlreadyExists, InvalidInput, NotFound, Refused
from deltamirror.txnlog.tables.reading import Snapshot

SEVERAL = "ALTER TABLE"
_DEFAULTS: Final = "allowColumnDefaults"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The changes to a table that a caller asks for."""

    properties: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    columns: Sequence[str] = ()
    """Definitions of columns to be added."""
    drop_columns: Sequence[str] = ()
    rename_columns: Mapping[str, str] = field(default_factory=dict)
    change_columns: Mapping[str, str] = field(default_factory=dict)
    enable_column_mapping: bool = False
    features: Sequence[str] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    comment: str | None = None

    def column_changes(self) -> ColumnChanges:
        """What becomes of columns."""
        return ColumnChanges(
            dropped=[column_path(each) for each in self.drop_columns],
            renamed=[(column_path(old), new) for old, new in self.rename_columns.items()],
            changed=[changed_column(column_path(each), clauses) for each, clauses in self.change_columns.items()],
            added=[column for text in self.columns for column in added_columns(text)],
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The commit; without actions, the table is as it was asked to be."""

    operation: str
    parameters: Mapping[str, object]
    actions: tuple[Action, ...]


def plan_alteration(taken: Snapshot, wishes: Wishes) -> Plan:
    """The commit that makes of the table ``taken`` what ``wishes`` ask for; columns change after all else."""
    changes = wishes.column_changes()
    metadata, protocol = altered_by(_alteration(taken, wishes), taken.metadata, taken.protocol)
    _require_mapping(taken, wishes, metadata)
    _require_defaults(taken, changes, protocol)
    evolved = evolve(changes, metadata, protocol, clustering=clustering_columns(taken)) if changes else None
    if evolved is not None:
        alteration = Alteration(schema=evolved.schema, is_evolved=True, properties=evolved.properties)
        metadata, protocol = altered_by(alteration, metadata, protocol)
    operations = [*_operations(taken, wishes), *(_column_operations(evolved) if evolved else ())]
    changed: tuple[tuple[Action, Action], ...] = ((metadata, taken.metadata), (protocol, taken.protocol))
    return Plan(*_described(operations), tuple(after for after, before in changed if after != before))


def _alteration(taken: Snapshot, wishes: Wishes) -> Alteration:
    """All that is asked for, but for columns."""
    constraints = {_constraint(name): expression for name, expression in wishes.constraints.items()}
    dropped = [_constraint(name) for name in wishes.dropped]
    _require_constraints(taken, added=constraints, dropped=dropped)
    return Alteration(
        properties={**wishes.properties, **constraints, **_mapping(taken, wishes)},
        unset=(*wishes.unset, *dropped),
        features=tuple(wishes.features),
        description=wishes.comment,
    )


def altered_by(alteration: Alteration, metadata: Metadata, protocol: Protocol) -> tuple[Metadata, Protocol]:
    """Metadata and protocol after an alteration; columns that it adds get physical names by chance."""
    after, upgraded = altered(alteration, metadata, protocol, fresh=lambda: str(uuid.uuid4()))
    return after or metadata, upgraded or protocol


def _mapping(taken: Snapshot, wishes: Wishes) -> dict[str, str]:
    """The property that begins to map columns, where that is asked for; a table that maps them keeps its mode."""
    is_mapped = column_mapping_mode(taken.metadata) != "none"
    return {COLUMN_MAPPING_MODE: "name"} if wishes.enable_column_mapping and not is_mapped else {}


def _require_mapping(taken: Snapshot, wishes: Wishes, metadata: Metadata) -> None:
    if column_mapping_mode(metadata) != "none" or not (wishes.drop_columns or wishes.rename_columns):
        return
    renames = [f"--rename-column {shlex.join(pair)}" for pair in wishes.rename_columns.items()]
    drops = [f"--drop-column {shlex.quote(each)}" for each in wishes.drop_columns]
    command = " ".join(["deltamirror table alter", taken.table, *renames, *drops, "--enable-column-mapping"])
    raise Refused(
        f"table {taken.table!r} does not map columns: its files know them by their names, so none can be renamed or "
        "dropped",
        hint=f"map them in the same commit, which readers of Delta 1.2 and later know: `{command}`; in Python, "
        "enable_column_mapping=True",
        table=taken.table,
    )


def _require_defaults(taken: Snapshot, changes: ColumnChanges, protocol: Protocol) -> None:
    if _DEFAULTS in writer_features_of(protocol) or not any(change.default for change in changes.changed):
        return
    raise Refused(
        f"table {taken.table!r} does not have the feature {_DEFAULTS}, so its columns cannot have defaults",
        hint=f"enable it in the same commit: --enable-feature {_DEFAULTS}; in Python, features=[{_DEFAULTS!r}]",
        table=taken.table,
    )


def clustering_columns(taken: Snapshot) -> list[list[str]]:
    """The paths of the clustering columns of a table, by physical names."""
    domain = taken.domain_metadata().get(CLUSTERING_DOMAIN)
    return [] if domain is None else msgspec.json.decode(domain.configuration).get("clusteringColumns", [])


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
    # As part of a change of columns, mapping them is no operation of its own.
    mapping = {} if wishes.rename_columns or wishes.drop_columns else _mapping(taken, wishes)
    if properties := {**wishes.properties, **mapping, **comment}:
        yield "SET TBLPROPERTIES", set_properties_parameters(properties)
    if wishes.unset:
        yield "UNSET TBLPROPERTIES", unset_properties_parameters(wishes.unset, if_exists=False)
    if wishes.features:
        yield "UPGRADE PROTOCOL", upgrade_protocol_parameters(upgrade(taken.protocol, wishes.features))
    for name, expression in wishes.constraints.items():
        yield "ADD CONSTRAINT", add_constraint_parameters(name, expression)
    for name in wishes.dropped:
        expression_before = taken.metadata.configuration.get(_constraint(name))
        yield "DROP CONSTRAINT", drop_constraint_parameters(name, expression_before)


def _column_operations(evolved: EvolvedSchema) -> Iterator[tuple[str, Mapping[str, object]]]:
    if evolved.dropped:
        yield "DROP COLUMNS", drop_columns_parameters(evolved.dropped)
    for old, new in evolved.renamed:
        yield "RENAME COLUMN", rename_column_parameters(old, new)
    if len(evolved.changed) == 1:
        yield "CHANGE COLUMN", change_column_parameters(evolved.changed[0])
    elif evolved.changed:
        yield "CHANGE COLUMNS", change_columns_parameters(evolved.changed)
    if evolved.added:
        yield "ADD COLUMNS", add_columns_parameters(evolved.added)


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
