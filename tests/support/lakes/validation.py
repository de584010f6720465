"""Commits for the rules of admission: a table in order, its actions, and cases that break one rule each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from deltamirror.delta.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.features import protocol_for
from deltamirror.delta.schema import from_ddl, parse_schema, schema_string

A = TypeVar("A", bound=msgspec.Struct)

COLUMNS = (
    "id long, day date, h int, b boolean, n tinyint, s string, d decimal(5,2), f double, t timestamp, z timestamp_ntz,"
    " st struct<x: int>, a array<int>, v variant, bin binary"
)
ALL_FEATURES = protocol_for(["deletionVectors", "rowTracking", "clustering", "columnMapping", "changeDataFeed"])
EXTENDED = protocol_for(["deletionVectors", "rowTracking", "clustering", "variantType", "timestampNtz"])
PLAIN = protocol_for(["variantType", "timestampNtz"])

ADD = Add(
    path="day=2024-01-31/part-0.parquet",
    partition_values={"day": "2024-01-31"},
    size=10,
    modification_time=1,
    data_change=True,
    stats='{"numRecords":3}',
)
REMOVE = Remove(
    path="a.parquet", deletion_timestamp=1, data_change=True, partition_values={"day": "2024-01-31"}, size=1
)
CDC = Cdc(path="_change_data/a.parquet", partition_values={"day": None}, size=1, data_change=False)
VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=1, size_in_bytes=34, cardinality=2
)
INLINE = "^Bg9^0rr910000000000iXQKl0rr91000315c8Xg00031"
"""Rows 0 and 1: 36 bytes in Z85."""
ADD_AND_REMOVE: dict[str, Action] = {"add": ADD, "remove": REMOVE}
TXN = Txn(app_id="loader", version=0)
DOMAIN = DomainMetadata(domain="mine", configuration="{}", removed=False)
INFO = CommitInfo(operation="WRITE", in_commit_timestamp=1)


def metadata_of(
    schema: str = COLUMNS, *, partition_by: Sequence[str] = ("day",), configuration: dict[str, str] | None = None
) -> Metadata:
    text = schema if schema.startswith("{") else schema_string(from_ddl(schema))
    return Metadata(
        id="1111",
        format=Format(provider="parquet", options={}),
        schema_string=text,
        partition_columns=list(partition_by),
        configuration=configuration or {},
    )


def with_properties(**properties: str) -> Metadata:
    return metadata_of(configuration={f"delta.{key}": value for key, value in properties.items()})


TABLE = metadata_of()


def changed(action: A, **values: object) -> A:
    return msgspec.structs.replace(action, **values)


def vector(**values: object) -> DeletionVector:
    return msgspec.structs.replace(VECTOR, **values)


def mapped(*columns: tuple[object, object], largest: str = "9") -> Metadata:
    fields = [
        {
            "name": f"c{i}",
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name},
        }
        for i, (number, name) in enumerate(columns)
    ]
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": largest}
    schema = schema_string(parse_schema({"type": "struct", "fields": fields}))
    return metadata_of(schema, partition_by=(), configuration=configuration)


def protocol(reader: int, writer: int, readers: list[str] | None = None, writers: list[str] | None = None) -> Protocol:
    return Protocol(
        min_reader_version=reader, min_writer_version=writer, reader_features=readers, writer_features=writers
    )


@dataclass(frozen=True)
class Case:
    """A commit that breaks ``rule``, in a table that is otherwise in order, and one beside it that does not."""

    rule: str
    bad: Sequence[Action]
    good: Sequence[Action]
    protocol: Protocol = PLAIN
    metadata: Metadata = TABLE
    words: dict[str, object] = field(default_factory=dict)


def of_add(rule: str, bad: dict[str, object], good: dict[str, object], **words: object) -> Case:
    return Case(f"add.{rule}", [changed(ADD, **bad)], [changed(ADD, **good)], **words)  # type: ignore[arg-type]


def of_protocol(rule: str, bad: Protocol, good: Protocol) -> Case:
    return Case(f"protocol.{rule}", [bad], [good], protocol=good, metadata=metadata_of("id long", partition_by=()))


def of_metadata(rule: str, bad: Metadata, good: Metadata, under: Protocol = PLAIN) -> Case:
    return Case(f"metaData.{rule}", [bad], [good], protocol=under, metadata=good)
