"""The steps at which the crash matrix kills a process: before each of them, and after it.

The one list of them. ``docs/failure-model.md`` has a row for each, and ``tests/fault/test_crash_matrix.py`` fails if a
process writes anything, to the database or to a store, that is none of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["BY_THE_CLOCK", "STEPS", "Phase", "Step"]


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


@dataclass(frozen=True, slots=True)
class Step:
    """A step, and how it is reached: the scene that comes to it, the event, and which of several such events it is."""

    name: str
    phase: Phase
    scene: str
    event: str
    turn: int = 1
    stores: tuple[str, ...] = ("disk", "s3")
    """Where there is such a step."""


STEPS: Final = (
    Step("sweep old stages", Phase.COMMIT, "large commit", "COMMIT txnlog.staging.sweep_stages"),
    Step("begin a stage", Phase.COMMIT, "large commit", "COMMIT txnlog.staging.Stage.fill"),
    Step("store lines in a stage", Phase.COMMIT, "large commit", "COMMIT txnlog.staging.Stage._write"),
    Step("find the files that a stage ends", Phase.COMMIT, "large commit", "COMMIT txnlog.staging.Stage._resolve"),
    Step("ratify a staged commit", Phase.COMMIT, "large commit", "COMMIT txnlog.commit._Run._ratify_locked"),
    Step("ratify a commit", Phase.COMMIT, "commit", "COMMIT txnlog.commit._Run._ratify_locked"),
    Step("append in one statement", Phase.COMMIT, "append", "COMMIT txnlog.commit._Run._append"),
    Step("make failures due", Phase.PUBLISH, "mirror", "COMMIT txnlog.backlog.make_due"),
    Step("end pauses of stores", Phase.PUBLISH, "mirror", "COMMIT txnlog.breakers.end_pauses"),
    Step("claim a table", Phase.PUBLISH, "mirror", "COMMIT txnlog.leases._claimed commits"),
    Step("probe a store", Phase.PUBLISH, "mirror", "create .deltamirror-probe.*.tmp", stores=("s3",)),
    Step("probe it twice", Phase.PUBLISH, "mirror", "replace .deltamirror-probe.*.tmp", stores=("s3",)),
    Step("delete a probe", Phase.PUBLISH, "mirror", "delete .deltamirror-probe.*.tmp", stores=("s3",)),
    Step("put a commit", Phase.PUBLISH, "mirror", "create N.json", turn=2),
    Step("write a file", Phase.PUBLISH, "mirror", "write the rest of a file", turn=3, stores=("disk",)),
    Step("put a checksum", Phase.PUBLISH, "mirror", "create N.crc", turn=2),
    Step("record commits", Phase.RECORD, "mirror", "COMMIT txnlog.outcomes.record_commits"),
    Step("claim a checkpoint", Phase.CHECKPOINT, "mirror", "COMMIT txnlog.leases._claimed checkpoints"),
    Step("put a checkpoint", Phase.CHECKPOINT, "mirror", "create N.checkpoint.parquet"),
    Step("put a sidecar", Phase.CHECKPOINT, "sidecars", "create _sidecars/N.checkpoint.N.N.*.parquet"),
    Step("put what names the sidecars", Phase.CHECKPOINT, "sidecars", "create N.checkpoint.*.json"),
    Step("put the pointer", Phase.POINTER, "first checkpoint", "replace _last_checkpoint"),
    Step("move the pointer", Phase.POINTER, "mirror", "replace _last_checkpoint"),
    Step("record a checkpoint", Phase.RECORD, "mirror", "COMMIT txnlog.outcomes.record_checkpoint"),
    Step("take a turn", Phase.RECONCILE, "reconcile", "COMMIT txnlog.leases.take reconciliation"),
    Step("take commits back", Phase.RECONCILE, "reconcile", "COMMIT txnlog.findings.Turn.take_back"),
    Step("take a checkpoint back", Phase.RECONCILE, "reconcile", "COMMIT txnlog.findings.Turn.take_checkpoint_back"),
    Step("put a lost commit", Phase.RECONCILE, "reconcile", "create N.json"),
    Step("put a lost checksum", Phase.RECONCILE, "reconcile", "create N.crc", turn=2),
    Step("keep what misleads", Phase.RECONCILE, "misleading", "copy _deltamirror/_last_checkpoint*"),
    Step("take it from readers", Phase.RECONCILE, "misleading", "delete _last_checkpoint"),
    Step("stop a table", Phase.RECONCILE, "altered", "COMMIT txnlog.findings.Turn.stop"),
    Step("end a turn", Phase.RECONCILE, "reconcile", "COMMIT txnlog.findings.Turn.end"),
    Step("give a turn back", Phase.RECONCILE, "reconcile", "COMMIT txnlog.leases.release"),
    Step("keep others from publishing", Phase.ADOPT, "adopt", "COMMIT txnlog.leases.take commits"),
    Step("adopt a history", Phase.ADOPT, "adopt", "COMMIT txnlog.adoption.adopt_history"),
    Step("let others publish", Phase.ADOPT, "adopt", "COMMIT txnlog.leases.release"),
    Step("raise the log start", Phase.CLEAN, "clean", "COMMIT txnlog.cleanups.CleaningTurn.begin"),
    Step("delete objects", Phase.CLEAN, "clean", "delete N.json"),
    Step("delete a file", Phase.CLEAN, "clean", "delete a file", turn=3, stores=("disk",)),
    Step("record a cleaning", Phase.CLEAN, "clean", "COMMIT txnlog.cleanups.CleaningTurn.end"),
)

BY_THE_CLOCK: Final[Mapping[str, str]] = {
    "COMMIT txnlog.leases.renew": "a heartbeat: only the time of a lease that ends by itself changes",
}
"""Events that no act comes to by itself, and why they are no steps."""
