"""Values that are computed from rows: columns, literals, arithmetic and a few functions, with Spark's types.

A value is an expression of Arrow and its type. Where Spark would round, cut off or overflow without saying so, the
value is refused; types that have nothing in common are refused by name, before any row is looked at.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.partitions import parse_partition
from deltamirror.delta.schema import ArrayType, DataType, Decimal, Field, MapType, Primitive, StructType, type_text
from deltamirror.delta.schema.arrow import to_arrow

Path: TypeAlias = tuple[str, ...]
"""A column by its name, or a field of a struct by the names that lead to it."""

BOOLEAN: Final = Primitive("boolean")
STRING: Final = Primitive("string")
VOID: Final = Primitive("void")
_DOUBLE: Final = Primitive("double")
_INTEGERS: Final = ("byte", "short", "integer", "long")
_DIGITS: Final[Mapping[str, int]] = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_FLOATING: Final = frozenset({"float", "double"})
_TIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_MOST_DIGITS: Final = 38
_WIDEST_INTEGER: Final = 31
_WIDEST_LONG: Final = 63


class Mismatch(ValueError):
    """Types that do not go together; the text says which."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of each row. A literal takes the type of its neighbour: ``'2026-11-16'`` beside a date is a date."""

    kind: DataType
    expression: pc.Expression
    text: str
    """As it was written, for errors."""
    columns: frozenset[Path] = frozenset()
    path: Path | None = None
    """Of a column alone."""
    literal: str | bool | None = None
    is_literal: bool = False


def _arrow_type(kind: DataType) -> pa.DataType:
    """The type of a column in Arrow."""
    return to_arrow(StructType((Field("", kind),))).field(0).type


def column_value(path: Path, kind: DataType) -> Value:
    """A column, or a field of a struct."""
    return Value(kind, pc.field(*path), ".".join(path), frozenset({path}), path)


def literal_value(given: str | bool | None, *, text: str, is_number: bool = False) -> Value:
    """A literal, with the type that it has without neighbours."""
    kind = _literal_kind(given, is_number=is_number)
    if is_number and isinstance(given, str) and kind != _DOUBLE and not given.strip("-0."):
        given = "0"  # only numbers with an exponent have a negative zero
    return Value(kind, pc.scalar(typed_scalar(given, kind)), text, literal=given, is_literal=True)


def time_value(given: str, kind: DataType, *, text: str) -> Value:
    """A literal whose type is written before it, as in ``DATE '2026-11-16'``; beside other times it is one of these."""
    return Value(kind, pc.scalar(typed_scalar(given, kind)), text, literal=given, is_literal=True)


def literal_of(value: Value, kind: DataType) -> pa.Scalar:
    """A literal as a value of the type of its neighbour; Mismatch where it is none."""
    if _name(value.kind) in _TIMES and _name(kind) not in _TIMES:
        raise Mismatch(f"{value.text} is {type_text(value.kind)}, and not {type_text(kind)}")
    return typed_scalar(value.literal, kind)


def is_rounded(literal: Value, kind: DataType) -> bool:
    """Whether a literal is no value of a ``float`` column, with which Spark compares it as a ``double``."""
    if _name(kind) != "float" or literal.literal is None:
        return False
    try:
        exact, single = (typed_scalar(literal.literal, each).as_py() for each in (_DOUBLE, kind))
        return exact != single and not math.isnan(exact)
    except Mismatch:
        return False


def typed_scalar(given: str | bool | None, kind: DataType) -> pa.Scalar:
    """A literal as a value of a type; Mismatch where it is none."""
    try:
        # An empty text is null as the value of a partition only.
        value = given if given in ("", None) else parse_partition(given, kind)
        return pa.scalar(value, _arrow_type(kind))
    except (ValueError, pa.ArrowException, TypeError, ArithmeticError):
        raise Mismatch(f"{given!r} is no value of {type_text(kind)}") from None


