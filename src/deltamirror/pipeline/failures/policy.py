"""What becomes of each class of failure: how grave it is, what the mirror does about it, and what the operator does."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from deltamirror import errors
from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.queue.status import TableStatus
from deltamirror.work import Failure, Stage


class Severity(StrEnum):
    """How grave a failure is."""

    INFO = "info"  # the ordinary course of things
    WARNING = "warning"  # passes by itself, if it passes
    ERROR = "error"  # an operator has to act
    CRITICAL = "critical"  # the published log, or our own work, is not as it should be


class EscalatedWhen(StrEnum):
    """When an operator is told that a version, or a checkpoint, keeps failing."""

    NEVER = "never"
    AT_ONCE = "at once"
    PAST_ATTEMPTS = "past `mirror.attempts`"


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of one class of failure in the mirror."""

    error: type[DeltaMirrorError]
    severity: Severity
    escalates: EscalatedWhen
    remedy: str
    """What the operator does, with the command."""
    guide: str
    """The section of the guides that says more."""
    speaks_of_store: bool = False
    """Whether it says that the store as a whole is in trouble, not the table: the breaker counts it."""
    passes: bool = False
    """Whether it may pass without a notice to us, though the caller of a single operation cannot retry it."""

    @property
    def code(self) -> str:
        """The stable code of the class."""
        return self.error.code

    @property
    def is_retried(self) -> bool:
        """Whether it is tried again after growing pauses, for ever; otherwise only once in a long while."""
        return self.error.retryable or self.passes


_WRITERS_OWN: Final = (
    "nothing: it is for the caller whose input it is, and the mirror does not meet it; `deltamirror table show TABLE` "
    "shows what the table is like"
)

_TABLE: Final = (
    # The store.
    Policy(
        errors.Unavailable,
        Severity.WARNING,
        EscalatedWhen.PAST_ATTEMPTS,
        "nothing, if the store comes back: the mirror tries again by itself; check `storage.endpoint` and the network; "
        "`deltamirror status` shows what waits, `deltamirror mirror --once` tries at once",
        "recovery.md#a-store-that-is-down",
        speaks_of_store=True,
    ),
    Policy(
        errors.Throttled,
        Severity.WARNING,
        EscalatedWhen.PAST_ATTEMPTS,
        "nothing: the mirror tries again by itself, and slower; a lower `mirror.concurrency` asks less of the store; "
        "`deltamirror status` shows what waits",
        "recovery.md#a-store-that-is-down",
        speaks_of_store=True,
    ),
    Policy(
        errors.Transient,
        Severity.WARNING,
        EscalatedWhen.PAST_ATTEMPTS,
        "nothing: the mirror tries again by itself; `deltamirror status` shows whether it got on",
        "mirroring.md#when-something-fails",
        speaks_of_store=True,
    ),
    Policy(
        errors.PermissionDenied,
        Severity.ERROR,
        EscalatedWhen.AT_ONCE,
        "correct the keys or the rights; `deltamirror mirror --once` then tries at once",
        "mirroring.md#stores",
    ),
    Policy(
        errors.CapacityExceeded,
        Severity.ERROR,
        EscalatedWhen.AT_ONCE,
        "make room: the mirror tries again by itself, `deltamirror mirror --once` at once",
        "recovery.md#lasting-failures",
        passes=True,
    ),
    Policy(
        errors.NotFound,
        Severity.ERROR,
        EscalatedWhen.AT_ONCE,
        "create the bucket, or drop the table and create it at the right location; lost log objects are written "
        "again by the mirror; `deltamirror mirror --once` tries at once",
        "recovery.md#lost-log-objects",
    ),
    Policy(
        errors.InvalidLocation,
        Severity.ERROR,
        EscalatedWhen.AT_ONCE,
        "move away what is in the place of the table's folder, of its log or of an object; `deltamirror mirror --once` "
        "then tries at once",
        "recovery.md#lasting-failures",
    ),
    Policy(
        errors.InvalidSettings,
        Severity.ERROR,
        EscalatedWhen.AT_ONCE,
        "correct the settings: `deltamirror config check`",
        "mirroring.md#stores",
    ),
    Policy(
        errors.Unsupported,
        Severity.ERROR,
        EscalatedWhen.AT_ONCE,
        "the store cannot publish safely: move the table to one with conditional writes, to which "
        "`deltamirror rebuild TABLE --to LOCATION` writes its log",
        "mirroring.md#stores",
    ),
    # The log of a table.
    Policy(
        errors.Diverged,
        Severity.CRITICAL,
        EscalatedWhen.AT_ONCE,
        "another writer wrote to this log: keep that writer away; `deltamirror report TABLE` shows the objects; "
        "`deltamirror adopt TABLE` takes in foreign commits, `deltamirror repair TABLE` replaces altered ones",
        "recovery.md#another-writer-wrote-to-the-log",
    ),
    Policy(
        errors.InvalidInput,
        Severity.ERROR,
        EscalatedWhen.PAST_ATTEMPTS,
        "an object of the log is damaged: the mirror writes it again, and `deltamirror reconcile TABLE` at "
        "once; or a property of the table cannot be read: `deltamirror table alter TABLE --set K=V` corrects it",
        "recovery.md#how-it-is-noticed",
    ),
    Policy(
        errors.InvalidAction,
        Severity.CRITICAL,
        EscalatedWhen.AT_ONCE,
        "the stored commit cannot be read by others: report it, with what `deltamirror report TABLE` says",
        "recovery.md#lasting-failures",
    ),
    Policy(
        errors.LogChanged,
        Severity.WARNING,
        EscalatedWhen.PAST_ATTEMPTS,
        "keep others from writing to the log while it is read; then try again: `deltamirror reconcile TABLE`",
        "importing.md#a-table-that-is-written-to-meanwhile",
    ),
    # The mirror itself.
    Policy(
        errors.LeaseLost,
        Severity.INFO,
        EscalatedWhen.NEVER,
        "nothing: another service has the table; `deltamirror status` shows how far it is",
        "mirroring.md#running-it",
    ),
    Policy(
        errors.Internal,
        Severity.CRITICAL,
        EscalatedWhen.AT_ONCE,
        "this is a defect: report it, with what `deltamirror report TABLE` says",
        "recovery.md#lasting-failures",
    ),
    Policy(
        errors.CatalogMismatch,
        Severity.CRITICAL,
        EscalatedWhen.AT_ONCE,
        "run `deltamirror init`, or the release that the catalog is of",
        "mirroring.md#when-something-fails",
    ),
    Policy(
        errors.MissingExtra,
        Severity.ERROR,
        EscalatedWhen.AT_ONCE,
        "install the extra that is named, on every machine that mirrors; "
        "`deltamirror mirror --once` then tries at once",
        "spark.md#the-mirror-on-spark",
    ),
    # Writers and commands.
    Policy(
        errors.CommitUnknown,
        Severity.WARNING,
        EscalatedWhen.NEVER,
        "commit again with the same token: it is committed once; `deltamirror table history TABLE` shows it",
        "writing.md#sent-twice-committed-once",
    ),
    Policy(
        errors.Conflict,
        Severity.INFO,
        EscalatedWhen.NEVER,
        "read the table again and compute the transaction anew; `deltamirror table history TABLE` shows who won",
        "writing.md#conflicts",
    ),
    Policy(
        errors.Late,
        Severity.WARNING,
        EscalatedWhen.NEVER,
        "nothing, if the mirror runs: `deltamirror status` shows what keeps it",
        "mirroring.md#waiting-for-a-commit",
    ),
    Policy(
        errors.Refused,
        Severity.WARNING,
        EscalatedWhen.NEVER,
        "what its message says; `deltamirror status` shows the table's state",
        "mirroring.md#status",
    ),
    Policy(errors.AlreadyExists, Severity.INFO, EscalatedWhen.NEVER, _WRITERS_OWN, "importing.md#one-table"),
    Policy(errors.InvalidLine, Severity.INFO, EscalatedWhen.NEVER, _WRITERS_OWN, "writing.md#transactions"),
    Policy(errors.InvalidSchema, Severity.INFO, EscalatedWhen.NEVER, _WRITERS_OWN, "writing.md#transactions"),
    Policy(
        errors.TokenReused, Severity.INFO, EscalatedWhen.NEVER, _WRITERS_OWN, "writing.md#sent-twice-committed-once"
    ),
)

