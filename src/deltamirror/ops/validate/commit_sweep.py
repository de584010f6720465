"""The lines of commits, one commit after the other, and the version checksums that follow from them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from deltamirror.delta.actions import Action, Metadata
from deltamirror.delta.actions import Protocol as TableProtocol
from deltamirror.deltalog.commits import read_blocks, read_commits
from deltamirror.deltalog.rules.commits import Blocks, CommitRules
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.ops.validate.checksums import ChecksumRules
from deltamirror.storage.store import Meta, Store

_CHAINED_BYTES: Final = 16 * 1024 * 1024
"""The actions of larger commits are not kept for the checksum: as objects they need ten times the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """What is in force before a version, since the commits that say so are gone, or looked at elsewhere."""

    version: int
    protocol: TableProtocol
    metadata: Metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRun:
    """Commits of a log, and the version checksums of these and of other versions, by version."""

    commits: Mapping[int, Meta]
    checksums: Mapping[int, Meta]
    foundation: Foundation | None = None
    first: int = 0
    """Findings of earlier versions are told elsewhere: those are read for what the later ones follow on."""


class ExaminedCommits(Protocol):
    """Commits that are held against the rules."""

    def findings(self) -> Iterator[Finding]:
        """The rules that they break, in the order of their versions."""

    @property
    def compared(self) -> Collection[int]:
        """Once all findings are told: the versions whose checksums were held against their commits."""

    @property
    def lacking(self) -> Collection[str]:
        """Once all findings are told: of protocol and metaData, the actions that no commit has."""


class CommitSweep:
    """Commits that are read one after the other, in this process."""

    def __init__(self, store: Store, run: CommitRun) -> None:
        self._store, self._run = store, run
        self._rules = CommitRules()
        self._checksums = ChecksumRules(store, run.checksums, run.commits)

    @property
    def compared(self) -> Collection[int]:
        """As ``ExaminedCommits`` says."""
        return self._checksums.compared

    @property
    def lacking(self) -> Collection[str]:
        """As ``ExaminedCommits`` says."""
        known = {"protocol": self._rules.protocol, "metaData": self._rules.metadata}
        return [name for name, found in known.items() if found is None]

    def findings(self) -> Iterator[Finding]:
        """As ``ExaminedCommits`` says."""
        versions = sorted(self._run.commits)
        metas = [self._run.commits[version] for version in versions]
        foundation, last = self._run.foundation, None
        for version, meta, blocks in zip(versions, metas, read_commits(self._store, metas), strict=True):
            if last is not None and version > last + 1:
                self._rules.skip()
                self._checksums.skip()
            last = version
            if foundation is not None and version >= foundation.version:
                self._rules.begin(foundation.protocol, foundation.metadata)
                foundation = None
            # A small commit is in memory; a large one is read twice.
            kept = blocks if isinstance(blocks, list) else None
            found = self._of_commit(version, meta, partial(self._blocks, meta, kept))
            yield from (each for each in found if version >= self._run.first)

    def _of_commit(self, version: int, meta: Meta, blocks: Blocks) -> Iterator[Finding]:
        actions: list[Action] = []
        is_chained = bool(self._run.checksums) and meta.size <= _CHAINED_BYTES
        for found in self._rules.examined(LogObject(self._store.location, meta.key), version, blocks):
            if isinstance(found, Finding):
                is_chained &= found.line is None
                yield found
            elif is_chained:
                actions.append(found)
        yield from self._checksums.follow(version, actions if is_chained else None)

    def _blocks(self, meta: Meta, kept: list[bytes] | None) -> Iterable[bytes]:
        return read_blocks(self._store, meta) if kept is None else kept
