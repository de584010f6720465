"""Every error that leaves this package, in one tree.

::

    DeltaMirrorError
    ├── InvalidInput              what the caller handed in is wrong; nothing was written
    │   ├── InvalidAction         an action breaks a rule of the protocol or of the table
    │   ├── InvalidLine           a line of NDJSON is not one well-formed action
    │   ├── InvalidSchema         a table schema is not one that Delta can hold
    │   ├── InvalidLocation       a table location is malformed or lies in another table
    │   ├── InvalidSettings       a setting is unknown or has a wrong value
    │   └── TokenReused           an idempotency token came back with other content
    ├── NotFound                  a table, version or timestamp that the catalog does not have, or a missing bucket
    ├── AlreadyExists             a table or location that the catalog (or the store) has already
    ├── Refused                   the table's state forbids it: backlog full, unpublished versions, unchecked rows
    ├── Conflict                  another commit won; the transaction has to be computed again
    ├── Diverged                  the log holds other bytes than SQL committed; nothing was overwritten
    ├── LeaseLost                 another process holds the lease of the table; this one stops
    ├── Late                      a version was not published within the time that the caller gave
    ├── Unsupported               a table feature or action that we do not understand
    ├── CatalogMismatch           no catalog, one of another release, a replaced file, or a server that may lose commits
    ├── MissingExtra              a library is not installed; names the extra
    ├── Unavailable               the database or store cannot be reached, or is locked by another process
    ├── PermissionDenied          the database or store refuses us
    ├── CapacityExceeded          the disk, database or a documented limit is full
    ├── Transient                 worth trying again: a deadlock, a serialisation failure
    │   ├── Throttled             the store asks for fewer requests
    │   ├── LogChanged            another writer changes a log while it is read
    │   └── CommitUnknown         the reply of COMMIT was lost; the log has to be asked what happened
    └── Internal                  a broken invariant of ours

Each class has a stable ``code``, the ``exit_status`` of the command line, ``retryable``, and a
``hint``: one line for the operator. Fields are typed, travel in ``--json``, and pickle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

__all__ = [
    "AlreadyExists",
    "CapacityExceeded",
    "CatalogMismatch",
    "CommitUnknown",
    "Conflict",
    "DeltaMirrorError",
    "Diverged",
    "Internal",
    "InvalidAction",
    "InvalidInput",
    "InvalidLine",
    "InvalidLocation",
    "InvalidSchema",
    "InvalidSettings",
    "Late",
    "LeaseLost",
    "LogChanged",
    "MissingExtra",
    "NotFound",
    "PermissionDenied",
    "Refused",
    "Throttled",
    "TokenReused",
    "Transient",
    "Unavailable",
    "Unsupported",
]


@dataclass(eq=False)
class DeltaMirrorError(Exception):
    """The root: ``message`` says what was wrong and where, ``hint`` what to do about it."""

    message: str
    hint: str = ""

    code: ClassVar[str] = "internal"
    exit_status: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})

    def as_json(self) -> dict[str, Any]:
        """The error as the ``--json`` output shows it."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"code": self.code, "retryable": self.retryable, **{k: v for k, v in own.items() if v not in (None, "")}}


def _rebuild(cls: type[DeltaMirrorError], values: Mapping[str, Any]) -> DeltaMirrorError:
    return cls(**values)


@dataclass(eq=False)
class InvalidInput(DeltaMirrorError):
    """The caller's input is wrong; nothing was written."""

    code: ClassVar[str] = "invalid-input"
    exit_status: ClassVar[int] = 10


@dataclass(eq=False)
class InvalidAction(InvalidInput):
    """An action breaks a rule: which action, which field, which rule, and what was found."""

    rule: str = ""
    action: str = ""
    index: int | None = None
    field: str = ""
    found: str = ""
    table: str = ""

    code: ClassVar[str] = "invalid-action"


@dataclass(eq=False)
class InvalidLine(InvalidInput):
    """A line of NDJSON is not one well-formed action."""

    source: str = ""
    line: int | None = None

    code: ClassVar[str] = "invalid-line"


@dataclass(eq=False)
class InvalidSchema(InvalidInput):
    """A table schema is not one that Delta can hold."""

    column: str = ""

    code: ClassVar[str] = "invalid-schema"


@dataclass(eq=False)
class InvalidLocation(InvalidInput):
    """A table location is malformed or lies in another table."""

    location: str = ""

    code: ClassVar[str] = "invalid-location"


@dataclass(eq=False)
class InvalidSettings(InvalidInput):
    """A setting is unknown or has a wrong value; names the file, line or variable it came from."""

    key: str = ""
    source: str = ""

    code: ClassVar[str] = "invalid-settings"


@dataclass(eq=False)
class TokenReused(InvalidInput):
    """An idempotency token came back with other content than it was first used with."""

    token: str = ""

    code: ClassVar[str] = "token-reused"
    exit_status: ClassVar[int] = 14


