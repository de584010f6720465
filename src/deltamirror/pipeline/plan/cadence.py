"""When a checkpoint is due, and when it is late: pure functions of what was published."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_INTERVALS_OF_BACKLOG: Final = 5
"""Half of the ten that may lie behind the newest checkpoint: the other half is for the time that writing one takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """The rules of a table."""

    interval: int
    bytes: int | None = None
    remark: str = ""
    """Why the interval is not the one that the table asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The commits that a checkpoint takes in, since the one before it: how many, how large, in which time."""

    commits: int
    bytes: int
    milliseconds: int | None
    """None: the commit before them is gone."""

    def __str__(self) -> str:
        told = f"measured {self.commits:,} commits of {self.bytes:,} bytes"
        return told if self.milliseconds is None else f"{told}, {_rate(self.commits, max(1, self.milliseconds))}"


def _rate(commits: int, milliseconds: int) -> str:
    a_second = commits * 1_000 / milliseconds
    return f"{a_second:,.1f} a second" if a_second >= 1 else f"{a_second * 3_600:,.1f} an hour"


@dataclass(frozen=True, slots=True)
class Due:
    """A checkpoint to write, and why."""

    version: int
    reason: str
    is_late: bool = False
    """Whether so many commits lie behind the newest checkpoint that it has to be written whatever it costs."""


def due_checkpoint(
    cadence: Cadence, published: Sequence[tuple[int, int]], *, head: int, last: int = 0, bytes_before: int = 0
) -> Due | None:
    """The checkpoint that versions which were published, each with its bytes, make due.

    ``last`` is the version of the last checkpoint, or the first of the log; ``bytes_before`` is how many bytes the
    versions between it and these have. Of several that are due, up to the table's ``head``, only the newest is written:
    the others would be superseded before a reader used them. While a mirror does not catch up with its writers that one
    is always still to come, and every fifth is written.
    """
    if not published:
        return None
    newest = published[-1][0]
    if head - head % cadence.interval > newest:
        return _amid_backlog(cadence, newest - newest % cadence.interval, first=published[0][0], last=last)
    due, waiting, is_last = None, bytes_before, newest == head
    for version, num_bytes in published:
        waiting += num_bytes
        if version == 0:
            continue  # a checkpoint of the first version would hold what its one commit holds
        if version % cadence.interval == 0:
            due, waiting, last = Due(version, _reason(cadence)), 0, version
        elif is_last and cadence.bytes is not None and waiting >= cadence.bytes:
            due, waiting, last = Due(version, f"{waiting:,} bytes of commits, of {cadence.bytes:,}"), 0, version
    if is_last and newest - last > cadence.interval:
        return Due(newest, f"{newest - last:,} commits since the last, of {cadence.interval:,}")
    return due


def _amid_backlog(cadence: Cadence, version: int, *, first: int, last: int) -> Due | None:
    is_due = is_late(cadence, version, last=last) and version >= first
    return Due(version, f"{version - last:,} commits since the last") if is_due else None


def is_late(cadence: Cadence, version: int, *, last: int) -> bool:
    """Whether a checkpoint of a version is half as far from the last one as any may be."""
    return version - last >= _INTERVALS_OF_BACKLOG * cadence.interval


def _reason(cadence: Cadence) -> str:
    interval = f"interval of {cadence.interval} versions"
    return f"{interval}, since {cadence.remark}" if cadence.remark else interval
