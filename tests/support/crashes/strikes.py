"""The steps at which the crash matrix strikes a process, before each of them, and after it; and how they are reached.

``docs/failure-model.md`` has a row for each strike. ``tests/unit/test_failure_model.py`` fails if a step of the
registry (``deltamirror.steps``) is neither here nor exempt, and ``tests/fault/test_crash_matrix.py`` fails if a process
comes to a step that has no strike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from deltamirror.steps import Step


class Phase(StrEnum):
    """What a step is part of."""

    COMMIT = "commit"
    PUBLISH = "publish"
    RECORD = "record"
    CHECKPOINT = "checkpoint"
    POINTER = "pointer"
    RECONCILE = "reconcile"
    ADOPT = "adopt"
    CLEAN = "clean"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class Strike:
    """A step, the scene that comes to it, and which of several such steps it is."""

    step: Step
    phase: Phase
    scene: str
    circumstance: str = ""
    """What tells it from other strikes at the same step."""
    turn: int = 1
    stores: tuple[str, ...] = ("disk", "s3")
    """Where there is such a step."""

    @property
    def title(self) -> str:
        """The first cell of its row."""
        return f"`{self.step}`: {self.step.meaning}" + (f" ({self.circumstance})" if self.circumstance else "")

    @property
    def is_commit(self) -> bool:
        """Whether it is the COMMIT of a transaction, and no write to a store."""
        return self.step not in _WRITES


_WRITES: Final = frozenset(
    {
        Step.PROBE_CREATE,
        Step.PROBE_REPLACE,
        Step.PROBE_DELETE,
        Step.PUT_COMMIT,
        Step.PUT_CHECKSUM,
        Step.PUT_CHECKPOINT,
        Step.PUT_SIDECAR,
        Step.PUT_MANIFEST,
        Step.MOVE_POINTER,
        Step.COPY_ASIDE,
        Step.REMOVE_MISLEADING,
        Step.DELETE_EXPIRED,
        Step.WRITE_FILE,
        Step.DELETE_FILE,
    }
)

STRIKES: Final = (
    Strike(Step.SWEEP_STAGES, Phase.COMMIT, "large commit"),
    Strike(Step.BEGIN_STAGE, Phase.COMMIT, "large commit"),
    Strike(Step.STORE_LINES, Phase.COMMIT, "large commit"),
    Strike(Step.END_FILES, Phase.COMMIT, "large commit"),
    Strike(Step.RATIFY, Phase.COMMIT, "large commit", "staged"),
    Strike(Step.RATIFY, Phase.COMMIT, "commit"),
    Strike(Step.APPEND, Phase.COMMIT, "append"),
    Strike(Step.RETRY_NOW, Phase.PUBLISH, "mirror"),
    Strike(Step.END_PAUSES, Phase.PUBLISH, "mirror"),
    Strike(Step.CLAIM_COMMITS, Phase.PUBLISH, "mirror"),
    Strike(Step.PROBE_CREATE, Phase.PUBLISH, "mirror", stores=("s3",)),
    Strike(Step.PROBE_REPLACE, Phase.PUBLISH, "mirror", stores=("s3",)),
    Strike(Step.PROBE_DELETE, Phase.PUBLISH, "mirror", stores=("s3",)),
    Strike(Step.PUT_COMMIT, Phase.PUBLISH, "mirror", turn=2),
    Strike(Step.WRITE_FILE, Phase.PUBLISH, "mirror", "the second half", turn=3, stores=("disk",)),
    Strike(Step.PUT_CHECKSUM, Phase.PUBLISH, "mirror", turn=2),
    Strike(Step.RECORD_COMMITS, Phase.RECORD, "mirror"),
    Strike(Step.CLAIM_CHECKPOINT, Phase.CHECKPOINT, "mirror"),
    Strike(Step.PUT_CHECKPOINT, Phase.CHECKPOINT, "mirror"),
    Strike(Step.PUT_SIDECAR, Phase.CHECKPOINT, "sidecars"),
    Strike(Step.PUT_MANIFEST, Phase.CHECKPOINT, "sidecars"),
    Strike(Step.MOVE_POINTER, Phase.POINTER, "first checkpoint", "to the first checkpoint"),
    Strike(Step.MOVE_POINTER, Phase.POINTER, "mirror"),
    Strike(Step.RECORD_CHECKPOINT, Phase.RECORD, "mirror"),
    Strike(Step.TAKE_TURN, Phase.RECONCILE, "reconcile"),
    Strike(Step.TAKE_COMMITS_BACK, Phase.RECONCILE, "reconcile"),
    Strike(Step.TAKE_CHECKPOINT_BACK, Phase.RECONCILE, "reconcile"),
    Strike(Step.PUT_COMMIT, Phase.RECONCILE, "reconcile", "lost before"),
    Strike(Step.PUT_CHECKSUM, Phase.RECONCILE, "reconcile", "lost before", turn=2),
    Strike(Step.TAKE_CHECKPOINTS, Phase.RECONCILE, "misleading"),
    Strike(Step.COPY_ASIDE, Phase.RECONCILE, "misleading"),
    Strike(Step.REMOVE_MISLEADING, Phase.RECONCILE, "misleading"),
    Strike(Step.QUARANTINE, Phase.RECONCILE, "altered"),
    Strike(Step.END_TURN, Phase.RECONCILE, "reconcile"),
    Strike(Step.TAKE_COMMITS, Phase.ADOPT, "adopt"),
    Strike(Step.ADOPT, Phase.ADOPT, "adopt"),
    Strike(Step.RELEASE_LEASES, Phase.ADOPT, "adopt", "of an adoption"),
    Strike(Step.RAISE_LOG_START, Phase.CLEAN, "clean"),
    Strike(Step.DELETE_EXPIRED, Phase.CLEAN, "clean"),
    Strike(Step.DELETE_FILE, Phase.CLEAN, "clean", turn=3, stores=("disk",)),
    Strike(Step.RECORD_CLEANING, Phase.CLEAN, "clean"),
    Strike(Step.RECORD_ALERTS, Phase.ALERT, "alert", stores=("disk",)),
    Strike(Step.CLAIM_NOTIFICATIONS, Phase.ALERT, "alert", stores=("disk",)),
    Strike(Step.RECORD_NOTIFICATIONS, Phase.ALERT, "alert", stores=("disk",)),
)

BY_THE_CLOCK: Final[Mapping[Step, str]] = {
    Step.RENEW_LEASES: "a heartbeat: only the time of a lease that ends by itself changes",
}
"""Steps that a scene may come to and is not struck at, and why."""

_IMPORTS: Final = "tests/fault/test_import_kill.py strikes before every statement, before COMMIT and after it"
_REPAIR: Final = "the operator runs `repair` again: tests/contract/test_repair.py"
_OVERTAKEN: Final = "a stage that is overtaken by winning commits; if it dies it is swept, as at commit.store-lines"

_ROWS: Final = "a data file that no version names is read by nobody: tests/contract/test_rows.py"

_VACUUM: Final = "each of these files could go; the next vacuum deletes the others: tests/contract/test_vacuum.py"

_PRUNING: Final = "the next pruning finishes it: tests/contract/test_pruning.py dies before and after each of its steps"
_MAINTENANCE: Final = "the lease ends, and the next service measures again: tests/contract/test_service_maintenance.py"

ELSEWHERE: Final[Mapping[Step, str]] = {
    Step.RAISE_HISTORY_START: _PRUNING,
    Step.PRUNE_ROWS: _PRUNING,
    Step.CATCH_UP: _OVERTAKEN,
    Step.MOVE_ROW_IDS: _OVERTAKEN,
    Step.DISCARD_STAGE: "a commit failed before; what is left of its stage is swept: tests/fault/test_commit_kill.py",
    Step.FIND_COMMIT: "a lock and a question: nothing is written",
    Step.PUT_ROWS: _ROWS,
    Step.DELETE_ROWS: _ROWS,
    Step.DELETE_UNREFERENCED: _VACUUM,
    Step.TAKE_MAINTENANCE: _MAINTENANCE,
    Step.RECORD_MAINTENANCE: _MAINTENANCE,
    Step.LIFT_QUARANTINE: _REPAIR,
    Step.RETRY_FOUND: _REPAIR,
    Step.SAVE_ALTERED: _REPAIR,
    Step.REPLACE_ALTERED: _REPAIR,
    Step.DELETE_ALTERED: _REPAIR,
    Step.BEGIN_IMPORT: _IMPORTS,
    Step.STORE_PARTS: _IMPORTS,
    Step.FORGET_ENDS: _IMPORTS,
    Step.STORE_ENDS: _IMPORTS,
    Step.COMPLETE_IMPORT: _IMPORTS,
    Step.KEEP_IMPORT: "a heartbeat: only the time at which an import may be taken over changes",
    Step.DISCARD_IMPORT: "an import failed before; the next one takes over what is left: tests/contract/test_import.py",
    Step.WHOLE_OPERATION: "a transaction is in the database as a whole, or not at all",
}
"""Steps that no scene may come to, and what covers them."""
