"""Rows in bulk are stored alike, whichever way they take: given as rows or as columns, few or many."""

from typing import Any

import pytest

from deltamirror import Catalog
from deltamirror.errors import InvalidInput
from deltamirror.txnlog.database.access import Columns, Database
from deltamirror.txnlog.database.schema import chunks, files
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import execute, opened

pytestmark = pytest.mark.default_on(*ENGINES)

NAMES = [column.name for column in files.columns]


def row(number: int) -> tuple[Any, ...]:
    """One of ``dl_files`` whose hash says nothing of its number; some texts, numbers and truths are missing."""
    stats = None if number % 3 == 0 else f'{{"note":"é\\n{number}"}}'
    base = None if number % 2 else -number
    return (
        1, number * 7919 % 10_007, 2**62, number, f"p{number}", None, "{}", 2**40 + number, 0, number % 5 > 0, stats,
        "" if number % 7 else None, None, base, 2**63 - 1, None,
    )  # fmt: skip


def insert(database: Database, rows: list[tuple[Any, ...]]) -> None:
    columns = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
    given = {name: columns[name] for name in reversed(NAMES) if set(columns[name]) != {None}}
    with database.write() as session:
        session.insert_columns(files, given, by="path_hash")


def stored(catalog: Catalog) -> list[tuple[Any, ...]]:
    found = execute(catalog, "SELECT * FROM dl_files ORDER BY ordinal")
    boolean = NAMES.index("data_change")
    return [(*each[:boolean], bool(each[boolean]), *each[boolean + 1 :]) for each in map(tuple, found)]


@pytest.mark.parametrize("number", [1, 99, 100, 1_101, 6_000])
def test_columns_are_the_rows_that_they_would_make(lake_url: str, number: int) -> None:
    rows = [row(each) for each in range(number)]
    with opened(lake_url) as catalog:
        insert(catalog.database, rows)
        assert stored(catalog) == rows
        with catalog.database.write() as session:
            session.execute(files.delete())
            session.insert_many(files, rows)
        assert stored(catalog) == rows


def test_no_rows_are_no_columns(lake_url: str) -> None:
    with opened(lake_url) as catalog, catalog.database.write() as session:
        session.insert_columns(files, {name: [] for name in NAMES}, by="path_hash")
        assert session.execute(files.select()).all() == []


def test_bytes_are_stored_as_they_are(lake_url: str) -> None:
    columns: Columns = {
        "commit_id": [1, 1], "chunk": [1, 0], "codec": ["plain", "plain"], "raw_bytes": [3, 0],
        "digest": [b"\0\xff", b""], "data": [b"\0\1\2", b"\xff"],
    }  # fmt: skip
    with opened(lake_url) as catalog, catalog.database.write() as session:
        session.insert_columns(chunks, columns, by="chunk")
        found = session.execute(chunks.select().order_by(chunks.c.chunk)).all()
        assert [(bytes(each.digest), bytes(each.data)) for each in found] == [(b"", b"\xff"), (b"\0\xff", b"\0\1\2")]


def test_text_without_utf8_is_refused_as_input(lake_url: str) -> None:
    rows = [(*row(each)[:4], "\ud800", *row(each)[5:]) for each in range(200)]
    with opened(lake_url) as catalog, pytest.raises(InvalidInput):
        insert(catalog.database, rows)
