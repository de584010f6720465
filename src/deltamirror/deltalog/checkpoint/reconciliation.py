"""Newer file actions replace older ones of the same key: path and deletion vector, as in ``delta.replay``.

Up to some hundred megabytes of actions are sorted in memory. More of them are first divided into ranges of keys, which
are put aside, so that only a few ranges are in memory at a time.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.paths import path_identity
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.columns import combined
from deltamirror.deltalog.checkpoint.scratch import Gathering, Pile

A = TypeVar("A", pa.Array, pa.Table)

FileActions: TypeAlias = tuple[pa.Table, pa.Table]
"""Adds and removes."""

# Escapes with a lower-case digit, and schemes: what ``path_identity`` may change.
_SPELLED_OTHERWISE: Final = r"%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-Fa-f])|^[A-Za-z][A-Za-z0-9+.\-]*:"
_MARKS: Final = (re.compile(b"%"), re.compile(b":"))
"""A byte that one of these paths has at least; they are searched in place, which Arrow has no function for."""
_ORDER: Final = [("key", "ascending"), ("ordinal", "ascending")]

_IN_MEMORY: Final = 512 * 1024 * 1024
_RANGES: Final = 64
_RANGE_BYTES: Final = 2 * 1024 * 1024
_PIECE_ROWS: Final = 256 * 1024
_SORTED_ROWS: Final = 64 * 1024
_SAMPLES: Final = 32
"""Keys for each range that are looked at to tell where ranges end."""


def reconciled(adds: pa.Table, removes: pa.Table, *, in_memory: int = _IN_MEMORY) -> FileActions:
    """The rows with the highest ``ordinal`` of each key, in the order of keys: path first, then vector."""
    files, tombstones = (Gathering(each.drop_columns(["ordinal"]).schema) for each in (adds, removes))
    ranges = by_ranges(adds, removes, in_memory=in_memory)
    for some_files, some_tombstones in in_threads(lambda each: _reconciled(*each), ranges):
        files.add(some_files)
        tombstones.add(some_tombstones)
    return files.whole(), tombstones.whole()


def by_ranges(one: pa.Table, other: pa.Table, *, in_memory: int = _IN_MEMORY) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The rows of two tables of file actions, those of one range of keys after the other; few of them all at once."""
    if one.nbytes + other.nbytes <= in_memory:
        return iter([(one, other)])
    bounds = _bounds(pa.concat_arrays([*_samples(one), *_samples(other)]), _RANGES)
    return zip(_divided(one, bounds), _divided(other, bounds), strict=True)


def keys_of(files: pa.Table) -> pa.Array:
    """What tells file actions apart, in the order in which a checkpoint has them."""
    identities = _identities(combined(files.column("path")))
    vectors = combined(files.column("deletionVector"))
    if vectors.null_count == len(vectors):
        return identities
    ids = _vector_ids(vectors).cast(identities.type)
    # No path holds a zero byte, and it sorts before all others.
    joined = pc.binary_join_element_wise(identities, ids, pa.scalar("\0", identities.type))
    return pc.if_else(vectors.is_null(), identities, joined)


def are_ascending(files: pa.Table) -> bool:
    """Whether each file has a higher key than the one before it: surely no key is there twice."""
    named = files.select(["path", "deletionVector"])
    last = keys_of(named.slice(0, 0))
    for piece in pieces(named):
        keys = pa.concat_arrays([last, keys_of(piece)])
        rising = pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))
        if not pc.all(rising, skip_nulls=False).as_py():
            return False
        last = keys.slice(len(keys) - 1)
    return True


def pieces(files: pa.Table) -> Iterator[pa.Table]:
    """The same rows, some at a time."""
    return (files.slice(start, _PIECE_ROWS) for start in range(0, files.num_rows, _PIECE_ROWS))


