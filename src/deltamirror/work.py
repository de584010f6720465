"""Units of work of the mirror, and what comes of them: values that travel to executors and back.

A unit belongs to one table and is worked on under one lease. It carries no credentials. Its commits carry their chunks,
or leave it to the executor to fetch them by ``commit_id``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self, TypeAlias

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.chunks import Chunk
from deltamirror.errors import DeltaMirrorError
from deltamirror.storage.address import StoreAddress


class Lane(StrEnum):
    """What a lease is for: a table's commits, checkpoints, log and data files are looked after independently."""

    COMMITS = "commits"
    CHECKPOINTS = "checkpoints"
    RECONCILIATION = "reconciliation"
    MAINTENANCE = "maintenance"


class Chore(StrEnum):
    """Maintenance of a table's files that a service does by itself; the database has these words."""

    OPTIMIZE = "optimize"
    VACUUM = "vacuum"
    COMPACT = "compact"

    @property
    def deed(self) -> str:
        """The word for what it does to files."""
        return _DEEDS[self]


_DEEDS: Final[Mapping[Chore, str]] = {
    Chore.OPTIMIZE: "replaced",
    Chore.VACUUM: "deleted",
    Chore.COMPACT: "written",
}


class Status(StrEnum):
    """How far the mirror is with a version, or with a checkpoint; the database has these words."""

    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"  # and tried again, unless no retry can cure it


class Verification(StrEnum):
    """What is checked of a commit: ``mirror.verify`` of the settings. Each level has the checks of those before it."""

    OFF = "off"
    BASIC = "basic"  # its shape and digest, before it is published
    STRICT = "strict"  # and the rules of its actions before, its bytes read back after
    PARANOID = "paranoid"  # and what an independent reader makes of the newest version of a unit, and of a checkpoint

    @property
    def is_strict(self) -> bool:
        """Whether rules are applied, and objects read back."""
        return self in (Verification.STRICT, Verification.PARANOID)