POLICIES: Final[Mapping[str, Policy]] = MappingProxyType({policy.code: policy for policy in _TABLE})
"""By the code of the class."""

STORE_CODES: Final = tuple(policy.code for policy in _TABLE if policy.speaks_of_store)
"""The classes that say something about the store as a whole."""

WITH_THE_STORE: Final = (
    *STORE_CODES,
    errors.CapacityExceeded.code,
    errors.PermissionDenied.code,
    errors.NotFound.code,
)
"""The classes that a store may be over with for all of its tables at once."""

_STORE_STAGES: Final = frozenset({Stage.OPEN, Stage.CHECK, Stage.PUT, Stage.VERIFY, Stage.POINTER})
"""Where only the store is asked. Elsewhere the same classes may come from the database."""


def policy_of(code: str) -> Policy:
    """What becomes of a class of failure; one that is not known is taken for a defect."""
    return POLICIES.get(code, POLICIES[errors.Internal.code])


def unblock(table: str) -> str:
    """What to do about a link, folder or pipe that is in the place of an object, or of the folder of the log."""
    return (
        "move what is named there out of the log, or put the folder itself in the place of a link to it, and "
        f"`deltamirror repair {table}`"
    )


def way_out(table: TableStatus) -> str:
    """What ends the quarantine of a table: the one advice that holds, whatever failed before."""
    name, error, foreign = table.name, table.error, table.diverged_version
    if foreign is None and error is not None and error.code == errors.NotFound.code:
        return (
            f"mount the disk, or bring the bucket back, and `deltamirror repair {name}`; where it is lost for good, "
            f"`deltamirror repair {name} --begin-anew` writes the log again"
        )
    if foreign is None and (error is None or error.code == errors.InvalidLocation.code):
        return unblock(name)  # no version failed, or something else is in its place
    replace = f"`deltamirror repair {name} --replace-altered` saves what was found, and puts what the database has"
    if foreign is None:
        return replace
    adopt = f"`deltamirror adopt {name}` takes in the foreign commits, from version {foreign} on"
    return f"{replace}; then {adopt}" if error is not None and error.version < foreign else adopt


def speaks_of_store(failure: Failure) -> bool:
    """Whether a failure says that its store as a whole is in trouble."""
    return policy_of(failure.error.code).speaks_of_store and failure.stage in _STORE_STAGES
