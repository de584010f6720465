"""A set of reference logs, and what is expected of it: the project's own, or the tables beside the repository."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deltamirror.delta.lastcheckpoint import Trust
from deltamirror.errors import DeltaMirrorError


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error that refuses a table, and words of its message."""

    error: type[DeltaMirrorError]
    phrase: str


@dataclass(frozen=True, slots=True)
class Source:
    """A reference table, or what cleanup may leave of it: a checkpoint, and what is not older."""

    table: str
    checkpoint: int | None = None
    """None: the table is whole."""
    with_commit: bool = True
    """Whether the commit of the checkpoint's own version is there."""

    @property
    def first(self) -> int:
        """The version that it begins with."""
        return self.checkpoint or 0

    @property
    def name(self) -> str:
        """A name for tests and tables."""
        kept = "" if self.with_commit else "_alone"
        return self.table if self.checkpoint is None else f"{self.table}_from_{self.checkpoint}{kept}"


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Logs of one release of Delta Lake on Spark, in one folder: their bytes are what we write."""

    lines: int
    """How many there are in commits and in V2 checkpoints of JSON."""
    hashed: int | None = None
    """How many maps and sets of more than four entries there are; None for Scala 2.12, which has another order."""
    checksums: int
    pointers: Mapping[Trust, int]
    differing: Mapping[str, int] = field(default_factory=dict)
    """How many checksums of which tables do not come out byte for byte, though they have the same content."""
    unchecked: Mapping[str, int] = field(default_factory=dict)
    """How many commits of which tables have no checksum, neither theirs nor ours: RESTORE."""
    is_current: bool = False
    """Whether it is of the release whose every artefact is reproduced."""


@dataclass(frozen=True, kw_only=True)
class Floors:
    """How much there is at least, where a count tells more than a list."""

    classic: int
    """Checkpoints in one file, of the tables that are read."""
    current: int
    """Those of the current release."""
    sidecars: int
    pointers_with_schema: int
    with_checkpoint: int
    with_tombstones: int
    typed: int
    rewritten: int
    """Checkpoints of the current release without INT96."""
    shortened: int
    """Logs that begin with a checkpoint."""
    schemas: int
    commits: int


@dataclass(frozen=True, kw_only=True)
class ReferenceSet:
    """Where the logs are, and what the tests have to find there. Tables go by their folder below the root."""

    root: Path
    folders: tuple[str, ...]
    """Where below the root tables are."""
    collections: Mapping[str, Collection]
    """The logs of Delta Lake on Spark."""
    num_logs: int
    num_importable: int
    without_metadata: frozenset[str]
    without_protocol: frozenset[str]
    refusals: Mapping[str, Refusal]
    """Which tables are not imported, and why."""
    refused_logs: Mapping[str, str]
    """Which logs are refused when they are read, and how that is said."""
    refused_commits: Mapping[str, frozenset[str]]
    """By the rule, which logs are refused when they are committed verbatim."""
    findings: Mapping[str, frozenset[str]]
    """By the table, the rules that it breaks: its maker meant it to, or it uses what not every reader knows."""
    no_table_to_spark: frozenset[str]
    """What Spark does not read."""
    retyped: frozenset[str] = frozenset()
    """Tables whose typed statistics are of other columns, types or zones than the texts, which are older."""
    emptied_pointers: frozenset[str] = frozenset()
    sources: tuple[Source, ...]
    """Histories of all kinds, which go into every engine."""
    respelled: str
    """A table whose commits are spelled otherwise for a test."""
    row_ids: Mapping[str, int]
    """How many commits of which tables assign row ids."""
    protocols: tuple[str, ...]
    """Tables whose protocols are as one CREATE TABLE, and what followed, made them."""
    spark_opens: tuple[str, ...] | None = None
    """The tables that Spark opens in tests; None: all that are imported."""
    by_file_system: frozenset[str] = frozenset()
    """Tables whose state depends on the file system that a reader takes for a path without a scheme."""
    unchecked: Mapping[str, tuple[int, tuple[int, ...]]]
    """By the table of the current release, a version after which a checksum cannot go on, and those that it meets."""
    continued: int
    """How many checksums of the current release follow a checksum."""
    large: int = 11
    """How many lines the largest commit has at least."""
    is_large: bool = False
    """Whether time is taken for every way of looking at each table."""
    floors: Floors

    @cached_property
    def logs(self) -> list[Path]:
        """Every folder of a log."""
        return sorted(log for folder in self.folders for log in (self.root / folder).rglob("_delta_log"))

    @cached_property
    def tables(self) -> list[str]:
        """Every table, and what looks like one to its maker."""
        folders = (path for folder in self.folders for path in sorted((self.root / folder).glob("*")) if path.is_dir())
        without = [path for path in folders if not any(path in log.parents for log in self.logs)]
        return [*map(self.name_of, self.logs), *(path.relative_to(self.root).as_posix() for path in without)]

    @cached_property
    def importable(self) -> list[str]:
        """Every table that is imported, and whose log is read from any of its files."""
        return [name for name in self.tables if name not in self.refused_logs]

    @cached_property
    def of_spark(self) -> list[Path]:
        """The logs of Delta Lake on Spark, but those that are refused."""
        return [
            log for name in self.collections for log in self.logs_in(name) if self.name_of(log) not in self.refused_logs
        ]

    @property
    def current(self) -> str:
        """The collection of the current release."""
        [name] = [name for name, each in self.collections.items() if each.is_current]
        return name

    def logs_in(self, collection: str) -> list[Path]:
        """The logs below a folder."""
        return sorted((self.root / collection).rglob("_delta_log"))

    def name_of(self, log: Path) -> str:
        """The table's folder below the root."""
        return log.parent.relative_to(self.root).as_posix()

    def is_current(self, path: Path) -> bool:
        """Whether it belongs to the current release."""
        return path.is_relative_to(self.root / self.current)

    def pointer_counts(self, collection: str) -> Counter[Trust]:
        """How many pointers are to be trusted how far."""
        return Counter(dict(self.collections[collection].pointers))
