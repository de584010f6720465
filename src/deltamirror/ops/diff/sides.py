"""What people compare: a table of the catalog or a location, at a version or at its end."""

import re
from dataclasses import dataclass, replace
from typing import Final

from deltamirror.deltalog.checkpoint.content import CheckpointState, replay
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.states import state_at
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.storage.store import Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import fetch_chunks, replay_work
from deltamirror.txnlog.tables.reading import snapshot

_VERSION: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison."""

    place: str
    """The name of a table, or a location."""
    is_location: bool
    version: int | None
    """None: the newest."""


def parse_side(text: str) -> Side:
    """``NAME[@VERSION]`` or ``LOCATION[@VERSION]``; a location has a slash or a scheme.

    Where a folder's own name ends like a version, a slash after it says so: ``/lake/orders@7/``.
    """
    place, at, version = text.rpartition("@")
    is_location = "/" in text or ":" in text
    if at and _VERSION.fullmatch(version):
        return Side(place=place, is_location=is_location, version=int(version))
    if at and not is_location:
        raise InvalidInput(
            f"{text!r}: {version!r} is not a version", hint="write TABLE@VERSION with a whole number, such as orders@7"
        )
    return Side(place=text, is_location=is_location, version=None)


def location_state(store: Store, version: int | None) -> CheckpointState:
    """The table at a location, as its log has it."""
    return state_at(store, read_listing(store), version)


def table_state(database: Database, name: str, version: int | None) -> CheckpointState:
    """A table of the catalog, as the lines of its commits have it; one that was imported begins with its base."""
    try:
        taken = snapshot(database, name, version=version)
    except NotFound as error:
        if error.version is None:
            raise replace(error, hint=f"{error.hint}; a folder has a slash: ./{name}") from error
        raise
    with database.read() as connection:
        commits = replay_work(connection, taken.table_id, last=taken.version)
        lines = ((chunk.decoded() for chunk in fetch_chunks(connection, work)) for work in commits)
        return replay(lines, version=taken.version, committed_at=taken.timestamp, base=None)
