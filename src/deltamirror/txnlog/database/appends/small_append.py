"""A small append: what a database needs to commit some new files of one table by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

MOST_FILES: Final = 500
"""Of an append, and of a group of them: others wait for it."""

Answer: TypeAlias = tuple[int, int] | None
"""Version and time of what was committed; None where the general path has to decide, and nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallAppend:
    """Some new files for one table, checked against its rules as they were at these versions."""

    table_id: int
    commit_id: int
    metadata_version: int
    protocol_version: int
    lineage: int
    at_version: int | None
    """The version that it has to become."""
    timestamped: bool
    """Whether the commit states its time as an in-commit timestamp."""
    rest: bytes
    """The bytes of the commit after its opening, which depends on the time."""
    txn_id: str
    operation: str | None
    read_version: int
    files: Sequence[tuple[Any, ...]]
    """Rows of ``dl_files``."""
    name: str
    """The name of the table as JSON."""
    token: str | None = None
    adopted: str | None = None
    """The token that its transaction has if it came back from a log."""
    content: bytes | None = None

    @property
    def num_lines(self) -> int:
        """The lines of the commit: commitInfo, and one for each file."""
        return 1 + len(self.files)

    def opening(self, time: int) -> bytes:
        """What comes before the rest."""
        return opening_of(time, timestamped=self.timestamped)


def opening_of(time: int, *, timestamped: bool) -> bytes:
    """How a commit of ours begins that has a time."""
    stated = b'"inCommitTimestamp":%d,' % time if timestamped else b""
    return b'{"commitInfo":{%b"timestamp":%d' % (stated, time)
