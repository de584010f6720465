"""How often the logs are looked at beside a service's other work."""

import threading
from contextlib import nullcontext
from typing import Any, cast

import pytest

from deltamirror.config import Settings
from deltamirror.ops.reconcile import background
from deltamirror.ops.reconcile.background import BackgroundReconciler, pause_after
from deltamirror.pipeline.service.shutdown import Ending
from tests.support.reconcilers import comparing_every


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


class SharedFile:
    """A database that one process at a time can have open."""

    def __init__(self) -> None:
        self.let_go_after_round = threading.Event()

    def read(self) -> nullcontext[None]:
        return nullcontext()

    def let_go(self) -> None:
        self.let_go_after_round.set()


@pytest.mark.requirement("R118")
def test_a_reconciler_of_its_own_lets_others_open_the_database_between_two_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "kept_logs", lambda *_, **__: [])
    file, ending = SharedFile(), Ending(lease=lambda: 60.0, give_up=lambda: None)
    live = comparing_every(0.1)
    with BackgroundReconciler(cast("Any", file), cast("Any", None), live=live, ending=ending, lets_go=True):
        assert file.let_go_after_round.wait(60)
