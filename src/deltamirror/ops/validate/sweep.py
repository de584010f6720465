"""All files of a log, in the order of their versions: commits first, then what says the same in short."""

from collections.abc import Callable, Collection, Generator, Iterator
from typing import TypeAlias

from deltamirror.delta.actions import Cdc, CommitInfo
from deltamirror.delta.lines import wire_name
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.deltalog.checkpoints import read_checkpoint
from deltamirror.deltalog.commits import read_blocks
from deltamirror.deltalog.comparison import ListedLog, list_log
from deltamirror.deltalog.listing import CheckpointFiles, CompactionFile
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.deltalog.rules.commits import decoded_lines
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import DeltaMirrorError, InvalidAction, InvalidLocation, Unsupported
from deltamirror.ops.validate.checkpoints import CheckpointCounts, checkpoint_findings
from deltamirror.ops.validate.checksums import state_differences
from deltamirror.ops.validate.commit_sweep import CommitRun, CommitSweep, ExaminedCommits, Foundation
from deltamirror.ops.validate.listing import listing_findings
from deltamirror.ops.validate.pointers import pointer_findings, pointer_target, read_pointer
from deltamirror.ops.validate.states import (
    UNDECODABLE,
    CommitStates,
    checkpoint_differences,
    compaction_differences,
    repeated_paths,
    respelled_paths,
)
from deltamirror.storage.store import Meta, Store

CommitExaminer: TypeAlias = Callable[[Store, CommitRun], ExaminedCommits]
"""Examines the commits of a log: one after the other, as ``CommitSweep``, or in parts at once."""


