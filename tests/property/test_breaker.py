"""Whatever units tell, in whatever order: a breaker opens for its store only, and closes once the store is back."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.config import BreakerSettings
from deltamirror.pipeline.failures.breaker import News, Rules
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState

pytestmark = pytest.mark.requirement("R55")

FAILURES, SUCCESSES, PAUSE = 5, 3, 60_000
SHARE = 75.0
RULES = Rules(BreakerSettings(failures=FAILURES, share=SHARE, successes=SUCCESSES, pause=PAUSE / 1000))
AWAY: dict[str, Any] = {"error_code": "unavailable", "error_message": "away"}


@dataclass(frozen=True)
class Wait:
    milliseconds: int


@dataclass(frozen=True)
class Try:
    prober: str


@dataclass
class Model:
    """What happened since the last success while the breaker was closed, and since the store was tried."""

    failed: list[int | None] = field(default_factory=list)
    taken: int = 0


news = st.builds(
    lambda table, successes, error, prober: News(
        table_id=table, successes=successes, prober=prober, **(AWAY if error else {})
    ),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([0, 0, 0, 1, 2, 5]),
    st.booleans(),
    st.sampled_from([None, None, "a", "b"]),
)
failures = st.builds(lambda table: News(table_id=table, **AWAY), st.sampled_from([1, 1, 1, 2]))
waits = st.builds(Wait, st.sampled_from([1, 1_000, PAUSE - 1, PAUSE, 2 * PAUSE]))
tries = st.builds(Try, st.sampled_from(["a", "b"]))


@given(st.lists(news | failures | waits | tries, max_size=60), st.sampled_from([0.0, 66.7, 75.0, 100.0]))
def test_no_order_of_events_breaks_the_rules(events: list[News | Wait | Try], failing: float) -> None:
    breaker, at, model = Breaker(store="s"), 1_000, Model()
    for event in events:
        before = breaker
        match event:
            case Wait(milliseconds):
                at += milliseconds
            case Try(prober):
                breaker = RULES.trying(breaker, at, prober=prober)
                check_try(before, breaker, at, prober)
            case News():
                breaker = RULES.told(breaker, at, news=event, failing=failing)
                check_news(before, breaker, event, model, failing=failing)
        check_shape(breaker)
        if breaker.state is not before.state:
            assert breaker.changed_at == at
            model.failed, model.taken = [], 0


def check_try(before: Breaker, after: Breaker, at: int, prober: str) -> None:
    free = before.retry_at is None or at >= before.retry_at
    if before.state is BreakerState.CLOSED or not free:
        assert after == before
    else:
        assert (after.state, after.prober, after.retry_at) == (BreakerState.HALF_OPEN, prober, at + PAUSE)


def check_news(before: Breaker, after: Breaker, news: News, model: Model, *, failing: float) -> None:
    match before.state:
        case BreakerState.CLOSED:
            if news.successes:
                model.failed = []
            if news.error_code:
                model.failed.append(news.table_id)
            enough = len(model.failed) >= FAILURES and failing >= SHARE
            assert (after.state is BreakerState.OPEN) == (enough and news.error_code is not None)
            assert after.failures == len(model.failed)
            assert RULES.asks_for_share(before, news) >= (after.state is BreakerState.OPEN)
        case BreakerState.HALF_OPEN if news.prober == before.prober and news.prober:
            model.taken += news.successes
            expected = BreakerState.CLOSED if model.taken >= SUCCESSES else BreakerState.HALF_OPEN
            assert after.state is (BreakerState.OPEN if news.error_code else expected)
            assert after.prober is None
        case _ if news.successes and failing < SHARE:
            assert after.state is BreakerState.CLOSED
            assert RULES.asks_for_share(before, news)
        case BreakerState.OPEN if news.successes:
            assert before.retry_at is not None
            assert after == replace(before, retry_at=min(before.retry_at, before.changed_at + PAUSE // 2))
        case _:
            assert after == before


def check_shape(breaker: Breaker) -> None:
    """What must hold of a breaker in each state."""
    match breaker.state:
        case BreakerState.CLOSED:
            assert (breaker.retry_at, breaker.prober, breaker.successes) == (None, None, 0)
        case BreakerState.OPEN:
            assert breaker.retry_at in (breaker.changed_at + PAUSE, breaker.changed_at + PAUSE // 2)
            assert (breaker.prober, breaker.error_code, breaker.successes) == (None, "unavailable", 0)
        case BreakerState.HALF_OPEN:
            assert (breaker.prober is None) == (breaker.retry_at is None)
            assert breaker.successes < SUCCESSES


def test_from_trouble_to_its_end() -> None:
    breaker = Breaker(store="s")
    for table in (1, 2, 1, 1, 2):
        assert breaker.state is BreakerState.CLOSED
        breaker = RULES.told(breaker, 10, news=News(table_id=table, **AWAY), failing=100.0)
    assert (breaker.state, breaker.table_id, breaker.retry_at) == (BreakerState.OPEN, 2, 10 + PAUSE)
    breaker = RULES.trying(breaker, 10 + PAUSE, prober="a")
    breaker = RULES.told(breaker, 20 + PAUSE, news=News(table_id=1, successes=2, prober="a"), failing=100.0)
    assert (breaker.state, breaker.successes) == (BreakerState.HALF_OPEN, 2)
    breaker = RULES.trying(breaker, 30 + PAUSE, prober="b")
    breaker = RULES.told(breaker, 40 + PAUSE, news=News(table_id=2, successes=1, prober="b"), failing=100.0)
    assert breaker == Breaker(store="s", changed_at=40 + PAUSE)


def test_a_circuit_opens_for_most_of_the_tables_and_not_for_some() -> None:
    for failing, state in ((66.7, BreakerState.CLOSED), (75.0, BreakerState.OPEN)):
        breaker = Breaker(store="s")
        for _ in range(FAILURES):
            breaker = RULES.told(breaker, 10, news=News(table_id=1, **AWAY), failing=failing)
        assert breaker.state is state
