"""The circuits of stores, as the lanes use them: asked before their work, and told of its outcome."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import Final

from deltamirror.config import LiveSettings, Settings, Switch, redact_url
from deltamirror.errors import DeltaMirrorError, Unavailable
from deltamirror.pipeline.failures.breaker import News, Rules, moment, news_of, news_of_look, reason
from deltamirror.pipeline.failures.policy import STORE_CODES, WITH_THE_STORE
from deltamirror.storage.location import store_prefix
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.queue.breakers import (
    Breaker,
    BreakerState,
    Change,
    breaker_of,
    change_breaker,
    end_pauses,
    failing_share,
    make_store_due,
    shut_breakers,
)
from deltamirror.work import Outcome

_log = logging.getLogger(__name__)
_WITHOUT_ENDPOINT: Final = ("file://", "memory://")


@dataclass(frozen=True, slots=True)
class Gate:
    """The stores whose circuits are open at a moment, by the prefix of their locations."""

    shut: Mapping[str, Breaker] = field(default_factory=dict)
    tried: Mapping[str, int | None] = field(default_factory=dict)
    """Those of them that may be tried, with one unit of work: of any table but this one, if there is one."""


class Purpose(Enum):
    """Why a job works at a store."""

    WORK = auto()
    PROBE = auto()
    """To see whether the store, whose circuit is open, is back."""


class Breakers:
    """The breakers of the stores that one service works with. All services share them."""

    def __init__(self, database: Database, settings: Settings | LiveSettings, *, owner: str) -> None:
        self._database = database
        self._live = LiveSettings.of(settings)
        self._owner = owner

    @property
    def _rules(self) -> Rules:
        return Rules(self._live.current.breaker)

    @property
    def _retry_max(self) -> float:
        return self._live.current.mirror.retry_max

    def gate(self) -> Gate:
        """The stores whose circuits are open at this moment."""
        if not self._live.current.breaker.enabled:
            return Gate()
        breakers, at = shut_breakers(self._database)
        shut = {prefix: breaker for breaker in breakers if (prefix := self._prefix(breaker.store))}
        free = {prefix: found for prefix, found in shut.items() if self._rules.may_try(found, at)}
        return Gate(shut, {prefix: self._rules.spared(found, at) for prefix, found in free.items()})

    def require(self, location: str) -> None:
        """Refuse to work at a location whose store has an open circuit, and no probe due."""
        prefix, gate = store_prefix(location), self.gate()
        found = gate.shut.get(prefix)
        if found is not None and found.state is BreakerState.OPEN and prefix not in gate.tried:
            retry_at = moment(found.retry_at)
            raise Unavailable(
                f"the circuit for {found.store} is open until {retry_at}; next probe then; {reason(found)}",
                hint="no action needed: the mirror probes the store; `deltamirror mirror --once` does so at once",
            )

    def end_pause(self, location: str) -> None:
        """Let the store of a location be probed at once, if its circuit is open: an operator asks for it."""
        end_pauses(self._database, self._store(store_prefix(location)))

    def begin_trying(self, prefix: str) -> bool:
        """Try a store with one unit of work; whether it is ours to try."""
        trying = partial(self._rules.trying, prober=self._owner)
        with self._database.write() as session:
            before, after = self._changed(session, prefix, trying)
        _say(before, after)
        return after != before

    def end_trying(self, prefix: str) -> None:
        """Let others try a store: the unit that was to try it came to nothing."""
        self._tell(prefix, News(prober=self._owner))

    @contextmanager
    def looking(self, location: str) -> Iterator[None]:
        """Make requests to the store of a location. If its circuit is open, and a probe is due, this is the probe.

        There may be no other one: perhaps nothing is to be published there.
        """
        prefix = store_prefix(location)
        probes = prefix in self.gate().tried and self.begin_trying(prefix)
        try:
            yield
        except DeltaMirrorError as error:
            if probes:
                self._tell(prefix, news_of_look(error, prober=self._owner))
            raise
        if probes:
            self._tell(prefix, news_of_look(None, prober=self._owner))

    def told(self, prefix: str, outcomes: Sequence[Outcome], purpose: Purpose) -> bool:
        """Take in what the outcome of a unit, or those of units that succeeded, tell of a store; False if it opens."""
        if not self._live.current.breaker.enabled:
            return True
        each = [news_of(outcome, prober=self._owner if purpose is Purpose.PROBE else None) for outcome in outcomes]
        news = replace(each[-1], successes=sum(one.successes for one in each))
        known = breaker_of(self._database, self._store(prefix))
        asks = self._rules.asks_for_share(known, news)
        if not asks and self._rules.told(known, known.changed_at, news=news, failing=0.0) == known:
            return True  # the common case, without a write transaction
        return not self._tell(prefix, news)

    def recovered(self, prefix: str) -> None:
        """Bring the other tables of a store forward: what had failed there succeeded."""
        with self._database.write() as session:
            # A process that makes a store due locks its row first, so that no two wait for each other's versions.
            self._changed(session, prefix, lambda breaker, _: breaker)
            make_store_due(session, prefix, WITH_THE_STORE, waited=self._retry_max)

    def _tell(self, prefix: str, news: News) -> bool:
        """Whether the news opened the circuit."""
        switch = Switch.of(self._live.current)
        with self._database.write() as session:

            def told(breaker: Breaker, at: int) -> Breaker:
                asks = self._rules.asks_for_share(breaker, news)
                failing = failing_share(session, prefix, STORE_CODES, switch=switch) if asks else 0.0
                return self._rules.told(breaker, at, news=news, failing=failing)

            before, after = self._changed(session, prefix, told)
            if after.state is BreakerState.CLOSED and before.state is not BreakerState.CLOSED:
                make_store_due(session, prefix, STORE_CODES)
            elif news.successes and before.failures > 0:
                make_store_due(session, prefix, STORE_CODES, waited=self._retry_max)
        _say(before, after)
        return after.state is BreakerState.OPEN and before.state is not BreakerState.OPEN

    def _changed(self, session: Session, prefix: str, change: Change) -> tuple[Breaker, Breaker]:
        return change_breaker(session, self._store(prefix), change, owner=self._owner, reason=reason)

    def _store(self, prefix: str) -> str:
        """The name of a store: its endpoint is part of it, since two may have buckets of the same name."""
        local = prefix.startswith(_WITHOUT_ENDPOINT)
        endpoint = redact_url(self._live.current.storage.endpoint or "").rstrip("/")
        return prefix if local or not endpoint else f"{prefix} at {endpoint}"

    def _prefix(self, store: str) -> str | None:
        """What the locations of a store begin with; None if this service does not reach it by that endpoint."""
        prefix = store_prefix(store)
        return prefix if self._store(prefix) == store else None


def _say(before: Breaker, after: Breaker) -> None:
    if after.state is before.state:
        return
    fields = {"store": after.store, "state": after.state.value}
    match after.state:
        case BreakerState.OPEN:
            # That it was tried in vain is no news: an outage may last for days.
            level = logging.WARNING if before.state is BreakerState.CLOSED else logging.DEBUG
            what, probe = "the circuit for %s is open until %s; next probe then; %s", moment(after.retry_at)
            _log.log(level, what, after.store, probe, reason(after), extra=fields)
        case BreakerState.HALF_OPEN:
            _log.debug("the circuit for %s is half-open: %s", after.store, reason(after), extra=fields)
        case BreakerState.CLOSED:
            _log.warning("the circuit for %s is closed: %s", after.store, reason(after), extra=fields)
