"""Names of the files in ``_delta_log/``, parsed once into ordered values.

Values sort by version, and within a version as a listing does: compactions, checkpoints, the checksum, the commit.
Every writer spells versions with 20 digits, and parts with 10. Delta Lake on Spark reads any number of digits: its
listing from version 5 on has ``6.json``, which is version 6 to it. Such a name is ``Misspelt``: no file of the log, and
yet one for a reader.
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import total_ordering
from typing import Literal, TypeAlias

from deltamirror.delta.actions import Version

LOG_DIRECTORY = "_delta_log"
SIDECARS = f"{LOG_DIRECTORY}/_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"

CheckpointFormat: TypeAlias = Literal["json", "parquet"]

_LARGEST_VERSION = 2**63 - 1
_MOST_PARTS = 2**31 - 1
_NAME = re.compile(
    r"(?P<version>[0-9]{20})\."
    r"(?:(?P<commit>json)"
    r"|(?P<checksum>crc)"
    r"|(?P<end>[0-9]{20})\.compacted\.json"
    r"|(?P<checkpoint>checkpoint\.parquet)"
    r"|checkpoint\.(?P<part>[0-9]{10})\.(?P<parts>[0-9]{10})\.parquet"
    r"|checkpoint\.(?P<unique>[^./]+)\.(?P<format>json|parquet))"
)
_NAME_FOR_SPARK = re.compile(
    r"([0-9]+)"
    r"(?:\.json"
    r"|\.crc"
    r"|[^/][0-9]+[^/]compacted[^/]json"
    r"|\.checkpoint(?:\.[0-9]+\.[0-9]+)?\.parquet"
    r"|\.checkpoint\.[^./]+\.(?:json|parquet))"
)
"""The patterns of Delta Lake on Spark in one. Where it has dots in those of compactions, any character may be."""

_SIDECAR = re.compile(r"([0-9]{20,})\.checkpoint\..+")


@total_ordering
@dataclass(frozen=True, slots=True)
class LogFile(ABC):
    """A file of the log that belongs to a version."""

    version: Version

    @property
    def name(self) -> str:
        """The name within ``_delta_log/``."""
        return listing_prefix(self.version) + self._suffix()

    @abstractmethod
    def _suffix(self) -> str: ...

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, LogFile):
            return NotImplemented
        return (self.version, self.name) < (other.version, other.name)


@dataclass(frozen=True, slots=True)
class Commit(LogFile):
    """The actions of one version."""

    def _suffix(self) -> str:
        return "json"


@dataclass(frozen=True, slots=True)
class ChecksumFile(LogFile):
    """The summary of the table's state at a version."""

    def _suffix(self) -> str:
        return "crc"


@dataclass(frozen=True, slots=True)
class Checkpoint(LogFile):
    """A checkpoint in one file of the classic name."""

    def _suffix(self) -> str:
        return "checkpoint.parquet"


@dataclass(frozen=True, slots=True)
class CheckpointPart(LogFile):
    """One of several files of a checkpoint; parts count from 1."""

    part: int
    parts: int

    def _suffix(self) -> str:
        return f"checkpoint.{self.part:010d}.{self.parts:010d}.parquet"


@dataclass(frozen=True, slots=True)
class UuidCheckpoint(LogFile):
    """The top-level file of a V2 checkpoint."""

    unique: str
    format: CheckpointFormat

    def _suffix(self) -> str:
        return f"checkpoint.{self.unique}.{self.format}"


CHECKPOINTS = (Checkpoint, CheckpointPart, UuidCheckpoint)
"""The files that a checkpoint may have in ``_delta_log/`` itself."""


@dataclass(frozen=True, slots=True)
class Compaction(LogFile):
    """The commits from ``version`` to ``end`` in one file."""

    end: Version

    def _suffix(self) -> str:
        return f"{self.end:020d}.compacted.json"


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A name that Delta Lake on Spark takes for a log file, and that no writer gives to one."""

    number: int
    """The number that it begins with."""


def parse(name: str) -> LogFile | Misspelt | None:
    """The log file of a bare name; ``None`` for every other: temporary and hidden files, sidecars, staged commits.

    >>> parse("00000000000000000007.json")
    Commit(version=7)
    >>> parse("7.json")
    Misspelt(number=7)
    """
    found = _NAME.fullmatch(name)
    file = None if found is None or int(found["version"]) > _LARGEST_VERSION else _parse_spelt(found)
    if file is None and (odd := _NAME_FOR_SPARK.fullmatch(name)):
        return Misspelt(int(odd[1]))
    return file


def is_log_name(name: str) -> bool:
    """Whether a reader takes a name in ``_delta_log/`` for a file of the log, or for the pointer."""
    return name == LAST_CHECKPOINT or parse(name) is not None


def _parse_spelt(found: re.Match[str]) -> LogFile | None:
    version = Version(int(found["version"]))
    if found["commit"]:
        return Commit(version)
    if found["checksum"]:
        return ChecksumFile(version)
    if found["checkpoint"]:
        return Checkpoint(version)
    return _parse_numbered(version, found)


def _parse_numbered(version: Version, found: re.Match[str]) -> LogFile | None:
    if found["end"]:
        end = Version(int(found["end"]))
        return Compaction(version, end) if version < end <= _LARGEST_VERSION else None
    if found["part"]:
        part, parts = int(found["part"]), int(found["parts"])
        return CheckpointPart(version, part, parts) if 1 <= part <= parts <= _MOST_PARTS else None
    return UuidCheckpoint(version, found["unique"], "json" if found["format"] == "json" else "parquet")


def commit_name(version: int) -> str:
    """The name of a commit: ``00000000000000000007.json``."""
    return Commit(Version(version)).name


def commit_key(version: int) -> str:
    """The key of a commit in the store of its table."""
    return f"{LOG_DIRECTORY}/{commit_name(version)}"


def checksum_name(version: int) -> str:
    """The name of a version checksum."""
    return ChecksumFile(Version(version)).name


def checkpoint_name(version: int) -> str:
    """The classic name of a checkpoint in one file."""
    return Checkpoint(Version(version)).name


def sidecar_name(version: int, unique: str, *, part: int, parts: int) -> str:
    """The name of a sidecar, as Delta Lake on Spark has it; readers want it to be unique, and no more."""
    return f"{listing_prefix(version)}checkpoint.{part:010d}.{parts:010d}.{unique}.parquet"


def sidecar_version(name: str) -> int | None:
    """The version of the checkpoint that a sidecar was written for; None where its name does not tell."""
    found = _SIDECAR.fullmatch(name)
    return None if found is None else int(found[1])


def listing_prefix(version: int) -> str:
    """Where a listing from ``version`` starts: behind every name of an earlier version."""
    return f"{version:020d}."
