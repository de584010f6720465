"""When a checkpoint is due: a pure function of what was published."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Cadence", "Due", "due_checkpoint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """The rules of a table."""

    interval: int
    bytes: int | None = None
    remark: str = ""
    """Why the interval is not the one that the table asks for."""


@dataclass(frozen=True, slots=True)
class Due:
    """A checkpoint to write, and why."""

    version: int
    reason: str


def due_checkpoint(
    cadence: Cadence, published: Sequence[tuple[int, int]], *, head: int, bytes_before: int = 0
) -> Due | None:
    """The checkpoint that versions which were published, each with its bytes, make due.

    ``bytes_before`` is how many bytes the versions before them have, back to the last checkpoint. Of several that are
    due, up to the table's ``head``, only the newest is written: the others would be superseded before anybody read
    them.
    """
    if not published or head - head % cadence.interval > published[-1][0]:
        return None
    due, waiting, is_last = None, bytes_before, published[-1][0] == head
    for version, num_bytes in published:
        waiting += num_bytes
        if version == 0:
            continue  # a checkpoint of the first version would hold what its one commit holds
        if version % cadence.interval == 0:
            due, waiting = Due(version, _reason(cadence)), 0
        elif is_last and cadence.bytes is not None and waiting >= cadence.bytes:
            due, waiting = Due(version, f"{waiting:,} bytes of commits, of {cadence.bytes:,}"), 0
    return due


def _reason(cadence: Cadence) -> str:
    interval = f"interval of {cadence.interval} versions"
    return f"{interval}, since {cadence.remark}" if cadence.remark else interval
