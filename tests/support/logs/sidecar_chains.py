"""Checkpoints with sidecars that follow on one another, in sidecars so small that a few dozen files have many."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import Action, CheckpointMetadata, Sidecar
from deltamirror.delta.lines import decode_commit
from deltamirror.deltalog.checkpoint import parquet
from deltamirror.publish.checkpoint import grouping, unchanged
from deltamirror.publish.checkpoint.companions import damaged_sidecars
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import CheckpointBase, CheckpointOutcome, CheckpointUnit
from tests.support.logs.checkpoint_attempts import attempt
from tests.support.logs.checkpoint_chains import Life, rows_of
from tests.support.logs.checkpoints import base_of, objects, publish, put_commits, unit_of

MOST_ACTIONS = 8
FEWEST_ACTIONS = 2
"""Fewer are written anew each time."""
_MOST_COVERING = 3
_ROWS_OF_GROUP = 5


@contextmanager
def small_sidecars() -> Iterator[None]:
    """Those of 8 actions have two row groups, and few may overlap."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "FEWEST_ROWS", _ROWS_OF_GROUP)
        patch.setattr(unchanged, "_MOST_COVERING", _MOST_COVERING)
        yield


@dataclass(frozen=True)
class V2Files:
    """A checkpoint with sidecars, as it lies in a store."""

    head: CheckpointMetadata
    others: list[Action]
    sidecars: dict[str, bytes]
    """By name, in the order in which it names them."""

    @classmethod
    def of(cls, store: Store, outcome: CheckpointOutcome) -> "V2Files":
        """The sidecars have to be those that the file names, to the byte."""
        key, found = f"_delta_log/{outcome.name}", objects(store)
        assert damaged_sidecars(store, key, outcome.version, whole=True) == []
        head, *actions = decode_commit(found[key], source=key)
        assert isinstance(head, CheckpointMetadata)
        named = [each for each in actions if isinstance(each, Sidecar)]
        sidecars = {each.path: found[f"_delta_log/_sidecars/{each.path}"] for each in named}
        assert [each.size_in_bytes for each in named] == [len(data) for data in sidecars.values()]
        return cls(head, [each for each in actions if not isinstance(each, Sidecar)], sidecars)

    @property
    def rows(self) -> list[str]:
        """Those of all sidecars, in some order."""
        return sorted(row for data in self.sidecars.values() for row in rows_of(data))


class SidecarChain:
    """The checkpoints of a table in one store, each from the one before; beside it those from all lines."""

    def __init__(self) -> None:
        self.store, self.beside = (store_at(f"memory://{uuid4()}/t", StorageSettings()) for _ in range(2))
        self.base: CheckpointBase | None = None
        self.last: V2Files | None = None
        self.again: list[str] = []
        """The sidecars that the last checkpoint shares with the one before."""

    def unit(self, life: Life, **options: Any) -> CheckpointUnit:
        """The next checkpoint."""
        small = {"sidecar_actions": MOST_ACTIONS, "row_group_bytes": 1}
        return unit_of(life.commits, **{"base": self.base, "num_files": len(life.live), **small, **options})

    def next(self, life: Life, **options: Any) -> tuple[V2Files, V2Files]:
        """The checkpoint of the last commit in both ways."""
        for store in (self.store, self.beside):
            put_commits(store, life.commits)
        with small_sidecars():
            outcome = attempt(self.unit(life, **options), self.store)
            if outcome.base_unusable:
                outcome = publish(self.unit(life, **{**options, "base": None}), self.store)
        assert outcome.failure is None, outcome.failure
        self.base = base_of(outcome)
        whole = publish(unit_of(life.commits, num_files=len(life.live)), self.beside)
        assert outcome.num_files == whole.num_files
        found = V2Files.of(self.store, outcome)
        self.again = [name for name in found.sidecars if self.last is not None and name in self.last.sidecars]
        self.last = found
        return found, V2Files.of(self.beside, whole)


def assert_same(found: V2Files, expected: V2Files) -> None:
    """Rows, schemas, and what is told of all of them."""
    assert found.rows == expected.rows
    assert found.others == expected.others
    for data in found.sidecars.values():
        for theirs in map(parquet.opened, expected.sidecars.values()):
            ours = parquet.opened(data)
            assert ours.schema.equals(theirs.schema)
            assert ours.metadata.metadata == theirs.metadata.metadata
    tags, others = found.head.tags or {}, expected.head.tags or {}
    assert found.head.version == expected.head.version
    assert {**tags, "sidecarSizeInBytes": ""} == {**others, "sidecarSizeInBytes": ""}
    assert tags["sidecarSizeInBytes"] == str(sum(map(len, found.sidecars.values())))
