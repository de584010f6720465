"""The listing of files has every value as it was committed, however the database hands it over."""

import sqlite3
from typing import Any

import psycopg
import pytest
from sqlalchemy import Integer, Select, event, literal_column, select, update

from deltamirror import Add, Catalog, DeletionVector, Table
from deltamirror.txnlog.content.rows import file_row
from deltamirror.txnlog.database import text_columns
from deltamirror.txnlog.database.schema import files
from deltamirror.txnlog.tables.listing import FILES_SCHEMA
from tests.support.lakes.lake import add, as_adds, create, execute, opened, paths

pytestmark = pytest.mark.default_on("sqlite", "postgresql", "duckdb")

VECTOR = DeletionVector(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_in_bytes=40, cardinality=6
)
ODD = [
    add("plain", day="mon"),
    add("bare", day=None, data_change=False),
    add("stats", day="tue", stats='{"numRecords": 1,\n "nullCount": {}}'),
    add("no-text", day="mon", stats=""),
    add('quo\'ted "é" % , 🙂', day="a'b\"\\", size=0, modification_time=-1),
    add("rewritten", day="mon", stats='{"numRecords":9}', deletion_vector=VECTOR),
    add("tagged", day="mon", tags={"A": "1", "b": ""}, clustering_provider="liquid"),
    add("numbered", day="mon", base_row_id=0, default_row_commit_version=2**53),
]
"""Files of which some have a value and others have none, in every column that may be null."""


def create_odd(catalog: Catalog, given: list[Add]) -> Table:
    """A table of these files, with values as only imported logs have them: no commit of ours may."""
    table = create(catalog, partition_by=["day"])
    names = [f"name-{number}" for number in range(len(given))]
    for some in (names[:1], names[1:5], names[5:]):
        if some:
            table.append([add(each, day="mon") for each in some])
    with catalog.database.write() as session:
        for name, each in zip(names, given, strict=True):
            row = dict(zip(files.c.keys(), file_row(0, 0, 0, each), strict=True))
            for key in ("table_id", "commit_id", "ordinal"):
                del row[key]
            session.execute(update(files).where(files.c.path == name).values(row))
    return table


def by_path(adds: list[Add]) -> list[Add]:
    return sorted(adds, key=lambda each: each.path)


def assert_listed(table: Table, expected: list[Add]) -> None:
    listed = table.snapshot().files()
    assert listed.schema == FILES_SCHEMA
    assert by_path(as_adds(listed)) == by_path(expected)
    assert by_path(table.snapshot().adds()) == by_path(expected)


