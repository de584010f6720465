"""Commit-to-visible times, percentiles, error budget and burn rate: the same numbers as a model of plain Python."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import event

from deltamirror import Catalog
from deltamirror.config import MirrorSettings, Settings, SloSettings
from deltamirror.ops.slo import report
from deltamirror.ops.slo.reporting import percentile
from deltamirror.txnlog.access.patterns import TablePattern
from tests.support.lakes.lake import create, execute
from tests.support.mirrors.local import append, make_table, mirror_of

HOUR = 3_600_000
SETTINGS = Settings(slo=SloSettings(p95=5.0, p99=60.0))


def published(catalog: Catalog, table: str, ages_and_times: list[tuple[int, int]]) -> None:
    """Versions of a table that became visible so many milliseconds ago, after so many milliseconds."""
    table_id = execute(catalog, "SELECT table_id FROM dl_tables WHERE name = :name", name=table)[0][0]
    now = "(SELECT updated_at FROM dl_mirror_status WHERE table_id = :table_id AND version = 0)"
    for version, (age, time) in enumerate(ages_and_times):
        own = "WHERE table_id = :table_id AND version = :version"
        given = {"table_id": table_id, "version": version}
        execute(
            catalog,
            f"UPDATE dl_mirror_status SET state = 'SUCCESS', attempts = 1, published_at = {now} - :age {own}",
            **given,
            age=age,
        )
        execute(
            catalog,
            "UPDATE dl_table_versions SET committed_at = (SELECT published_at FROM dl_mirror_status "
            f"{own}) - :time {own}",
            **given,
            time=time,
        )
    last = {"table_id": table_id, "last": len(ages_and_times) - 1}
    execute(catalog, "UPDATE dl_tables SET published_version = :last WHERE table_id = :table_id", **last)


def rounded(milliseconds: int) -> int:
    """Up to two significant digits."""
    step: int = 10 ** max(len(str(max(milliseconds - 1, 0))) - 2, 0)
    return -(-milliseconds // step) * step


@pytest.mark.requirement("R77")
def test_percentiles_and_budgets_are_those_of_a_model_on_every_engine(catalog: Catalog) -> None:
    drawn = random.Random(16)
    tables = {}
    for name in ("a", "b"):
        append(create(catalog, name), 13)
        ages = [drawn.choice((10, 2 * HOUR, 30 * HOUR, 31 * 24 * HOUR)) for _ in range(14)]
        tables[name] = [(age, int(10 ** drawn.uniform(0, 6.2))) for age in ages]
        published(catalog, name, tables[name])
    found = report(catalog.database, SETTINGS)
    windows = {"1 h": HOUR, "24 h": 24 * HOUR, "30 d": 720 * HOUR}
    rows = [(row.table, row.window) for row in (*found.overall, *found.tables)]
    assert rows == [(name, window) for name in (None, "a", "b") for window in windows]
    for row in (*found.overall, *found.tables):
        among = [each for name, times in tables.items() if row.table in (None, name) for each in times]
        times = sorted(rounded(time) for age, time in among if age < windows[row.window])
        assert (row.versions, row.waiting) == (len(times), 0)
        assert row.p95 == times[-(-len(times) * 95 // 100) - 1] / 1000
        assert row.p50 == times[-(-len(times) // 2) - 1] / 1000
        p95, p99 = row.objectives
        slow = sum(time > 5_000 for time in times)
        assert p95.slow == slow
        assert p95.burn_rate == pytest.approx(slow / len(times) / 0.05, abs=1e-5)
        assert p99.slow == sum(time > 60_000 for time in times)
        assert row.budget_left == max(0.0, 1 - row.burn_rate)
    [alone, *_] = report(catalog.database, SETTINGS, table="b").overall
    [seen, *_] = report(catalog.database, SETTINGS, visible=TablePattern("*b")).overall
    assert alone.versions == seen.versions == sum(age < HOUR for age, _ in tables["b"])


@pytest.mark.requirement("R77")
def test_versions_that_wait_count_with_their_age_in_every_window_also_of_paused_tables(
    lake: Catalog, tmp_path: Path
) -> None:
    table = make_table(lake, tmp_path)
    with mirror_of(lake) as engine:
        engine.run(once=True)
    [fine, *_] = report(lake.database, SETTINGS).overall
    assert (fine.versions, fine.waiting, fine.budget_left, fine.burn_rate) == (1, 0, 1.0, 0.0)
    append(table)
    lake.pause("t", unpublished=True)
    execute(
        lake, "UPDATE dl_table_versions SET committed_at = committed_at - :back WHERE version = 1", back=40 * 24 * HOUR
    )
    for row in report(lake.database, SETTINGS).overall:
        assert (row.versions, row.waiting, row.budget_left) == (2, 1, 0.0)
        assert row.burn_rate == 50.0, "of the 1 % that may take longer than 60 s"
        assert row.objective == 60.0


def test_what_other_writers_published_does_not_count_nor_an_empty_catalog(lake: Catalog) -> None:
    create(lake, "t")
    execute(lake, "UPDATE dl_mirror_status SET state = 'SUCCESS', attempts = 0, published_at = updated_at")
    execute(lake, "UPDATE dl_tables SET published_version = 0")
    [row, *_] = report(lake.database, SETTINGS).overall
    assert (row.versions, row.p95, row.budget_left) == (0, None, 1.0)
    assert report(lake.database, SETTINGS).tables == ()


def test_the_number_of_queries_does_not_depend_on_the_number_of_tables(lake: Catalog) -> None:
    for number in range(5):
        create(lake, f"t{number}")
    statements: list[str] = []
    event.listen(lake.database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
    assert len(report(lake.database, SETTINGS).tables) == 15
    assert len(statements) == 1
    statements.clear()
    assert report(lake.database, SETTINGS, by_table=False).tables == ()
    assert len(statements) == 1


@given(st.lists(st.integers(0, 10**7), min_size=1), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_the_least_time_that_so_many_did_not_exceed(times: list[int], percent: int) -> None:
    found = percentile(((time, 1) for time in times), percent)
    assert found in times
    assert 100 * sum(time <= found for time in times) >= percent * len(times)
    assert 100 * sum(time < found for time in times) < percent * len(times)


@pytest.mark.requirement("R116")
def test_versions_of_a_disabled_table_do_not_wait(catalog: Catalog) -> None:
    append(create(catalog, "t"), 1)
    off = replace(SETTINGS, mirror=MirrorSettings(enabled=False))
    assert [row.waiting for row in report(catalog.database, SETTINGS).overall] == [2, 2, 2]
    assert [row.waiting for row in report(catalog.database, off).overall] == [0, 0, 0]
