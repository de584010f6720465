"""News of a store: which outcomes tell of it, and what is said of its breaker."""

import pytest

from deltamirror.errors import DeltaMirrorError, Diverged, Unavailable
from deltamirror.pipeline.failures.breaker import News, news_of, news_of_look, reason
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState
from deltamirror.work import CheckpointOutcome, CommitOutcome, Failure, Lane, Lease, Published, Stage

pytestmark = [pytest.mark.requirement("R55"), pytest.mark.requirement("R87")]

LEASE = Lease(table_id=7, lane=Lane.COMMITS, owner="me", epoch=1, held_until=0.0)
AWAY = Unavailable("the store at https://user:secret@store is away")
PUBLISHED = tuple(Published(version=each, already=False, num_bytes=1, milliseconds=1.0) for each in range(2))


def outcome(error: DeltaMirrorError, stage: Stage) -> CommitOutcome:
    failure = Failure(error=error, stage=stage, version=3)
    return CommitOutcome(table_id=7, lease=LEASE, published=PUBLISHED, failure=failure)


def test_versions_and_checkpoints_that_were_written_are_successes() -> None:
    assert news_of(CommitOutcome(table_id=7, lease=LEASE, published=PUBLISHED)) == News(table_id=7, successes=2)
    checkpoint = CheckpointOutcome(table_id=7, lease=LEASE, version=3)
    assert news_of(checkpoint) == News(table_id=7, successes=1)
    unusable = CheckpointOutcome(table_id=7, lease=LEASE, version=3, base_unusable=True)
    assert news_of(unusable) == News(table_id=7)


def test_a_failure_tells_of_its_store_and_no_secret() -> None:
    found = news_of(outcome(AWAY, Stage.PUT))
    assert (found.successes, found.error_code) == (2, "unavailable")
    assert "is away" in (found.error_message or "")
    assert "secret" not in (found.error_message or "")


def test_trouble_of_the_table_or_of_the_database_tells_nothing_of_the_store() -> None:
    assert news_of(outcome(Diverged("other bytes"), Stage.PUT)) == News(table_id=7, successes=2)
    assert news_of(outcome(AWAY, Stage.FETCH)) == News(table_id=7, successes=2)


def test_a_probe_ends_by_whatever_is_away() -> None:
    found = news_of(outcome(AWAY, Stage.FETCH), prober="me")
    assert (found.prober, found.error_code) == ("me", "unavailable")


def test_a_look_at_a_log_is_a_success_or_tells_of_the_store_where_that_failed() -> None:
    assert news_of_look(None, prober="me") == News(successes=1, prober="me")
    assert news_of_look(Diverged("other bytes"), prober="me") == News(prober="me")
    assert news_of_look(AWAY, prober="me").error_code == "unavailable"


def test_the_reason_of_each_state_is_told() -> None:
    breaker = Breaker(store="s", state=BreakerState.OPEN, failures=5, error_code="unavailable", error_message="away")
    assert reason(breaker) == "5 failures in a row, the last: unavailable: away"
    assert reason(Breaker(store="s", state=BreakerState.HALF_OPEN)) == "one unit of work probes whether it is back"
    assert reason(Breaker(store="s")) == "it is back"
