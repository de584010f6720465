"""Objects of a log, held against what they should be: by one listing, or byte for byte."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from deltamirror.delta import names
from deltamirror.deltalog.listing import CheckpointFiles, CompactionFile, complete_checkpoints, numbered_files
from deltamirror.storage.store import Meta, Store
from deltamirror.work import ExpectedObject, ObjectDifference

_RANGE: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ListedLog:
    """The objects of a log, from one listing."""

    commits: Mapping[int, Meta]
    checksums: Mapping[int, Meta]
    others: Mapping[str, Meta]
    """By name: checkpoints, and what else begins with a version."""
    misspelt: Mapping[int, Sequence[Meta]] = field(default_factory=dict)
    """What only Delta Lake on Spark takes for files of the log, by the numbers that the names begin with."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing."""
        return not (self.commits or self.checksums or self.others or self.misspelt)

    @property
    def checkpoints(self) -> tuple[CheckpointFiles, ...]:
        """Those that a reader may start from, ascending."""
        files = ((names.parse(name), meta) for name, meta in self.others.items())
        return complete_checkpoints((file, meta) for file, meta in files if isinstance(file, names.CHECKPOINTS))

    @property
    def unusable(self) -> Iterator[tuple[int, Meta]]:
        """The files of checkpoints that readers pass over: empty ones, and parts of incomplete ones."""
        usable = {meta.key for files in self.checkpoints for meta in files.metas}
        for name, meta in self.others.items():
            file = names.parse(name)
            if isinstance(file, names.CHECKPOINTS) and meta.key not in usable:
                yield file.version, meta

    @property
    def compactions(self) -> Iterator[CompactionFile]:
        """Those that a reader may take in place of commits."""
        for name, meta in self.others.items():
            if isinstance(file := names.parse(name), names.Compaction):
                yield CompactionFile(first=file.version, last=file.end, meta=meta)


def list_log(store: Store, *, first: int | None = None) -> ListedLog:
    """What the log has, from a version on or at all."""
    commits: dict[int, Meta] = {}
    checksums: dict[int, Meta] = {}
    others: dict[str, Meta] = {}
    misspelt: defaultdict[int, list[Meta]] = defaultdict(list)
    for name, meta in numbered_files(store, first=first):
        match names.parse(name):
            case names.Commit(version):
                commits[version] = meta
            case names.ChecksumFile(version):
                checksums[version] = meta
            case names.Misspelt(number):
                misspelt[number].append(meta)
            case _:
                others[name] = meta
    return ListedLog(commits, checksums, others, misspelt)


def difference(store: Store, expected: ExpectedObject) -> ObjectDifference | None:
    """What is in the place of an object; None if it is as it should be. Never more than some pieces are in memory."""
    reader, whole, is_equal = _Reader(store, expected.key), hashlib.sha256(), True
    for size, digest in expected.pieces:
        data = reader.read(size)
        whole.update(data)
        is_equal &= hashlib.sha256(data).digest() == digest
    while data := reader.read(_RANGE):
        whole.update(data)
        is_equal = False
    if is_equal and not reader.is_missing:
        return None
    found = "" if reader.is_missing else whole.hexdigest()
    return ObjectDifference(version=expected.version, key=expected.key, found=found)


class _Reader:
    """The bytes of an object, one after the other, by few and large requests."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key = store, key
        self._data = memoryview(b"")
        self._at = 0
        self._is_at_end = False
        self.is_missing = False

    def read(self, size: int) -> bytes:
        """So many bytes; fewer where the object ends."""
        while len(self._data) < size and not self._is_at_end:
            self._fetch(size - len(self._data))
        taken, self._data = bytes(self._data[:size]), self._data[size:]
        return taken

    def _fetch(self, size: int) -> None:
        wanted = max(size, _RANGE)
        found = self._store.read_range(self._key, self._at, wanted)
        self.is_missing |= found is None
        self._is_at_end = found is None or len(found) < wanted
        self._at += len(found or b"")
        self._data = memoryview(bytes(self._data) + (found or b""))
