"""How often the logs are looked at beside a service's other work."""

import pytest

from deltamirror.config import Settings
from deltamirror.ops.reconcile.background import pause_after


@pytest.mark.requirement("R52")
def test_each_log_is_looked_at_twice_a_minute_unless_somebody_says_otherwise() -> None:
    assert Settings().reconcile.interval == 30


@pytest.mark.parametrize(
    ("interval", "took", "seconds"),
    [
        (30, 0.1, 3),  # some logs, as often as they are due
        (30, 10, 30),  # many logs: three quarters of the time are rest
        (30, 3_600, 300),  # a store that hardly answers
        (3_600, 0.1, 30),
        (0.2, 0, 0.02),
    ],
)
def test_looking_takes_a_quarter_of_the_time_at_most(interval: float, took: float, seconds: float) -> None:
    assert pause_after(took, interval=interval) == pytest.approx(seconds)
