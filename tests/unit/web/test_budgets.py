"""Counting the error budget costs a bounded share of the time, and no page waits for it."""

import threading

from deltamirror.ops.slo import SloRow
from deltamirror.txnlog.access.patterns import ALL_TABLES, TablePattern
from deltamirror.web.pages.budgets import Budgets
from tests.support.mirrors.local import until


class Counter:
    """Counts at its own pace, and by its own clock."""

    def __init__(self, takes: float = 0.0) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.now, self.takes, self.may_go_on = 0.0, takes, threading.Event()
        self.may_go_on.set()

    def __call__(self, visible: TablePattern, table: str | None) -> tuple[SloRow, ...]:
        self.asked.append((visible.text, table))
        self.may_go_on.wait()
        self.now += self.takes
        return (row(len(self.asked)),)


def row(versions: int) -> SloRow:
    return SloRow(table=None, window="1 h", versions=versions, waiting=0, p50=None, p95=None, p99=None, objectives=())


def counted(budgets: Budgets, versions: int) -> None:
    until(lambda: [each.versions for each in budgets.of(ALL_TABLES)] == [versions])


def test_figures_are_counted_again_after_some_seconds_or_twenty_times_as_long_as_it_took() -> None:
    count = Counter(takes=2.0)
    budgets = Budgets(count, lambda: count.now)
    counted(budgets, 1)
    for seconds in (0.0, 15.0, 24.9):
        count.now = 2.0 + seconds
        assert budgets.of(ALL_TABLES) == (row(1),)
    count.now = 42.0
    counted(budgets, 2)
    assert len(count.asked) == 2


def test_each_reader_and_each_table_has_figures_of_its_own() -> None:
    count = Counter()
    budgets = Budgets(count, lambda: count.now)
    asked = [(ALL_TABLES, None), (TablePattern("sales.*"), None), (ALL_TABLES, "sales.orders")]
    for visible, table in asked:
        until(lambda: bool(budgets.of(visible, table)))  # noqa: B023  it is called at once
    assert count.asked == [(visible.text, table) for visible, table in asked]


def test_a_page_does_not_wait_for_a_count_that_lasts_and_few_go_on_at_once() -> None:
    count = Counter()
    budgets = Budgets(count, lambda: count.now)
    counted(budgets, 1)
    count.may_go_on.clear()
    count.now = 100.0
    assert budgets.of(ALL_TABLES) == (row(1),)
    for number in range(5):
        assert budgets.of(ALL_TABLES, f"t{number}") == ()
    until(lambda: len(count.asked) == 3)  # the first, its second count, and one table
    count.may_go_on.set()
    until(lambda: bool(budgets.of(ALL_TABLES, "t4")))


def test_a_count_that_fails_leaves_the_figures_before() -> None:
    def count(*_: object) -> tuple[SloRow, ...]:
        if now[0]:
            raise OSError("no answer of postgresql://me:hunter2@db/lake")
        return (row(1),)

    now = [0.0]
    budgets = Budgets(count, lambda: now[0])
    counted(budgets, 1)
    now[0] = 100.0
    for _ in range(3):
        assert budgets.of(ALL_TABLES) == (row(1),)
