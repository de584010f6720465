"""All tables at once: found, sorted and paged by the database."""

from typing import Any

import pytest
from sqlalchemy import event

from deltamirror import Catalog
from deltamirror.config import Switch
from deltamirror.txnlog.access.patterns import TablePattern
from deltamirror.txnlog.queue.overview import Show, Sort, Wanted, tables_page, totals
from deltamirror.txnlog.queue.table_records import checkpoints_of, lags_since, recent_lags, versions_of
from tests.support.lakes.lake import add, execute
from tests.support.mirrors.claims import work_on

ALL_ON = Switch()

pytestmark = pytest.mark.requirement("R27")


@pytest.fixture
def five(catalog: Catalog) -> Catalog:
    """Tables of every kind: published, waiting, failing, with a failed checkpoint, quarantined and paused."""
    for name in ("good", "late", "fails", "thin", "stopped"):
        catalog.create_table(name, location=f"memory://lake/{name}", schema="id long").append([add("a")])
        work_on(catalog, name)
    for name in ("late", "fails", "late"):
        catalog.table(name).append([add("b")])
    ids = {info.name: info.id for info in catalog.tables()}
    execute(
        catalog,
        "UPDATE dl_mirror_status SET state = 'FAILED', error_code = 'unavailable', error_message = 'no',"
        " error_stage = 'put', error_key = 'k' WHERE table_id = :id AND version = 2",
        id=ids["fails"],
    )
    execute(
        catalog,
        "INSERT INTO dl_checkpoints (table_id, version, state, attempts, reason, created_at, updated_at, error_code,"
        " error_message, error_stage, error_key) VALUES (:id, 1, 'FAILED', 1, 'due', 1, 1, 'internal', 'm', 'put', '')",
        id=ids["thin"],
    )
    execute(
        catalog,
        "UPDATE dl_tables SET quarantined_at = 5, quarantine_reason = 'other bytes', mirror_paused = true"
        " WHERE table_id = :id",
        id=ids["stopped"],
    )
    return catalog


def names(catalog: Catalog, switch: Switch = ALL_ON, **wanted: Any) -> list[str]:
    with catalog.database.read() as connection:
        return [table.name for table in tables_page(connection, Wanted(**wanted), switch).tables]


@pytest.mark.default_on("sqlite", "postgresql")
def test_tables_are_searched_filtered_and_sorted(five: Catalog) -> None:
    assert names(five) == ["stopped", "fails", "thin", "late", "good"]
    assert names(five, sort=Sort.NAME) == ["fails", "good", "late", "stopped", "thin"]
    assert names(five, sort=Sort.BACKLOG)[0] == "late"
    assert names(five, sort=Sort.LAG)[:2] == ["late", "fails"]
    assert names(five, sort=Sort.COMMITTED)[0] == "late"
    assert names(five, show=Show.FAILING) == ["stopped", "fails", "thin"]
    assert names(five, show=Show.WAITING) == ["fails", "late"]
    assert names(five, show=Show.QUARANTINED) == names(five, show=Show.PAUSED) == ["stopped"]
    assert names(five, search="AIL") == ["fails"]
    assert names(five, search="%") == names(five, search="_") == []
    assert names(five, visible=TablePattern("f*"), search="") == ["fails"]


@pytest.mark.default_on("sqlite", "postgresql")
def test_pages_end_where_the_tables_end(five: Catalog) -> None:
    with five.database.read() as connection:
        found = [tables_page(connection, Wanted(sort=Sort.NAME, size=2, page=page)) for page in (1, 2, 3, 9)]
        none = tables_page(connection, Wanted(search="nothing"))
    assert [[table.name for table in page.tables] for page in found] == [
        ["fails", "good"],
        ["late", "stopped"],
        ["thin"],
        ["thin"],
    ]
    assert {(page.matching, page.pages) for page in found} == {(5, 3)}
    assert (found[-1].page, none.matching, none.pages, none.page) == (3, 0, 1, 1)


