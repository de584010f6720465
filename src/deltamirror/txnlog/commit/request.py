"""What a writer asks for, and what it is told."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from deltamirror.delta.actions import Action
from deltamirror.delta.conflicts import ReadSet
from deltamirror.errors import NotFound
from deltamirror.txnlog.content.state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """How a commit describes itself in its commitInfo."""

    name: str | None = None
    parameters: Mapping[str, object] | None = None
    metrics: Mapping[str, str] | None = None
    user_metadata: str | None = None
    tags: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a transaction does to one table.

    *Authored*: ``actions`` without commitInfo; we write commitInfo, time and ids. *Verbatim*: ``lines`` as another
    writer made them, stored untouched at exactly ``at_version``. Neither: the table is only read.

    ``actions`` and ``lines`` may be streams: they are consumed once. ``read_version`` says which version the change
    was computed from; without one, it is the version of ``seen``, or the head as it is when the commit begins. Files
    that are only added depend on nothing but metadata and protocol of that version.

    ``at_version`` is the version that the change becomes, computed from the one before it; an older ``read_version``
    says that something was read earlier.
    """

    table: str
    table_id: int | None = None
    """The table that was read; by its name there may be another one when the change is committed."""
    actions: Iterable[Action] = ()
    lines: Iterable[bytes] | None = None
    seen: TableState | None = None
    """The table as it was when the transaction first named it; may be what the process remembered."""
    read_version: int | None = None
    at_version: int | None = None
    reads: ReadSet | None = None
    lineage: int | None = None
    """Which history of the table was read: an adoption begins another one. None: not known."""
    committed_at: int | None = None
    """The time of a verbatim commit that does not state one itself."""
    is_in_log: bool = False
    """The version is in the log, written by another writer: it is not asked what it leaves of the table."""
    operation: Operation = field(default_factory=Operation)
    system_domains: frozenset[str] = frozenset()
    """Domains below ``delta.`` that the change may set: they belong to Delta, not to users."""
    rows_checked: bool = False
    """The engine that wrote the files checked their rows against constraints that the log cannot show."""
    restores: bool = False
    """It brings back metadata and all files of an earlier version, which were lawful together: they are not judged."""
    is_record: bool = False
    """The table gets a version also without any action: the commit is a record of its operation, as VACUUM's are."""

    @property
    def is_admitted(self) -> bool:
        """Whether its actions are those of another writer, or of an earlier version: not as we would write them."""
        return self.lines is not None or self.restores


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One transaction: all of its changes take place, or none."""

    changes: tuple[Change, ...]
    token: str | None = None
    content: bytes | None = None
    """A digest of what the caller asked for, to tell a retry from a reuse of the token; computed where absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The answer to a transaction: the version it has in each table, and its time."""

    versions: Mapping[str, int]
    timestamp: int
    already_applied: bool = False
    """It was in the log before: the same token, or application transactions at or below the latest."""


def no_version(table: str, version: int, *, head: int) -> NotFound:
    """The error for a version that something is said to be computed from, and that the table does not have yet."""
    return NotFound(
        f"table {table!r} has no version {version}: its head is {head}",
        hint="name the version that was read, which the commit was computed from",
        table=table,
        version=version,
    )