def test_each_value_is_listed_as_it_was_committed(catalog: Catalog) -> None:
    table = create_odd(catalog, ODD)
    assert_listed(table, ODD)
    versions = dict(
        zip(*(table.snapshot().files().column(each).to_pylist() for each in ("path", "added_version")), strict=True)
    )
    assert [versions[each.path] for each in ODD] == [1, 2, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("removed", [0, 1])
def test_each_version_has_its_own_files(catalog: Catalog, removed: int) -> None:
    """Also where a file was removed, and the rows of all others are held against that."""
    table = create_odd(catalog, ODD)
    if removed:
        table.remove(ODD[:removed])
    expected = [ODD[:0], ODD[:1], ODD[:5], ODD, ODD[removed:]]
    for version in range(table.snapshot().version + 1):
        assert paths(table, version=version) == sorted(each.path for each in expected[version])


@pytest.mark.parametrize("field", ["stats", "tags", "partition_values", "path"])
def test_values_that_hold_what_separates_them_are_listed(catalog: Catalog, field: str) -> None:
    separated = {
        "stats": add("x", day="mon", stats='{"a":"\x1f"}'),
        "tags": add("x", day="mon", tags={"a": "\x1f"}),
        "partition_values": add("x", day="\x1f"),
        "path": add("x\x1fy", day="mon"),
    }[field]
    assert_listed(create_odd(catalog, [*ODD, separated]), [*ODD, separated])


@pytest.mark.parametrize("stats", [None, "", "{}"])
def test_columns_of_one_value_are_listed(catalog: Catalog, stats: str | None) -> None:
    several = [add(each, day=None, stats=stats) for each in ("x", "y")]
    assert_listed(create_odd(catalog, several), several)


def test_a_table_without_files_is_listed(catalog: Catalog) -> None:
    assert_listed(create(catalog), [])


def test_large_tables_are_listed_in_parts(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_odd(catalog, ODD)
    monkeypatch.setattr(type(catalog.database), "rows_together", 2)
    assert_listed(table, ODD)
    assert table.snapshot().files({"day": "tue"}).column("path").to_pylist() == ["stats"]
    assert as_adds(table.snapshot(0).files()) == []


def test_texts_too_long_for_sqlite_are_listed(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    several = [add(f"long-{number}", day="mon", stats=f'{{"numRecords":{number:0100}}}') for number in range(1, 101)]
    table = create_odd(lake, several)
    event.listen(lake.database.engine, "checkout", lambda each, *_: each.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5_000))
    row_by_row, seen = lake.database._fetch_rows, []

    def see(*given: Any) -> Any:
        seen.append(given)
        return row_by_row(*given)

    monkeypatch.setattr(lake.database, "_fetch_rows", see)
    assert_listed(table, several)
    assert seen


@pytest.mark.postgres
def test_texts_too_long_for_postgresql_are_listed(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By any other error: what it takes to get this one is a gigabyte."""
    with opened(postgres_url) as catalog:
        catalog.init()
        table = create_odd(catalog, ODD)
        failing: Select[int] = select(literal_column("1 / 0", Integer))
        monkeypatch.setattr(type(catalog.database), "too_long", (psycopg.errors.DivisionByZero,))
        monkeypatch.setattr(text_columns, "joined_once", lambda *_: failing)
        assert_listed(table, ODD)


def test_files_of_a_commit_that_is_under_way_are_not_listed(catalog: Catalog) -> None:
    table = create_odd(catalog, ODD)
    execute(catalog, "UPDATE dl_files SET commit_id = -commit_id - 1 WHERE path = 'tagged'")
    assert_listed(table, [each for each in ODD if each.path != "tagged"])


def test_only_files_of_chosen_partitions_are_listed(catalog: Catalog) -> None:
    table, seen = create_odd(catalog, ODD), []

    def of_tuesday(texts: Any) -> list[str]:
        seen.extend(texts)
        return [each for each in texts if "tue" in each]

    listed = table.snapshot().files_among(of_tuesday)
    assert listed.schema == FILES_SCHEMA
    assert listed.column("path").to_pylist() == ["stats"]
    assert sorted(seen) == sorted({*table.snapshot().files().column("partition_values").to_pylist()})
    assert table.snapshot().files_among(lambda _: []).equals(FILES_SCHEMA.empty_table())
    assert sorted(table.snapshot().files_among(None).column("path").to_pylist()) == paths(table)
    assert sorted(table.snapshot().files_among(lambda texts: texts).column("path").to_pylist()) == paths(table)


def test_a_head_is_the_same_snapshot_as_its_version(catalog: Catalog) -> None:
    table = create_odd(catalog, ODD)
    head = table.snapshot()
    assert head == table.snapshot(head.version)
    table.alter(properties={"delta.appendOnly": True})
    assert table.snapshot() == table.snapshot(head.version + 1) != head


@pytest.mark.postgres
def test_a_table_is_listed_by_one_connection(postgres_url: str) -> None:
    with opened(postgres_url) as catalog:
        catalog.init()
        create_odd(catalog, ODD)
    with opened(postgres_url) as catalog, psycopg.connect(postgres_url) as other:
        assert catalog.table("t").snapshot().files().num_rows == len(ODD)
        count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert other.execute(count).fetchall() == [(1,)]


@pytest.mark.postgres
def test_a_connection_that_broke_while_it_idled_is_not_taken(postgres_url: str) -> None:
    with opened(postgres_url) as catalog:
        catalog.init()
        create_odd(catalog, ODD)
    with opened(postgres_url) as catalog, psycopg.connect(postgres_url, autocommit=True) as other:
        taken = catalog.table("t").snapshot()
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert taken.files().num_rows == len(ODD)
