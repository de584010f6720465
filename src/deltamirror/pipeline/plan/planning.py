"""From claims to units of work: which versions, in which batches, from which checksum or checkpoint on."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Final

from deltamirror.config import CheckpointSettings, Settings, settings_for
from deltamirror.delta.actions import Metadata
from deltamirror.delta.checksum import Checksum, encode
from deltamirror.delta.names import commit_key
from deltamirror.delta.properties import PROPERTIES, checkpoint_interval
from deltamirror.deltalog.checkpoint.content import can_continue
from deltamirror.errors import InvalidInput
from deltamirror.pipeline.plan.cadence import Cadence, Due, Measured, due_checkpoint, is_late
from deltamirror.pipeline.plan.checksum_seeds import seed_of_state, stored_seed
from deltamirror.storage.address import StoreAddress
from deltamirror.txnlog.content.state import decoded_line, in_force, in_force_before
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import CheckpointFacts, bytes_between, checkpoint_facts, replay_work
from deltamirror.txnlog.queue.claims import Claim
from deltamirror.txnlog.queue.waiting import Waiting, waiting_commits
from deltamirror.work import CheckpointBase, CheckpointUnit, CommitOutcome, CommitUnit, CommitWork, Verification

_log = logging.getLogger(__name__)
_INTERVAL: Final = "delta.checkpointInterval"
_DEFAULT_INTERVAL: Final = int(PROPERTIES[_INTERVAL].default or 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """A unit, and what its table's cadence says about the versions that it publishes."""

    unit: CommitUnit
    cadence: Cadence | None
    last_checkpoint: int
    """The version of the last that was asked for, or the first of the log."""
    written_checkpoint: int
    """The version of the last that was written, or the first of the log."""
    bytes_before: int
    last_checkpoint_at: int | None
    """When that version was committed; None where the log begins with the unit."""
    head: int
    """How far the table was committed when the unit was planned."""
    is_retry: bool
    """Whether the first version failed before, or was published and is gone."""
    changes: Sequence[int] = ()
    """By how many files each commit changes what the table has, where the unit has no checksums yet."""

    @property
    def begins_checksums(self) -> bool:
        """Whether its checksums begin anew, with one of the whole state: that takes as long as the table is large."""
        return bool(self.changes)

    def with_checksums(self, database: Database) -> CommitUnit:
        """The unit of such a plan, with checksums if they are certain."""
        unit = self.unit
        seed = seed_of_state(database, unit.table_id, unit.table, unit.commits[0].version - 1)
        return unit if seed is None else _with_checksums(unit, seed, self.changes)

    def due(self, outcome: CommitOutcome) -> Due | None:
        """The checkpoint that the outcome of the unit makes due."""
        if self.cadence is None:
            return None
        published = [(each.version, each.num_bytes) for each in outcome.published]
        due = due_checkpoint(
            self.cadence, published, head=self.head, last=self.last_checkpoint, bytes_before=self.bytes_before
        )
        if due is None:
            return None
        if self.cadence.remark:
            _log.warning("table %r gets a checkpoint of version %d: %s", self.unit.table, due.version, due.reason)
        return Due(
            due.version,
            f"{due.reason}; {self._measured(due.version)}",
            is_late=is_late(self.cadence, due.version, last=self.written_checkpoint),
        )

    def _measured(self, version: int) -> Measured:
        """The commits since the last checkpoint, up to a version of the unit."""
        taken = [work for work in self.unit.commits if work.version <= version]
        began, ended = self.last_checkpoint_at, taken[-1].committed_at
        return Measured(
            commits=version - self.last_checkpoint,
            bytes=self.bytes_before + sum(work.num_bytes for work in taken),
            milliseconds=None if began is None else ended - began,
        )


def read_waiting(database: Database, claims: Sequence[Claim], *, settings: Settings) -> Mapping[int, Waiting]:
    """What waits of the claimed tables, by their ids."""
    if not claims:
        return {}
    with database.read() as connection:
        return waiting_commits(connection, claims, most=settings.mirror.batch_versions)


