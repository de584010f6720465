"""The boundary to stores: few operations, and expected outcomes as values.

A store is the tree below one location. A key is a relative path in it (``_delta_log/00000000000000000000.json``). Every
write is atomic and durable: a reader sees the whole object or none, and what was answered survives a crash (but for a
``create`` that leaves that to ``sync``). Whatever else goes wrong is one of the errors in ``errors.py``.

A reply can be lost, and a client that tries again can meet its own first try: ``create`` then answers ``Exists`` for an
object that it made itself. A store may also answer ``Exists`` because another upload is under way that fails later. So
``Exists`` says only that another writer may have won: a caller that needs to know compares the object's bytes, and
tries again when there is none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol, TypeAlias

from deltamirror.errors import NotFound

ETag = NewType("ETag", str)
"""Names one content of one object, for ``replace``. Opaque: every store has its own."""

Data: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of an object without reading it; ``modified`` in milliseconds since 1970."""

    key: str
    size: int
    modified: int
    etag: ETag


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A name that an object or its folder may need, and that something else has: a listing of objects shows none."""

    key: str
    what: str
    """In words that follow on the key: ``is a symbolic link to …``."""
    is_link: bool


@dataclass(frozen=True, slots=True)
class Object:
    """An object, whole."""

    meta: Meta
    data: bytes


@dataclass(frozen=True, slots=True)
class Created:
    """The object is there, with these bytes."""

    etag: ETag


@dataclass(frozen=True, slots=True)
class Exists:
    """There is an object already, or there is about to be one. It was not touched."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """The object has these bytes instead of those that the caller knew."""

    etag: ETag


@dataclass(frozen=True, slots=True)
class Changed:
    """The object is not the one that the caller knew, or is gone. It was not touched."""


class Store(Protocol):
    """Objects below one location. Safe to share between threads; pickles as its address, without credentials."""

    @property
    def location(self) -> str:
        """The canonical location."""

    def create(self, key: str, data: Data, *, synced: bool = True) -> Created | Exists:
        """Put an object where there is none; it never replaces one. Empty objects are refused: no reader wants one.

        With ``synced=False`` a disk may forget the object's name when the machine crashes, until ``sync``: for a caller
        who puts many objects into a folder, and counts none of them before that.
        """

    def sync(self, folder: str) -> None:
        """Return once every object that was created directly in a folder survives a crash of the machine."""

    def replace(self, key: str, data: Data, *, if_match: ETag | None) -> Replaced | Changed:
        """Put an object in the place of the one that is known; None: where there is none."""

    def put(self, key: str, data: Data) -> ETag:
        """Put an object, whatever is there."""

    def read(self, key: str) -> Object | None:
        """The object, or None where there is none."""

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """A part of the object, shorter where the object ends; None where there is no object."""

    def head(self, key: str) -> Meta | None:
        """What is known of the object, or None where there is none (a store need not tell a missing bucket here)."""

    def list(self, folder: str = "", *, after: str | None = None) -> Iterator[Meta]:
        """Every object below a folder (``""``: all) in the order of the keys' characters, beginning after a key.

        Temporaries are not listed.
        """

    def walk(self) -> Iterator[Meta]:
        """Every object of the store, in whichever order it gives them, and none twice; few are in memory at once."""

    def folders(self, folder: str = "") -> Sequence[str]:
        """The names of the folders directly in a folder (``""``: the location), sorted; they need not be walked."""

    def obstacles(self, folder: str) -> Sequence[Obstacle]:
        """The entries directly in a folder that are no objects (links, pipes, folders): only disks have them.

        Where something else is in the place of the folder, or of one above it, that alone.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is missing is fine."""

    def copy(self, source: str, target: str) -> None:
        """Put a copy of an object, whatever is at the target; a missing source is ``NotFound``."""

    def sweep_temporaries(self, folder: str = "", *, before: int) -> int:
        """Delete what crashed writers left below a folder before a time in milliseconds; how many there were."""


def rename(store: Store, source: str, target: str) -> None:
    """Move an object, whatever is at the target. A crash in between leaves both."""
    if store.head(source) is None:
        raise NotFound(f"there is no {source} in {store.location}")
    store.copy(source, target)
    store.delete([source])
