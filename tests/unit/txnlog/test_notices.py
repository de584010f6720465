"""Notices come at once, but not more often than of use, and nobody fails because of them."""

from itertools import pairwise

import pytest

from deltamirror.errors import Unavailable
from deltamirror.txnlog.database.engines.notices import Sender


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
