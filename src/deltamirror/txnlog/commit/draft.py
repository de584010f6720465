"""One table's part of a transaction, before any lock: checked against the table as it was seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltamirror.delta.actions import Action, Add, CommitInfo, Metadata, Protocol, Remove, Txn
from deltamirror.delta.commitinfo import metrics_for, write_parameters
from deltamirror.delta.conflicts import CommitFacts, ReadSet, implied_reads
from deltamirror.delta.evolution import adds_demands
from deltamirror.delta.features import row_tracking
from deltamirror.delta.validation import OncePerCommit, TableRules, check_actions
from deltamirror.txnlog.commit.app_transactions import AppProgress, progress_of
from deltamirror.txnlog.commit.conflicts import TableClaim
from deltamirror.txnlog.commit.request import Change, Operation
from deltamirror.txnlog.commit.staging import Staged
from deltamirror.txnlog.content.state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a change comes to, against the table as it was seen."""

    change: Change
    state: TableState
    foundation: tuple[Metadata | Protocol, ...] = ()
    """metaData and protocol of an authored commit: they come right after commitInfo."""
    body: tuple[Action, ...] = ()
    """The other actions, in order; of a verbatim commit, all of them. Empty where they are staged."""
    raw: bytes | None = None
    """The bytes of a verbatim commit."""
    staged: Staged | None = None
    facts: CommitFacts = field(default_factory=CommitFacts)
    reads: ReadSet = ReadSet.NOTHING
    standing: TableClaim | None = None
    """What has to hold against the winners; None where nothing has, or where the version is exact."""

    @property
    def writes(self) -> bool:
        """Whether the table gets a version, rather than only being read."""
        return bool(self.foundation) or bool(self.body) or self.staged is not None or self.change.is_record

    @property
    def is_verbatim(self) -> bool:
        """Whether the lines were made by another writer."""
        return self.change.lines is not None

    @property
    def small_actions(self) -> tuple[Action, ...]:
        """The actions besides files."""
        if self.staged is not None:
            return (*self.foundation, *self.body, *self.staged.small_actions)
        return (*self.foundation, *(action for action in self.body if not isinstance(action, Add | Remove)))

    @property
    def app_versions(self) -> dict[str, int]:
        """The application transactions that the commit records."""
        return {action.app_id: action.version for action in self.small_actions if isinstance(action, Txn)}

    @property
    def progress(self) -> AppProgress:
        """What the commit says of applications."""
        return progress_of(self.change, self.state.table_id, self.app_versions)

    @property
    def read_version(self) -> int:
        """The version that the commit was computed from; -1 for a table that does not exist."""
        if self.standing is not None:
            return self.standing.read_version
        return self.state.version if self.change.at_version is None else self.change.at_version - 1

    @property
    def checked_version(self) -> int | None:
        """Up to which version the files of other commits were looked at; None where they do not matter."""
        standing = self.standing if self.standing is not None and self.standing.depends_on_files else None
        versions = [] if standing is None else [standing.checked_version]
        if self.staged is not None:
            versions.append(self.staged.resolved_version)
        return min(versions, default=None)

    @property
    def tracks_rows(self) -> bool:
        """Whether the adds of the commit get row ids."""
        if not self.foundation:
            return self.state.tracks_rows
        protocol, metadata = after(self.state, self.foundation)
        return row_tracking(metadata, protocol)

    @property
    def num_added(self) -> int:
        """How many files the commit adds."""
        return len(self.facts.added) if self.staged is None else self.staged.num_added

    @property
    def num_removed(self) -> int:
        """How many files the commit removes."""
        return len(self.facts.removed) if self.staged is None else self.staged.num_removed

    @property
    def description(self) -> Operation:
        """How an authored commit describes itself: as it was told, or by what it does."""
        given, plain_append = self.change.operation, self._is_plain_append
        name = given.name or ("WRITE" if plain_append else "Manual Update")
        parameters, metrics = given.parameters, given.metrics
        if parameters is None:
            parameters = write_parameters(mode="Append") if plain_append and name == "WRITE" else {}
        if metrics is None:
            metrics = self._write_metrics if name == "WRITE" else {}
        return Operation(
            name=name, parameters=parameters, metrics=metrics, user_metadata=given.user_metadata, tags=given.tags
        )

    @property
    def _is_plain_append(self) -> bool:
        facts = self.facts
        return facts.is_blind_append and self.num_added > 0 and facts.metadata is None and facts.protocol is None

    @property
    def _write_metrics(self) -> Mapping[str, str]:
        return metrics_for(self.body) if self.staged is None else self.staged.metrics

    @property
    def info(self) -> CommitInfo | None:
        """The commitInfo of a verbatim commit."""
        return next((action for action in self.small_actions if isinstance(action, CommitInfo)), None)


