"""Whether a commit that was computed at one version may follow the commits that came after it.

The rules are Delta's. A transaction read some version, others committed since; each of these *winners*, in order,
is held against it. Either one of them conflicts, and the transaction has to be computed again, or it is rebased:

- it adopts the winner's protocol and metadata (``adopt``); the caller checks that it can write that protocol, and
  tags the commit ``delta.rowTracking.preserved=false`` if row tracking was turned on meanwhile;
- what depends on version, time and state is computed afresh, from the actions as they were before the first
  attempt: row ids and the row-tracking domain (``rowtracking.assign``), the in-commit timestamp
  (``timestamps.next_timestamp``) and the properties that record its enablement (``timestamps.with_enablement``).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from deltamirror.batches import batched
from deltamirror.delta.actions import (
    Action,
    Add,
    Cdc,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Remove,
    Txn,
)
from deltamirror.delta.adoption import enables_row_tracking, metadata_obstacle, protocol_obstacle
from deltamirror.delta.paths import path_identity
from deltamirror.delta.readset import PartitionRead, PartitionValues, ReadSet
from deltamirror.delta.rowtracking import ROW_TRACKING_DOMAIN
from deltamirror.errors import Unsupported

__all__ = [
    "Adopted",
    "CommitFacts",
    "ConflictKind",
    "ConflictReason",
    "IsolationLevel",
    "PartitionRead",
    "ReadSet",
    "adopt",
    "concerning",
    "find_conflict",
    "implied_reads",
    "is_blind_append",
    "isolation_for",
    "table_isolation",
]

A = TypeVar("A")

_AT_ONCE = 1_000
_IDENTITY_ONLY_TAG = "delta.identity.schemaUpdate"
_ISOLATION_PROPERTY = "delta.isolationLevel"
_OPERATIONS_THAT_KEEP_DATA = frozenset(
    {"COMPUTE STATS", "OPTIMIZE", "REORG", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"}
    | {"VACUUM END", "VACUUM START"}
)


class IsolationLevel(StrEnum):
    """How much of what others committed meanwhile a transaction has to have seen; strictest first."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


class ConflictKind(StrEnum):
    """Why a transaction cannot follow a winner."""

    PROTOCOL_CHANGED = "protocol-changed"
    METADATA_CHANGED = "metadata-changed"
    CONCURRENT_DOMAIN = "concurrent-domain"
    CONCURRENT_TRANSACTION = "concurrent-transaction"
    CONCURRENT_APPEND = "concurrent-append"
    CONCURRENT_DELETE_READ = "concurrent-delete-read"
    CONCURRENT_DELETE_DELETE = "concurrent-delete-delete"


