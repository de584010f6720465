"""Percentiles of commit-to-visible times, error budgets and burn rates, per table and overall."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from deltamirror.config import Settings, SloSettings, Switch
from deltamirror.txnlog.access.patterns import ALL_TABLES, TablePattern
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.visibility import VisibleCount, visible_counts
from deltamirror.txnlog.tables.registry import table_info

WINDOWS: Final[Mapping[str, int]] = {"1 h": 3_600_000, "24 h": 86_400_000, "30 d": 2_592_000_000}
"""By name, in milliseconds, the shortest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A share of the versions that has to be visible within a time, and what became of it."""

    percent: int
    seconds: float
    slow: int
    """Versions that took longer, or wait for longer."""
    budget_left: float
    """From 1, no version was slow, to 0: as many as the objective allows, or more."""
    burn_rate: float
    """How fast the budget is spent: at 1 it lasts exactly for the window, at 10 for a tenth of it."""

    @property
    def is_met(self) -> bool:
        """Whether there were no more slow versions than it allows."""
        return self.burn_rate <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SloRow:
    """A table, or all of them, in one window. Times are rounded up to two significant digits."""

    table: str | None
    """None: all tables."""
    window: str
    versions: int
    waiting: int
    """Of these, not published yet: they count with their age."""
    p50: float | None
    p95: float | None
    p99: float | None
    objectives: tuple[Objective, ...]

    @property
    def worst(self) -> Objective:
        """The objective with the least budget."""
        return max(self.objectives, key=lambda each: each.burn_rate)

    @property
    def objective(self) -> float:
        """The seconds of the worst objective."""
        return self.worst.seconds

    @property
    def budget_left(self) -> float:
        """Of the worst objective."""
        return self.worst.budget_left

    @property
    def burn_rate(self) -> float:
        """Of the worst objective."""
        return self.worst.burn_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class SloReport:
    """Every window, overall and by table."""

    overall: tuple[SloRow, ...]
    tables: tuple[SloRow, ...]
    """Of tables that published something in the longest window, or wait for it; by name, then by window."""


def report(
    database: Database,
    settings: Settings,
    *,
    table: str | None = None,
    visible: TablePattern = ALL_TABLES,
    by_table: bool = True,
) -> SloReport:
    """How long commits of the ``visible`` tables, or of one, take to become visible to readers.

    ``by_table`` False leaves single tables out.

    The number of queries does not depend on the number of tables.
    """
    with database.read() as connection:
        table_id = None if table is None else table_info(connection, table).id
        counts = visible_counts(
            connection,
            [*WINDOWS.values()],
            Switch.of(settings),
            table_id=table_id,
            visible=visible,
            by_table=by_table,
        )
    named = defaultdict[str, list[VisibleCount]](list)
    for count in counts:
        named[count.table].append(count)
    single = [row for name in sorted(named) for row in _rows(name, named[name], settings.slo)] if by_table else []
    return SloReport(overall=tuple(_rows(None, counts, settings.slo)), tables=tuple(single))


def percentile(times: Iterable[tuple[int, int]], percent: int) -> int | None:
    """The time that so many percent of the versions did not exceed, by (time, versions); None without any version."""
    ordered = sorted(times)
    total = sum(versions for _, versions in ordered)
    rank, passed = -(-total * percent // 100), 0
    for time, versions in ordered:
        passed += versions
        if passed >= rank:
            return time
    return None


def _rows(table: str | None, counts: Iterable[VisibleCount], slo: SloSettings) -> Iterator[SloRow]:
    times: dict[int, int] = defaultdict(int)
    waiting, counts = 0, list(counts)
    for index, window in enumerate(WINDOWS):  # a longer window has all that a shorter one has
        for count in counts:
            if count.window == index:
                times[count.milliseconds] += count.versions
                waiting += count.versions if count.waiting else 0
        yield _row(table, window, times, waiting, slo)


def _row(table: str | None, window: str, times: Mapping[int, int], waiting: int, slo: SloSettings) -> SloRow:
    p50, p95, p99 = (_seconds(percentile(times.items(), percent)) for percent in (50, 95, 99))
    objectives = tuple(_objective(percent, seconds, times) for percent, seconds in ((95, slo.p95), (99, slo.p99)))
    total = sum(times.values())
    return SloRow(
        table=table, window=window, versions=total, waiting=waiting, p50=p50, p95=p95, p99=p99, objectives=objectives
    )


def _objective(percent: int, seconds: float, times: Mapping[int, int]) -> Objective:
    total = sum(times.values())
    slow = sum(versions for time, versions in times.items() if time > seconds * 1000)
    burn = slow / total / (1 - percent / 100) if total else 0.0
    burn = round(burn, 6)  # 5 of 100 are exactly the budget of 95 %
    return Objective(percent=percent, seconds=seconds, slow=slow, budget_left=max(0.0, 1 - burn), burn_rate=burn)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