def plan_commits(
    database: Database,
    claim: Claim,
    waiting: Mapping[int, Waiting],
    *,
    settings: Settings,
    upto: int | None = None,
) -> CommitPlan | None:
    """The first versions of a table that are not published, as many as a batch holds, without their chunks.

    None where there are none: another process published them, or the table was dropped, before they were planned.
    """
    newest, mine = claim.head if upto is None else min(upto, claim.head), waiting.get(claim.table_id)
    commits = [] if mine is None else list(takewhile(lambda work: work.version <= newest, mine.commits))
    if mine is None or not commits:
        return None
    commits = _batch(commits, settings.mirror.batch_bytes)
    metadata = _metadata(database, claim, mine, commits[-1].version)
    settings = settings_for(settings, claim.name, metadata.configuration)
    verify = Verification(settings.mirror.verify)
    unit = CommitUnit(
        table_id=claim.table_id,
        table=claim.name,
        address=StoreAddress.of(claim.location, settings.storage),
        lease=claim.lease,
        commits=tuple(commits),
        # Before the start of the log there is none to follow on: it was cleaned away, or never imported.
        follows=commit_key(claim.published) if mine.follows else "",
        checksums=False,
        verify=verify,
        # After a failure or a loss, the object is read back before it is recorded as published.
        reads_back=claim.failed and verify is not Verification.OFF,
        in_force=in_force_before(database, claim.table_id, commits[0].version) if verify.is_strict else None,
        budget=settings.mirror.budget,
    )
    cadence = _cadence(metadata, settings.checkpoint)
    changes: Sequence[int] = [mine.changes[each.commit_id] for each in commits] if settings.mirror.checksums else ()
    if changes and (first := commits[0].version) == 0:
        unit, changes = _with_checksums(unit, None, changes), ()
    elif changes and (seed := stored_seed(database, claim.table_id, claim.name, mine.checksum, version=first)):
        unit, changes = _with_checksums(unit, seed, changes), ()
    return CommitPlan(
        unit=unit,
        cadence=cadence,
        last_checkpoint=claim.log_start if mine.last_checkpoint is None else mine.last_checkpoint,
        written_checkpoint=claim.log_start if mine.written_checkpoint is None else mine.written_checkpoint,
        last_checkpoint_at=mine.began_at,
        bytes_before=0 if cadence is None else _bytes_before(database, claim, mine),
        head=newest,
        is_retry=claim.failed,
        changes=changes,
    )


def _bytes_before(database: Database, claim: Claim, waiting: Waiting) -> int:
    """How many bytes the published commits since the last checkpoint have."""
    if waiting.bytes_before is not None:
        return waiting.bytes_before
    after = -1 if waiting.last_checkpoint is None else waiting.last_checkpoint
    with database.read() as connection:
        return bytes_between(connection, claim.table_id, after, claim.published)


def _metadata(database: Database, claim: Claim, waiting: Waiting, version: int) -> Metadata:
    """The metadata that is in force at a version: nearly always the newest that the table has."""
    if waiting.metadata_version <= version:
        return decoded_line(waiting.metadata_line, Metadata)
    with database.read() as connection:
        return in_force(connection, claim.table_id, version)[1]


def _with_checksums(unit: CommitUnit, seed: Checksum | None, changes: Sequence[int]) -> CommitUnit:
    """The unit with what its checksums are computed from."""
    totals = list(accumulate(changes, initial=0 if seed is None else seed.num_files))[1:]
    counted = [replace(each, num_files=total) for each, total in zip(unit.commits, totals, strict=True)]
    return replace(unit, commits=tuple(counted), checksum=None if seed is None else encode(seed), checksums=True)


def plan_checkpoint(database: Database, claim: Claim, *, settings: Settings) -> CheckpointUnit:
    """The checkpoint that a claim is for, from the newest one before it that has all it needs, or from the first on."""
    version = claim.checkpoint
    with database.read() as connection:
        facts = checkpoint_facts(connection, claim.table_id, version)
        base = _base(facts)
        after = None if base is None else base.version
        commits = replay_work(connection, claim.table_id, last=version, after=after)
    settings = settings_for(settings, claim.name, facts.metadata.configuration)
    options = settings.checkpoint
    return CheckpointUnit(
        table_id=claim.table_id,
        table=claim.name,
        address=StoreAddress.of(claim.location, settings.storage),
        lease=claim.lease,
        version=version,
        committed_at=facts.committed_at,
        commits=tuple(commits),
        base=base,
        num_files=facts.num_files,
        compression=options.compression,
        row_group_bytes=options.row_group_bytes,
        sidecar_actions=options.sidecar_actions,
        verify=Verification(settings.mirror.verify),
    )


def _batch(commits: Sequence[CommitWork], most_bytes: int) -> list[CommitWork]:
    """The first commits that together have at most so many bytes; one, however large it is."""
    taken, total = 1, commits[0].num_bytes
    while taken < len(commits) and total + commits[taken].num_bytes <= most_bytes:
        total += commits[taken].num_bytes
        taken += 1
    return list(commits[:taken])


def _cadence(metadata: Metadata, settings: CheckpointSettings) -> Cadence | None:
    if not settings.enabled:
        return None
    interval, remark = settings.interval, ""
    if interval is None or _INTERVAL in metadata.configuration:
        try:
            interval = checkpoint_interval(metadata)
        except InvalidInput as error:
            # Which versions get a checkpoint changes nothing that readers see, and without any the log only grows.
            interval, remark = interval or _DEFAULT_INTERVAL, error.message
    return Cadence(interval=interval, bytes=settings.bytes or None, remark=remark)


def _base(facts: CheckpointFacts) -> CheckpointBase | None:
    base = facts.base
    if base is None or not can_continue(
        base.metadata, facts.metadata, base_committed_at=base.committed_at, committed_at=facts.committed_at
    ):
        return None
    return CheckpointBase(version=base.version, committed_at=base.committed_at, name=base.name, digest=base.digest)
