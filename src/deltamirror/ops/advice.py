"""What an operator does about each class of failure that keeps the mirror from publishing."""

from collections.abc import Mapping
from typing import Final

from deltamirror.errors import NotFound, PermissionDenied, Unavailable
from deltamirror.pipeline.failures.policy import policy_of, way_out
from deltamirror.storage.location import local_path
from deltamirror.txnlog.queue.status import LastError, TableStatus
from deltamirror.work import Stage

_ON_DISK: Final[Mapping[str, str]] = {
    Unavailable.code: "nothing, if the disk comes back: the mirror tries again by itself; check the disk and its "
    "mount; `deltamirror mirror --once` tries at once",
    PermissionDenied.code: "correct the rights of the table's folder, or mount the disk for writing; "
    "`deltamirror mirror --once` then tries at once",
    NotFound.code: "bring back the folder that the table lies in, or drop the table and create it at the right "
    "location; `deltamirror mirror --once` tries at once",
}
"""Where there is neither an endpoint nor a bucket nor a key."""

_LOST: Final = "nothing: it is written again by itself; `deltamirror reconcile` does so at once"


def remedy(code: str, *, stage: str | None, location: str) -> str:
    """What to do about a failure of this class, at this stage, of a table at this location."""
    if code == NotFound.code and stage == Stage.VERIFY:
        return _LOST
    on_disk = _ON_DISK.get(code) if local_path(location) is not None else None
    return on_disk or policy_of(code).remedy


def advice(table: TableStatus, code: str, *, stage: str | None) -> str:
    """What to do about a failure of a table; in quarantine only what ends that gets it any further."""
    if table.quarantined_at is not None:
        return way_out(table)
    return remedy(code, stage=stage, location=table.location)


def errors_of(table: TableStatus) -> list[LastError]:
    """What fails of a table: its next version, its newest checkpoint."""
    return [error for error in (table.error, table.checkpoint_error) if error is not None]


def remedy_of(table: TableStatus, error: LastError) -> str:
    """What to do about one of them."""
    return advice(table, error.code, stage=error.stage)


def guide(code: str) -> str:
    """Where the guides say more about it."""
    return f"docs/guides/{policy_of(code).guide}"
