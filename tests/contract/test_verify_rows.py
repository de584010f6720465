"""Every column of the rows that a commit leaves is held against its lines, but for those that no line determines."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import BigInteger, Boolean, Column, Integer, LargeBinary, Table

from deltamirror import Catalog
from deltamirror.txnlog.content.row_audit import row_differences
from deltamirror.txnlog.content.row_differences import RowDifference
from deltamirror.txnlog.database.schema import (
    app_transactions,
    chunks,
    domains,
    files,
    metadata,
    protocols,
    removes,
    versions,
)
from deltamirror.txnlog.queue.record_audit import record_differences
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, execute
from tests.support.lakes.moved import lake_in, lake_of_test
from tests.support.mirrors.local import mirror_of

pytestmark = [pytest.mark.requirement("R70"), pytest.mark.requirement("R72")]

HEAD = 4
PROJECTIONS = (versions, chunks, files, removes, metadata, protocols, app_transactions, domains)
UNDETERMINED = {
    ("dl_table_versions", "kind"): "who encoded the lines, they do not say",
    ("dl_commit_chunks", "chunk"): "any number that keeps the order of the chunks",
    ("dl_commit_chunks", "codec"): "the database takes no other than the two, and the wrong one does not decode",
    ("dl_files", "ordinal"): "any number that no other add of the commit has",
    ("dl_removes", "ordinal"): "the same",
}
OTHERWISE_NAMED = ("table_id", "commit_id", "version", "chunk", "path", "dv_id", "app_id", "domain")
"""Columns by which rows are found: where one of them is wrong, another row is missing."""


def fill(catalog: Catalog, folder: Path) -> None:
    """A table that has rows of all kinds, published up to its head."""
    properties = {"delta.checkpointInterval": "3", "delta.enableDeletionVectors": "true"}
    table = catalog.create_table(
        "t",
        location=str(folder / "t"),
        schema="id long, day date",
        partition_by=["day"],
        properties=properties,
        features=["domainMetadata"],
    )
    for number in range(HEAD - 1):
        with catalog.transaction() as tx:
            day = {"day": None if number == 1 else f"2024-05-0{number + 1}"}
            tx.append("t", [add(f"{number}-{part}.parquet", partition_values=day) for part in range(2)])
            tx.set_transaction("t", "loader", number)
            tx.set_domain("t", "mine", str(number))
            if number:
                tx.remove("t", [f"{number - 1}-0.parquet"])
    table.alter(properties={"owner": "me"})
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).failures == []


@pytest.fixture(scope="module")
def made_lake(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with lake_in(folder, made_catalogs) as catalog:
        fill(catalog, folder)
    return folder


@pytest.fixture
def table(sqlite_lake: str) -> Iterator[Catalog]:
    """The catalog with that table."""
    with closing(Catalog(sqlite_lake)) as catalog:
        yield catalog


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return lake_of_test(request, tmp_path, made="made_lake")


def found_in(catalog: Catalog, *, is_foreign: bool = False) -> list[RowDifference]:
    table_id = catalog.table("t").info().id
    records = record_differences(catalog.database, table_id, is_foreign=is_foreign)
    return [*records, *row_differences(catalog.database, table_id)]


def other_value(column: Column[object]) -> str:
    """Another value than the one that is there, in SQL."""
    match column.type:
        case Boolean():
            return f"NOT COALESCE({column.name}, false)"
        case BigInteger() | Integer():
            return f"COALESCE({column.name}, 0) + 1"
        case LargeBinary():
            return "x'00'"
        case _:
            return "'verbatim'" if column.name == "kind" else f"COALESCE({column.name}, '') || 'x'"


COLUMNS = [
    pytest.param(projection, column, id=f"{projection.name}.{column.name}")
    for projection in PROJECTIONS
    for column in projection.columns
    if (projection.name, column.name) not in UNDETERMINED
]


def test_rows_in_order_contradict_nothing(table: Catalog) -> None:
    assert found_in(table) == []


@pytest.mark.parametrize(("projection", "column"), COLUMNS)
def test_a_wrong_value_in_any_column_that_lines_determine_is_found(
    table: Catalog, projection: Table, column: Column[object]
) -> None:
    name = projection.name
    execute(
        table,
        f"UPDATE {name} SET {column.name} = {other_value(column)} WHERE rowid = (SELECT max(rowid) FROM {name})",
    )
    found = found_in(table)
    assert found, "nothing is found"
    if column.name not in OTHERWISE_NAMED and projection is not chunks:
        assert (name, column.name) in {(each.table, each.column) for each in found}
    assert all(each.expected != each.found and each.remedy for each in found)


@pytest.mark.parametrize("projection", [*PROJECTIONS], ids=lambda each: each.name)
def test_a_row_that_is_gone_is_found(table: Catalog, projection: Table) -> None:
    name = projection.name
    execute(table, f"DELETE FROM {name} WHERE rowid = (SELECT min(rowid) + 1 FROM {name})")
    execute(table, f"DELETE FROM {name} WHERE rowid = (SELECT max(rowid) FROM {name})")
    assert projection.name in {each.table for each in found_in(table)}


def test_two_adds_of_a_commit_have_two_numbers(table: Catalog) -> None:
    execute(table, "UPDATE dl_files SET ordinal = 1")
    assert {each.column for each in found_in(table)} == {"ordinal"}


RECORDS = {
    "UPDATE dl_heads SET version = version + 1": "dl_heads.version",
    "UPDATE dl_heads SET committed_at = committed_at + 1": "dl_heads.committed_at",
    "UPDATE dl_heads SET metadata_version = 3": "dl_heads.metadata_version",
    "UPDATE dl_heads SET protocol_version = 3": "dl_heads.protocol_version",
    "UPDATE dl_heads SET diverged_version = 2": "dl_heads.diverged_version",
    "UPDATE dl_tables SET published_version = published_version + 1": "dl_tables.published_version",
    "UPDATE dl_tables SET published_version = published_version - 1": "dl_tables.published_version",
    "UPDATE dl_mirror_status SET state = 'PENDING' WHERE version = 2": "dl_tables.published_version",
    "DELETE FROM dl_mirror_status WHERE version = 2": "dl_mirror_status.version",
}
"""Statements after which records of a table contradict its versions, and where that is found."""


@pytest.mark.parametrize(("statement", "place"), RECORDS.items(), ids=RECORDS)
def test_records_that_contradict_versions_are_found(table: Catalog, statement: str, place: str) -> None:
    execute(table, statement)
    assert [f"{each.table}.{each.column}" for each in found_in(table)] == [place]


def test_a_divergence_is_no_contradiction_while_the_log_has_foreign_commits(table: Catalog) -> None:
    execute(table, "UPDATE dl_heads SET diverged_version = 5")
    assert found_in(table, is_foreign=True) == []


@pytest.mark.default_on(*ENGINES)
def test_rows_are_compared_alike_on_every_engine(lake: Catalog, tmp_path: Path) -> None:
    fill(lake, tmp_path)
    assert found_in(lake) == []
    execute(lake, "UPDATE dl_files SET path_hash = path_hash + 1, data_change = NOT data_change")
    execute(lake, "UPDATE dl_removes SET size = 7")
    execute(lake, "UPDATE dl_table_versions SET num_lines = num_lines + 1")
    places = {(each.table, each.column) for each in found_in(lake)}
    assert places == {
        ("dl_files", "path_hash"),
        ("dl_files", "data_change"),
        ("dl_removes", "size"),
        ("dl_table_versions", "num_lines"),
    }
