"""Superseded commits after foreign ones: which of them Delta's rules let follow, and as what.

Reads of a commit are not recorded. One that says that it was a blind append read nothing; any other is taken to have
read the whole table. Beside Delta's rules, a commit may not lose another one of ours that it built on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add, Cdc, CommitInfo, DomainMetadata, Metadata, Protocol, Remove
from deltamirror.delta.conflicts import CommitFacts, ReadSet, adopt, find_conflict, isolation_for, table_isolation
from deltamirror.delta.paths import path_identity
from deltamirror.delta.rowtracking import ROW_TRACKING_DOMAIN
from deltamirror.txnlog.commit.draft import Draft, draft_of
from deltamirror.txnlog.commit.request import Change, Operation
from deltamirror.txnlog.content.state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A commit that came first."""

    version: int
    operation: str | None
    facts: CommitFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededCommit:
    """A commit of ours that has to follow others."""

    version: int
    is_verbatim: bool
    alone: bool
    """Whether its transaction changed no other table."""
    data: bytes
    actions: tuple[Action, ...]

    @property
    def info(self) -> CommitInfo | None:
        """What it says of itself."""
        return next((action for action in self.actions if isinstance(action, CommitInfo)), None)

    @property
    def is_blind(self) -> bool:
        """Whether it read nothing."""
        claimed = self.info is not None and self.info.is_blind_append is True
        return claimed and not any(isinstance(action, Remove | Cdc) for action in self.actions)

    @property
    def facts(self) -> CommitFacts:
        """What it did."""
        return CommitFacts.of(self.actions)


@dataclass(frozen=True, slots=True)
class _Step:
    """A winner, with what was in force before it."""

    winner: Winner
    protocol: Protocol
    metadata: Metadata


class Rebasing:
    """Superseded commits of one table, oldest first, after the commits that came first.

    ``before`` is the table before the first of either.
    """

    def __init__(self, before: TableState, winners: Sequence[Winner]) -> None:
        self._before = before
        self._steps: list[_Step] = []
        self._enables_row_tracking = False
        self._dropped: list[tuple[int, CommitFacts]] = []
        self._row_ids: dict[str, tuple[int | None, int | None]] = {}
        protocol, metadata = before.protocol, before.metadata
        for winner in winners:
            self._steps.append(_Step(winner, protocol, metadata))
            adopted = adopt(winner.facts, protocol_before=protocol, metadata_before=metadata)
            self._enables_row_tracking |= adopted.row_tracking_enabled
            protocol, metadata = adopted.protocol, adopted.metadata

    def obstacle(self, commit: SupersededCommit) -> str | None:
        """Why a commit cannot follow; None if it can."""
        facts = commit.facts
        reads = ReadSet(whole_table=not commit.is_blind, app_ids=facts.app_ids)
        return self._lost_base(facts, reads) or self._conflict(commit, facts, reads)

    def drop(self, commit: SupersededCommit) -> None:
        """A commit does not follow: others may have built on it."""
        self._dropped.append((commit.version, commit.facts))

    def draft(self, commit: SupersededCommit, state: TableState) -> Draft:
        """The commit after the head; checked as any other."""
        if commit.is_verbatim:
            whole = commit.data.splitlines(keepends=True)
            change = Change(table=state.name, lines=whole, at_version=state.version + 1)
            return draft_of(change, state, commit.actions, commit.data)
        body = tuple(self._bare(commit))
        change = Change(
            table=state.name,
            reads=None if commit.is_blind else ReadSet(whole_table=True),
            operation=self._operation(commit),
            system_domains=frozenset(each.domain for each in body if isinstance(each, DomainMetadata)),
            rows_checked=True,
        )
        return draft_of(change, state, body)

    def remember(self, actions: Sequence[Action]) -> None:
        """Files of a commit that was rebased have ids which commits after it do not know."""
        for action in actions:
            if isinstance(action, Add):
                ids = action.base_row_id, action.default_row_commit_version
                self._row_ids[path_identity(action.path)] = ids

    def _conflict(self, commit: SupersededCommit, facts: CommitFacts, reads: ReadSet) -> str | None:
        if commit.is_verbatim and (self._before.tracks_rows or self._enables_row_tracking):
            return "its rows have ids of their own, which cannot be given anew"
        level = table_isolation(self._before.metadata)
        isolation = isolation_for(facts, level) if commit.alone else level
        for step in self._steps:
            reason = find_conflict(
                facts,
                reads,
                step.winner.facts,
                isolation=isolation,
                protocol_before=step.protocol,
                metadata_before=step.metadata,
            )
            if reason is not None:
                told = step.winner.operation or "an unnamed operation"
                return f"version {step.winner.version} ({told}) came first: {reason.detail}"
        return None

    def _lost_base(self, facts: CommitFacts, reads: ReadSet) -> str | None:
        """Whether it built on a commit that does not follow."""
        for version, lost in self._dropped:
            if _builds_on(facts, reads, lost):
                return f"it builds on version {version}, which cannot follow either"
        return None

    def _operation(self, commit: SupersededCommit) -> Operation:
        info = commit.info or CommitInfo()
        parameters = {name: msgspec.json.decode(raw) for name, raw in (info.operation_parameters or {}).items()}
        tags = info.tags
        if self._enables_row_tracking:
            tags = {**(tags or {}), "delta.rowTracking.preserved": "false"}
        return Operation(
            name=info.operation,
            parameters=parameters,
            metrics=info.operation_metrics or {},
            user_metadata=info.user_metadata,
            tags=tags,
        )

    def _bare(self, commit: SupersededCommit) -> Sequence[Action]:
        """The actions as they were before version, time and row ids were known."""
        kept = [action for action in commit.actions if not isinstance(action, CommitInfo)]
        rows = [action for action in kept if not _is_row_mark(action)]
        return [self._with_known_ids(action, commit.version) for action in rows]

    def _with_known_ids(self, action: Action, version: int) -> Action:
        if isinstance(action, Add) and action.default_row_commit_version == version:
            return replace(action, base_row_id=None, default_row_commit_version=None)
        if isinstance(action, Add | Remove) and (ids := self._row_ids.get(path_identity(action.path))) is not None:
            return replace(action, base_row_id=ids[0], default_row_commit_version=ids[1])
        return action


def _is_row_mark(action: Action) -> bool:
    return isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN


def _builds_on(facts: CommitFacts, reads: ReadSet, lost: CommitFacts) -> bool:
    if lost.metadata is not None or lost.protocol is not None:
        return True
    written, touched = lost.added.keys() | lost.removed.keys(), facts.added.keys() | facts.removed.keys()
    if written and (reads.reads_anything or written & touched):
        return True
    shared_domains = (facts.domains & lost.domains) - {ROW_TRACKING_DOMAIN}
    # An application that counts on has done what it counts: without it, its work would be taken for done.
    return bool(shared_domains) or bool(facts.app_ids & lost.app_ids)
