"""The steps at which a process can be struck: every transaction and every write to a store that changes what is there.

``with Step.PUT_COMMIT:`` marks the act itself, and nothing around it. An observer is told of each step before it takes
place, and after it took place, before the caller knows: these are the points of the failure model, by name. Without an
observer, which is how every process runs but those of crash tests, a step costs the look at an empty list.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, Self, TypeAlias


class Moment(StrEnum):
    """On which side of a step a process is."""

    BEFORE = "before"
    AFTER = "after"


class Step(StrEnum):
    """The registry: the name of each step, and what takes place there."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """A text, with its meaning beside it."""
        step = str.__new__(cls, name)
        step._value_ = name
        step.meaning = meaning
        return step

    SWEEP_STAGES = "commit.sweep-stages", "delete abandoned stages"
    BEGIN_STAGE = "commit.begin-stage", "begin a stage"
    STORE_LINES = "commit.store-lines", "store lines in a stage"
    END_FILES = "commit.end-files", "record the files that a stage ends"
    CATCH_UP = "commit.catch-up", "record the files of winning commits that a stage ends"
    MOVE_ROW_IDS = "commit.move-row-ids", "give the lines of a stage the row ids of another version"
    DISCARD_STAGE = "commit.discard-stage", "delete a stage whose commit failed"
    RATIFY = "commit.ratify", "ratify a commit"
    APPEND = "commit.append", "commit small appends of one or more threads"
    FIND_COMMIT = "commit.find", "wait for a commit whose reply was lost"

    PUT_ROWS = "rows.put-file", "put a data file"
    DELETE_ROWS = "rows.delete-files", "delete the data files of a transaction that failed"
    DELETE_UNREFERENCED = "vacuum.delete-files", "delete data files that no retained version names"

    RETRY_NOW = "publish.retry-now", "make failures due"
    END_PAUSES = "publish.end-pauses", "let the circuits of stores be probed"
    CLAIM_COMMITS = "publish.claim", "claim a table"
    PROBE_CREATE = "publish.probe-create", "probe a store with a conditional create"
    PROBE_REPLACE = "publish.probe-replace", "probe a store with a conditional replace"
    PROBE_DELETE = "publish.probe-delete", "delete a probe"
    PUT_COMMIT = "publish.put-commit", "put a commit"
    PUT_CHECKSUM = "publish.put-checksum", "put a version checksum"
    RECORD_COMMITS = "publish.record", "record commits"

    CLAIM_CHECKPOINT = "checkpoint.claim", "claim a checkpoint"
    PUT_CHECKPOINT = "checkpoint.put", "put a checkpoint"
    PUT_SIDECAR = "checkpoint.put-sidecar", "put a sidecar"
    PUT_MANIFEST = "checkpoint.put-manifest", "put the file that names the sidecars"
    MOVE_POINTER = "checkpoint.move-pointer", "move the pointer"
    RECORD_CHECKPOINT = "checkpoint.record", "record a checkpoint"

    TAKE_TURN = "reconcile.take-turn", "take the lease of a comparison or cleaning"
    TAKE_COMMITS_BACK = "reconcile.take-commits-back", "record commits as lost"
    TAKE_CHECKPOINT_BACK = "reconcile.take-checkpoint-back", "record a checkpoint as lost"
    TAKE_CHECKPOINTS = "reconcile.take-checkpoints", "take the lease of a table's checkpoints"
    COPY_ASIDE = "reconcile.copy-aside", "copy a misleading object to where no reader looks"
    REMOVE_MISLEADING = "reconcile.remove-misleading", "delete a misleading object"
    QUARANTINE = "reconcile.quarantine", "quarantine a table"
    LIFT_QUARANTINE = "reconcile.lift-quarantine", "lift the quarantine of a table"
    RETRY_FOUND = "reconcile.retry-now", "make the failures of a table due"
    END_TURN = "reconcile.end-turn", "record a comparison, and give its lease back"

    SAVE_ALTERED = "repair.save-altered", "save the bytes of an altered commit"
    REPLACE_ALTERED = "repair.replace-altered", "put the commit in the place of an altered one"
    DELETE_ALTERED = "repair.delete-altered", "delete an altered commit that has no place"

    TAKE_COMMITS = "adopt.take-commits", "take the lease of a table's commits"
    ADOPT = "adopt.history", "adopt a history"

    RAISE_LOG_START = "clean.raise-log-start", "raise the log start"
    DELETE_EXPIRED = "clean.delete-expired", "delete expired objects"
    RECORD_CLEANING = "clean.record", "record a cleaning"

    RAISE_HISTORY_START = "prune.raise-history-start", "raise the start of a history"
    PRUNE_ROWS = "prune.delete-rows", "delete rows of versions before the start of a history"

    TAKE_MAINTENANCE = "maintenance.take", "take the lease of a table's maintenance"
    RECORD_MAINTENANCE = "maintenance.record", "record maintenance as done, or as failed"

    BEGIN_IMPORT = "import.begin", "begin an import, or take one over"
    STORE_PARTS = "import.store-parts", "store parts of a log"
    KEEP_IMPORT = "import.keep", "stay the owner of an import"
    FORGET_ENDS = "import.forget-ends", "begin to store which files ended"
    STORE_ENDS = "import.store-ends", "store which files ended"
    COMPLETE_IMPORT = "import.complete", "make an imported table known"
    DISCARD_IMPORT = "import.discard", "delete an import that failed"

    RECORD_ALERTS = "alert.record", "record changes of alerts, and order their notifications"
    CLAIM_NOTIFICATIONS = "alert.claim", "claim notifications"
    RECORD_NOTIFICATIONS = "alert.record-sent", "record notifications as sent, or as failed"

    RENEW_LEASES = "lease.renew", "hold leases for longer"
    RELEASE_LEASES = "lease.release", "give leases back"

    WRITE_FILE = "file.write", "write bytes to a temporary file"
    DELETE_FILE = "file.delete", "delete a file"

    WHOLE_OPERATION = "operation", "a transaction that is all of its operation"

    def __enter__(self) -> None:
        for tell in _OBSERVERS:
            tell(Moment.BEFORE, self)

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            for tell in _OBSERVERS:
                tell(Moment.AFTER, self)


Observer: TypeAlias = Callable[[Moment, Step], None]
"""Told of every point that this process comes to, in the thread that comes to it."""

_OBSERVERS: Final[list[Observer]] = []


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Tell the observer of every point of this process for as long as the block lasts."""
    _OBSERVERS.append(observer)
    try:
        yield
    finally:
        _OBSERVERS.remove(observer)