@dataclass(frozen=True, slots=True)
class ConflictReason:
    """One conflict: its kind, and a clause for the reader of the error."""

    kind: ConflictKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """What a commit did, as far as conflicts depend on it; from its actions, or from columns in SQL.

    ``added`` and ``removed`` map path identities to partition values; values of a removed file may be ``None``
    (unknown: then it counts as read by every transaction that read any partition). ``only_files`` says that there is
    nothing but file actions, commitInfo and the row-tracking domain; ``data_change``, that a file action changes data.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    domains: frozenset[str] = frozenset()
    app_ids: frozenset[str] = frozenset()
    added: Mapping[str, PartitionValues] = field(default_factory=dict)
    removed: Mapping[str, PartitionValues | None] = field(default_factory=dict)
    is_blind_append: bool = False
    data_change: bool = False
    only_files: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    operation: str | None = None

    @classmethod
    def of(
        cls, actions: Iterable[Action], *, reads: ReadSet | None = None, operation: str | None = None
    ) -> "CommitFacts":
        """The facts of a commit. Without ``reads`` it is a stored one, and its commitInfo says if it was blind.

        ``operation`` is that of a commit which has no commitInfo yet.
        """
        actions = list(actions)
        adds = [action for action in actions if isinstance(action, Add)]
        others = [action for action in actions if not isinstance(action, Add)]  # few, even in a huge commit
        added = {path_identity(add.path): add.partition_values for add in adds}
        data_change = any(add.data_change for add in adds)
        if reads is not None and not others:  # an append of files: the hot case
            blind = is_blind_append(others, reads)
            return cls(added=added, is_blind_append=blind, data_change=data_change, operation=operation)
        removes = [action for action in others if isinstance(action, Remove)]
        info = _last(others, CommitInfo)
        claimed = info is not None and info.is_blind_append is True
        return cls(
            protocol=_last(others, Protocol),
            metadata=_last(others, Metadata),
            domains=frozenset(action.domain for action in others if isinstance(action, DomainMetadata)),
            app_ids=frozenset(action.app_id for action in others if isinstance(action, Txn)),
            added=added,
            removed={path_identity(remove.path): remove.partition_values for remove in removes},
            is_blind_append=claimed if reads is None else is_blind_append(others, reads),
            data_change=data_change or any(remove.data_change for remove in removes),
            only_files=all(_goes_with_files(action) for action in others),
            tags={} if info is None else info.tags or {},
            operation=operation if info is None else info.operation,
        )

    @property
    def only_moves_identity(self) -> bool:
        """Whether the metadata changed in nothing but the high water marks of identity columns."""
        return self.tags.get(_IDENTITY_ONLY_TAG, "").lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """What is in force for a commit that follows a winner."""

    protocol: Protocol
    metadata: Metadata
    row_tracking_enabled: bool
    """The winner turned row tracking on: rows that the commit copied have not kept their ids."""


def is_blind_append(actions: Iterable[Action], reads: ReadSet) -> bool:
    """Whether a commit depends on no file of the table: it read no data, and its file actions are adds."""
    return not reads.reads_anything and not any(isinstance(action, Remove | Cdc) for action in actions)


def implied_reads(actions: Iterable[Action], declared: ReadSet | None) -> ReadSet:
    """The read set of a commit: what was declared, and what its actions show.

    Removing files without saying what was read means having read the whole table; setting the version of an
    application means having read it. Changing metadata or protocol reads no data.
    """
    actions = list(actions)
    stated = ReadSet.NOTHING if declared is None else declared
    removes = any(isinstance(action, Remove) for action in actions)
    app_ids = frozenset(action.app_id for action in actions if isinstance(action, Txn))
    if not removes and not app_ids:
        return stated
    return ReadSet(
        whole_table=stated.whole_table or (removes and not stated.reads_anything),
        partitions=stated.partitions,
        files=stated.files,
        app_ids=stated.app_ids | app_ids,
    )


def table_isolation(metadata: Metadata) -> IsolationLevel:
    """The level that the table asks for; ``Serializable`` unless its properties say otherwise."""
    name = metadata.configuration.get(_ISOLATION_PROPERTY, IsolationLevel.SERIALIZABLE)
    if name not in (IsolationLevel.SERIALIZABLE, IsolationLevel.WRITE_SERIALIZABLE):
        raise Unsupported(f"{_ISOLATION_PROPERTY}={name} is not an isolation level of a table")
    return IsolationLevel(name)


def isolation_for(facts: CommitFacts, default: IsolationLevel) -> IsolationLevel:
    """The level at which a commit is checked: one that only rearranges data need not have seen concurrent appends.

    This speaks of a commit whose reads serve that commit alone. A table that a transaction only reads, or reads
    for the sake of another table, is checked at the table's own level.
    """
    if facts.data_change or not facts.only_files:
        return default
    if default is IsolationLevel.WRITE_SERIALIZABLE and facts.operation not in _OPERATIONS_THAT_KEEP_DATA:
        return default
    return IsolationLevel.SNAPSHOT


def adopt(winner: CommitFacts, *, protocol_before: Protocol, metadata_before: Metadata) -> Adopted:
    """What a commit finds in force after a winner that it does not conflict with."""
    metadata = metadata_before if winner.metadata is None else winner.metadata
    return Adopted(
        protocol=protocol_before if winner.protocol is None else winner.protocol,
        metadata=metadata,
        row_tracking_enabled=enables_row_tracking(metadata_before, metadata),
    )


def concerning(
    actions: Iterable[Action], reads: ReadSet, written: Callable[[Collection[str]], Collection[str]]
) -> Iterator[Action]:
    """A winner's actions without the files that decide nothing, so that one of any size takes little memory.

    Of the files that were read, the first that it adds and the first that it removes are enough. ``written`` says which
    of some paths, which the winner removes, the current commit adds or removes.
    """
    unseen: set[type[Action]] = {Add, Remove}
    for some in batched(actions, _AT_ONCE):
        removed = [path_identity(action.path) for action in some if isinstance(action, Remove)]
        shared = written(removed) if removed else ()
        for action in some:
            if not isinstance(action, Add | Remove):
                if not isinstance(action, Cdc):
                    yield action
                continue
            path = path_identity(action.path)
            is_read = type(action) in unseen and reads.covers(path, action.partition_values)
            if is_read:
                unseen.remove(type(action))
            if is_read or (isinstance(action, Remove) and path in shared):
                yield action


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encounter:
    """The current commit and one winner."""

    current: CommitFacts
    reads: ReadSet
    winner: CommitFacts
    isolation: IsolationLevel
    protocol_before: Protocol
    metadata_before: Metadata


def find_conflict(
    current: CommitFacts,
    reads: ReadSet,
    winner: CommitFacts,
    *,
    isolation: IsolationLevel,
    protocol_before: Protocol,
    metadata_before: Metadata,
) -> ConflictReason | None:
    """The first of Delta's rules that keeps ``current`` from following ``winner``, or ``None``.

    ``protocol_before`` and ``metadata_before`` are in force for ``current``: those of the version it read, or those
    adopted from earlier winners. The cost is that of one pass over the winner's files, whatever the read set.
    """
    encounter = _Encounter(
        current=current,
        reads=reads,
        winner=winner,
        isolation=isolation,
        protocol_before=protocol_before,
        metadata_before=metadata_before,
    )
    for kind, rule in _RULES:
        if (detail := rule(encounter)) is not None:
            return ConflictReason(kind, detail)
    return None


def _protocol(e: _Encounter) -> str | None:
    if e.winner.protocol is None:
        return None
    if e.current.protocol is not None:
        return "both commits change the protocol"
    return protocol_obstacle(e.protocol_before, e.winner.protocol)


def _metadata(e: _Encounter) -> str | None:
    if e.winner.metadata is None:
        return None
    if e.current.metadata is not None:
        return "both commits change the metadata"
    if e.winner.only_moves_identity:
        return None
    protocol = e.protocol_before if e.winner.protocol is None else e.winner.protocol
    return metadata_obstacle(e.metadata_before, e.winner.metadata, protocol=protocol)


def _domains(e: _Encounter) -> str | None:
    # Row tracking's domain is computed afresh when the commit is rebased.
    shared = (e.current.domains & e.winner.domains) - {ROW_TRACKING_DOMAIN}
    return f"both commits set the domain {min(shared)}" if shared else None


def _transactions(e: _Encounter) -> str | None:
    shared = e.reads.app_ids & e.winner.app_ids
    return f"the application {min(shared)} committed meanwhile" if shared else None


def _appends(e: _Encounter) -> str | None:
    if e.isolation is IsolationLevel.SNAPSHOT or not e.reads.reads_anything:
        return None
    forgives_blind_appends = e.isolation is IsolationLevel.WRITE_SERIALIZABLE and e.current.metadata is None
    if forgives_blind_appends and e.winner.is_blind_append:
        return None
    path = next((path for path, values in e.winner.added.items() if e.reads.covers(path, values)), None)
    return None if path is None else f"{path} was added to what the transaction read"


def _deletes_of_read(e: _Encounter) -> str | None:
    if not e.reads.reads_anything:
        return None
    path = next((path for path, values in e.winner.removed.items() if e.reads.covers(path, values)), None)
    return None if path is None else f"{path}, which the transaction read, was removed"


def _deletes_of_written(e: _Encounter) -> str | None:
    # By path alone: two deletion vectors of one file exclude each other. A file that the transaction adds again
    # would rise from the dead.
    for written in (e.current.removed, e.current.added):
        if shared := e.winner.removed.keys() & written.keys():
            return f"{min(shared)}, which the transaction writes, was removed"
    return None


_RULES: tuple[tuple[ConflictKind, Callable[[_Encounter], str | None]], ...] = (
    (ConflictKind.PROTOCOL_CHANGED, _protocol),
    (ConflictKind.METADATA_CHANGED, _metadata),
    (ConflictKind.CONCURRENT_DOMAIN, _domains),
    (ConflictKind.CONCURRENT_TRANSACTION, _transactions),
    (ConflictKind.CONCURRENT_APPEND, _appends),
    (ConflictKind.CONCURRENT_DELETE_READ, _deletes_of_read),
    (ConflictKind.CONCURRENT_DELETE_DELETE, _deletes_of_written),
)
"""In the order in which Delta checks them: the first that applies names the conflict."""


def _goes_with_files(action: Action) -> bool:
    """Whether a commit with this action beside its adds consists of file actions."""
    match action:
        case Remove() | Cdc() | CommitInfo():
            return True
        case DomainMetadata():
            return action.domain == ROW_TRACKING_DOMAIN
        case _:
            return False


def _last(actions: Sequence[Action], kind: type[A]) -> A | None:
    return next((action for action in reversed(actions) if isinstance(action, kind)), None)
