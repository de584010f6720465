"""A service that runs until nothing is due leaves nothing that its own last job made due."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from deltamirror.pipeline.service.pace import Pace
from deltamirror.pipeline.service.progress import WorkInHand
from deltamirror.pipeline.service.service import Service
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.txnlog.database.access import Database
from deltamirror.work import Lane


class _Job:
    """Work that takes as long as somebody wants it to."""

    store = "store"
    tables = ("t",)
    is_retry = False

    def __init__(self, ends: threading.Event) -> None:
        self.ends = ends
        self.is_closed = False

    def run(self, *, escalate: object) -> Iterator[Any]:
        assert self.ends.wait(60)
        return iter(())

    def close(self) -> None:
        self.is_closed = True


class _Lane:
    """Hands out what a list of answers says, one for each time that it is asked."""

    kind = Lane.COMMITS
    concurrency = 1

    pace = Pace(lambda: 100.0)

    def __init__(self, *answers: Callable[[], list[_Job]]) -> None:
        self._answers = list(answers)

    def jobs(self, *, except_stores: Sequence[str], except_retries: Sequence[str]) -> list[_Job]:
        return self._answers.pop(0)() if self._answers else []


class _Outlook:
    """Wakes the service once, while its first job is still at work."""

    def __init__(self) -> None:
        self._is_first = True

    def look(self, wake: Callable[[], None]) -> None:
        if self._is_first:
            wake()
        self._is_first = False

    def awaited(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing is held."""


def test_what_becomes_due_between_a_claim_and_the_end_of_a_job_is_done() -> None:
    ends = threading.Event()
    first, second = _Job(ends), _Job(ends)

    def ended() -> list[_Job]:
        """Nothing is due yet when it is asked for; by the time of the answer, the first job is over."""
        ends.set()
        while service._is_busy():
            pass
        return []

    commits = _Lane(lambda: [first])
    checkpoints = _Lane(list, ended, lambda: [second])
    service = Service(
        cast("Database", None),
        cast("Any", [commits, checkpoints]),
        poll=lambda: 1.0,
        observe=lambda _: None,
        shares_database=True,
        outlook=cast("Any", _Outlook()),
        ending=Ending(lease=lambda: 60.0, give_up=lambda: None),
        progress=WorkInHand(),
    )
    service.run(once=True)
    assert (first.is_closed, second.is_closed) == (True, True)
