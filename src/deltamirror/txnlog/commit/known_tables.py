"""The tables that a process has seen, so that a commit need not read them again."""

import time
from collections.abc import Iterable, Mapping, Sequence

from deltamirror.telemetry import metrics
from deltamirror.txnlog.commit.draft import Draft
from deltamirror.txnlog.commit.ratification import Ratified
from deltamirror.txnlog.content.state import TableState, load_state
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.statements import HEAD


class KnownTables:
    """Remembers the tables it has seen, and notices when they changed. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._states: dict[str, TableState] = {}

    def state(self, name: str, *, remembered: bool = False) -> TableState:
        """A table at its head; ``remembered`` if an earlier sight of it is as good."""
        found = self._states.get(name)
        if found is not None and not remembered:
            found = self._looked_again(found)
        if found is None:
            begun = time.perf_counter()
            found = load_state(self._database, name)
            self._states[name] = found
            metrics.observe_open(time.perf_counter() - begun)
        return found

    def _looked_again(self, known: TableState) -> TableState | None:
        """A table that is remembered as it is now; None if more than its version changed, or it is gone."""
        for version, committed_at, *foundation, _ in self._database.glance(HEAD, {"table_id": known.table_id}):
            if foundation == [known.metadata_version, known.protocol_version, known.lineage]:
                found = known.at(version, committed_at)
                self.see(found)
                return found
        return None

    def see(self, state: TableState) -> None:
        """Remember a table as it was just seen, unless a later sight of it is remembered."""
        known = self._states.get(state.name)
        if known is None or known.table_id != state.table_id or known.version <= state.version:
            self._states[state.name] = state

    def forget(self, name: str) -> None:
        """Drop what is remembered of a table."""
        self._states.pop(name, None)

    def forget_all(self, names: Iterable[str]) -> None:
        """Drop what is remembered of several tables."""
        for name in names:
            self.forget(name)

    def remember(self, drafts: Sequence[Draft], ratified: Mapping[str, Ratified]) -> None:
        """Keep what a commit taught us of its tables; one that it changed is looked at again."""
        for draft in drafts:
            if (done := ratified.get(draft.state.name)) is None:
                continue
            if draft.facts.metadata is not None or draft.facts.protocol is not None:
                self.forget(draft.state.name)
            else:
                self.see(draft.state.at(done.version, done.committed_at))
