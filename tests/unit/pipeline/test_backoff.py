"""When a failed attempt is repeated: after growing pauses with jitter, for ever; permanent errors after a long one."""

import itertools

import pytest

from deltamirror.config import MirrorSettings
from deltamirror.errors import (
    CapacityExceeded,
    DeltaMirrorError,
    Diverged,
    PermissionDenied,
    Throttled,
    Transient,
    Unavailable,
)
from deltamirror.pipeline.failures.backoff import RetryPolicy

AWAY = Unavailable("away")


def pauses(settings: MirrorSettings, error: DeltaMirrorError, attempts: int) -> list[float]:
    return [RetryPolicy(settings)(error, attempts) for _ in range(1_000)]


def exact(**changed: float) -> RetryPolicy:
    return RetryPolicy(MirrorSettings(retry_jitter=0.0, **changed))  # type: ignore[arg-type]


@pytest.mark.requirement("R48")
@pytest.mark.parametrize("error", [AWAY, Transient("x"), Throttled("x"), CapacityExceeded("x")], ids=lambda e: e.code)
def test_pauses_of_what_may_pass_double_up_to_the_longest_and_never_end(error: DeltaMirrorError) -> None:
    assert [exact()(error, attempts) for attempts in (*range(1, 8), 1_000)] == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.requirement("R48")
@pytest.mark.parametrize("error", [Diverged("x"), PermissionDenied("x")], ids=lambda error: error.code)
def test_what_no_retry_cures_is_not_retried(error: DeltaMirrorError) -> None:
    assert exact()(error, 1) == 3600


@pytest.mark.requirement("R49")
@pytest.mark.parametrize(("attempts", "nominal"), [(1, 1.0), (3, 4.0), (50, 30.0)])
def test_jitter_stays_within_its_share_and_spreads(attempts: int, nominal: float) -> None:
    found = pauses(MirrorSettings(), AWAY, attempts)
    assert all(0.9 * nominal <= pause <= 1.1 * nominal for pause in found)
    assert max(found) - min(found) > 0.1 * nominal


@pytest.mark.requirement("R49")
def test_workers_that_failed_together_do_not_come_back_together() -> None:
    for error in (AWAY, Throttled("slow down", retry_after=5.0)):
        found = sorted(pauses(MirrorSettings(), error, 1)[:50])
        assert found[-1] - found[0] > 0.1


@pytest.mark.requirement("R76")
def test_every_number_of_the_policy_is_a_setting() -> None:
    changed = exact(retry_base=3.0, retry_factor=10.0, retry_max=200.0, retry_permanent=7_000.0)
    assert [changed(AWAY, attempts) for attempts in range(1, 6)] == [3, 30, 200, 200, 200]
    assert changed(PermissionDenied("x"), 1) == 7_000
    wide = pauses(MirrorSettings(retry_jitter=50.0), AWAY, 1)
    assert min(wide) < 0.7
    assert max(wide) > 1.3


@pytest.mark.requirement("R48")
def test_a_store_that_asks_for_time_gets_it() -> None:
    for pause in pauses(MirrorSettings(), Throttled("slow down", retry_after=20.0), 2):
        assert 20.0 <= pause <= 22.0
    assert exact()(Throttled("slow down", retry_after=0.5), 2) == 2
    assert exact()(Throttled("slow down", retry_after=1e9), 2) == 3600


def test_any_number_of_attempts_has_a_pause() -> None:
    largest = exact(attempts=10**9, retry_factor=1_000.0, retry_max=10.0**9)
    for pause, later in itertools.pairwise(largest(AWAY, attempts) for attempts in (1, 10, 1_000, 10**8)):
        assert 0 < pause <= later <= 10**9