def draft_of(change: Change, state: TableState, actions: Sequence[Action], raw: bytes | None = None) -> Draft:
    """The draft of a commit that is held in memory, its actions checked."""
    foundation = foundation_of(actions)
    check_foundation(change, state, foundation)
    actions = _admitted(rules_for(change, state, foundation), actions)
    reads = reads_of(change, state, actions)
    founds = raw is None and bool(foundation)
    return Draft(
        change=change,
        state=state,
        foundation=foundation if founds else (),
        body=tuple(a for a in actions if not isinstance(a, Metadata | Protocol)) if founds else tuple(actions),
        raw=raw,
        facts=CommitFacts.of(actions) if raw is not None else authored_facts(change, actions, reads),
        reads=reads,
    )


def reads_of(change: Change, state: TableState, actions: Sequence[Action]) -> ReadSet:
    """What a change read: what it says, what its actions show, and all rows where it makes demands on them."""
    reads = implied_reads(actions, change.reads)
    metadata = next((action for action in actions if isinstance(action, Metadata)), None)
    if metadata is None or change.lines is not None or state.version < 0:
        return reads
    protocol, _ = after(state, actions)
    # Else rows that came in meanwhile would pass as checked.
    return replace(reads, whole_table=True) if adds_demands(state.metadata, metadata, protocol=protocol) else reads


def authored_facts(change: Change, actions: Sequence[Action], reads: ReadSet) -> CommitFacts:
    """What a commit does that has no commitInfo to tell its operation."""
    return CommitFacts.of(actions, reads=reads, operation=change.operation.name)


def rules_for(change: Change, state: TableState, foundation: Sequence[Action] = ()) -> TableRules:
    """The rules that single actions of a change have to meet: those of the table after the commit."""
    if not foundation and not change.system_domains and not change.rows_checked and not change.is_admitted:
        return state.rules
    protocol, metadata = after(state, foundation)
    return TableRules.of(
        protocol,
        metadata,
        verbatim=change.is_admitted,
        rows_checked=change.rows_checked,
        system_domains=change.system_domains,
        previous=state.metadata if foundation else None,
    )


def check_foundation(change: Change, state: TableState, foundation: Sequence[Action]) -> None:
    """Check metaData and protocol, from which the rules for all other actions follow."""
    if not foundation:
        return
    protocol, metadata = after(state, foundation)
    check_actions(
        foundation,
        protocol=protocol,
        metadata=metadata,
        previous_protocol=state.protocol,
        verbatim=change.is_admitted,
        rows_checked=change.rows_checked,
        system_domains=change.system_domains,
    )


def _admitted(rules: TableRules, actions: Sequence[Action]) -> list[Action]:
    """The actions as they are written, each of them checked."""
    once, admitted = OncePerCommit(), []
    for index, action in enumerate(actions):
        admitted.append(rules.admit(action, index))
        once.see(action, index)
    return admitted


def after(state: TableState, actions: Sequence[Action]) -> tuple[Protocol, Metadata]:
    """What is in force once these actions are committed."""
    protocol, metadata = state.protocol, state.metadata
    for action in actions:
        if isinstance(action, Protocol):
            protocol = action
        elif isinstance(action, Metadata):
            metadata = action
    return protocol, metadata


def foundation_of(actions: Sequence[Action]) -> tuple[Metadata | Protocol, ...]:
    """MetaData and protocol among the actions, in the order in which they are written."""
    # The reference writer puts metaData before protocol.
    found = [action for action in actions if isinstance(action, Metadata | Protocol)]
    return tuple(sorted(found, key=lambda action: isinstance(action, Protocol)))
