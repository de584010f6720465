"""Metadata of a table before and after a change of its columns, and the rules that the change breaks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltamirror.delta.actions import Format, Metadata, Protocol
from deltamirror.delta.evolution import Breach, find_breaches
from deltamirror.delta.features import protocol_for
from deltamirror.delta.schema import (
    Field,
    StructType,
    from_ddl,
    parse_schema,
    schema_string,
)

PLAIN = protocol_for(["columnMapping", "rowTracking", "allowColumnDefaults", "checkConstraints"])
WIDENING = protocol_for(["typeWidening"])
MAPPED = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
BY_ID = {**MAPPED, "delta.columnMapping.mode": "id"}


@dataclass(frozen=True)
class Left:
    """Files that stay."""

    files: bool = True
    row_ids: bool = False
    earlier: Sequence[Metadata] = ()

    def any(self) -> bool:
        return self.files

    def any_without_row_ids(self) -> bool:
        return self.files and not self.row_ids

    def written_under(self) -> Sequence[Metadata]:
        return self.earlier


def column(name: str, kind: object = "long", **metadata: Any) -> dict[str, object]:
    """A field of a schema; ``nullable=False`` where it is required."""
    nullable = metadata.pop("nullable", True)
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def mapped(name: str, number: int, physical: str | None = None, **more: Any) -> dict[str, object]:
    """A field with an id and a name in files."""
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical or name}
    kind, nullable = more.pop("kind", "long"), more.pop("nullable", True)
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {**mapping, **more}}


def struct(*fields: Mapping[str, object]) -> dict[str, object]:
    """A type of fields."""
    return {"type": "struct", "fields": list(fields)}


def table(
    *columns: str | Mapping[str, object],
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    **values: Any,
) -> Metadata:
    """The metadata of a table with these columns, in SQL or as fields."""
    fields: list[Field] = []
    for each in columns:
        fields += (from_ddl(each) if isinstance(each, str) else parse_schema(struct(each))).fields
    return Metadata(
        id=values.pop("id", "1111"),
        format=Format(provider="parquet", options={}),
        schema_string=schema_string(StructType(tuple(fields))),
        partition_columns=list(partition_by),
        configuration=dict(configuration or {}),
        **values,
    )


def widened(name: str, old: str, new: str, **path: str) -> dict[str, object]:
    """A field whose type was another one."""
    return column(name, new, **{"delta.typeChanges": [{"toType": new, "fromType": old, **path}]})


def tracking(**more: str) -> dict[str, str]:
    """The properties of a table with row tracking."""
    return {"delta.enableRowTracking": "true", **more}


ID = table("id long, day date", partition_by=["day"])


def breaches(before: Metadata, after: Metadata, protocol: Protocol = PLAIN) -> list[Breach]:
    """The rules that a change breaks."""
    return list(find_breaches(before, after, protocol=protocol))