def _common_kind(left: DataType, right: DataType) -> DataType:
    """The type in which two values are compared; Mismatch where they have none."""
    if left == right:
        return left
    if VOID in (left, right):
        return left if right == VOID else right
    if not (is_number(left) and is_number(right)):
        raise Mismatch(f"{type_text(left)} and {type_text(right)} have no type in common")
    if _is_floating(left) or _is_floating(right):
        return _DOUBLE
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _common_decimal(_as_decimal(left), _as_decimal(right))
    return max((left, right), key=lambda kind: _INTEGERS.index(_name(kind)))


def _converted(value: Value, kind: DataType) -> Value:
    """The value in a type that holds it: that of its neighbour for literals, a wider one for numbers."""
    if value.is_literal and not (is_number(value.kind) and is_number(kind)):
        return replace(value, kind=kind, expression=pc.scalar(literal_of(value, kind)))
    if value.kind == kind:
        return value
    rounds = _is_integer(value.kind) and _is_floating(kind)  # beyond 53 bits, as in Spark
    return replace(value, kind=kind, expression=value.expression.cast(_arrow_type(kind), safe=not rounds), path=None)


def compared(sign: str, left: Value, right: Value) -> pc.Expression:
    """Whether a comparison holds, in the type that both have in common. NaN equals itself and is above all numbers."""
    one, other = brought_together(left, right)
    signs = _FLOAT_COMPARISONS if _is_floating(one.kind) else _COMPARISONS
    return signs[sign](one.expression, other.expression)


def brought_together(left: Value, right: Value) -> tuple[Value, Value]:
    """Two values in the type in which they are compared; Mismatch where there is none."""
    for each in (left, right):
        if not isinstance(each.kind, Primitive | Decimal):
            raise Mismatch(f"{each.text!r} is {type_text(each.kind)}, whose values are not compared here")
    if right.is_literal and not is_number(right.kind):
        kind = _DOUBLE if is_rounded(right, left.kind) else left.kind
    elif left.is_literal and not is_number(left.kind):
        kind = _DOUBLE if is_rounded(left, right.kind) else right.kind
    else:
        kind = _common_kind(left.kind, right.kind)
    return _converted(left, kind), _converted(right, kind)


