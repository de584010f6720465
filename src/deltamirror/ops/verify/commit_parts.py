"""The commits of a large log, held against the rules in parts that executors look at side by side.

What is in force before a part, SQL says. Each part begins with the last commit of the one before it: times and version
checksums follow on it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, TypeAlias

from deltamirror.batches import batched
from deltamirror.deltalog.rules.findings import Finding
from deltamirror.ops.validate.commit_sweep import CommitRun, CommitSweep, Foundation
from deltamirror.ops.validate.validating import MOST_FINDINGS
from deltamirror.pipeline.run.inspection import Inspector
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Meta, Store

_COMMITS: Final = 500
"""Of one part."""

FoundationBefore: TypeAlias = Callable[[int], Foundation | None]
"""What is in force before a version; None where it is the first of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedPart:
    """The findings of a part, fit to travel."""

    findings: tuple[Finding, ...]
    """As many as are told of a whole log."""
    compared: frozenset[int]
    lacking: tuple[str, ...]


def examined_part(store: Store, run: CommitRun) -> Iterator[ExaminedPart]:
    """Hold the commits of a part against the rules: what runs on executors."""
    sweep = CommitSweep(store, run)
    told = sweep.findings()
    findings = tuple(islice(told, MOST_FINDINGS))
    for _ in told:
        pass  # the others are not told, but their checksums are compared
    yield ExaminedPart(findings=findings, compared=frozenset(sweep.compared), lacking=tuple(sweep.lacking))


class CommitParts:
    """The commits of a log, in parts."""

    def __init__(
        self, inspector: Inspector, address: StoreAddress, before: FoundationBefore, store: Store, run: CommitRun
    ) -> None:
        self._inspector, self._address, self._before = inspector, address, before
        self._store, self._run = store, run
        self.compared: Collection[int] = ()
        """As ``ExaminedCommits`` says."""
        self.lacking: Collection[str] = ()
        """As ``ExaminedCommits`` says; later parts take from SQL what the first lacks."""

    def findings(self) -> Iterator[Finding]:
        """As ``ExaminedCommits`` says."""
        parts, compared, broken = self._parts(), set[int](), frozenset[str]()
        examined = self._inspector.examined(self._address, examined_part, parts)
        for number, (part, looked_at) in enumerate(zip(parts, examined, strict=True)):
            found = self._without_wrong_context(part, looked_at, broken)
            yield from found.findings
            broken = frozenset(each.file for each in found.findings)
            compared |= found.compared
            self.lacking = self.lacking if number else found.lacking
        self.compared = compared

    def _parts(self) -> Sequence[CommitRun]:
        return [self._part(versions) for versions in batched(sorted(self._run.commits), _COMMITS)]

    def _part(self, versions: Sequence[int]) -> CommitRun:
        """Some commits, with the one before them."""
        commits, context = self._run.commits, versions[0] - 1
        known = [context, *versions] if context in commits else versions
        return CommitRun(
            commits=_only(commits, known),
            checksums=_only(self._run.checksums, known),
            foundation=self._run.foundation if known[0] == min(commits) else self._before(known[0]),
            first=versions[0],
        )

    def _without_wrong_context(self, part: CommitRun, found: ExaminedPart, broken: Collection[str]) -> ExaminedPart:
        """A part that follows on a wrong checksum is looked at again, its own first checksum taken at its word."""
        if not any(meta.key in broken for version, meta in part.checksums.items() if version < part.first):
            return found
        own = {version: meta for version, meta in part.checksums.items() if version >= part.first}
        [again] = examined_part(self._store, replace(part, checksums=own))
        return again


def _only(metas: Mapping[int, Meta], versions: Sequence[int]) -> Mapping[int, Meta]:
    return {version: metas[version] for version in versions if version in metas}
