"""Thrift's compact protocol, as far as the footer of a Parquet file needs it: any struct to values, and back.

A struct is a dict from the numbers of its fields to pairs of a type and a value, in the order of the bytes. Nothing is
known of what the fields mean: each is written again as it was read, also where another writer defined it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
INTEGERS: Final = (4, 5, 6)
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
STRUCT: Final = 12

Struct: TypeAlias = dict[int, tuple[int, Any]]
Listed: TypeAlias = tuple[int, Sequence[Any]]
"""The type of the elements, and the elements."""
Handlers: TypeAlias = Mapping[int, Callable[[Struct], object]]
"""What becomes of each struct in a list, by the number of the list's field in the outermost struct."""

_LONG_LIST: Final = 15
_FARTHEST_FIELD: Final = 15
_NO_HANDLERS: Final[Handlers] = {}


def decoded(data: bytes, handlers: Handlers = _NO_HANDLERS) -> Struct:
    """The struct that the bytes begin with; ValueError where they hold none, or a type that Parquet does not use.

    Where a list has a handler, each of its structs is handed over once it is read, and the list has what that returned.
    So a large list is never decoded all at once: Python would look through its values again and again for cycles.
    """
    try:
        return _struct(data, 0, handlers)[0]
    except IndexError as error:
        raise ValueError("a Thrift struct that breaks off") from error


def encoded(fields: Struct) -> bytes:
    """The bytes of a struct. A struct within it may be its bytes already."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


# Each of these reads a value at a place, and says where the next one begins. A footer has hundreds of thousands of
# small numbers: those of one byte are read where they are met.


def _struct(data: bytes, at: int, handlers: Handlers = _NO_HANDLERS) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 15
        if head > 15:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        if kind in INTEGERS:
            value: Any = data[at]
            if value > 127:
                value, at = _integer(data, at)
            else:
                value, at = value >> 1 ^ -(value & 1), at + 1
        elif kind in (TRUE, FALSE):
            value = kind == TRUE
        elif kind == LIST and number in handlers:
            value, at = _list(data, at, handlers[number])
        else:
            value, at = _value(data, at, kind)
        fields[number] = kind, value
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == BINARY:
        count, at = _varint(data, at)
        return data[at : at + count], at + count
    if kind == STRUCT:
        return _struct(data, at)
    if kind == LIST:
        return _list(data, at)
    if kind in INTEGERS:
        return _integer(data, at)
    if kind in (TRUE, FALSE, BYTE):  # as elements of a list, where each has a byte of its own
        return data[at], at + 1
    if kind == DOUBLE:
        return data[at : at + 8], at + 8
    raise ValueError(f"a Thrift value of type {kind}")


def _list(data: bytes, at: int, handler: Callable[[Any], object] | None = None) -> tuple[Listed, int]:
    kind, count = data[at] & 15, data[at] >> 4
    at += 1
    if count == _LONG_LIST:
        count, at = _varint(data, at)
    values = []
    for _ in range(count):
        value, at = _value(data, at, kind)
        values.append(value if handler is None else handler(value))
    return (kind, values), at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """Zigzag: the sign is in the lowest bit."""
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) & 128:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1


def _write_struct(out: bytearray, fields: Struct | bytes) -> None:
    if isinstance(fields, bytes):
        out += fields
        return
    last = 0
    for number, (kind, value) in fields.items():
        shown = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < number - last <= _FARTHEST_FIELD:
            out.append(number - last << 4 | shown)
        else:
            out.append(shown)
            _write_integer(out, number)
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
        last = number
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in INTEGERS:
        _write_integer(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind == LIST:
        _write_list(out, *value)
    elif kind == DOUBLE:
        out += value
    else:
        out.append(value)


def _write_list(out: bytearray, kind: int, values: Sequence[Any]) -> None:
    if len(values) < _LONG_LIST:
        out.append(len(values) << 4 | kind)
    else:
        out.append(_LONG_LIST << 4 | kind)
        _write_varint(out, len(values))
    for value in values:
        _write_value(out, kind, value)


def _write_integer(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else ~(value << 1))


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