def _samples(files: pa.Table) -> Iterator[pa.Array]:
    named = files.select(["path", "deletionVector"])
    yield keys_of(named.slice(0, 0))
    for piece in pieces(named):
        yield keys_of(_every(piece, max(files.num_rows // (_RANGES * _SAMPLES), 1)))


def _every(rows: A, distance: int) -> A:
    """The first row, and those after it at this distance."""
    return rows.take(pa.array(range(0, len(rows), distance), pa.int64()))


def _bounds(sample: pa.Array, count: int) -> pa.Array:
    """Where the second of so many ranges begins, and the others after it."""
    places = pa.array([len(sample) * number // count for number in range(1, count)], pa.int64())
    return sample.take(pc.sort_indices(sample).take(places))


def _divided(files: pa.Table, bounds: pa.Array) -> Iterator[pa.Table]:
    """The rows of one range of keys after the other."""
    aside = Pile(0)
    ranges = [Gathering(files.schema, _RANGE_BYTES, aside) for _ in range(len(bounds) + 1)]
    for piece in pieces(files):
        numbers = pc.search_sorted(bounds, keys_of(piece), side="right")
        whole, order, first = piece.combine_chunks(), pc.sort_indices(numbers), 0
        for each, size in zip(ranges, _sizes(numbers, len(ranges)), strict=True):
            if size:  # copied: even a slice of no rows holds the memory of the whole piece
                each.add(whole.take(order.slice(first, size)))
            first += size
    for each in ranges:
        each.end()
    return (each.whole() for each in ranges)


def _sizes(numbers: pa.Array, count: int) -> list[int]:
    """How often each of the numbers below ``count`` is there."""
    found = {each["values"]: each["counts"] for each in pc.value_counts(numbers).to_pylist()}
    return [found.get(number, 0) for number in range(count)]


def _reconciled(adds: pa.Table, removes: pa.Table) -> FileActions:
    parts = in_threads(keys_of, chain(pieces(adds), pieces(removes)), rows=adds.num_rows + removes.num_rows)
    keys = pa.concat_arrays([keys_of(adds.slice(0, 0)), *parts])
    ordinals = pa.concat_arrays([combined(each.column("ordinal")) for each in (adds, removes)])
    winners = _winners(keys, ordinals)
    count = pa.scalar(adds.num_rows, winners.type)
    of_adds = pc.less(winners, count)
    of_removes = pc.subtract(winners.filter(pc.invert(of_adds)), count)
    return _taken(adds, winners.filter(of_adds)), _taken(removes, of_removes)


def _winners(keys: pa.Array, ordinals: pa.Array) -> pa.Array:
    """The places of the highest ordinals, in the order of keys. Threads sort a range of keys each."""

    def of_range(places: pa.Array) -> pa.Array:
        own = keys.take(places)
        order = pc.sort_indices(pa.table({"key": own, "ordinal": ordinals.take(places)}), _ORDER)
        return places.take(order).filter(_is_last(own.take(order)))

    return pa.concat_arrays(in_threads(of_range, _places(keys)))


def _places(keys: pa.Array) -> Iterator[pa.Array]:
    """The places of all keys, those of one range of keys after the other."""
    count = max(-(-len(keys) // _SORTED_ROWS), 1)
    bounds = _bounds(_every(keys, max(len(keys) // (count * _SAMPLES), 1)), count)
    numbers = pc.search_sorted(bounds, keys, side="right")
    places, first = pc.sort_indices(numbers), 0
    for size in _sizes(numbers, count):
        yield places.slice(first, size)
        first += size


def _identities(paths: pa.Array) -> pa.Array:
    """The paths with one spelling for all that ``java.net.URI`` holds equal."""
    text = _bytes(paths)
    if not any(mark.search(text) for mark in _MARKS):
        return paths  # looking for two bytes takes a hundredth of the time of the expression
    suspects = pc.match_substring_regex(paths, _SPELLED_OTHERWISE)
    if not pc.any(suspects).as_py():
        return paths
    identities = [path_identity(path) for path in paths.filter(suspects).to_pylist()]
    return pc.replace_with_mask(paths, suspects, pa.array(identities, paths.type))


def _bytes(texts: pa.LargeStringArray) -> pa.Buffer | bytes:
    """What the texts say, one after the other."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return b""
    places = pa.Array.from_buffers(pa.int64(), len(texts) + 1, [None, offsets], offset=texts.offset)
    start, end = places[0].as_py(), places[-1].as_py()
    return data.slice(start, end - start)


def _vector_ids(vectors: pa.StructArray) -> pa.Array:
    kind, where, offset = (pc.struct_field(vectors, [number]) for number in range(3))
    places = pc.binary_join_element_wise(kind, where, "")
    return pc.coalesce(pc.binary_join_element_wise(places, offset.cast(pa.string()), "@"), places)


def _is_last(keys: pa.Array) -> pa.Array:
    """Of sorted keys, whether the next one is another."""
    if not len(keys):
        return pa.array([], pa.bool_())
    return pa.concat_arrays([pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)), pa.array([True])])


def _taken(files: pa.Table, rows: pa.Array) -> pa.Table:
    names = [name for name in files.column_names if name != "ordinal"]
    return pa.table({name: _taken_column(files.column(name), rows) for name in names})


def _taken_column(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    """Threads take some rows each: a table's statistics alone are half of it."""
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(rows), column.type)])
    some = (rows.slice(start, _SORTED_ROWS) for start in range(0, len(rows), _SORTED_ROWS))
    return pa.chunked_array(list(in_threads(combined(column).take, some)), column.type)
