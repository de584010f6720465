"""What of a log may go: all that lies before the checkpoint which the oldest version within retention needs.

The newest commit that is no younger than the cut-off is the oldest that a reader may ask for. The newest checkpoint at
or below it stays, with its commit and everything after it: the log starts there. This is the rule of the protocol,
which keeps more than the reference writer: there the checkpoint itself may be younger than the cut-off, and the
state at the cut-off is lost. Nothing is decided by the clock of a store.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from deltamirror.delta import names
from deltamirror.storage.store import Meta

DAY: Final = 24 * 60 * 60 * 1000

_ORDER: Final = (names.Commit, names.ChecksumFile, names.Compaction)
"""Of one version, checkpoints go last."""


def cutoff(now: int, retention: int) -> int:
    """Up to when commits are past their retention: the midnight (UTC) before that moment, all in milliseconds.

    >>> cutoff(10 * DAY + 5, 3 * DAY) // DAY
    7
    """
    past = now - retention
    return past - past % DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Where a log may come to start."""

    log_start: int
    """Where it starts."""
    published: int
    first_young: int | None
    """The oldest version that is younger than the cut-off; None: there is none."""
    pointer: int | None
    """The checkpoint that readers are sent to; None: they are sent to none."""

    def admits(self, version: int) -> bool:
        """Whether everything before a version, which has a checkpoint, may go."""
        is_old = self.first_young is None or version < self.first_young
        return is_old and self.log_start < version <= min(self.published, -1 if self.pointer is None else self.pointer)


def starts(checkpoints: Iterable[int], window: Window) -> list[int]:
    """The checkpoints that the log may come to start with, the best one first."""
    return sorted(filter(window.admits, checkpoints), reverse=True)


def expired_files(listed: Iterable[tuple[str, Meta]], *, log_start: int) -> list[Meta]:
    """The files of a log, by name, that lie before its start, in the order in which they go: the oldest first.

    A compaction lies before it, too, if it begins with that version: readers begin with its checkpoint. What is no file
    of a log stays.
    """
    parsed = ((names.parse(name), meta) for name, meta in listed)
    doomed = [(file, meta) for file, meta in parsed if isinstance(file, names.LogFile) and _is_before(file, log_start)]
    return [meta for _, meta in sorted(doomed, key=lambda each: (each[0].version, _place(each[0]), each[0].name))]


def expired_originals(listed: Iterable[Meta], *, log_start: int) -> Iterator[Meta]:
    """Saved originals of objects that lie before the start of the log; they are named ``<name>.<digest>``."""
    for meta in listed:
        match names.parse(meta.key.rpartition("/")[2].rpartition(".")[0]):
            case names.LogFile(version) | names.Misspelt(version) if version < log_start:
                yield meta


def expired_sidecars(
    listed: Iterable[Meta], *, log_start: int, unversioned_before: int, named: Container[str] = ()
) -> Iterator[Meta]:
    """Sidecars of checkpoints before the start of the log that no checkpoint names which stays.

    Only Parquet files directly in the folder of sidecars are sidecars. One whose name has no version goes if it was put
    before a time: it may belong to a checkpoint that is being written. One that has a version at or above the log start
    never goes.
    """
    for meta in listed:
        folder, _, name = meta.key.rpartition("/")
        version = names.sidecar_version(name)
        is_old = meta.modified < unversioned_before if version is None else version < log_start
        is_sidecar = folder == names.SIDECARS and name.endswith(".parquet")
        if is_sidecar and is_old and name not in named:
            yield meta


def _is_before(file: names.LogFile, log_start: int) -> bool:
    return file.version < log_start + isinstance(file, names.Compaction)


def _place(file: names.LogFile) -> int:
    return _ORDER.index(type(file)) if type(file) in _ORDER else len(_ORDER)
