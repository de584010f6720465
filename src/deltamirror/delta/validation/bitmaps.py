"""The bitmap of a deletion vector, decoded as strictly as the strictest reader does.

It is a "RoaringBitmapArray": a magic number, the number of bitmaps, and for each its key (the upper half of the row
numbers) and a Roaring bitmap of 32 bits in the portable format, all numbers with the lowest byte first. That has a
header with the key and the cardinality of each container, and then the containers: sorted numbers of 16 bits, 65,536
bits, or runs. Counts are believed only as far as there are bytes for them, so a lie costs no memory.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

MAGIC: Final = 1681511377
_PLAIN_COOKIE: Final = 12346
_RUN_COOKIE: Final = 12347
_FEWEST_WITH_OFFSETS: Final = 4
"""Containers beyond which a bitmap with runs states where each of them begins; one without always does."""
_LARGEST_ARRAY: Final = 4096
_BITS_BYTES: Final = 8192
_LAST: Final = 0xFFFF
_MOST_CONTAINERS: Final = 0x10000
_KEYS: Final = 1 << 8
"""No file has more than 2^40 rows; Delta Spark makes a bitmap in memory for every key up to the last."""


Range: TypeAlias = tuple[int, int]
"""Numbers from the first up to, but without, the second."""


class MalformedBitmap(ValueError):
    """What keeps readers from decoding the bytes."""


@dataclass(frozen=True, slots=True)
class Bitmap:
    """What a bitmap says: how many rows it has, and the number of the last one (-1: none)."""

    cardinality: int
    last: int


@dataclass(frozen=True, slots=True)
class _Container:
    """Numbers of 16 bits, and how many there are; ``ranges`` is read at most once."""

    cardinality: int
    last: int
    ranges: Iterable[Range]

    def above(self, base: int) -> "_Container":
        """The same numbers, higher up."""
        return _Container(self.cardinality, base + self.last, ((base + a, base + b) for a, b in self.ranges))


class _Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self.at : self.at + size]
        _require(len(taken) == size, "it ends too early")
        self.at += size
        return taken

    def numbers(self, kind: str, count: int = 1) -> tuple[int, ...]:
        layout = struct.Struct(f"<{count}{kind}")
        return layout.unpack(self.take(layout.size))

    @property
    def is_at_end(self) -> bool:
        return self.at == len(self._data)


def decode_bitmap(data: bytes) -> Bitmap:
    """Raises MalformedBitmap, with what is wrong, unless every reader decodes these bytes."""
    cardinality, last = 0, -1
    for container in _all_containers(data):
        cardinality, last = cardinality + container.cardinality, container.last
    return Bitmap(cardinality, last)


def row_ranges(data: bytes) -> Iterator[Range]:
    """The rows of a bitmap, ascending; raises MalformedBitmap, as ``decode_bitmap`` does."""
    for container in _all_containers(data):
        yield from container.ranges


def _all_containers(data: bytes) -> Iterator[_Container]:
    source = _Bytes(data)
    [magic], [count] = source.numbers("I"), source.numbers("Q")
    _require(magic == MAGIC, "it does not begin with the number 1681511377")
    _require(count <= _KEYS, f"it states {count} bitmaps")
    before = -1
    for _ in range(count):
        [key] = source.numbers("I")
        _require(before < key < _KEYS, f"key {key} follows {before}")
        before = key
        yield from (low.above(key << 32) for low in _containers(source))
    _require(source.is_at_end, "there are bytes behind it")


def _containers(source: _Bytes) -> Iterator[_Container]:
    """The containers of one bitmap of 32 bits."""
    start = source.at
    [cookie] = source.numbers("I")
    has_runs = cookie & 0xFFFF == _RUN_COOKIE
    _require(has_runs or cookie == _PLAIN_COOKIE, f"unknown cookie {cookie}")
    count = (cookie >> 16) + 1 if has_runs else source.numbers("I")[0]
    _require(count <= _MOST_CONTAINERS, f"it states {count} containers")
    flags = int.from_bytes(source.take((count + 7) // 8), "little") if has_runs else 0
    _require(flags >> count == 0, "it marks containers as runs that it does not have")
    header = source.numbers("H", 2 * count)
    keys, sizes = header[::2], [less_one + 1 for less_one in header[1::2]]
    _require_ascending(keys, "the keys of its containers")
    has_offsets = not has_runs or count >= _FEWEST_WITH_OFFSETS
    offsets = source.numbers("I", count) if has_offsets else None
    for index, (key, size) in enumerate(zip(keys, sizes, strict=True)):
        _require(offsets is None or offsets[index] == source.at - start, "a container is not where it is said to be")
        container = _runs(source, size) if flags >> index & 1 else _numbers(source, size)
        yield container.above(key << 16)


def _numbers(source: _Bytes, size: int) -> _Container:
    """A container of so many numbers: a list of them, or bits."""
    if size <= _LARGEST_ARRAY:
        numbers = source.numbers("H", size)
        _require_ascending(numbers, "its numbers")
        return _Container(size, numbers[-1], ((number, number + 1) for number in numbers))
    raw = source.take(_BITS_BYTES)
    bits = int.from_bytes(raw, "little")
    _require(bits.bit_count() == size, f"a container states {size} numbers and has {bits.bit_count()}")
    return _Container(size, bits.bit_length() - 1, _set_bits(raw))


def _set_bits(raw: bytes) -> Iterator[Range]:
    for place, byte in enumerate(raw):
        for bit in range(8) if byte else ():
            if byte >> bit & 1:
                yield 8 * place + bit, 8 * place + bit + 1


def _runs(source: _Bytes, size: int) -> _Container:
    [count] = source.numbers("H")
    runs = source.numbers("H", 2 * count)
    found, end = 0, -2
    for start, less_one in zip(runs[::2], runs[1::2], strict=True):
        _require(start > end + 1, "its runs are out of order, or touch")
        found, end = found + less_one + 1, start + less_one
    _require(end <= _LAST and found == size, f"a container states {size} numbers, and its runs have {found}")
    return _Container(size, end, ((a, a + less_one + 1) for a, less_one in zip(runs[::2], runs[1::2], strict=True)))


def _require_ascending(numbers: tuple[int, ...], what: str) -> None:
    _require(len(set(numbers)) == len(numbers) and sorted(numbers) == list(numbers), f"{what} do not ascend")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise MalformedBitmap(problem)
