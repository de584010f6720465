"""The rules of a breaker, as pure functions: what becomes of one by what units of work tell of its store.

::

    closed ── failures in a row, of most of the tables ──▶ open
      ▲                                                  │  ▲
      │                             the pause is over    │  │ a failure
      ├── successes in a row ── half-open ◀──────────────┘  │
      │                             └───────────────────────┘
      └── a success, while most tables do not fail ── open, half-open

An open circuit holds back the tables that fail. A table that the store served before, and that did not fail since, is
worked on all the same: two tables in trouble are no trouble of a third one.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from deltamirror.config import BreakerSettings, redact_text
from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.failures.policy import policy_of, speaks_of_store
from deltamirror.txnlog.queue.attempts import stored_message
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState
from deltamirror.work import CommitOutcome, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a unit of work tells of its store: what the store took, and then, maybe, a failure that speaks of it."""

    table_id: int | None = None
    successes: int = 0
    """Versions, or checkpoints, or a log that was looked at."""
    error_code: str | None = None
    error_message: str | None = None
    prober: str | None = None
    """The service, if the unit was to try the store."""


def news_of(outcome: Outcome, *, prober: str | None = None) -> News:
    """What the outcome of a unit tells of its store. Trouble of the table alone says nothing."""
    news = News(table_id=outcome.table_id, successes=_successes(outcome), prober=prober)
    failure = outcome.failure
    if failure is None or not policy_of(failure.error.code).speaks_of_store:
        return news
    # Who tries a store does not go on trying while anything is away, be it the database.
    if prober is None and not speaks_of_store(failure):
        return news
    return replace(news, error_code=failure.error.code, error_message=redact_text(stored_message(failure.error)))


def news_of_look(error: DeltaMirrorError | None, *, prober: str) -> News:
    """What looking at a log tells of its store, by the error that ended it."""
    news = News(successes=int(error is None), prober=prober)
    if error is None or not policy_of(error.code).speaks_of_store:
        return news
    return replace(news, error_code=error.code, error_message=redact_text(stored_message(error)))


def _successes(outcome: Outcome) -> int:
    if isinstance(outcome, CommitOutcome):
        return len(outcome.published)
    return int(outcome.failure is None and not outcome.base_unusable)


@dataclass(frozen=True, slots=True)
class Rules:
    """When a breaker changes. Times are milliseconds, by the database."""

    settings: BreakerSettings

    def may_try(self, breaker: Breaker, at: int) -> bool:
        """Whether a process may probe the store with one unit of work."""
        over = breaker.retry_at is None or at >= breaker.retry_at
        return breaker.state is not BreakerState.CLOSED and over

    def spared(self, breaker: Breaker, at: int) -> int | None:
        """The table that does not try the store, if others do: it failed last, and may be in trouble by itself."""
        recent = breaker.state is BreakerState.HALF_OPEN and at < breaker.changed_at + self._pause
        return breaker.table_id if recent else None

    def trying(self, breaker: Breaker, at: int, *, prober: str) -> Breaker:
        """A service tries the store. If it is not heard of within the time of a pause, others may."""
        if not self.may_try(breaker, at):
            return breaker
        since = at if breaker.state is BreakerState.OPEN else breaker.changed_at
        until = at + self._pause
        return replace(breaker, state=BreakerState.HALF_OPEN, changed_at=since, retry_at=until, prober=prober)

    def told(self, breaker: Breaker, at: int, *, news: News, failing: float) -> Breaker:
        """What the news of a unit come to, where so many percent of the store's tables fail.

        The failures of units that were begun before the circuit opened tell nothing.
        """
        if breaker.state is BreakerState.CLOSED:
            return self._in_use(breaker, at, news, failing)
        if breaker.state is BreakerState.HALF_OPEN and news.prober is not None and news.prober == breaker.prober:
            return self._tried(breaker, at, news)
        return self._served(breaker, at, failing) if news.successes else breaker

    def asks_for_share(self, breaker: Breaker, news: News) -> bool:
        """Whether ``told`` depends on the share of tables that fail."""
        if breaker.state is not BreakerState.CLOSED:
            return news.successes > 0
        failures = 0 if news.successes else breaker.failures
        return news.error_code is not None and failures + 1 >= self.settings.failures

    def _in_use(self, breaker: Breaker, at: int, news: News, failing: float) -> Breaker:
        if news.successes:
            breaker = Breaker(store=breaker.store, changed_at=breaker.changed_at)
        if news.error_code is None:
            return breaker
        failed = _failed(breaker, news)
        enough = failed.failures >= self.settings.failures and failing >= self.settings.share
        return self._opened(failed, at, news) if enough else failed

    def _served(self, breaker: Breaker, at: int, failing: float) -> Breaker:
        """The store served a table that was not held back. Where most others fail, a probe comes after half a pause."""
        if failing < self.settings.share:
            return Breaker(store=breaker.store, changed_at=at)
        if breaker.state is not BreakerState.OPEN or breaker.retry_at is None:
            return breaker
        return replace(breaker, retry_at=min(breaker.retry_at, breaker.changed_at + self._pause // 2))

    def _tried(self, breaker: Breaker, at: int, news: News) -> Breaker:
        if news.error_code is not None:
            return self._opened(_failed(breaker, news), at, news)
        successes = breaker.successes + news.successes
        if successes >= self.settings.successes:
            return Breaker(store=breaker.store, changed_at=at)
        return replace(breaker, successes=successes, retry_at=None, prober=None)

    def _opened(self, failed: Breaker, at: int, news: News) -> Breaker:
        return replace(
            failed,
            state=BreakerState.OPEN,
            table_id=news.table_id,
            successes=0,
            changed_at=at,
            retry_at=at + self._pause,
            prober=None,
        )

    @property
    def _pause(self) -> int:
        return int(self.settings.pause * 1000)


def reason(breaker: Breaker) -> str:
    """Why a breaker is in its state."""
    match breaker.state:
        case BreakerState.OPEN:
            return f"{breaker.failures} failures in a row, the last: {breaker.error_code}: {breaker.error_message}"
        case BreakerState.HALF_OPEN:
            return "one unit of work probes whether it is back"
        case BreakerState.CLOSED:
            return "it is back"


def moment(milliseconds: int | None) -> str:
    """A time of the database as the lines of a log say it, in UTC."""
    return datetime.fromtimestamp((milliseconds or 0) / 1000, UTC).isoformat(sep=" ", timespec="seconds")


def _failed(breaker: Breaker, news: News) -> Breaker:
    failures = breaker.failures + 1
    return replace(breaker, failures=failures, error_code=news.error_code, error_message=news.error_message)
