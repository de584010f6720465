"""Thrift's compact protocol, as far as the footer of a Parquet file needs it: any struct to values, and back.

A struct is a dict from the numbers of its fields to pairs of a type and a value, in the order of the bytes. Nothing is
known of what the fields mean: each is written again as it was read, also where another writer defined it.
"""

from collections.abc import Sequence
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

_LONG_LIST: Final = 15
_FARTHEST_FIELD: Final = 15


def decoded(data: bytes) -> Struct:
    """The struct that the bytes begin with; ValueError where they hold none, or a type that Parquet does not use."""
    try:
        return _Reader(data).struct()
    except IndexError as error:
        raise ValueError("a Thrift struct that breaks off") from error


def encoded(fields: Struct) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> Struct:
        fields: Struct = {}
        number = 0
        while head := self._byte():
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = kind, kind == TRUE if kind in (TRUE, FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in INTEGERS:
            return self._integer()
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct()
        if kind == LIST:
            return self._list()
        if kind in (TRUE, FALSE, BYTE):  # as elements of a list, where each has a byte of its own
            return self._byte()
        if kind == DOUBLE:
            return self._bytes(8)
        raise ValueError(f"a Thrift value of type {kind}")

    def _list(self) -> Listed:
        head = self._byte()
        count = head >> 4 if head >> 4 != _LONG_LIST else self._varint()
        kind = head & 15
        return kind, [self._value(kind) for _ in range(count)]

    def _byte(self) -> int:
        found = self._data[self._at]
        self._at += 1
        return found

    def _bytes(self, count: int) -> bytes:
        """So many bytes; where there are fewer, the byte is missing that ends the struct, at the latest."""
        self._at += count
        return self._data[self._at - count : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        """Zigzag: the sign is in the lowest bit."""
        value = self._varint()
        return value >> 1 ^ -(value & 1)


def _write_struct(out: bytearray, fields: Struct) -> None:
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