class Stage(StrEnum):
    """Where in the work something failed."""

    PLAN = "plan"  # the unit itself
    RUN = "run"  # the job as a whole, of which the unit was all
    OPEN = "open"  # the store
    FETCH = "fetch"  # the stored lines
    LEASE = "lease"  # whether it still holds
    CHECK = "check"  # their shape and digest
    PUT = "put"
    VERIFY = "verify"
    CHECKSUM = "checksum"
    BUILD = "build"  # the checkpoint
    POINTER = "pointer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to mirror one table, in one lane, for a limited time. A later owner has a larger epoch."""

    table_id: int
    lane: Lane
    owner: str
    epoch: int
    held_until: float
    """By ``time.time()`` of the process that claimed it: for executors that cannot ask the database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWork:
    """One version to publish, or to replay."""

    version: int
    commit_id: int
    committed_at: int
    digest: bytes
    num_bytes: int
    num_chunks: int
    chunks: tuple[Chunk, ...] | None = None
    """None: the executor fetches them."""
    num_files: int | None = None
    """How many live files SQL counts after it; None: not counted. A commit may add files that are live already."""
    is_verbatim: bool = False
    """Whether another program encoded its lines, which are carried as they are."""
    is_base: bool = False
    """To be replayed as the whole state of its version, with which an imported table begins; not as its commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitUnit:
    """Consecutive versions of a table, to be published in order."""

    table_id: int
    table: str
    address: StoreAddress
    lease: Lease
    commits: tuple[CommitWork, ...]
    follows: str = ""
    """The object of the version before the first one, which has to be in the log; empty: there is none, or it is."""
    checksum: bytes | None = None
    """The ``.crc`` of the version before the first one; None where it is not certain, or the first version is 0."""
    checksums: bool = True
    verify: Verification = Verification.BASIC
    reads_back: bool = False
    """Whether objects are read back on every level: after a failure or a loss."""
    in_force: tuple[Protocol, Metadata] | None = None
    """Those before the first version, where rules are applied; None: there are none, or none are applied."""
    budget: float = 20.0
    read: float = 0.0
    """How many milliseconds it took to read the chunks that its commits carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointBase:
    """An earlier checkpoint of ours, to start from. Its file must have this digest."""

    version: int
    committed_at: int
    name: str
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUnit:
    """A checkpoint to write: the state after ``commits``, which follow on ``base``.

    Without one they begin with version 0, or with the version that an imported table begins with, as a base.
    """

    table_id: int
    table: str
    address: StoreAddress
    lease: Lease
    version: int
    committed_at: int
    commits: tuple[CommitWork, ...]
    base: CheckpointBase | None = None
    num_files: int | None = None
    """How many live files SQL counts at this version; None: not counted."""
    compression: str = "snappy"
    row_group_bytes: int = 32 * 1024 * 1024
    sidecar_actions: int = 50_000
    verify: Verification = Verification.BASIC


Unit: TypeAlias = CommitUnit | CheckpointUnit


def carrying(unit: Unit, commits: Iterable[CommitWork], *, read: float) -> Unit:
    """The unit with commits whose chunks were read, which took so many milliseconds."""
    if isinstance(unit, CommitUnit):
        return replace(unit, commits=tuple(commits), read=unit.read + read)
    return replace(unit, commits=tuple(commits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a unit stopped, and where."""

    error: DeltaMirrorError
    stage: Stage
    version: int
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A version that is in the log, with the bytes that SQL has."""

    version: int
    already: bool
    """Whether it was there before: published by an attempt whose reply was lost."""
    num_bytes: int
    milliseconds: float
    age: float = 0.0
    """How many milliseconds before the end of its unit it was put: clocks of executors may differ, this does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """For how many milliseconds a unit of commits was in each stage."""

    read: float = 0.0
    """In the database: the stored chunks, and whether the lease holds."""
    serialise: float = 0.0
    """Decoding chunks, checking them, and joining them to the bytes of a commit."""
    upload: float = 0.0
    verify: float = 0.0
    """Reading from the log: the object before the first one, and what is compared with the bytes of a commit."""

    def __add__(self, other: Self) -> Self:
        return replace(
            self,
            read=self.read + other.read,
            serialise=self.serialise + other.serialise,
            upload=self.upload + other.upload,
            verify=self.verify + other.verify,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOutcome:
    """What came of a ``CommitUnit``: the versions up to the first failure, or to the end of the budget."""

    table_id: int
    lease: Lease
    table: str = ""
    """The name of the table, for messages about the outcome."""
    attempt: int | None = None
    """How often the version that failed was tried, this time included; None: it is not recorded."""
    retry_at: int | None = None
    """When the version that failed is tried again (ms); None: it is not recorded, or the table is quarantined."""
    published: tuple[Published, ...] = ()
    failure: Failure | None = None
    """None also where the lease was lost or the budget spent: then fewer versions are published than asked for."""
    checksum: bytes | None = None
    """The ``.crc`` of the last published version, where it is certain."""
    checksum_failure: Failure | None = None
    """Trouble with a ``.crc`` stops nothing."""
    stages: StageTimes | None = None
    """Where its time went; None: nothing was begun."""
    ended_at: float | None = None
    """When it ended, by ``time.time()`` of the process that did the work; None: nothing was begun."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        """What a line of the log about it carries as fields."""
        last = self.published[-1].version if self.published else None
        return _log_fields(self, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOutcome:
    """What came of a ``CheckpointUnit``."""

    table_id: int
    lease: Lease
    table: str = ""
    """The name of the table, for messages about the outcome."""
    attempt: int | None = None
    """How often it was tried, this time included, where it failed; None: it is not recorded."""
    retry_at: int | None = None
    """When it is tried again (ms), where it failed; None: it is not recorded."""
    version: int
    name: str = ""
    digest: bytes | None = b""
    """None: no other checkpoint may build on it."""
    num_rows: int = 0
    num_files: int = 0
    num_bytes: int = 0
    milliseconds: float = 0.0
    base: int | None = None
    """The version of the checkpoint that it was built from."""
    failure: Failure | None = None
    base_unusable: bool = False
    """The base is gone or is not ours: to be tried again without one."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        """What a line of the log about it carries as fields."""
        return _log_fields(self, self.version)


Outcome: TypeAlias = CommitOutcome | CheckpointOutcome


def _log_fields(outcome: Outcome, version: int | None) -> Mapping[str, object]:
    failure, lane = outcome.failure, outcome.lease.lane.value
    fields = {"table": outcome.table, "table_id": outcome.table_id, "lane": lane}
    if failure is None:
        return fields if version is None else {**fields, "version": version}
    fields |= {"version": failure.version, "stage": failure.stage.value, "code": failure.error.code}
    return fields if outcome.attempt is None else {**fields, "attempt": outcome.attempt}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedObject:
    """An object of the log as it should be: consecutive pieces of so many bytes, each with its sha256."""

    version: int
    key: str
    pieces: tuple[tuple[int, bytes], ...]

    @property
    def num_bytes(self) -> int:
        """Its size."""
        return sum(size for size, _ in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDifference:
    """Something else in the place of an expected object, or nothing."""

    version: int
    key: str
    found: str
    """The sha256 of what is there; empty: there is no object."""


Fetch: TypeAlias = Callable[[CommitWork], Iterable[Chunk]]
"""The chunks of a commit, in order: those that it carries, or those that the database has."""

Guard: TypeAlias = Callable[[], None]
"""Called before every put; raises ``LeaseLost`` if another process may hold the lease."""
