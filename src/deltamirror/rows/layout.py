"""How the data files of a table are laid out: the names, ids and Arrow types of their columns."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

import pyarrow as pa

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.properties import column_mapping_mode
from deltamirror.delta.schema import ArrayType, DataType, Field, MapType, StructType, parse_schema
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.delta.schema.keys import COLUMN_ID

_FIELD_ID: Final = b"PARQUET:field_id"

Naming: TypeAlias = Callable[[Field], str]
"""The name that a field has: to users, or in data files."""


def logical_name(field: Field) -> str:
    """The name of a column as users know it."""
    return field.name


def _physical_name(field: Field) -> str:
    return field.physical_name


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table, and of its data files, which hold all but the partition columns."""

    table: str
    metadata: Metadata
    protocol: Protocol
    schema: StructType
    mode: str
    """That of column mapping: ``none``, ``name`` or ``id``."""

    @classmethod
    def of(cls, table: str, metadata: Metadata, protocol: Protocol) -> Self:
        """The layout that follows from the metadata of a table."""
        return cls(table, metadata, protocol, parse_schema(metadata.schema_string), column_mapping_mode(metadata))

    @property
    def naming(self) -> Naming:
        """The names of columns in data files, statistics and partition values."""
        return logical_name if self.mode == "none" else _physical_name

    @property
    def arrow_schema(self) -> pa.Schema:
        """All columns under the names that users know, partition columns among them."""
        logical = replace(self, mode="none")
        return pa.schema([logical.arrow_field(each) for each in self.schema.fields])

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        """The partition columns, in the order of their folders."""
        found = (self.schema.get(name) for name in self.metadata.partition_columns)
        return tuple(each for each in found if each is not None)

    @property
    def data_fields(self) -> tuple[Field, ...]:
        """The columns that data files hold."""
        partitions = {each.name for each in self.partition_fields}
        return tuple(each for each in self.schema.fields if each.name not in partitions)

    def arrow_field(self, field: Field) -> pa.Field:
        """A column of the data files; with column mapping, it carries its id."""
        number = field.metadata.get(COLUMN_ID) if self.mode != "none" else None
        metadata = None if number is None else {_FIELD_ID: str(number).encode()}
        return pa.field(self.naming(field), self.arrow_type(field.type), metadata=metadata)

    def arrow_type(self, kind: DataType) -> pa.DataType:
        """The type of a column in data files. All but the keys of maps may be null there, as Delta Spark writes it."""
        match kind:
            case StructType(fields):
                return pa.struct([self.arrow_field(each) for each in fields])
            case ArrayType(element):
                return pa.list_(pa.field("element", self.arrow_type(element)))
            case MapType(key, value):
                return pa.map_(self.arrow_type(key), pa.field("value", self.arrow_type(value)))
            case _:
                return to_arrow(StructType((Field("", kind),))).field(0).type
