"""Finding tables to import: below a pattern of locations, or in a list.

A table is named by its folders: those below the bucket, or below the root of the disk, or below a folder that is given
as the root. The name follows from the location and that root alone, so it is the same whatever pattern finds the table.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from typing import Final

from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import InvalidInput
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.storage.location import canonical_location, local_path, store_prefix
from deltamirror.storage.open import store_above
from deltamirror.storage.store import Store

_WILD: Final = re.compile(r"[*?\[]")
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_\-]+")


@dataclass(frozen=True, slots=True)
class Pattern:
    """``s3://lake/raw/**``: the tables below ``root`` whose folder matches. ``**`` stands for folders at any depth."""

    root: str
    wild: str

    @classmethod
    def of(cls, text: str) -> "Pattern":
        """The pattern in a text; without a wildcard, every table below it is meant."""
        found = _WILD.search(text)
        if found is None:
            return cls(text.rstrip("/"), "**")
        root, _, _ = text[: found.start()].rpartition("/")
        if not root or root.endswith((":/", ":")):
            raise InvalidInput(
                f"{text!r} has no fixed folder to begin with", hint="write the bucket or folder out: s3://lake/**"
            )
        return cls(root, text[len(root) + 1 :])

    def matches(self, folder: str) -> bool:
        """Whether a folder, relative to the root, is meant."""
        return re.fullmatch(_expression(self.wild.strip("/")), folder) is not None


def find_tables(pattern: Pattern, storage: StorageSettings, *, root: str | None = None) -> Iterator[ImportOrder]:
    """The tables that a pattern means, named by their folders: ``s3://lake/sales/orders`` becomes ``sales.orders``."""
    store = store_above(pattern.root, storage)
    for folder in _tables_below(store):
        if pattern.matches(folder):
            location = f"{pattern.root}/{folder}"
            yield ImportOrder(location=location, name=table_name_of(location, root))


def listed_tables(lines: Iterable[str], *, root: str | None = None) -> Iterator[ImportOrder]:
    """The tables of a list: a location in each line, and a name after it if it is not to be that of its folders."""
    for number, line in enumerate(lines, 1):
        match words := line.split():
            case []:
                continue
            case [first, *_] if first.startswith("#"):
                continue
            case [location]:
                yield ImportOrder(location=location, name=table_name_of(location, root))
            case [location, name]:
                yield ImportOrder(location=location, name=name)
            case _:
                raise InvalidInput(
                    f"line {number} of the list has {len(words)} words", hint="write LOCATION, or LOCATION NAME"
                )


def _tables_below(store: Store, folder: str = "") -> Iterator[str]:
    """The folders that have a log. Folders beside a log belong to its table, and are not looked into."""
    below = store.folders(folder)
    if LOG_DIRECTORY in below:
        yield from [folder] if folder else []
        return
    for name in below:
        yield from _tables_below(store, f"{folder}/{name}" if folder else name)


def table_name_of(location: str, root: str | None) -> str:
    """The folders of a location below the root, or below the bucket or the disk's root, as a table name."""
    place = canonical_location(location)
    above = store_prefix(place) if root is None else f"{canonical_location(root, or_bucket=True)}/"
    if not place.startswith(above):
        raise InvalidInput(
            f"the table at {place} is not below the root {above}",
            hint="give a folder above all tables, or no root: names then begin below the bucket",
        )
    folder = (local_path(place) or place).removeprefix(local_path(above) or above)
    return ".".join(_UNNAMEABLE.sub("_", part).lstrip("-") or "_" for part in folder.split("/"))


def _expression(wild: str) -> str:
    """``*`` and ``?`` stay within a folder's name, as in a shell; ``**`` goes across."""
    pieces = []
    for part in wild.split("**"):
        inner = translate(part).removeprefix("(?s:").removesuffix(r")\Z")
        pieces.append(inner.replace(".*", "[^/]*"))
    return ".*".join(pieces)