def _equal_floats(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    return (left == right) | (pc.is_nan(left) & pc.is_nan(right))


def _less_floats(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    return (left < right) | (~pc.is_nan(left) & pc.is_nan(right))


_Comparison: TypeAlias = Callable[[pc.Expression, pc.Expression], pc.Expression]
_COMPARISONS: Final[Mapping[str, _Comparison]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}
_FLOAT_COMPARISONS: Final[Mapping[str, _Comparison]] = {
    "=": _equal_floats,
    "<>": lambda left, right: ~_equal_floats(left, right),
    "<": _less_floats,
    "<=": lambda left, right: ~_less_floats(right, left),
    ">": lambda left, right: _less_floats(right, left),
    ">=": lambda left, right: ~_less_floats(left, right),
}


def arithmetic(sign: str, left: Value, right: Value) -> Value:
    """A sum, difference, product or quotient. Overflow and division by zero are errors of the rows."""
    text = f"{left.text} {sign} {right.text}"
    for each in (left, right):
        if not is_number(each.kind):
            raise Mismatch(f"{each.text!r} is {type_text(each.kind)}, and not a number")
    kind, operands = _arithmetic_kinds(sign, left.kind, right.kind)
    found = _ARITHMETIC[sign](_converted(left, operands[0]).expression, _converted(right, operands[1]).expression)
    return Value(kind, found, text, left.columns | right.columns)


_ARITHMETIC: Final[Mapping[str, _Comparison]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}


def negated(value: Value) -> Value:
    """The number with the other sign; that of zero is a zero below all others, where there is one."""
    if not is_number(value.kind):
        raise Mismatch(f"{value.text!r} is {type_text(value.kind)}, and not a number")
    return Value(value.kind, pc.negate_checked(value.expression), f"-{value.text}", value.columns)


def _arithmetic_kinds(sign: str, left: DataType, right: DataType) -> tuple[DataType, tuple[DataType, DataType]]:
    """The type of the result, and those in which the operands are taken."""
    has_decimal = isinstance(left, Decimal) or isinstance(right, Decimal)
    has_floating = _is_floating(left) or _is_floating(right)
    if sign == "/":
        if has_decimal and not has_floating:
            raise Mismatch("decimals are not divided here: multiply by a decimal, or divide in Spark")
        return _DOUBLE, (_DOUBLE, _DOUBLE)
    if has_floating:
        kind = left if left == right else _DOUBLE
        return kind, (kind, kind)
    if not has_decimal:
        kind = _common_kind(left, right)
        return kind, (kind, kind)
    one, other = _as_decimal(left), _as_decimal(right)
    scale = one.scale + other.scale if sign == "*" else max(one.scale, other.scale)
    before = one.precision - one.scale + other.precision - other.scale + 1
    if sign != "*":
        before = max(one.precision - one.scale, other.precision - other.scale) + 1
    if before + scale > _MOST_DIGITS:
        raise Mismatch(f"the result may have {before + scale} digits, and a decimal has at most {_MOST_DIGITS}")
    return Decimal(before + scale, scale), (one, other)


def concatenated(parts: Sequence[Value]) -> Value:
    """Texts one after the other; null if one of them is."""
    for each in parts:
        _require(each, STRING, "a text")
    joined = pc.binary_join_element_wise(*(_converted(each, STRING).expression for each in parts), pc.scalar(""))
    return Value(STRING, joined, " || ".join(each.text for each in parts), _columns(parts))


def chosen(cases: Sequence[tuple[Value, Value]], otherwise: Value) -> Value:
    """The value of the first condition that holds. All branches are computed for all rows."""
    kind = reduce(_common_kind, (value.kind for _, value in cases), otherwise.kind)
    names = [str(number) for number in range(len(cases))]
    conditions = pc.make_struct(*(condition.expression for condition, _ in cases), field_names=names)
    branches = [_converted(value, kind).expression for value in (*(value for _, value in cases), otherwise)]
    used = [each for case in cases for each in case]
    return Value(kind, pc.case_when(conditions, *branches), "CASE", _columns([*used, otherwise]))


def _coalesced(parts: Sequence[Value]) -> Value:
    kind = reduce(_common_kind, (each.kind for each in parts))
    found = pc.coalesce(*(_converted(each, kind).expression for each in parts))
    return Value(kind, found, "coalesce", _columns(parts))


def _length(parts: Sequence[Value]) -> Value:
    _require(parts[0], STRING, "a text")
    return Value(Primitive("integer"), pc.utf8_length(parts[0].expression), "length", parts[0].columns)


def _trimmed(parts: Sequence[Value]) -> Value:
    _require(parts[0], STRING, "a text")
    return Value(STRING, pc.utf8_trim(parts[0].expression, characters=" "), "trim", parts[0].columns)


def _absolute(parts: Sequence[Value]) -> Value:
    if not is_number(parts[0].kind):
        raise Mismatch(f"abs takes a number, and {parts[0].text!r} is {type_text(parts[0].kind)}")
    return Value(parts[0].kind, pc.abs_checked(parts[0].expression), "abs", parts[0].columns)


FUNCTIONS: Final[Mapping[str, tuple[Callable[[Sequence[Value]], Value], int | None]]] = {
    "abs": (_absolute, 1),
    "coalesce": (_coalesced, None),
    "concat": (concatenated, None),
    "length": (_length, 1),
    "trim": (_trimmed, 1),
}
"""The functions that there are, with the number of their arguments; None: one or more."""


def called(name: str, arguments: Sequence[Value]) -> Value:
    """A function of some values."""
    function, wanted = FUNCTIONS[name]
    if wanted is not None and len(arguments) != wanted:
        raise Mismatch(f"{name} takes {wanted} argument, not {len(arguments)}")
    return replace(function(arguments), text=f"{name}({', '.join(each.text for each in arguments)})")


def assigned(value: Value, field: Field) -> pc.Expression:
    """The value as one of a column. Decimals are rounded to its scale, as Spark does; nothing else loses anything."""
    if value.is_literal:
        return pc.scalar(literal_of(value, field.type))
    if _is_same(value.kind, field.type):
        return value.expression
    if not _is_assignable(value.kind, field.type):
        raise Mismatch(
            f"the column {field.name!r} is {type_text(field.type)}, and {value.text!r} is {type_text(value.kind)}"
        )
    expression = value.expression
    if isinstance(field.type, Decimal) and isinstance(value.kind, Decimal) and value.kind.scale > field.type.scale:
        expression = pc.round(expression, ndigits=field.type.scale, round_mode="half_towards_infinity")
    return expression.cast(_arrow_type(field.type))


def _is_same(source: DataType, target: DataType) -> bool:
    """Whether types differ in nothing but what may be null, which is checked when rows are written."""
    match source, target:
        case StructType(given), StructType(wanted):
            names = [each.name.lower() for each in given] == [each.name.lower() for each in wanted]
            return names and all(_is_same(one.type, other.type) for one, other in zip(given, wanted, strict=True))
        case ArrayType(given), ArrayType(wanted):
            return _is_same(given, wanted)
        case MapType(), MapType():
            return _is_same(source.key, target.key) and _is_same(source.value, target.value)
        case _:
            return source == target


def _is_assignable(source: DataType, target: DataType) -> bool:
    if source == VOID:
        return True
    if not (is_number(source) and is_number(target)):
        return False
    return _is_floating(target) or not (_is_floating(source) or (isinstance(source, Decimal) and _is_integer(target)))


def _literal_kind(given: str | bool | None, *, is_number: bool) -> DataType:
    """The type that Spark gives to a literal."""
    if given is None:
        return VOID
    if isinstance(given, bool):
        return BOOLEAN
    if not is_number:
        return STRING
    if "e" in given.lower():
        return _DOUBLE
    whole, _, fraction = given.removeprefix("-").partition(".")
    bits = int(given).bit_length() if "." not in given else None
    if bits is not None and bits <= _WIDEST_LONG:
        return Primitive("integer" if bits <= _WIDEST_INTEGER else "long")
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > _MOST_DIGITS:
        raise Mismatch(f"{given} has {digits} digits, and a decimal has at most {_MOST_DIGITS}")
    return Decimal(max(digits, 1), len(fraction))


def _common_decimal(left: Decimal, right: Decimal) -> Decimal:
    scale = max(left.scale, right.scale)
    before = max(left.precision - left.scale, right.precision - right.scale)
    if before + scale > _MOST_DIGITS:
        raise Mismatch(f"{type_text(left)} and {type_text(right)} have no type in common")
    return Decimal(before + scale, scale)


def _as_decimal(kind: DataType) -> Decimal:
    return kind if isinstance(kind, Decimal) else Decimal(_DIGITS[_name(kind)], 0)


def _require(value: Value, kind: DataType, what: str) -> None:
    if value.kind not in (kind, VOID):
        raise Mismatch(f"{value.text!r} is {type_text(value.kind)}, and not {what}")


def _columns(values: Sequence[Value]) -> frozenset[Path]:
    return frozenset(column for each in values for column in each.columns)


def _name(kind: DataType) -> str:
    return kind.name if isinstance(kind, Primitive) else ""


def _is_integer(kind: DataType) -> bool:
    return _name(kind) in _INTEGERS


def _is_floating(kind: DataType) -> bool:
    return _name(kind) in _FLOATING


def is_number(kind: DataType) -> bool:
    """Whether values of the type are numbers."""
    return isinstance(kind, Decimal) or _is_integer(kind) or _is_floating(kind)
