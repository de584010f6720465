"""Keys: which are well-formed, and which belong to temporaries and side files that no listing shows."""

import re
from typing import Final
from uuid import uuid4

from deltamirror.errors import Internal
from deltamirror.storage.store import Data

# The names of the reference writer's temporaries too. No reader takes a name that begins with a dot.
_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp")
_HIDDEN: Final = re.compile(r"\..+\.(?:crc|lock|tmp)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def is_key(key: str) -> bool:
    """Whether a key stays in the store, and every store can hold it."""
    return not _CONTROL.search(key) and not any(part in ("", ".", "..") for part in key.split("/"))


def check_key(key: str) -> None:
    """Refuse a key that leaves the store, or that not every store can hold."""
    if not is_key(key):
        raise Internal(f"not a key: {key!r}")


def check_folder(folder: str) -> None:
    """Refuse a folder that leaves the store; ``""`` is the whole store."""
    if folder:
        check_key(folder)


def check_data(key: str, data: Data) -> None:
    """Refuse an empty object: some readers take an empty commit for a valid one."""
    if not len(data):
        raise Internal(f"an empty object is never written: {key!r}")


def temporary_name(name: str) -> str:
    """The name of a temporary beside a file: ``.<name>.<uuid>.tmp``."""
    return f".{name}.{uuid4()}.tmp"


def is_temporary(name: str) -> bool:
    """Whether this is the name of a temporary, of ours or of the reference writer."""
    return _TEMPORARY.fullmatch(name) is not None


def is_hidden(name: str) -> bool:
    """Whether this is a temporary, a lock, or a side file of Hadoop."""
    return _HIDDEN.fullmatch(name) is not None


def side_file_name(name: str) -> str:
    """Hadoop's checksum of a local file. One that is stale makes the file unreadable for Hadoop."""
    return f".{name}.crc"