class LogSweep:
    """A log that is looked at once, from its first version to its last."""

    def __init__(self, store: Store, listed: ListedLog, examine: CommitExaminer = CommitSweep) -> None:
        self._store, self._listed, self._examine = store, listed, examine
        self._compactions = sorted(listed.compactions, key=lambda each: each.last)
        self._compared: Collection[int] = ()
        """Versions whose checksums were held against their commits."""
        self._states = CommitStates(store, listed.commits)
        self._before: dict[int, CheckpointState | None] = {}
        """The states that compactions follow on, by version."""
        self._facts: dict[str, CheckpointCounts] = {}
        """What checkpoints hold, by name."""

    def findings(self) -> Iterator[Finding]:
        """The rules that the log breaks."""
        yield from listing_findings(self._store, self._listed)
        yield from self._of_commits()
        yield from self._of_states()
        yield from self._of_pointer()

    def _of_commits(self) -> Iterator[Finding]:
        """The lines of all commits, and the checksums that follow from them."""
        commits = self._listed.commits
        run = CommitRun(commits=commits, checksums=self._listed.checksums, foundation=self._base())
        examined = self._examine(self._store, run)
        yield from examined.findings()
        self._compared = examined.compared
        if commits:
            first = self._object(commits[min(commits)])
            for name in examined.lacking:
                yield first.finding(f"log.{name}.missing", field=name, found=f"no {name}")

    def _base(self) -> Foundation | None:
        """The oldest checkpoint of a log that does not begin with version 0: what is in force from there on."""
        if 0 in self._listed.commits:
            return None
        states = (_read(self._store, files) for files in self._listed.checkpoints)
        base = next((state for state in states if isinstance(state, CheckpointState)), None)
        if base is None:
            return None
        return Foundation(version=base.version, protocol=base.protocol, metadata=base.metadata)

    def _of_states(self) -> Iterator[Finding]:
        """Checkpoints, compactions and checksums, against the states that the commits come to."""
        newest = max(self._listed.commits, default=-1)
        starts = {each.first - 1 for each in self._compactions}
        ends = {each.last for each in self._compactions}
        versions = starts | ends | {files.version for files in self._listed.checkpoints} | {newest}
        for version in sorted(versions - {-1}):
            state = yield from self._of_checkpoints(version)
            checksum = self._listed.checksums.get(version)
            if state is not None and checksum is not None and version not in self._compared:
                yield from state_differences(self._store, checksum, state)
            yield from self._of_compactions(version, state)
            if version in starts:
                self._before[version] = state
            if version == newest and state is not None:
                subject = self._object(self._listed.commits[newest])
                yield from repeated_paths(subject, state, "log.path.live-twice")
                yield from respelled_paths(subject, state)

    def _of_checkpoints(self, version: int) -> Generator[Finding, None, CheckpointState | None]:
        """The checkpoints of a version; its state, by its commits, or by a checkpoint where they do not tell."""
        state = self._states.at(version)
        for files in self._listed.checkpoints:
            if files.version == version:
                found = yield from self._of_checkpoint(files, state)
                if state is None and found is not None:
                    self._states.begin(found)
                    state = found
        return state

    def _of_checkpoint(
        self, files: CheckpointFiles, commits: CheckpointState | None
    ) -> Generator[Finding, None, CheckpointState | None]:
        """One checkpoint; the state that it says, if it can be read."""
        facts = self._facts[files.name] = CheckpointCounts()
        yield from checkpoint_findings(self._store, files, facts)
        subject, state = self._object(files.metas[0]), _read(self._store, files)
        if isinstance(state, CheckpointState):
            written_at = max(meta.modified for meta in files.metas)
            yield from checkpoint_differences(subject, state, commits, written_at=written_at)
            return state
        if facts.is_whole:
            yield from _unread(subject, state)
        return None

    def _of_compactions(self, version: int, commits: CheckpointState | None) -> Iterator[Finding]:
        for each in self._compactions:
            if each.last == version:
                subject, found = self._object(each.meta), None
                lacking = yield from _compaction_lines(self._store, each, subject)
                if lacking and commits is not None:
                    yield subject.finding("compaction.state", field=lacking[0], found=f"no {lacking[0]}")
                elif not lacking:
                    found = self._states.with_compaction(each, self._before.get(each.first - 1))
                yield from compaction_differences(subject, found, commits, written_at=each.meta.modified)

    def _of_pointer(self) -> Iterator[Finding]:
        subject = LogObject(self._store.location, POINTER_KEY)
        try:
            found = self._store.read(POINTER_KEY)
        except InvalidLocation:  # a link or a folder, which is a finding of its own
            found = None
        if found is None:
            return
        pointer = read_pointer(subject, found.data)
        if isinstance(pointer, Finding):
            yield pointer
            return
        target = pointer_target(pointer, self._listed.checkpoints)
        if target is None and pointer_target(pointer, list_log(self._store, first=pointer.version).checkpoints):
            return  # its checkpoint came after the log was listed
        facts = CheckpointCounts() if target is None else self._facts[target.name]
        yield from pointer_findings(self._store, subject, pointer, target, facts)

    def _object(self, meta: Meta) -> LogObject:
        return LogObject(self._store.location, meta.key)


def _read(store: Store, files: CheckpointFiles) -> CheckpointState | DeltaMirrorError:
    try:
        return read_checkpoint(store, files)
    except UNDECODABLE as error:
        return error


def _unread(subject: LogObject, error: DeltaMirrorError) -> Iterator[Finding]:
    """Why a checkpoint says no state, though all of its rows were looked at."""
    match error:
        case Unsupported():
            yield subject.finding("checkpoint.action.unknown", found=error.message)
        case InvalidAction(rule="checkpoint.schema"):
            yield subject.finding(error.rule, field=error.field, found=error.found)
        case InvalidAction():
            pass  # protocol or metaData are missing, which the counts of rows say
        case _:
            yield subject.finding("checkpoint.parquet", found=error.message)


def _compaction_lines(
    store: Store, compaction: CompactionFile, subject: LogObject
) -> Generator[Finding, None, list[str]]:
    """The rules that its lines break; what a table begins with, and the compaction of its beginning lacks."""
    lacking = ["protocol", "metaData"] if compaction.first == 0 else []
    for number, found in decoded_lines(subject, read_blocks(store, compaction.meta)):
        if isinstance(found, Finding):
            yield found
        elif isinstance(found, CommitInfo | Cdc):
            yield subject.finding("compaction.action.of-commit", line=number, found=wire_name(found))
        elif wire_name(found) in lacking:
            lacking.remove(wire_name(found))
    return lacking
