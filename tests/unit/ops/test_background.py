"""How often the logs are looked at beside a service's other work."""

import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deltamirror.config import Settings
from deltamirror.errors import LeaseLost
from deltamirror.ops.reconcile import background
from deltamirror.ops.reconcile.background import BackgroundReconciler, rest_after
from deltamirror.pipeline.service.shutdown import Ending
from tests.support.mirrors.reconcilers import comparing_every


@pytest.mark.requirement("R52")
def test_each_log_is_looked_at_twice_a_minute_unless_somebody_says_otherwise() -> None:
    assert Settings().reconcile.interval == 30


@pytest.mark.parametrize(
    ("took", "computed", "seconds"),
    [
        (0.02, 0.001, 0.4),
        (0.02, 0.01, 4.0),  # a 400th of a processor
        (2.0, 0.001, 6.0),  # a store that is slow: a quarter of the time
        (3_600.0, 0.1, 30.0),  # a store that hardly answers
    ],
)
def test_after_each_look_the_thread_rests(took: float, computed: float, seconds: float) -> None:
    assert rest_after(took, computed, interval=30.0) == pytest.approx(seconds)


class Looking:
    """Logs that are all due for ever, and who looked at them."""

    def __init__(self, count: int) -> None:
        self.logs = [SimpleNamespace(table_id=number, name=f"t{number}") for number in range(count)]
        self.looks = list[int]()
        self.twice = threading.Event()

    def look(self, log: Any) -> Any:
        self.looks.append(log.table_id)
        if len(self.looks) > len(self.logs):
            self.twice.set()
        raise LeaseLost("another process compares it")


@pytest.mark.requirement("R52")
def test_a_round_has_every_log_once_though_none_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking(50)
    monkeypatch.setattr(background, "kept_logs", lambda *_, **__: looking.logs)
    file, ending = SharedFile(), Ending(lease=lambda: 60.0, give_up=lambda: None)
    with BackgroundReconciler(cast("Any", file), cast("Any", looking), live=comparing_every(0.001), ending=ending):
        assert looking.twice.wait(60)
    assert looking.looks[:50] == list(range(50))


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
