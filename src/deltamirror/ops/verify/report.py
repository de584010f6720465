"""What verifying a table comes to."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from deltamirror.deltalog.rules.findings import Finding
from deltamirror.errors import DeltaMirrorError
from deltamirror.txnlog.content.row_differences import RowDifference


class Level(StrEnum):
    """How thoroughly a log is held against the database."""

    BASIC = "basic"
    """The log is listed; objects are read that have another size, or were touched since they were put."""
    STRICT = "strict"
    """Every object is read and held against its digest and the rules; states, and all SQL rows, against the lines."""
    PARANOID = "paranoid"
    """An independent reader reads the table, too."""


class ComparedWith(StrEnum):
    """What a state is held against: always the lines that were committed."""

    LOG = "log"
    """The state that a reader makes of the log."""
    PROJECTIONS = "projections"
    """The SQL rows of files, protocol, metadata, transactions and domains."""
    READER = "reader"
    """The files and rows that an independent reader finds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDifference:
    """A state that is not what the committed lines come to."""

    compared: ComparedWith
    version: int
    first: str
    """One difference, or why there is no such state; A is what is compared, B the committed lines."""
    counts: Mapping[str, int]
    """How many differences there are of each kind, as ``deltamirror diff`` counts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVerified:
    """The answer to whether the log of a table says what the database says."""

    table: str
    level: Level
    head: int = -1
    published: int = -1
    checked: int = 0
    """How many objects were read to compare them by their digests."""
    versions: int = 0
    """How many versions were compared by their states."""
    reader: str = ""
    """Which reader read the table; empty where none did."""
    missing: tuple[int, ...] = ()
    altered: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    checksums: tuple[int, ...] = ()
    late_checksums: tuple[int, ...] = ()
    """Versions whose ``.crc`` is not written yet, as after a RESTORE: the reconciler writes it."""
    misleading: tuple[str, ...] = ()
    """Objects that readers go by, and that say something else than the database."""
    obstacles: tuple[str, ...] = ()
    """Links, folders and the like in the place of objects."""
    differences: tuple[StateDifference, ...] = ()
    rows: tuple[RowDifference, ...] = ()
    """Values in SQL that contradict the committed lines, or each other: the first of them."""
    findings: tuple[Finding, ...] = ()
    """Rules that the log breaks, whatever the database says."""
    error: DeltaMirrorError | None = None
    """What kept the table from being verified, or from being repaired."""

    @property
    def late(self) -> int:
        """How many versions wait to be published."""
        return max(0, self.head - self.published)

    @property
    def is_late(self) -> bool:
        """Whether anything waits to be written."""
        return self.late > 0 or bool(self.late_checksums)

    @property
    def has_damaged_objects(self) -> bool:
        """Whether objects are not as they were put, which a repair puts right unless they are foreign."""
        own = self.missing, self.altered, self.foreign, self.checkpoints, self.checksums
        return any(own) or bool(self.misleading or self.obstacles)

    @property
    def is_drift(self) -> bool:
        """Whether the log says something else than the database, or breaks a rule."""
        return self.has_damaged_objects or bool(self.differences or self.rows or self.findings)
