"""Checkpoints take a share of a service's time, and no log waits for its next one for too long."""

from dataclasses import dataclass, field

import pytest

from deltamirror.pipeline.plan.cadence import Cadence, due_checkpoint, is_late
from deltamirror.pipeline.service.pace import LONGEST_REST, Pace

pytestmark = pytest.mark.requirement("R18")

INTERVAL = 10


@dataclass
class Clock:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("percent", "rest"), [(20.0, 8.0), (50.0, 2.0), (1.0, 198.0), (100.0, 0.0)])
def test_the_rest_after_a_job_leaves_checkpoints_their_share_of_the_time(percent: float, rest: float) -> None:
    clock = Clock()
    pace = Pace(lambda: percent, clock=clock)
    assert pace.rest() == 0
    pace.worked(2.0)
    assert pace.rest() == pytest.approx(rest)
    clock.now += rest
    assert pace.rest() == pytest.approx(0)


def test_jobs_that_end_together_are_both_rested_from() -> None:
    pace = Pace(lambda: 20.0, clock=Clock())
    pace.worked(1.0)
    pace.worked(2.0)
    assert pace.rest() == pytest.approx(12.0)


@pytest.mark.parametrize("hours", [1.0, 48.0])
def test_no_rest_lasts_longer_than_five_minutes_however_long_jobs_took(hours: float) -> None:
    pace = Pace(lambda: 20.0, clock=(clock := Clock()))
    for _ in range(3):
        pace.worked(hours * 3600)
        assert pace.rest() == LONGEST_REST == 300
    clock.now += LONGEST_REST
    assert pace.rest() == 0


def test_a_changed_share_counts_from_the_next_job_on() -> None:
    percent = 20.0
    pace = Pace(lambda: percent, clock=(clock := Clock()))
    pace.worked(1.0)
    clock.now += 4.0
    percent = 50.0
    pace.worked(1.0)
    assert pace.rest() == pytest.approx(1.0)


@dataclass
class Table:
    """A table with one commit a second, all of them published; which checkpoints it asked for and got."""

    head: int = 0
    asked: int = 0
    written: int = 0
    waits: bool = False
    behind: list[int] = field(default_factory=list)

    def commit(self, pace: Pace, table_id: int) -> None:
        self.head += 1
        cadence = Cadence(interval=INTERVAL)
        due = due_checkpoint(cadence, [(self.head, 1)], head=self.head, last=self.asked)
        if due is not None:
            self.asked, self.waits = due.version, True
            if is_late(cadence, due.version, last=self.written):
                pace.hurry(table_id)
        self.behind.append(self.head - self.written)

    def write(self) -> None:
        self.written, self.waits = self.asked, False


@pytest.mark.requirement("R111")
@pytest.mark.parametrize(("tables", "cost"), [(1, 0.05), (50, 0.02), (50, 0.1), (50, 0.5), (200, 0.02)])
def test_many_tables_share_the_time_of_checkpoints_and_none_is_ten_intervals_behind(tables: int, cost: float) -> None:
    clock, worked, seconds = Clock(), 0.0, 600
    pace = Pace(lambda: 20.0, clock=clock)
    lake = [Table() for _ in range(tables)]
    free_at = clock.now
    for _ in range(seconds * 10):
        clock.now += 0.1
        if round(clock.now * 10) % 10 == 0:
            for table_id, table in enumerate(lake):
                table.commit(pace, table_id)
        while free_at <= clock.now:
            chosen = pace.late() if pace.rest() else [number for number, table in enumerate(lake) if table.waits]
            waiting = [each for each in sorted(chosen, key=lambda each: lake[each].written) if lake[each].waits]
            if not waiting:
                break
            pace.forget(waiting[:1])
            lake[waiting[0]].write()
            worked, free_at = worked + cost, max(free_at, clock.now) + cost
            pace.worked(cost)
    needed = tables * cost / INTERVAL  # of the time, if each checkpoint that is due were written
    bound = max(0.2, needed / 5)
    assert worked / seconds <= bound * 1.1
    if needed / 5 < 1:  # there is time for one checkpoint in five
        assert max(behind for table in lake for behind in table.behind) <= 10 * INTERVAL
