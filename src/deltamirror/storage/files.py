"""Files that survive a crash: whole or not at all, with the folders that they lie in."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from deltamirror.steps import Step
from deltamirror.storage.keys import side_file_name, temporary_name
from deltamirror.storage.store import Data


def opened(path: Path) -> BinaryIO:
    """A file to be read; a symbolic link, pipe, socket or device in its place is an error, and is not opened."""
    require_openable(path.lstat())
    return open(path, "rb", opener=_without_following)


def require_openable(found: os.stat_result) -> None:
    """Refuse a pipe, whose opening waits for a writer for ever, a socket, and a device, which may do anything then."""
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode)):
        raise OSError(errno.ESPIPE, "a pipe, socket or device in the place of a file is not opened")


def link_below_table(name: str) -> OSError:
    """What the operating system says of a symbolic link that is not to be followed; ``name`` is its place."""
    return OSError(errno.ELOOP, f"{name} is a symbolic link, and links inside of a table are not followed")


@contextmanager
def temporary(target: Path, chunks: Iterable[Data]) -> Iterator[tuple[Path, os.stat_result]]:
    """A synced file with these bytes beside its target, whose folder is made if it is missing; gone at the end."""
    path = target.with_name(temporary_name(target.name))
    try:
        yield path, _write(path, chunks)
    finally:
        with suppress(FileNotFoundError):
            path.unlink()


def link(source: Path, target: Path) -> bool:
    """Give a file its name, unless the name is taken; whether it was free."""
    _remove_side_file(target)
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    return True


def move(source: Path, target: Path) -> None:
    """Put a file in the place of whatever has its name."""
    _remove_side_file(target)
    source.rename(target)


def remove(path: Path) -> bool:
    """Delete a file and Hadoop's checksum of it; whether it was there. A folder is no file."""
    with Step.DELETE_FILE:
        try:
            path.unlink()
        except (FileNotFoundError, IsADirectoryError):
            return False
        _remove_side_file(path)
    return True


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each on disk before the next."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir()
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock of a name against every thread and process that asks for it; nothing is left behind."""
    lock = target.with_name(f".{target.name}.lock")
    descriptor = _acquired(lock)
    try:
        yield
    finally:
        # Before the lock is given up: a process that waits for this file then finds that it has lost its name.
        with suppress(FileNotFoundError):
            lock.unlink()
        os.close(descriptor)


def _acquired(lock: Path) -> int:
    while True:
        with suppress(FileNotFoundError):
            require_openable(lock.lstat())
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _without_following(path: str, flags: int) -> int:
    # What becomes a pipe between the look at it and this moment does not keep us waiting.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)


def _remove_side_file(target: Path) -> None:
    # First the checksum, then the file: without one Hadoop reads the file unchecked, with a stale one not at all.
    with suppress(FileNotFoundError):
        target.with_name(side_file_name(target.name)).unlink()


def _write(path: Path, chunks: Iterable[Data]) -> os.stat_result:
    descriptor = _opened(path)
    try:
        for chunk in chunks:
            _write_all(descriptor, memoryview(chunk))
        # The kernel's own times are as coarse as a clock tick: two contents of a file could look the same.
        now = time.time_ns()
        os.utime(descriptor, ns=(now, now))
        os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        make_folder(path.parent)
        return os.open(path, flags, 0o666)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        with Step.WRITE_FILE:
            written = os.write(descriptor, data)
        data = data[written:]
