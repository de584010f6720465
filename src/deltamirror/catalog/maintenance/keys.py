"""From paths of a log to keys of the table's store, and sets of keys that take little memory."""

import os
import posixpath
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.paths import decode_path, is_absolute
from deltamirror.errors import InvalidLocation, Unsupported
from deltamirror.storage.location import file_place, is_inside, local_path


class TableFolder:
    """The folder of a table, for the question which of its files a path of the log means."""

    def __init__(self, location: str) -> None:
        self._location = location

    def keys(self, paths: Iterable[str]) -> Iterator[str]:
        """The keys by which readers look these paths up; none for a file elsewhere, such as a shallow clone's."""
        for path in paths:
            key = self._inside(path) if is_absolute(path) else decode_path(path)
            if key is None:
                continue
            yield key
            if (plain := posixpath.normpath(key)) != key:
                yield plain  # a disk takes ``./a`` and ``a`` for one file

    def _inside(self, path: str) -> str | None:
        try:
            folder, name = file_place(path, self._location)
        except InvalidLocation as error:
            raise Unsupported(
                f"it cannot be told whether {path} lies in {self._location}: {error.message}",
                hint="vacuum this table by the engine that wrote this path",
            ) from error
        root, place = _bare(self._location), _bare(folder)
        if local_path(self._location) is None or local_path(folder) is None:
            return f"{place}/{name}".removeprefix(f"{root}/") if is_inside(folder, self._location) else None
        return f"{place}/{name}"[len(root) + 1 :] if f"{place}/".startswith(f"{root}/") else None


@lru_cache(maxsize=1_024)
def _bare(location: str) -> str:
    """The path of a location in its bucket; on a disk, where links lead to."""
    local = local_path(location)
    return location.partition("://")[2].partition("/")[2] if local is None else os.path.realpath(local)


class KeySet:
    """Keys, by hashes of eight bytes.

    Two keys may have one hash: a key may be taken for one of the set that is none, and never the other way round.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        hashes = array("Q", map(_hash, keys))
        column = pa.Array.from_buffers(pa.uint64(), len(hashes), [None, pa.py_buffer(hashes)])
        ordered = column.take(pc.array_sort_indices(column))
        self._hashes = memoryview(ordered.buffers()[1]).cast("B").cast("Q")[: len(ordered)]

    def __contains__(self, key: str) -> bool:
        wanted = _hash(key)
        place = bisect_left(self._hashes, wanted)
        return place < len(self._hashes) and self._hashes[place] == wanted


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest())