def test_the_totals_are_what_sql_counts(five: Catalog) -> None:
    with five.database.read() as connection:
        found, part = totals(connection), totals(connection, TablePattern("l*"))
    [(waiting,)] = execute(five, "SELECT count(*) FROM dl_mirror_status WHERE state <> 'SUCCESS'")
    assert found.backlog == waiting == 3
    assert found.oldest_ms > 0
    assert (found.tables, found.waiting, found.failing, found.quarantined, found.paused) == (5, 2, 3, 1, 1)
    assert (part.tables, part.backlog, part.failing) == (1, 2, 0)
    with five.database.read() as connection:
        assert totals(connection, TablePattern("none")).backlog == 0


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R116")
def test_disabled_tables_are_neither_late_nor_failing_and_come_last(five: Catalog) -> None:
    off = Switch(patterns=(("late", False), ("fails", False), ("stopped", False)))
    with five.database.read() as connection:
        found = totals(connection, switch=off)
    assert (found.backlog, found.oldest_ms, found.waiting, found.disabled) == (0, 0, 0, 2)
    assert (found.failing, found.quarantined) == (2, 1)  # a quarantine stays one
    assert names(five, off)[:3] == ["stopped", "thin", "good"]
    assert names(five, off, show=Show.DISABLED, sort=Sort.NAME) == ["fails", "late"]
    assert names(five, off, show=Show.WAITING) == []
    assert (
        set(names(five, off, sort=Sort.LAG)[-2:]) == set(names(five, off, sort=Sort.BACKLOG)[-2:]) == {"fails", "late"}
    )


def test_how_late_versions_were_is_known_in_steps_of_any_width(catalog: Catalog) -> None:
    table = catalog.create_table("t", location="memory://lake/t", schema="id long")
    for number in range(9):
        table.append([add(f"f{number}")])
    work_on(catalog)
    table.append([add("unpublished")])
    execute(catalog, "UPDATE dl_table_versions SET committed_at = version * 10")
    execute(catalog, "UPDATE dl_mirror_status SET published_at = version * 10 + version WHERE version < 10")
    key = table.info().id
    with catalog.database.read() as connection:
        some = recent_lags(connection, [key], count=3)
        assert [(lag.version, lag.milliseconds) for lag in some[key]] == [(7, 7), (8, 8), (9, 9)]
        assert [lag.version for lag in lags_since(connection, key, since=35, count=100)] == [4, 5, 6, 7, 8, 9]
        assert [lag.version for lag in lags_since(connection, key, since=0, count=4)] == [0, 3, 6, 9]
        assert lags_since(connection, key, since=91, count=4) == []
        first, *_, last = versions_of(connection, key, before=None, limit=3)
        assert (first.version, first.lag_ms, last.version, last.lag_ms) == (10, None, 8, 8)
        assert [row.version for row in versions_of(connection, key, before=2, limit=3)] == [1, 0]
        assert checkpoints_of(connection, key, limit=3) == []


def test_ten_thousand_tables_take_as_many_queries_as_ten(lake: Catalog) -> None:
    lake.create_table("t1", location="memory://lake/t", schema="id long").append([add("a")])
    add_tables(lake, first=2, last=10)
    few = queries(lake, tables=10)
    add_tables(lake, first=11, last=10_000)
    assert queries(lake, tables=10_000) == few
    assert few < 12


def add_tables(lake: Catalog, *, first: int, last: int) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last)"
    for insert in (
        "dl_tables (table_id, name, location, mirror_paused, log_start, published_version, created_at)"
        " SELECT i, 't' || i, 'memory://lake/t' || i, false, 0, 0, 1",
        "dl_heads (table_id, version, committed_at, metadata_version, protocol_version) SELECT i, 0, i, 0, 0",
    ):
        execute(lake, f"{numbers} INSERT INTO {insert} FROM n", first=first, last=last)


def queries(lake: Catalog, *, tables: int) -> int:
    """How many statements a page takes."""
    asked: list[object] = []

    def count(*arguments: object) -> None:
        asked.append(arguments)

    event.listen(lake.database.engine, "before_cursor_execute", count)
    try:
        with lake.database.read() as connection:
            assert totals(connection).tables == tables
            assert len(tables_page(connection, Wanted(page=4, size=2)).tables) == 2
    finally:
        event.remove(lake.database.engine, "before_cursor_execute", count)
    return len(asked)
