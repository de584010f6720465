"""Attempts to publish a checkpoint of a short story, and the state that a store then holds."""

import json
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest

from deltamirror.delta.lastcheckpoint import LastCheckpoint, Trust, decode
from deltamirror.deltalog.checkpoint import content
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointOutcome, CheckpointUnit, Guard
from tests.support.logs.checkpoint_tables import rows, state_of_table, table_of
from tests.support.logs.checkpoints import (
    COMMITTED_AT,
    STORY,
    carried,
    commit,
    file,
    first_commit,
    no_guard,
    objects,
    unit_of,
)

CLASSIC = [first_commit(), *STORY]
V2 = [first_commit(v2=True), *STORY]
KINDS = pytest.mark.parametrize("commits", [CLASSIC, V2], ids=["classic", "v2"])
LATER = [commit(file("fourth")), commit(file("fifth", day="2"))]


def unit(commits: list[bytes], **fields: Any) -> CheckpointUnit:
    """Small sidecars, so that there are several."""
    return unit_of(commits, sidecar_actions=3, **fields)


def attempt(wanted: CheckpointUnit, store: Store, *, guard: Guard = no_guard) -> CheckpointOutcome:
    """What becomes of a unit, be it a failure."""
    return publish_checkpoint(wanted, store, fetch=carried, guard=guard)


def replayed(commits: list[bytes], *, without: int = 0) -> CheckpointState:
    """The state that a replay of all commits but the last ones gives."""
    kept = commits[: len(commits) - without]
    version = len(commits) - 1
    return content.replay(
        [[data] for data in kept], version=version, committed_at=COMMITTED_AT + version * 1_000, base=None
    )


def stored(store: Store, outcome: CheckpointOutcome) -> CheckpointState:
    """What the checkpoint in the store says, with all of its files."""
    top = objects(store)[f"_delta_log/{outcome.name}"]
    assert sha256(top).digest() == outcome.digest
    if not outcome.name.endswith(".json"):
        return state_of_table(table_of(top), version=outcome.version)
    actions = [line for line in top.splitlines() if not line.startswith((b'{"checkpointMetadata"', b'{"sidecar"'))]
    others = [b"\n".join(actions) + b"\n"]
    at = COMMITTED_AT + outcome.version * 1_000
    bare = rows(content.replay([others], version=outcome.version, committed_at=at, base=None))
    paths = [json.loads(line)["sidecar"]["path"] for line in top.splitlines() if line.startswith(b'{"sidecar"')]
    sidecars = [table_of(objects(store)[f"_delta_log/_sidecars/{path}"]) for path in paths]
    return state_of_table(pa.concat_tables([bare, *sidecars], promote_options="permissive"), version=outcome.version)


def pointer_of(store: Store) -> LastCheckpoint:
    """The pointer in the store, which has to be whole."""
    reading = decode(objects(store)[POINTER_KEY])
    assert reading.trust is Trust.VERIFIED
    assert reading.pointer is not None
    return reading.pointer
