"""The log of a table again, from SQL: its commits bit for bit, and the checkpoints that readers need."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from deltamirror.batches import batched
from deltamirror.config import CheckpointSettings, StorageSettings
from deltamirror.delta.names import commit_key
from deltamirror.delta.properties import checkpoint_interval
from deltamirror.errors import Diverged
from deltamirror.ops.rebuild.target import require_free_place, wanted_versions
from deltamirror.ops.stored_commits import stored_chunks
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.publish.commits import publish_commits
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.probe import probe
from deltamirror.storage.store import Store
from deltamirror.txnlog.content.state import in_force
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import checkpoint_facts, commit_work, replay_work
from deltamirror.txnlog.tables.registry import TableInfo, table_info
from deltamirror.work import CheckpointUnit, CommitUnit, Failure, Lane, Lease, Outcome, Published

Observer = Callable[[Outcome], None]

_BATCH: Final = 500
_HINT: Final = "nothing was overwritten: rebuild to an empty folder, or save that object, move it away and try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What a rebuild came to."""

    first: int
    last: int
    versions: int
    """How many commits were put."""
    already: int
    """How many were there before, with the same bytes."""
    checkpoint: int | None
    """The newest version that was given a checkpoint."""


def rebuild(
    database: Database,
    table: str,
    *,
    to: Store,
    versions: range | None = None,
    checkpoints: bool = False,
    options: CheckpointSettings | None = None,
    observe: Observer = lambda _: None,
) -> Rebuilt:
    """Write the commits of a table to a location as the database has them, all or those of ``versions``.

    Commits that are there with the same bytes are fine; other bytes are ``Diverged``, and none is overwritten. Where
    the log then begins above version 0, or without the commit of version 0, its first version gets a checkpoint:
    otherwise no reader could open it. With ``checkpoints``, the newest version that is due by the table's interval gets
    one, too; ``options`` say how they are written. ``observe`` is told of each piece of work. Lost objects of the
    table's own log are written by the mirror, by ``restore_log``: no table of the catalog may be at that location.
    """
    with database.read() as connection:
        info = table_info(connection, table)
    require_free_place(to.location, database)
    wanted = wanted_versions(info, to.location, versions)
    probe(to)
    job = _Job(database, info, to, options or CheckpointSettings(), observe)
    published = [each for batch in batched(wanted, _BATCH) for each in job.publish(batch)]
    written = [job.write_checkpoint(version) for version in job.checkpoints(wanted, due=checkpoints)]
    already = sum(each.already for each in published)
    return Rebuilt(
        first=wanted[0],
        last=wanted[-1],
        versions=len(published) - already,
        already=already,
        checkpoint=max(written, default=None),
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """Writes one table to a place that no other process publishes to: there is no lease for that."""

    database: Database
    info: TableInfo
    store: Store
    options: CheckpointSettings
    observe: Observer

    def publish(self, versions: Sequence[int]) -> tuple[Published, ...]:
        """Put the commits of consecutive versions. An imported table may have none of its first version."""
        with self.database.read() as connection:
            commits = commit_work(connection, self.info.id, first=versions[0], last=versions[-1])
        if not commits:
            return ()
        unit = CommitUnit(
            table_id=self.info.id,
            table=self.info.name,
            address=self._address,
            lease=self._lease(Lane.COMMITS),
            commits=tuple(commits),
            checksums=False,
            budget=math.inf,
        )
        outcome = publish_commits(unit, self.store, fetch=partial(stored_chunks, self.database), guard=_no_guard)
        self._conclude(outcome, outcome.failure)
        return outcome.published

    def checkpoints(self, versions: range, *, due: bool) -> list[int]:
        """The versions that get a checkpoint, ascending."""
        with self.database.read() as connection:
            _, metadata = in_force(connection, self.info.id, versions[-1])
        newest = versions[-1] - versions[-1] % checkpoint_interval(metadata)
        is_due = due and newest >= max(versions[0], 1)
        return sorted({*([versions[0]] if self._needs_base(versions[0]) else []), *([newest] if is_due else [])})

    def write_checkpoint(self, version: int) -> int:
        """Put the checkpoint of a version, from all commits up to it; that version."""
        with self.database.read() as connection:
            facts = checkpoint_facts(connection, self.info.id, version)
            commits = replay_work(connection, self.info.id, last=version)
        unit = CheckpointUnit(
            table_id=self.info.id,
            table=self.info.name,
            address=self._address,
            lease=self._lease(Lane.CHECKPOINTS),
            version=version,
            committed_at=facts.committed_at,
            commits=tuple(commits),
            num_files=facts.num_files,
            compression=self.options.compression,
            row_group_bytes=self.options.row_group_bytes,
            sidecar_actions=self.options.sidecar_actions,
        )
        outcome = publish_checkpoint(unit, self.store, fetch=partial(stored_chunks, self.database), guard=_no_guard)
        self._conclude(outcome, outcome.failure)
        return version

    def _needs_base(self, version: int) -> bool:
        """Whether no reader could open a version: its commit, or the one before it, is not there."""
        needed = {version, max(version - 1, 0)}
        return any(self.store.head(commit_key(each)) is None for each in needed)

    @property
    def _address(self) -> StoreAddress:
        return StoreAddress(self.store.location, StorageSettings())

    def _lease(self, lane: Lane) -> Lease:
        return Lease(table_id=self.info.id, lane=lane, owner="rebuild", epoch=0, held_until=math.inf)

    def _conclude(self, outcome: Outcome, failure: Failure | None) -> None:
        self.observe(outcome)
        if failure is None:
            return
        if isinstance(failure.error, Diverged):
            raise replace(failure.error, hint=_HINT) from failure.error
        raise failure.error


def _no_guard() -> None:
    """No lease can be lost."""
