"""The stores that the mirror leaves alone, as ``deltamirror status`` shows them."""

from dataclasses import asdict, dataclass
from typing import Final, Self

from deltamirror.cli.output import moment
from deltamirror.pipeline.failures.breaker import reason
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.breakers import Breaker, BreakerEvent, BreakerState, all_breakers, breaker_events_of

__all__ = ["StoreStatus"]

_EVENTS: Final = 20


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """A store, and what happened to it."""

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
