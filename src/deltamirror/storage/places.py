"""Folders of a disk as the disk knows them, whichever path leads there: through links, bind mounts, other cases.

A location stays as it was given, since a link may be re-pointed on purpose. Where two locations are compared, the
folders are: by device and inode of the nearest one that exists, and the names below it that do not exist yet.
"""

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, TypeVar

from deltamirror.config import StorageSettings
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.location import local_path

T = TypeVar("T")


class Folder(NamedTuple):
    """What tells a folder from all others of this machine."""

    device: int
    inode: int
    below: str = ""
    """The names below that folder, where they do not exist."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A location whose folder is that of another location, or lies in or around it."""

    location: str
    is_same: bool


def folder_of(location: str, storage: StorageSettings) -> Folder | str:
    """The folder of a location; a remote location is itself."""
    path = local_path(location)
    if path is None:
        return location
    return _in_time(partial(_Disk().ancestry, path), location, storage)[-1]


def overlap_on_disk(location: str, others: Iterable[str], storage: StorageSettings) -> Overlap | None:
    """The first of the other locations that overlaps with this one on disk; ``Unavailable`` where a disk is silent."""
    path = local_path(location)
    if path is None:
        return None
    return _in_time(partial(_first_overlap, path, others), location, storage)


def _in_time(act: Callable[[], T], location: str, storage: StorageSettings) -> T:
    """A mount that is dead hangs in a system call."""
    return StoreCalls().run(act, location=location, doing="compare the tables' folders with", seconds=storage.timeout)


def _first_overlap(path: str, others: Iterable[str]) -> Overlap | None:
    disk = _Disk()
    own = disk.ancestry(path)
    for other in others:
        if (there := local_path(other)) is None:
            continue
        theirs = disk.ancestry(there)
        if own[-1] in theirs or theirs[-1] in own:
            return Overlap(other, is_same=own[-1] == theirs[-1])
    return None


class _Disk:
    """What one comparison has seen of the disk: tables share the folders above them, which are looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Folder, ...]] = {}

    def ancestry(self, path: str) -> tuple[Folder, ...]:
        """The folders from the root down to a path, which comes last."""
        above, _, name = path.rpartition("/")
        if above not in self._known:
            self._known[above] = _resolved(above or "/")
        try:
            found = os.lstat(path)
        except OSError:  # it does not exist, or may not be looked at
            return (*self._known[above], _beneath(self._known[above][-1], name))
        if stat.S_ISLNK(found.st_mode):
            return _resolved(path)
        return (*self._known[above], Folder(found.st_dev, found.st_ino))


def _resolved(path: str) -> tuple[Folder, ...]:
    """The folders from the root down to what a path leads to, through links above it and at its end."""
    names = (name for name in os.path.realpath(path).split("/") if name)
    found: tuple[Folder, ...] = ()
    for folder in accumulate(names, "{}/{}".format, initial=""):
        found = (*found, _folder(folder or "/", found))
    return found


def _folder(path: str, above: tuple[Folder, ...]) -> Folder:
    try:
        found = Path(path).stat()
    except OSError:
        return _beneath(above[-1], path.rpartition("/")[2])
    return Folder(found.st_dev, found.st_ino)


def _beneath(folder: Folder, name: str) -> Folder:
    return folder._replace(below=f"{folder.below}/{name}")
