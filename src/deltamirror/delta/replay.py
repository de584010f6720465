"""The state of a table: what remains of its commits, or of a checkpoint, when newer actions replace older ones.

Files meet under (path, deletion vector id), so that an update of a deletion vector, which adds a file with the vector
it gets and removes it with the one it had, concerns two keys. Actions of one commit have no order among them.
"""

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from deltamirror.delta.actions import (
    Action,
    Add,
    DomainMetadata,
    FileKey,
    Metadata,
    Protocol,
    Remove,
    Txn,
    file_key,
)
from deltamirror.delta.paths import path_identity
from deltamirror.errors import InvalidAction


class State:
    """The reconciled actions of a table at a version. It starts empty and changes by ``apply`` alone."""

    __slots__ = ("_metadata", "_protocol", "domains", "files", "tombstones", "txns")

    def __init__(self) -> None:
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self.files: dict[FileKey, Add] = {}
        self.tombstones: dict[FileKey, Remove] = {}
        self.txns: dict[str, Txn] = {}
        self.domains: dict[str, DomainMetadata] = {}

    @property
    def protocol(self) -> Protocol:
        """The protocol in force; every log states one."""
        if self._protocol is None:
            raise _missing("protocol")
        return self._protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata in force; every log states one."""
        if self._metadata is None:
            raise _missing("metaData")
        return self._metadata

    def apply(self, actions: Collection[Action]) -> None:
        """One commit, or rows of a checkpoint. Actions that leave no trace in the state are passed over."""
        removed = {reconciliation_key(action) for action in actions if isinstance(action, Remove)}
        for index, action in enumerate(actions):
            if isinstance(action, Add) and removed and reconciliation_key(action) in removed:
                raise _added_and_removed(action, index)
            self._take(action)

    def _take(self, action: Action) -> None:
        match action:
            case Add():
                key = reconciliation_key(action)
                self.files[key] = action
                self.tombstones.pop(key, None)
            case Remove():
                key = reconciliation_key(action)
                self.tombstones[key] = action
                self.files.pop(key, None)
            case Txn():
                self.txns[action.app_id] = action
            case DomainMetadata(removed=True):
                self.domains.pop(action.domain, None)
            case DomainMetadata():
                self.domains[action.domain] = action
            case Metadata():
                self._metadata = action
            case Protocol():
                self._protocol = action


def replay(commits: Iterable[Collection[Action]], *, onto: State | None = None) -> State:
    """The state after ``commits``, oldest first. ``onto`` is the state before them; it is changed and returned."""
    state = State() if onto is None else onto
    for actions in commits:
        state.apply(actions)
    return state


def reconciliation_key(action: Add | Remove) -> FileKey:
    """The key under which spellings of one path meet."""
    path, vector = file_key(action)
    return path_identity(path), vector


def checkpoint_actions(
    state: State, *, tombstones_after: int, transactions_after: int | None = None
) -> Iterator[Action]:
    """What a checkpoint of ``state`` holds.

    Removes are kept if deleted later than ``tombstones_after`` (ms), transactions, if updated later than
    ``transactions_after``; without that all of them. No file action of a checkpoint changes data.
    """
    yield state.protocol
    yield state.metadata
    yield from (txn for txn in state.txns.values() if _is_kept(txn, transactions_after))
    yield from state.domains.values()
    for remove in state.tombstones.values():
        if (remove.deletion_timestamp or 0) > tombstones_after:
            yield replace(remove, data_change=False, tags=None, stats=None)
    for add in state.files.values():
        yield replace(add, data_change=False) if add.data_change else add


def _is_kept(txn: Txn, after: int | None) -> bool:
    return after is None or (txn.last_updated is not None and txn.last_updated > after)


def _missing(action: str) -> InvalidAction:
    return InvalidAction(
        f"the log states no {action}: it is not the log of a Delta table, or its beginning is missing",
        rule=f"log.{action}.missing",
        action=action,
    )


def _added_and_removed(add: Add, index: int) -> InvalidAction:
    return InvalidAction(
        f"one commit both adds and removes {add.path}",
        hint="actions of a commit have no order: whether the file is there would depend on the reader",
        rule="commit.file.added-and-removed",
        action="add",
        index=index,
        field="path",
        found=add.path,
    )
