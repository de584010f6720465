"""The mirror at one moment: its tables, the circuits of its stores, and the services at work."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final, Self

from deltamirror.arguments import table_name
from deltamirror.cli.database import CatalogDatabase
from deltamirror.cli.output import counted, duration, moment
from deltamirror.pipeline.failures.breaker import reason
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.breakers import Breaker, BreakerEvent, BreakerState, all_breakers, breaker_events_of
from deltamirror.txnlog.queue.pause import is_paused
from deltamirror.txnlog.queue.status import TableStatus, statuses

_EVENTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The versions of all tables that are not published."""

    versions: int
    tables: int
    lag_ms: int
    """How long ago the oldest of them was committed; 0 if there is none."""

    @classmethod
    def of(cls, tables: Iterable[TableStatus]) -> Self:
        """Counted over tables; the versions of disabled tables wait on purpose."""
        behind = [table for table in tables if table.lag_versions and not table.is_disabled]
        return cls(
            versions=sum(table.lag_versions for table in behind),
            tables=len(behind),
            lag_ms=max((table.lag_ms for table in behind), default=0),
        )

    def __str__(self) -> str:
        if not self.versions:
            return "every version is published"
        versions, tables = counted(self.versions, "version"), counted(self.tables, "table")
        return f"backlog {versions} of {tables}, the oldest for {duration(self.lag_ms)}"


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """A store, and what happened to it: which of them the mirror leaves alone."""

    breaker: Breaker
    events: tuple[BreakerEvent, ...]
    """The newest first."""

    @classmethod
    def all(cls, database: Database) -> list[Self]:
        """Every store that something happened to."""
        with database.read() as connection:
            found = all_breakers(connection)
            return [cls(each, tuple(breaker_events_of(connection, each.store, limit=_EVENTS))) for each in found]

    def line(self) -> str | None:
        """What to know of a store that is not in use as usual."""
        breaker, why = self.breaker, reason(self.breaker)
        match breaker.state:
            case BreakerState.OPEN:
                retry_at = moment(breaker.retry_at)
                return f"the circuit for {breaker.store} is open until {retry_at}; next probe then; {why}"
            case BreakerState.HALF_OPEN:
                return f"the circuit for {breaker.store} is half-open since {moment(breaker.changed_at)}: {why}"
            case BreakerState.CLOSED:
                return None

    def document(self) -> dict[str, object]:
        """As ``--json`` shows it."""
        return {**asdict(self.breaker), "events": [asdict(event) for event in self.events]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """A service that holds leases: how many tables of each lane it works on."""

    owner: str
    tables: dict[str, int]

    def line(self) -> str:
        """As people read it."""
        work = ", ".join(f"{lane} of {counted(number, 'table')}" for lane, number in self.tables.items())
        return f"service {self.owner}: {work}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOverview:
    """Tables, stores, and whether mirroring is paused altogether."""

    tables: tuple[TableStatus, ...]
    stores: tuple[StoreStatus, ...]
    all_paused: bool

    @classmethod
    def of(cls, opened: CatalogDatabase, table: str | None = None) -> Self:
        """All tables of a catalog by name, or one of them."""
        stores = StoreStatus.all(opened.database)
        with opened.database.read() as connection:
            tables = statuses(connection, None if table is None else table_name(table), opened.switch)
            return cls(tables=tuple(tables), stores=tuple(stores), all_paused=is_paused(connection))

    def by_lag(self) -> Self:
        """The same with the tables that lag most first."""
        return replace(self, tables=tuple(sorted(self.tables, key=_lag)))

    def services(self) -> list[ServiceStatus]:
        """The owners of leases; a service without work holds none."""
        held: dict[str, Counter[str]] = {}
        for lease in (lease for table in self.tables for lease in table.leases):
            held.setdefault(lease.owner, Counter())[lease.lane] += 1
        return [ServiceStatus(owner=owner, tables=dict(sorted(held[owner].items()))) for owner in sorted(held)]

    def store_lines(self) -> list[str]:
        """A line for each store whose circuit is not closed."""
        return [line for line in (store.line() for store in self.stores) if line is not None]


def _lag(table: TableStatus) -> tuple[bool, int, int, str]:
    return table.is_disabled, -table.lag_ms, -table.lag_versions, table.name
