"""From a change to a draft: everything about a commit that can be done before a lock is taken."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain

from deltamirror.config import CatalogSettings
from deltamirror.delta.actions import Action, Add, CommitInfo, Metadata, Protocol, Txn
from deltamirror.delta.conflicts import Adopted, CommitFacts, isolation_for, table_isolation
from deltamirror.delta.features import row_tracking
from deltamirror.delta.rowtracking import RowIds
from deltamirror.delta.validation import TableRules
from deltamirror.errors import Conflict, InvalidAction, InvalidInput, Transient, Unavailable
from deltamirror.txnlog.commit.app_transactions import AppProgress, progress_of
from deltamirror.txnlog.commit.conflicts import TableClaim, require_no_conflict
from deltamirror.txnlog.commit.draft import (
    Draft,
    after,
    authored_facts,
    check_foundation,
    draft_of,
    foundation_of,
    reads_of,
    rules_for,
)
from deltamirror.txnlog.commit.input import Gathered, InputBlock
from deltamirror.txnlog.commit.ratification import caught_up, require_exact, row_id_mark
from deltamirror.txnlog.commit.request import Change, no_version
from deltamirror.txnlog.commit.staged_row_ids import StagedIds, numbered
from deltamirror.txnlog.commit.staging import Staged, StagedBody, discard, staged_actions, sweep_stages
from deltamirror.txnlog.content.projection import require_own_ids, states_ids
from deltamirror.txnlog.content.state import TableState, in_force
from deltamirror.txnlog.database.access import Database


class Preparation:
    """One table's part of a transaction, drafted as often as its table changes under it."""

    def __init__(self, database: Database, gathered: Gathered, *, settings: CatalogSettings, alone: bool) -> None:
        self._database = database
        self.gathered = gathered
        self._settings = settings
        self._alone = alone
        self._read_version = _stated_read_version(gathered.change)
        self._seen = gathered.change.seen
        self._lineage = gathered.change.lineage
        self._staged: Draft | None = None

    @property
    def may_be_stale(self) -> bool:
        """Whether the draft may be made from a state that was seen earlier: plain appends depend on its rules only."""
        unread = self._read_version is None and self.gathered.change.reads is None
        return unread and not self.gathered.is_large and _only_adds(self.gathered.actions)

    @property
    def table(self) -> str:
        """The name of the table."""
        return self.gathered.change.table

    @property
    def writes(self) -> bool:
        """Whether the table gets a version, rather than only being read."""
        return bool(self.gathered.pairs) or self.gathered.is_large or self.gathered.change.is_record

    @property
    def app_versions(self) -> dict[str, int]:
        """The application transactions among the actions in memory."""
        return {action.app_id: action.version for action in self.gathered.actions if isinstance(action, Txn)}

    def progress(self, table_id: int) -> AppProgress:
        """What the actions in memory say of applications; ``table_id`` is the table that has the name."""
        return progress_of(self.gathered.change, table_id, self.app_versions)

    def discard(self) -> None:
        """Delete what was staged."""
        if self._staged is not None and self._staged.staged is not None:
            discard(self._database, self._staged.state.table_id, self._staged.staged.commit_id)

    def caught_up(self, draft: Draft) -> Draft:
        """The draft, held against everything that was committed so far."""
        with self._only_once():
            draft = caught_up(self._database, draft)
        if self._staged is not None:
            self._staged = replace(self._staged, staged=draft.staged)
        return draft

    def draft(self, state: TableState) -> Draft:
        """The draft against this state of the table."""
        change = self.gathered.change
        self._see(state)
        self._require_same_table(state)
        require_exact(change, state.version)
        if change.lines is None and self.writes:
            _require_writable(state)
        if self.gathered.is_large and self._staged is None:
            self._require_adoptable(state)  # before any work is done
        try:
            draft = self._checked(state)
        except InvalidAction as error:
            self._require_adoptable(state)  # it may have fitted the table as it was
            error.table = state.name
            raise
        if self._depends_on_rules_only(draft):
            if draft.staged is None:
                return draft  # computed when it commits: the rules are those that it was just checked by
            self._seen = state
        self._require_same_lineage(state)
        standing = self._standing(draft, state)
        return draft if standing is None else replace(draft, standing=standing)

    def _checked(self, state: TableState) -> Draft:
        if self._staged is not None:
            return self._restaged(state)
        if self.gathered.is_large:
            self._staged = self._stage(state)
            return self._staged
        self.gathered.read_all()
        return draft_of(self.gathered.change, state, self.gathered.actions, self.gathered.raw)

    def _require_same_table(self, state: TableState) -> None:
        known = (self._seen, None if self._staged is None else self._staged.state)
        taken = {self.gathered.change.table_id, *(each.table_id for each in known if each is not None)} - {None}
        if taken - {state.table_id}:
            raise Conflict(
                f"the table {state.name!r} was dropped, and another one of this name was created",
                hint="read the table again and compute the transaction anew",
                table=state.name,
                reason="table-replaced",
                actual_version=state.version,
            )

    def _require_same_lineage(self, state: TableState) -> None:
        """Refuse to go on from a version of a history that an adoption has replaced."""
        if self._lineage is None:
            self._lineage = state.lineage if self._seen is None else self._seen.lineage
        if self._lineage != state.lineage:
            raise Conflict(
                f"foreign commits in the log of table {state.name!r} were adopted since it was read",
                hint="read the table again and compute the transaction anew",
                table=state.name,
                reason="log-adopted",
                read_version=self._read_version,
                actual_version=state.version,
            )

    def _tracks_rows(self, state: TableState) -> bool:
        protocol, metadata = after(state, self.gathered.actions)
        return self.gathered.change.lines is None and row_tracking(metadata, protocol)

    def _stage(self, state: TableState) -> Draft:
        sweep_stages(self._database, older_than=self._settings.stage_ttl)
        return self._stage_actions(state) if self.gathered.change.lines is None else self._stage_lines(state)

    def _stage_actions(self, state: TableState) -> Draft:
        change, foundation = self.gathered.change, foundation_of(self.gathered.actions)
        check_foundation(change, state, foundation)
        rules = rules_for(change, state, foundation)
        blocks = self.gathered.checked(rules, skip=foundation, size=self._settings.chunk_lines)
        staged = self._numbered(state, blocks) if self._tracks_rows(state) else self._filled(state, blocks)
        small = (*foundation, *staged.small_actions)
        reads = reads_of(change, state, (*small, *staged.sample))
        facts = replace(authored_facts(change, small, reads), data_change=staged.data_change)
        return Draft(change=change, state=state, foundation=foundation, staged=staged, facts=facts, reads=reads)

    def _stage_lines(self, state: TableState) -> Draft:
        """The draft of another writer's lines: Delta Spark writes the protocol of RESTORE, CLONE and CONVERT last.

        They are judged as they pass, where what comes first settles it; else once they are stored, by all of them.
        """
        change, opening = self.gathered.change, _opening(self.gathered.actions)
        blocks = self.gathered.passing(self._rules_so_far(state), skip=len(opening), size=self._settings.chunk_lines)
        staged = self._filled(state, blocks)
        if not self.gathered.is_judged:
            self._judge(state, staged, opening)
        small = (*opening, *staged.small_actions)
        return Draft(
            change=change,
            state=state,
            body=opening,
            raw=self.gathered.pairs[0][0] if opening else b"",
            staged=staged,
            facts=replace(CommitFacts.of(small), data_change=staged.data_change),
            reads=reads_of(change, state, (*small, *staged.sample)),
        )

    def _rules_so_far(self, state: TableState) -> TableRules | None:
        """The rules that follow from the lines in memory; None where these are at odds without what comes later."""
        change, foundation = self.gathered.change, foundation_of(self.gathered.actions)
        try:
            check_foundation(change, state, foundation)
            return rules_for(change, state, foundation)
        except InvalidInput:
            return None

    def _judge(self, state: TableState, staged: Staged, opening: Sequence[Action]) -> None:
        """Hold lines that are staged against the rules that follow from all of them."""
        change, foundation = self.gathered.change, foundation_of(staged.small_actions)
        try:
            check_foundation(change, state, foundation)
            rules = rules_for(change, state, foundation)
            with self._only_once():
                for index, action in enumerate(chain(opening, staged_actions(self._database, staged))):
                    rules.check(action, index)
        except BaseException:
            discard(self._database, state.table_id, staged.commit_id)
            raise

    def _numbered(self, state: TableState, blocks: Iterator[InputBlock]) -> Staged:
        """The stage of a commit whose files get row ids: those of the next version, if no other commit comes first."""
        with self._database.read() as connection:
            mark = row_id_mark(connection, state.table_id)
        ids = RowIds(high_water_mark=mark, version=state.version + 1)
        staged = self._filled(state, numbered(self._with_own_ids(state, blocks), ids))
        return replace(staged, row_ids=StagedIds(ids.version, ids.start, ids.mark))

    def _with_own_ids(self, state: TableState, blocks: Iterator[InputBlock]) -> Iterator[InputBlock]:
        """The blocks, none of whose files states row ids of another one. The ids of a file stay its own: no lock."""
        index = 0
        for block in blocks:
            if any(map(states_ids, block.actions)):
                with self._database.read() as connection:
                    require_own_ids(connection, state.table_id, block.actions, index=index)
            index += len(block.actions)
            yield block

    def _filled(self, state: TableState, blocks: Iterator[InputBlock]) -> Staged:
        # The part of the stream that was read is gone: trying again would commit the rest of it as if it were all.
        with self._only_once():
            return StagedBody(self._database, state.table_id).fill(blocks)

    @contextmanager
    def _only_once(self) -> Iterator[None]:
        """Give up the commit where work on its stage fails half-way."""
        try:
            yield
        except Transient as error:
            raise Unavailable(
                f"the commit to {self.table!r} could not be staged: {error.message}",
                hint="nothing of it was kept; commit again",
            ) from error

    def _restaged(self, state: TableState) -> Draft:
        """The staged draft against a state that is compatible with the one it was checked against."""
        staged = self._staged
        assert staged is not None  # noqa: S101 - narrows the type; the caller has just tested it
        if self._tracks_rows(state) and staged.staged is not None and staged.staged.row_ids is None:
            raise Conflict(
                f"row tracking was enabled on {state.name!r} while the commit was being staged",
                hint="commit again: the files need row ids",
                table=state.name,
                reason="metadata-changed",
                actual_version=state.version,
            )
        return replace(staged, state=state)

    def _see(self, state: TableState) -> None:
        """Settle what the change was computed from: what it says, or the table as it was first seen.

        What was seen before metadata or protocol changed counts from there, whatever else was read later.
        """
        change = self.gathered.change
        if self._seen is None and change.at_version is None and change.read_version is None:
            self._seen = state
        if self._seen is not None and _differ(self._seen, state):
            stated = self._seen.version if self._read_version is None else self._read_version
            self._read_version, self._lineage = min(stated, self._seen.version), self._seen.lineage

    def _require_adoptable(self, state: TableState) -> None:
        """Refuse what follows a change of metadata or protocol that it had to know, before the rules are asked."""
        newest = max(state.metadata_version, state.protocol_version)
        if self.gathered.change.lines is None and self._read_version is not None and newest > self._read_version:
            self._require_same_lineage(state)
            self._checked_standing(self._unchecked(state), state)

    def _unchecked(self, state: TableState) -> Draft:
        """What is known of the change before its actions are checked; of a large one, metaData and protocol."""
        change, actions = self.gathered.change, self.gathered.actions
        if not self.gathered.is_large:
            with suppress(TypeError):  # fields of wrong types, which the rules will name
                reads = reads_of(change, state, actions)
                facts = authored_facts(change, actions, reads)
                return Draft(change=change, state=state, body=tuple(actions), facts=facts, reads=reads)
        return Draft(change=change, state=state, facts=CommitFacts.of(foundation_of(actions)))

    def _standing(self, draft: Draft, state: TableState) -> TableClaim | None:
        if draft.is_verbatim or (draft.change.at_version is not None and self._read_version is None):
            return None
        if self._read_version is None:
            self._read_version = state.version if self._seen is None else self._seen.version
        return self._checked_standing(draft, state)

    def _checked_standing(self, draft: Draft, state: TableState) -> TableClaim:
        """The claim of the change on its table, held against everything that is in the log by now."""
        version = self._read_version
        assert version is not None  # noqa: S101 - narrows the type; both callers have set it
        if version > state.version:
            raise no_version(state.name, version, head=state.version)
        if version == state.version:
            return self._claim(draft, state, version, state.protocol, state.metadata)
        with self._database.read() as connection:
            standing = self._claim(draft, state, version, *in_force(connection, state.table_id, version))
            return require_no_conflict(connection, standing, state.version)

    def _claim(
        self, draft: Draft, state: TableState, version: int, protocol: Protocol, metadata: Metadata
    ) -> TableClaim:
        """What the change did and read, by what was in force in the version that it was computed from."""
        level = table_isolation(metadata)
        return TableClaim(
            table=state.name,
            table_id=state.table_id,
            read_version=version,
            checked_version=version,
            facts=draft.facts,
            reads=draft.reads.typed(metadata),
            isolation=isolation_for(draft.facts, level) if self._alone and draft.writes else level,
            adopted=Adopted(protocol=protocol, metadata=metadata, row_tracking_enabled=False),
            stage=None if draft.staged is None else draft.staged.commit_id,
        )

    def _depends_on_rules_only(self, draft: Draft) -> bool:
        """Whether it is a blind append that names no version, and the rules are those of the table that it was for."""
        facts, unread = draft.facts, self._read_version is None and draft.change.reads is None
        settles = facts.metadata or facts.protocol or facts.app_ids or facts.domains
        return unread and draft.writes and facts.is_blind_append and not settles


def _differ(seen: TableState, state: TableState) -> bool:
    """Whether metadata or protocol of a table are others than they were."""
    if seen.lineage != state.lineage:
        return (seen.metadata, seen.protocol) != (state.metadata, state.protocol)
    return (seen.metadata_version, seen.protocol_version) != (state.metadata_version, state.protocol_version)


def _stated_read_version(change: Change) -> int | None:
    """The version that a change says it was computed from, where that is not simply the one before it."""
    if change.read_version is None or change.at_version is None:
        return change.read_version
    return None if change.read_version >= change.at_version - 1 else change.read_version


def _opening(actions: Sequence[Action]) -> tuple[Action, ...]:
    """The commitInfo of a verbatim commit, where it comes first: history reads it from a small first chunk."""
    return tuple(actions[:1]) if isinstance(actions[0], CommitInfo) else ()


def _require_writable(state: TableState) -> None:
    if state.write_obstacle is not None:
        raise state.write_obstacle


def _only_adds(actions: Sequence[Action]) -> bool:
    return bool(actions) and all(type(action) is Add for action in actions)
