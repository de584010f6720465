"""The store on a local disk: durable, atomic, and never replacing unless asked to."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, Final

from deltamirror.errors import NotFound
from deltamirror.storage import files
from deltamirror.storage.failures import from_os
from deltamirror.storage.keys import check_data, check_folder, check_key, is_hidden, is_temporary
from deltamirror.storage.location import canonical_location
from deltamirror.storage.store import Changed, Created, Data, ETag, Exists, Meta, Object, Obstacle, Replaced

_CHUNK: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DiskStore:
    """The files below a folder, which need not exist.

    A file is written beside its target under a temporary name, synced, and then linked (which never replaces) or
    renamed to its target; then the folder is synced, at once or by ``sync``. ``replace`` is compare-and-swap among the
    processes that use this class: a writer that does not ask for the lock is not kept out.

    The folder itself may be reached through symbolic links. Below it none is followed: the files behind one are not the
    table's, and a log that was cleaned or repaired there would be another one's.
    """

    root: Path
    location: str = field(init=False, repr=False, compare=False)
    """The canonical location."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "location", canonical_location(str(self.root)))

    def create(self, key: str, data: Data, *, synced: bool = True) -> Created | Exists:
        """Link a synced file to its name, which fails if the name is taken."""
        check_data(key, data)
        target = self._path(key)
        with self._translated("create", key):
            etag = None if _is_file(target) else _linked(target, data)
            if synced:  # also what another process linked: it may have died before its own sync
                files.sync_folder(target.parent)
            return Exists() if etag is None else Created(etag)

    def sync(self, folder: str) -> None:
        """Sync the folder once for all names that were linked in it, also those of other processes."""
        check_folder(folder)
        with self._translated("sync", folder):
            files.sync_folder(self._folder(folder))

    def replace(self, key: str, data: Data, *, if_match: ETag | None) -> Replaced | Changed:
        """Under a lock: compare, then rename."""
        if if_match is None:
            made = self.create(key, data)
            return Replaced(made.etag) if isinstance(made, Created) else Changed()
        check_data(key, data)
        target = self._path(key)
        with self._translated("replace", key):
            if not target.parent.is_dir():
                return Changed()
            with files.locked(target):
                known = self.head(key)
                return Replaced(_moved(target, [data])) if known and known.etag == if_match else Changed()

    def put(self, key: str, data: Data) -> ETag:
        """Rename a synced file to its name."""
        check_data(key, data)
        target = self._path(key)
        with self._translated("write", key):
            return _moved(target, [data])

    def read(self, key: str) -> Object | None:
        """The whole file."""
        with self._translated("read", key):
            try:
                with files.opened(self._path(key)) as file:
                    return Object(_meta(key, os.fstat(file.fileno())), file.read())
            except (FileNotFoundError, IsADirectoryError):
                return None

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """A part of the file."""
        with self._translated("read", key):
            try:
                with files.opened(self._path(key)) as file:
                    file.seek(start)
                    return file.read(length)
            except (FileNotFoundError, IsADirectoryError):
                return None

    def head(self, key: str) -> Meta | None:
        """What the file system knows of the file."""
        with self._translated("look at", key):
            try:
                found = self._path(key).lstat()
            except FileNotFoundError:
                return None
            if stat.S_ISLNK(found.st_mode):
                raise files.link_below_table(key)
            files.require_openable(found)
            return None if stat.S_ISDIR(found.st_mode) else _meta(key, found)

    def list(self, folder: str = "", *, after: str | None = None) -> Iterator[Meta]:
        """One folder after the other, each sorted. Only files are objects."""
        check_folder(folder)
        for key, entry in self._walk(f"{folder}/" if folder else "", after):
            if is_hidden(entry.name) or (found := self._stat(key, entry)) is None:
                continue
            if stat.S_ISREG(found.st_mode):
                yield _meta(key, found)

    def walk(self) -> Iterator[Meta]:
        """As ``list``: that holds one folder at a time."""
        return self.list()

    def folders(self, folder: str = "") -> Sequence[str]:
        """The entries of one folder; links to folders are none."""
        check_folder(folder)
        with self._translated("list", folder):
            return sorted(name[:-1] for name, _ in _entries(self._folder(folder)) if name.endswith("/"))

    def obstacles(self, folder: str) -> Sequence[Obstacle]:
        """Symbolic links, folders, and pipes and the like, in the order of their names."""
        check_folder(folder)
        with self._translated("list", folder):
            if (blocked := self._in_place_of(folder)) is not None:
                return [blocked]
            entries = [entry for _, entry in _entries(self._folder(folder))]
            return [
                _obstacle(f"{folder}/{entry.name}", Path(entry.path), entry.stat(follow_symlinks=False).st_mode)
                for entry in entries
                if not entry.is_file(follow_symlinks=False)
            ]

    def delete(self, keys: Iterable[str]) -> None:
        """Unlink the files, then sync each folder once."""
        folders = set()
        for key in keys:
            path = self._path(key)
            with self._translated("delete", key):
                if files.remove(path):
                    folders.add(path.parent)
        for folder in folders:
            with self._translated("delete from", str(folder)):
                files.sync_folder(folder)

    def copy(self, source: str, target: str) -> None:
        """Write the copy as any other file, in pieces."""
        with self._translated("copy", source):
            try:
                with files.opened(self._path(source)) as file, self._translated("write", target):
                    _moved(self._path(target), _chunks(file))
            except FileNotFoundError:
                raise NotFound(f"there is no {source} in {self.location}") from None

    def sweep_temporaries(self, folder: str = "", *, before: int) -> int:
        """Unlink temporaries that were not written to since."""
        check_folder(folder)
        swept = 0
        for key, entry in self._walk(f"{folder}/" if folder else "", None):
            if is_temporary(entry.name) and (found := self._stat(key, entry)) and _milliseconds(found) < before:
                with self._translated("sweep", key):
                    swept += files.remove(Path(entry.path))
        return swept

    def _path(self, key: str) -> Path:
        check_key(key)
        folder, _, name = key.rpartition("/")
        with self._translated("use", key):
            return self._folder(folder) / name

    def _folder(self, folder: str) -> Path:
        """The path of a folder, unless it or one above it in the table is a symbolic link."""
        path = self.root
        for name in filter(None, folder.split("/")):
            path /= name
            if path.is_symlink():
                raise files.link_below_table(path.relative_to(self.root).as_posix())
        return path

    def _in_place_of(self, folder: str) -> Obstacle | None:
        """What is in the place of a folder, or of one above it in the table; None where the folder can be had."""
        for key in accumulate(filter(None, folder.split("/")), "{}/{}".format):
            try:
                found = (self.root / key).lstat()
            except FileNotFoundError:
                return None
            if not stat.S_ISDIR(found.st_mode):
                return _obstacle(key, self.root / key, found.st_mode)
        return None

    def _walk(self, prefix: str, after: str | None) -> Iterator[tuple[str, os.DirEntry[str]]]:
        """Every file below a folder in the order of keys: a folder counts as its name with a slash."""
        with self._translated("list", prefix):
            entries = _entries(self._folder(prefix))
        for name, entry in entries:
            key = prefix + name
            if name.endswith("/"):
                if after is None or key > after or after.startswith(key):
                    yield from self._walk(key, after)
            elif after is None or key > after:
                yield key, entry

    def _stat(self, key: str, entry: os.DirEntry[str]) -> os.stat_result | None:
        with self._translated("look at", key):
            try:
                return entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                return None

    @contextmanager
    def _translated(self, doing: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise from_os(error, f"cannot {doing} {self.root / key}") from error


def _entries(folder: Path) -> list[tuple[str, os.DirEntry[str]]]:
    try:
        with os.scandir(folder) as found:
            named = [(f"{e.name}/" if e.is_dir(follow_symlinks=False) else e.name, e) for e in found]
    except FileNotFoundError:
        return []
    return sorted(named, key=lambda pair: pair[0])


def _obstacle(key: str, path: Path, mode: int) -> Obstacle:
    if stat.S_ISLNK(mode):
        return Obstacle(key, f"is a symbolic link to {path.readlink()}", is_link=True)
    kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
    kind = next((kind for is_kind, kind in kinds if is_kind(mode)), "device")
    return Obstacle(key, f"is a {kind}", is_link=False)


def _is_file(target: Path) -> bool:
    try:
        found = target.lstat()
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    files.require_openable(found)
    return True


def _linked(target: Path, data: Data) -> ETag | None:
    with files.temporary(target, [data]) as (path, written):
        try:
            return _etag(written) if files.link(path, target) else None
        except PermissionError as error:
            # The file was just written into this folder: it is the link that cannot be.
            raise OSError(errno.EOPNOTSUPP, "the file system has no hard links") from error


def _moved(target: Path, chunks: Iterable[Data]) -> ETag:
    with files.temporary(target, chunks) as (path, written):
        files.move(path, target)
    files.sync_folder(target.parent)
    return _etag(written)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _meta(key: str, found: os.stat_result) -> Meta:
    return Meta(key, size=found.st_size, modified=_milliseconds(found), etag=_etag(found))


def _etag(found: os.stat_result) -> ETag:
    return ETag(f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}")


def _milliseconds(found: os.stat_result) -> int:
    return found.st_mtime_ns // 1_000_000
