"""Connections that have no server process of their own are found out, however the pooler hands processes out."""

from collections import deque
from itertools import count

import pytest

from deltamirror.txnlog.database.engines.sessions import _share_backends


@pytest.mark.parametrize("processes", range(1, 7))
def test_a_pooler_that_hands_processes_out_in_turn_is_found_out(processes: int) -> None:
    turns = count()

    def ask() -> int:
        return next(turns) % processes

    assert _share_backends(ask, ask)


@pytest.mark.parametrize("processes", range(1, 7))
def test_a_pooler_that_hands_out_the_last_one_used_is_found_out(processes: int) -> None:
    idle = deque(range(processes))

    def ask() -> int:
        return idle[-1]

    assert _share_backends(ask, ask)


def test_connections_with_processes_of_their_own_are_not() -> None:
    assert not _share_backends(lambda: 1, lambda: 2)
