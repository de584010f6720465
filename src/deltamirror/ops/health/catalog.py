"""What the records in SQL say of the health of a catalog: circuits, overdue commits, comparisons of logs."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltamirror.config import LiveSettings, Switch
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.health.report import HealthFinding, HealthState
from deltamirror.pipeline.failures.breaker import reason
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.storage.calls import StoreCalls
from deltamirror.storage.location import store_prefix
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.migrations import require_current
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState
from deltamirror.txnlog.queue.claims import Overdue, overdue
from deltamirror.txnlog.queue.expected_objects import KeptLog, comparisons, kept_logs

_AT_MOST: Final = 20
"""So many tables are looked at; a few are named."""
_NAMED: Final = 3
_LOGS_HOLD: Final = 60.0
"""For how many seconds the list of logs is good for choosing one of each store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFacts:
    """The records at a moment."""

    circuits: Mapping[str, Breaker]
    """Those that are not closed, by what the locations of their store begin with."""
    overdue: tuple[Overdue, ...]
    """Without the tables of these stores."""
    compared: tuple[int, int] | None
    """How many milliseconds ago a log was last compared, and the one that waits longest for it."""


class CatalogRecords:
    """Reads the records, within the time of a check: a database that hangs keeps no caller waiting."""

    def __init__(self, database: Database, live: LiveSettings, calls: StoreCalls, *, lets_go: bool) -> None:
        self._database, self._live, self._calls, self._lets_go = database, live, calls, lets_go
        self._breakers = Breakers(database, live, owner="")
        self.logs: tuple[KeptLog, ...] = ()
        """Those that are mirrored to, as they were a short time ago."""
        self._logs_read = float("-inf")

    def facts(self) -> CatalogFacts:
        """The records at this moment; raises why they cannot be read."""
        seconds = self._live.current.health.timeout
        hint = "check that the database runs and answers; raise `health.timeout` if it is only slow"
        return self._calls.run(self._asked, location="the database", doing="ask", seconds=seconds, hint=hint)

    def _asked(self) -> CatalogFacts:
        try:
            return self._read()
        finally:
            if self._lets_go:
                self._database.let_go()

    def _read(self) -> CatalogFacts:
        settings = self._live.current
        health, switch = settings.health, Switch.of(settings)
        with self._database.patience(health.timeout):
            require_current(self._database)
            circuits = self._breakers.gate().shut
            with self._database.read() as connection:
                late = overdue(connection, switch, seconds=health.stalled, limit=_AT_MOST)
                compared = comparisons(connection, switch)
            self._read_logs(switch)
        reachable = tuple(each for each in late if store_prefix(each.location) not in circuits)
        return CatalogFacts(circuits=circuits, overdue=reachable, compared=compared)

    def _read_logs(self, switch: Switch) -> None:
        if self.logs and time.monotonic() - self._logs_read < _LOGS_HOLD:
            return
        with self._database.read() as connection:
            self.logs = tuple(kept_logs(connection, switch))
        self._logs_read = time.monotonic()


def trouble(error: DeltaMirrorError) -> HealthFinding:
    """A part that answers with an error, or not in time."""
    return HealthFinding(state=HealthState.FAILED, reason=error.message, advice=error.hint)


def circuit_findings(circuits: Mapping[str, Breaker]) -> list[HealthFinding]:
    """The stores that no requests, or few, are made to, as they failed before."""
    advice = "check the store and its credentials; the mirror probes it and goes on by itself"
    return [
        HealthFinding(
            state=HealthState.FAILED if breaker.state is BreakerState.OPEN else HealthState.DEGRADED,
            reason=f"store {breaker.store}: circuit {breaker.state}: {reason(breaker)}",
            advice=advice,
        )
        for breaker in circuits.values()
    ]


def overdue_findings(late: Sequence[Overdue], *, stalled: float) -> list[HealthFinding]:
    """Commits that are due for long and not published: a service hangs with their leases, or no service takes them."""
    held = sorted({each.owner for each in late if each.owner is not None})
    found = [
        HealthFinding(
            state=HealthState.FAILED,
            reason=f"service {owner} renews the leases of {named(late, owner)} for more than {stalled:g} s, "
            "and publishes nothing",
            advice="restart that service (the name says host and process); its tables then go to another one",
        )
        for owner in held
    ]
    if any(each.owner is None for each in late):
        found.append(
            HealthFinding(
                state=HealthState.FAILED,
                reason=f"commits of {named(late, None)} are due for more than {stalled:g} s, and no service takes them",
                advice="start `deltamirror mirror --follow`; `deltamirror status` shows what waits",
            )
        )
    return found


def named(late: Sequence[Overdue], owner: str | None) -> str:
    """Some of the tables that wait for one owner, or for any."""
    names = [each.name for each in late if each.owner == owner]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'table' if len(names) == 1 else 'tables'} {', '.join(map(repr, names[:_NAMED]))}{more}"


def comparison_finding(compared: tuple[int, int] | None, *, interval: float, stalled: float) -> HealthFinding:
    """Whether some reconciler compares the logs, if the settings ask for it."""
    if interval <= 0:
        return HealthFinding(reason="reconcile.interval is 0: no service compares the logs")
    if compared is None or min(compared) <= (interval + stalled) * 1000:
        return HealthFinding()
    return HealthFinding(
        state=HealthState.DEGRADED,
        reason=f"no log was compared with the database for {min(compared) // 1000} s",
        advice="start `deltamirror mirror --follow` or `deltamirror reconcile --follow`",
    )
