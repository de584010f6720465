"""What the texts of a partition column have to be: the reference writer's, or at least ones that every reader takes.

Delta Spark reads a partition value by a lenient cast; the Delta kernel, in delta-rs and DuckDB, fails the whole table
where it cannot parse one: decimals at another scale than the column's, times with ``T`` and no zone, spaces. DuckDB
takes no notice of an offset such as ``+02:00``.

Partition values of a bulk commit repeat, so each test remembers what it has seen.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal as Number
from functools import lru_cache, partial
from typing import Final, TypeAlias

from deltamirror.delta.partitions import has_negative_fraction, parse_partition, partition_text
from deltamirror.delta.schema import DataType, Decimal, Field, Primitive

Parses: TypeAlias = Callable[[str], bool]

_REMEMBERED: Final = 4096
_FREE: Final = frozenset({"string", "binary"})
_ZONED: Final = re.compile(r".{8,10}[ T].{7,8}(?:\.[0-9]+)?Z|.{8,10} .{7,8}(?:\.[0-9]+)?")
_LOCAL: Final = re.compile(r".{8,10} .{7,8}(?:\.[0-9]+)?")
_BEYOND_MICROSECONDS: Final = re.compile(r"(?<=\.[0-9]{6})[0-9]{1,3}")


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column, and what its texts have to be."""

    kind: DataType
    nullable: bool
    is_canonical: Parses | None
    """Whether a text is the reference writer's, and every reader takes it; None where all are, as for strings."""

    @classmethod
    def of(cls, field: Field) -> "PartitionColumn":
        """The column of a field of the schema."""
        free = isinstance(field.type, Primitive) and field.type.name in _FREE
        test = None if free else lru_cache(_REMEMBERED)(partial(_is_canonical, field.type))
        return cls(field.type, field.nullable, test)

    def is_plain(self, text: object) -> bool:
        """Whether this is surely a value as the reference writes it."""
        if text is None:
            return self.nullable
        return type(text) is str and text != "" and (self.is_canonical is None or self.is_canonical(text))

    def is_readable(self, text: str, *, exact: bool = False) -> bool:
        """Whether every reader takes the text, which is not empty, for the same value.

        Readers cut a time to microseconds; ``exact``: one that would lose digits is none.
        """
        if not _is_value(self.kind, text if exact else _BEYOND_MICROSECONDS.sub("", text)):
            return False
        match self.kind:
            case Decimal(_, scale):
                return Number(text).as_tuple().exponent == -scale
            case Primitive("timestamp"):
                return _ZONED.fullmatch(text) is not None
            case Primitive("timestamp_ntz"):
                return _LOCAL.fullmatch(text) is not None
            case _:
                return True

    def has_negative_fraction(self, text: str) -> bool:
        """Whether a text that is readable spells a value at which delta-rs, and no other reader, fails."""
        return isinstance(self.kind, Decimal) and has_negative_fraction(parse_partition(text, self.kind))

    def respelled(self, text: str | None, *, restates: bool) -> str | None:
        """The reference writer's text of the value; the text itself where it spells none.

        ``restates``: the file may be in the table already. A text that readers take then stays, because Delta Spark
        reads a time without a zone in its session's zone, and the rows of a file must not move.
        """
        if text and restates and self.is_readable(text):
            return text
        try:
            return partition_text(text, self.kind)
        except ValueError:
            return text


def _is_value(kind: DataType, text: str) -> bool:
    try:
        parse_partition(text, kind)
    except ValueError:
        return False
    return True


def _is_canonical(kind: DataType, text: str) -> bool:
    try:
        return partition_text(text, kind) == text and not has_negative_fraction(parse_partition(text, kind))
    except ValueError:
        return False
