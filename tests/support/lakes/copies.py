"""Copies of a table in another place, on disk or on S3, whose log lacks some of its objects.

A selection is told what a ``_delta_log/`` holds, and answers which of it a copy gets. Data files are always copied.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at

_LOG = "_delta_log/"
_POINTER = "_last_checkpoint"
_KINDS = ("json", "crc", "checkpoint")
_VERSIONED = re.compile(r"(?P<version>\d{20})\.(?P<kind>json|crc|checkpoint\b.*)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is, and how to go there if that is not a folder."""

    location: str
    store: StorageSettings | None = None

    def objects(self) -> Iterator[tuple[str, bytes]]:
        """Every object below the place, by its key."""
        if self.store is None:
            root = Path(self.location)
            yield from ((str(path.relative_to(root)), path.read_bytes()) for path in root.rglob("*") if path.is_file())
        else:
            remote = store_at(self.location, self.store)
            for meta in remote.list():
                found = remote.read(meta.key)
                assert found is not None, meta.key
                yield meta.key, found.data

    def put(self, objects: Iterable[tuple[str, bytes]]) -> None:
        """Put objects, whatever is there."""
        write = self._write_file if self.store is None else store_at(self.location, self.store).put
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda item: write(*item), objects))

    def _write_file(self, key: str, data: bytes) -> None:
        path = Path(self.location) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@dataclass(frozen=True, slots=True)
class Log:
    """What a log holds: names below ``_delta_log/``, and the version that its pointer names."""

    names: frozenset[str]
    pointer: int | None

    def versions(self, *kinds: str) -> dict[str, int]:
        """The version of every name of some kinds: ``json``, ``crc`` and ``checkpoint``."""
        parsed = {name: _VERSIONED.fullmatch(name) for name in self.names}
        return {name: int(m["version"]) for name, m in parsed.items() if m and m["kind"].startswith(kinds)}

    @property
    def checkpoints(self) -> list[int]:
        """The versions that have a checkpoint, sorted."""
        return sorted(set(self.versions("checkpoint").values()))


Selection: TypeAlias = Callable[[Log], Iterable[str]]


def both(log: Log) -> Iterable[str]:
    """All of it."""
    return log.names


def json_alone(log: Log) -> Iterable[str]:
    """The commits, and nothing that shortens the way through them."""
    return log.versions("json")


def checkpoint_alone(version: int, *, pointer: bool = True, checksums: bool = True) -> Selection:
    """What a reader of a version needs where the commits below the newest checkpoint up to it are gone.

    The checkpoint's own commit stays, as cleanup leaves it: a log without any commit is none.
    """

    def selected(log: Log) -> Iterable[str]:
        start = max(found for found in log.checkpoints if found <= version)
        dropped = {name for name, found in log.versions(*_KINDS).items() if found < start}
        dropped |= set() if checksums else set(log.versions("crc"))
        return log.names - dropped - (set() if pointer else {_POINTER})

    return selected


def truncated(version: int, selection: Selection = both) -> Selection:
    """The log as it was when a version was its newest; a pointer beyond it is left out."""

    def selected(log: Log) -> Iterable[str]:
        dropped = {name for name, found in log.versions(*_KINDS).items() if found > version}
        beyond = log.pointer is not None and log.pointer > version
        kept = log.names - dropped - ({_POINTER} if beyond else set())
        return selection(Log(kept, None if beyond else log.pointer))

    return selected


def copy_table(source: Place, target: Place, selection: Selection = both) -> Place:
    """Put a copy of a table to another place, its log as the selection wants it."""
    objects = dict(source.objects())
    kept = {_LOG + name for name in selection(_log(objects))}
    target.put((key, data) for key, data in objects.items() if key in kept or not key.startswith(_LOG))
    return target


def log_of(place: Place) -> Log:
    """What the log of a table holds."""
    return _log(dict(place.objects()))


def _log(objects: dict[str, bytes]) -> Log:
    names = frozenset(key.removeprefix(_LOG) for key in objects if key.startswith(_LOG))
    pointer = objects.get(_LOG + _POINTER)
    return Log(names, None if pointer is None else int(json.loads(pointer)["version"]))
