"""A small history from elsewhere, its states, and the table that it becomes."""

from collections.abc import Mapping
from typing import Any

from deltamirror import Catalog, Table
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, Add, CommitInfo, Txn
from deltamirror.delta.replay import State, checkpoint_actions, replay
from deltamirror.txnlog.queue.backlog import (
    count_files,
)
from tests.support.imports.parts import import_files
from tests.support.lakes.histories import PROTOCOL, table_metadata
from tests.support.lakes.lake import add, remove_of

METADATA = table_metadata()
OPENING: tuple[Action, ...] = (PROTOCOL, METADATA)


def commit(*actions: Action) -> bytes:
    """The file of a commit."""
    return lines.encode_commit(actions)


def info(**fields: Any) -> CommitInfo:
    """What a commit says of itself."""
    return CommitInfo(operation="WRITE", **fields)


def file(path: str, **fields: Any) -> Add:
    """A file whose partition has no value."""
    return add(path, partition_values={"p": None}, **fields)


HISTORY = {
    0: commit(info(timestamp=1, txn_id="the first"), *OPENING),
    1: commit(info(is_blind_append=True), file("a"), file("b"), Txn(app_id="app", version=7)),
    2: commit(remove_of(file("a")), info()),
    3: commit(info(), file("a", size=7), file("c")),
}


def stored(catalog: Catalog, files: Mapping[int, bytes] = HISTORY, **kind: object) -> Table:
    """The table that these files become."""
    return import_files(catalog, files, **kind)  # type: ignore[arg-type]


def state_after(version: int, files: Mapping[int, bytes] = HISTORY) -> State:
    """The state at a version, by replaying the files."""
    return replay(lines.decode_commit(data) for each, data in sorted(files.items()) if each <= version)


def as_checkpoint(state: State) -> State:
    """The same state, from a checkpoint: no file of it changes data."""
    found = State()
    found.apply(list(checkpoint_actions(state, tombstones_after=-1)))
    return found


def counted(catalog: Catalog, table: Table, version: int) -> int:
    """How many files the catalog counts at a version."""
    with catalog.database.read() as connection:
        return count_files(connection, table.info().id, version)
