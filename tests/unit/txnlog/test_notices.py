"""Notices come at once, but not more often than of use, and nobody fails because of them."""

import threading
from collections.abc import Iterator
from itertools import pairwise, repeat
from types import SimpleNamespace
from typing import Any

import pytest

from deltamirror.errors import Unavailable
from deltamirror.txnlog.database.engines import notices
from deltamirror.txnlog.database.engines.notices import Listeners, Sender


class Moments:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = 1000.0

    def __call__(self) -> float:
        return self.moment


@pytest.fixture
def moments() -> Moments:
    return Moments()


def test_the_first_commit_is_announced_at_once_and_those_right_after_it_are_not(moments: Moments) -> None:
    sent: list[float] = []
    sender = Sender(lambda: sent.append(moments.moment), moments)
    for step in range(40):
        moments.moment = 1000.0 + step / 100
        sender.send()
    assert sent[0] == 1000.0
    assert 4 <= len(sent) <= 5
    assert min(later - earlier for earlier, later in pairwise(sent)) >= 0.09


def test_sending_tells_whether_it_sent(moments: Moments) -> None:
    sender = Sender(lambda: None, moments)
    assert [sender.send(), sender.send()] == [True, False]


def test_trouble_is_swallowed_and_the_next_notice_is_tried(moments: Moments) -> None:
    tried: list[float] = []

    def fail() -> None:
        tried.append(moments.moment)
        raise Unavailable("away")

    sender = Sender(fail, moments)
    assert not sender.send()
    moments.moment += 1
    assert not sender.send()
    assert len(tried) == 2


class Line:
    """A connection that brings notices, if it is not shared, and moves the clock while it waits for them."""

    def __init__(self, moments: Moments, *, shared: bool) -> None:
        self._moments, self._shared, self._pending = moments, shared, 0

    def execute(self, statement: str) -> None:
        assert statement == "LISTEN deltamirror"

    def notify(self) -> None:
        self._pending += not self._shared

    def has_input(self, _: object, seconds: float) -> bool:
        if not self._pending:
            self._moments.moment += seconds
        return self._pending > 0

    def notifies(self, *, timeout: float, stop_after: int) -> Iterator[object]:
        assert timeout == 0
        pending, self._pending = min(self._pending, stop_after), 0
        return repeat("a notice", pending)


class Stop(threading.Event):
    """Never set; waiting for it moves the clock."""

    def __init__(self, moments: Moments) -> None:
        super().__init__()
        self._moments = moments

    def wait(self, timeout: float | None = None) -> bool:
        self._moments.moment += timeout or 0
        return False


@pytest.mark.parametrize(("poll", "polled"), [(0.5, 2.0), (0.05, 0.2), (60.0, 60.0)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_listener_that_hears_its_own_notice_polls_less_often(
    moments: Moments, monkeypatch: pytest.MonkeyPatch, *, shared: bool, poll: float, polled: float
) -> None:
    monkeypatch.setattr(notices, "time", SimpleNamespace(monotonic=moments))
    line, stop = Line(moments, shared=shared), Stop(moments)
    monkeypatch.setattr(notices, "_has_input", line.has_input)
    connected: Any = line
    listeners = Listeners(lambda: connected, line.notify)

    def waited() -> float:
        begun = moments.moment
        listeners.wait(poll, stop)
        return moments.moment - begun

    assert waited() == 0  # it begins to listen
    if not shared:
        assert waited() == 0  # its own notice
        assert waited() == pytest.approx(0.1, abs=0.1)  # until other writers may send again
    assert [waited(), waited()] == pytest.approx([poll if shared else polled] * 2)


def test_a_notice_ends_the_wait(moments: Moments, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "time", SimpleNamespace(monotonic=moments))
    line, stop = Line(moments, shared=False), Stop(moments)
    monkeypatch.setattr(notices, "_has_input", line.has_input)
    connected: Any = line
    listeners = Listeners(lambda: connected, line.notify)
    for _ in range(3):
        listeners.wait(0.5, stop)
    begun = moments.moment
    line.notify()
    listeners.wait(0.5, stop)
    assert moments.moment == begun
