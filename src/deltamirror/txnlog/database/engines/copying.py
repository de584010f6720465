"""The binary form of PostgreSQL's COPY, made a column at a time: the driver's way, row by row, costs a multiple.

Columns of numbers come first, so that one call packs them all; then the texts, each after its length.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from typing import Any, Final

_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END: Final = b"\xff\xff"
_FIXED: Final = {"int8": (8, "q"), "int4": (4, "i"), "bool": (1, "?")}
"""The bytes of a number, and how ``struct`` calls it."""
_length: Final = struct.Struct(">i").pack
_NULL: Final = _length(-1)
_ROWS_AT_ONCE: Final = 5_000


def sent_columns(types: Mapping[str, str], columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """The names of the columns in the order in which ``encoded_rows`` has them."""
    return sorted(columns, key=lambda name: not _is_packed(types[name], columns[name]))


def encoded_rows(types: Mapping[str, str], columns: Mapping[str, Sequence[Any]], *, encoding: str) -> list[bytes]:
    """The rows, each as its bytes in a COPY."""
    packed = [name for name in columns if _is_packed(types[name], columns[name])]
    fixed = [_FIXED[types[name]] for name in packed]
    pack = struct.Struct(">h" + "".join(f"i{letter}" for _, letter in fixed)).pack
    sizes = (repeat(size) for size, _ in fixed)
    numbers = chain.from_iterable(zip(sizes, (columns[name] for name in packed), strict=True))
    heads = map(pack, repeat(len(columns), len(next(iter(columns.values())))), *numbers)
    others = (_fields(types[name], values, encoding) for name, values in columns.items() if name not in packed)
    return list(map(b"".join, zip(heads, *chain.from_iterable(others), strict=True)))


def binary_copy(rows: Iterable[bytes]) -> Iterator[bytes]:
    """The whole of a COPY, some rows at a time."""
    remaining = iter(rows)
    yield _HEADER
    while data := b"".join(islice(remaining, _ROWS_AT_ONCE)):
        yield data
    yield _END


def _is_packed(kind: str, values: Sequence[Any]) -> bool:
    return kind in _FIXED and None not in values


def _fields(kind: str, values: Sequence[Any], encoding: str) -> tuple[Iterable[bytes], Iterable[bytes]]:
    """The lengths of the values, and the values."""
    if kind == "text" and None not in values:
        texts = list(map(str.encode, values, repeat(encoding)))
        return map(_length, map(len, texts)), texts
    data = [None if value is None else _data(kind, value, encoding) for value in values]
    return [_NULL if each is None else _length(len(each)) for each in data], [each or b"" for each in data]


def _data(kind: str, value: Any, encoding: str) -> bytes:
    if kind in _FIXED:
        return struct.pack(f">{_FIXED[kind][1]}", value)
    return value.encode(encoding) if kind == "text" else bytes(value)