@dataclass(eq=False)
class NotFound(DeltaMirrorError):
    """The catalog does not have this table, version or timestamp; or the store has no such bucket or object."""

    table: str = ""
    version: int | None = None

    code: ClassVar[str] = "not-found"
    exit_status: ClassVar[int] = 11


@dataclass(eq=False)
class AlreadyExists(DeltaMirrorError):
    """The catalog (or the store) has this table or location already."""

    table: str = ""
    location: str = ""

    code: ClassVar[str] = "already-exists"
    exit_status: ClassVar[int] = 12


@dataclass(eq=False)
class Refused(DeltaMirrorError):
    """The table's state forbids it: backlog limit, unpublished versions, rows that were not checked."""

    table: str = ""

    code: ClassVar[str] = "refused"
    exit_status: ClassVar[int] = 16


@dataclass(eq=False)
class Conflict(DeltaMirrorError):
    """Another commit won. Read the table again and compute the transaction anew."""

    table: str = ""
    reason: str = ""
    read_version: int | None = None
    actual_version: int | None = None
    winner_version: int | None = None
    winner_operation: str = ""

    code: ClassVar[str] = "conflict"
    exit_status: ClassVar[int] = 13


@dataclass(eq=False)
class Diverged(DeltaMirrorError):
    """The log holds other bytes than SQL committed: another writer wrote there. Nothing was overwritten."""

    table: str = ""
    version: int | None = None
    key: str = ""
    expected: str = ""
    found: str = ""
    superseded: bool | None = None
    """The bytes are our own, of a version that an adoption superseded: a worker that woke late put them there."""

    code: ClassVar[str] = "diverged"
    exit_status: ClassVar[int] = 2


@dataclass(eq=False)
class LeaseLost(DeltaMirrorError):
    """The lease of the table ended, or another process holds it, and goes on with what is published."""

    table: str = ""

    code: ClassVar[str] = "lease-lost"
    exit_status: ClassVar[int] = 24
    retryable: ClassVar[bool] = True


@dataclass(eq=False)
class Late(DeltaMirrorError):
    """A version was not published within the time that the caller gave. It is committed, and will be."""

    table: str = ""
    version: int | None = None

    code: ClassVar[str] = "late"
    exit_status: ClassVar[int] = 3


@dataclass(eq=False)
class Unsupported(DeltaMirrorError):
    """A table feature or action that we do not understand; never dropped, always refused."""

    table: str = ""
    features: tuple[str, ...] = ()

    code: ClassVar[str] = "unsupported"
    exit_status: ClassVar[int] = 15


@dataclass(eq=False)
class CatalogMismatch(DeltaMirrorError):
    """The database cannot be used: no catalog, another release's, foreign tables, a replaced file, an unsafe server."""

    code: ClassVar[str] = "catalog-mismatch"
    exit_status: ClassVar[int] = 17


@dataclass(eq=False)
class MissingExtra(DeltaMirrorError):
    """A library that this needs is not installed."""

    extra: str = ""

    code: ClassVar[str] = "missing-extra"
    exit_status: ClassVar[int] = 18


@dataclass(eq=False)
class Unavailable(DeltaMirrorError):
    """The database or store cannot be reached, or another process holds it."""

    code: ClassVar[str] = "unavailable"
    exit_status: ClassVar[int] = 20
    retryable: ClassVar[bool] = True


@dataclass(eq=False)
class PermissionDenied(DeltaMirrorError):
    """The database or store refuses us: wrong credentials, missing rights, read-only."""

    code: ClassVar[str] = "permission-denied"
    exit_status: ClassVar[int] = 21


@dataclass(eq=False)
class CapacityExceeded(DeltaMirrorError):
    """The disk, the database or a documented limit is full."""

    code: ClassVar[str] = "capacity-exceeded"
    exit_status: ClassVar[int] = 22


@dataclass(eq=False)
class Transient(DeltaMirrorError):
    """Worth trying again: a deadlock, a serialisation failure."""

    code: ClassVar[str] = "transient"
    exit_status: ClassVar[int] = 23
    retryable: ClassVar[bool] = True


@dataclass(eq=False)
class Throttled(Transient):
    """The store asks for fewer requests (429, or 503 SlowDown): wait before the next one."""

    retry_after: float | None = None

    code: ClassVar[str] = "throttled"


@dataclass(eq=False)
class LogChanged(Transient):
    """Another writer changes a log while it is read: a file is gone, or another one is in its place."""

    code: ClassVar[str] = "log-changed"


@dataclass(eq=False)
class CommitUnknown(Transient):
    """The reply of COMMIT was lost: the transaction is in the log, or it is not."""

    code: ClassVar[str] = "commit-unknown"
    retryable: ClassVar[bool] = False


@dataclass(eq=False)
class Internal(DeltaMirrorError):
    """An invariant of ours is broken. Please report it."""

    code: ClassVar[str] = "internal"
