"""Conditions on rows: what they are made of, and the partitions that they leave.

Null is neither true nor false, as in SQL. NaN equals itself and is above all other numbers, as in Spark.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from deltamirror.delta.partitions import PartitionValue
from deltamirror.errors import InvalidInput
from deltamirror.rows.expressions import Path, Value, compared
from deltamirror.rows.layout import Layout

SIGNS: Final[Mapping[str, Callable[[pc.Expression, pa.Scalar], pc.Expression]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ABOVE: Final = frozenset({">", ">="})
_BESIDE_NAN: Final[Mapping[str, Callable[[pc.Expression], pc.Expression]]] = {
    "=": lambda is_nan: is_nan,
    "<>": operator.invert,
    "<": operator.invert,
    "<=": lambda is_nan: is_nan | ~is_nan,
    ">": lambda is_nan: is_nan & ~is_nan,
    ">=": lambda is_nan: is_nan,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column beside a value."""

    column: Path
    sign: str
    value: pa.Scalar

    @property
    def columns(self) -> frozenset[Path]:
        """The columns that it names."""
        return frozenset({self.column})

    def of_rows(self) -> pc.Expression:
        """True of the rows that are wanted."""
        if not kinds.is_floating(self.value.type) or self.sign not in _ABOVE or self._is_beside_nan:
            return self.of_bounds()
        return self.of_bounds() | pc.is_nan(pc.field(*self.column))

    def of_bounds(self) -> pc.Expression:
        """True in a file whose bounds are numbers."""
        if self._is_beside_nan:
            return _BESIDE_NAN[self.sign](pc.is_nan(pc.field(*self.column)))
        return SIGNS[self.sign](pc.field(*self.column), self.value)

    @property
    def _is_beside_nan(self) -> bool:
        return kinds.is_floating(self.value.type) and math.isnan(self.value.as_py())


@dataclass(frozen=True, slots=True)
class Related:
    """Two values that are computed, beside each other."""

    left: Value
    sign: str
    right: Value

    @property
    def columns(self) -> frozenset[Path]:
        """The columns that it names."""
        return self.left.columns | self.right.columns

    def of_rows(self) -> pc.Expression:
        """True of the rows that are wanted."""
        return compared(self.sign, self.left, self.right)

    def of_bounds(self) -> pc.Expression:
        """True in a file whose bounds are numbers."""
        return self.of_rows()


@dataclass(frozen=True, slots=True)
class Truth:
    """A value that is true or false by itself."""

    value: Value

    @property
    def columns(self) -> frozenset[Path]:
        """The columns that it names."""
        return self.value.columns

    def of_rows(self) -> pc.Expression:
        """True of the rows that are wanted."""
        return self.value.expression

    def of_bounds(self) -> pc.Expression:
        """True in a file whose bounds are numbers."""
        return self.of_rows()


@dataclass(frozen=True, slots=True)
class IsNull:
    """A value that is missing."""

    value: Value

    @property
    def columns(self) -> frozenset[Path]:
        """The columns that it names."""
        return self.value.columns

    def of_rows(self) -> pc.Expression:
        """True of the rows that are wanted."""
        return self.value.expression.is_null()

    def of_bounds(self) -> pc.Expression:
        """True in a file whose bounds are numbers."""
        return self.of_rows()


@dataclass(frozen=True, slots=True)
class Not:
    """A condition that does not hold."""

    inner: "Condition"

    @property
    def columns(self) -> frozenset[Path]:
        """The columns that it names."""
        return self.inner.columns

    def of_rows(self) -> pc.Expression:
        """True of the rows that are wanted."""
        return ~self.inner.of_rows()

    def of_bounds(self) -> pc.Expression:
        """True in a file whose bounds are numbers."""
        return ~self.inner.of_bounds()


@dataclass(frozen=True, slots=True)
class Joined:
    """Several conditions, all of which hold, or any."""

    parts: tuple["Condition", ...]
    all: bool

    @property
    def columns(self) -> frozenset[Path]:
        """The columns that it names."""
        return frozenset(column for each in self.parts for column in each.columns)

    def of_rows(self) -> pc.Expression:
        """True of the rows that are wanted."""
        return self._joined([each.of_rows() for each in self.parts])

    def of_bounds(self) -> pc.Expression:
        """True in a file whose bounds are numbers."""
        return self._joined([each.of_bounds() for each in self.parts])

    def _joined(self, parts: list[pc.Expression]) -> pc.Expression:
        """By halves: Arrow goes down into an expression call by call, and its stack is finite."""
        if len(parts) == 1:
            return parts[0]
        half = len(parts) // 2
        join = operator.and_ if self.all else operator.or_
        return join(self._joined(parts[:half]), self._joined(parts[half:]))


Condition: TypeAlias = Comparison | Related | Truth | IsNull | Not | Joined
"""``of_rows`` is true of the rows that are wanted, ``of_bounds`` in a file whose bounds are numbers, so without NaN."""


def conjuncts(condition: Condition) -> Iterator[Condition]:
    """The conditions all of which have to hold."""
    if isinstance(condition, Joined) and condition.all:
        for part in condition.parts:
            yield from conjuncts(part)
    else:
        yield condition


def partition_box(condition: Condition, layout: Layout) -> dict[str, list[PartitionValue]]:
    """The values that a condition leaves to each partition column it names; InvalidInput unless it is of such values.

    These are the conditions that whole partitions meet or do not: ``a = 1 AND b IN ('x', 'y') AND c IS NULL``.
    """
    partitions = {each.name for each in layout.partition_fields}
    box: dict[str, list[PartitionValue]] = {}
    for part in conjuncts(condition):
        found = _choice(part)
        if found is None or found[0] not in partitions or found[0] in box:
            raise InvalidInput(
                f"table {layout.table!r}: only whole partitions can be replaced, by column = value or column IN (…), "
                "joined by AND",
                hint=f"its partition columns: {', '.join(sorted(partitions)) or 'none'}; other rows are replaced by "
                "Delta Spark",
            )
        box[found[0]] = found[1]
    return box


def partition_choices(parts: Iterable[Condition], columns: Iterable[str]) -> dict[str, list[PartitionValue]]:
    """The values that some conditions, all of which hold, leave to partition columns; others are left out."""
    box: dict[str, list[PartitionValue]] = {}
    for part in parts:
        found = _choice(part)
        if found is not None and found[0] in columns:
            box.setdefault(*found)
    return box


def require_partition_columns(condition: Condition, layout: Layout) -> None:
    """Refuse a condition of anything but partition columns: single files do not meet it, or not."""
    partitions = {each.name for each in layout.partition_fields}
    if others := sorted({".".join(column) for column in condition.columns} - partitions):
        raise InvalidInput(
            f"table {layout.table!r} is not partitioned by {others[0]!r}",
            hint=f"its partition columns: {', '.join(sorted(partitions)) or 'none'}",
        )


def _choice(condition: Condition) -> tuple[str, list[PartitionValue]] | None:
    match condition:
        case Comparison((column,), "=", value):
            given = value.as_py()
            return column, [] if given in ("", b"") else [given]  # which is null as a value of partitions
        case IsNull(Value(path=(column,))):
            return column, [None]
        case Joined(parts, all=False):
            found = [_choice(each) for each in parts]
            names = {None if each is None else each[0] for each in found}
            if None not in names and len(names) == 1:
                return str(names.pop()), [value for each in found if each is not None for value in each[1]]
    return None
