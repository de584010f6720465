"""Tables come and go: one table to a place and a name, and nothing unpublished is left behind unsaid."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from deltamirror import Catalog
from deltamirror.catalog import catalog as catalogs
from deltamirror.config import WriterSettings
from deltamirror.errors import AlreadyExists, Conflict, InvalidInput, InvalidLocation, NotFound, Refused
from deltamirror.storage.presence import has_delta_log
from deltamirror.txnlog.commit.request import Change, Request
from deltamirror.txnlog.database.schema import METADATA
from deltamirror.txnlog.writer import SqlTxnLogWriter
from tests.support.lakes.lake import add, create, execute, opened, paths, row_counts

pytestmark = pytest.mark.default_on("sqlite", "postgresql")

BUCKET = "s3://bucket/lake/t"


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bucket is asked whether it holds a log; places on disk are."""
    monkeypatch.setattr(
        catalogs, "has_delta_log", lambda at, *rest: at.startswith("file:") and has_delta_log(at, *rest)
    )


def place(catalog: Catalog, name: str, location: str) -> str:
    return catalog.create_table(name, location=location, schema="id long").location


def test_a_place_has_one_spelling(catalog: Catalog, tmp_path: Path) -> None:
    spellings = {
        "s3://bucket/lake/t": ["s3a://bucket/lake/t", "s3n://bucket/lake/t", "S3://bucket/lake/t/", "s3://bucket//lake//t//"],
        f"file://{tmp_path}/t": [f"{tmp_path}/t/", f"file:{tmp_path}/t", f"file://localhost{tmp_path}/t"],
    }  # fmt: skip
    for number, (canonical, others) in enumerate(spellings.items()):
        assert place(catalog, f"t{number}", others[0]) == canonical
        for other in (canonical, *others):
            with pytest.raises(AlreadyExists) as caught:
                place(catalog, "again", other)
            assert (caught.value.location, caught.value.table) == (canonical, f"t{number}")
    assert [table.name for table in catalog.tables()] == ["t0", "t1"]


def test_no_table_lies_in_another(catalog: Catalog) -> None:
    place(catalog, "t", BUCKET)
    for nested in (f"{BUCKET}/inner", f"{BUCKET}/_delta_log", "s3a://bucket/lake", "s3://bucket/lake/"):
        with pytest.raises(InvalidLocation):
            place(catalog, "u", nested)
    for neighbour in (f"{BUCKET}2", "s3://bucket/lake2", "s3://bucket2/lake/t", "gs://bucket/lake/t"):
        place(catalog, f"n{len(catalog.tables())}", neighbour)


NOWHERE = ["", " /x", "/", "s3://", "s3://bucket", "s3://bucket/", "ftp://a/b", "C:\\x", "s3:/b/c", "/a\nb"]


@pytest.mark.parametrize("location", [*NOWHERE, "s3://b/a/../c", "file://host/x"])
def test_a_place_that_is_none_is_refused(sqlite_lake: str, location: str) -> None:
    with opened(sqlite_lake) as catalog, pytest.raises(InvalidLocation):
        place(catalog, "t", location)


def test_a_place_with_a_log_is_not_taken_over(catalog: Catalog, tmp_path: Path) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    place(catalog, "empty", str(tmp_path / "t"))  # an empty folder is no log
    catalog.drop_table("empty", unpublished=True)
    (log / f"{0:020}.json").write_bytes(b"{}")
    before = row_counts(catalog)
    with pytest.raises(AlreadyExists) as caught:
        place(catalog, "t", str(tmp_path / "t"))
    assert "import" in caught.value.hint
    assert row_counts(catalog) == before


def test_names_are_words_joined_by_dots(catalog: Catalog) -> None:
    for number, name in enumerate(("a", "sales.orders", "a-b_c.1", "x" * 255)):
        assert place(catalog, name, f"s3://bucket/{number}")
    for name in ("", ".", "a.", ".a", "a..b", "a b", "a/b", "ä", "-a", "x" * 256, "a\n", "a;"):
        with pytest.raises(InvalidInput):
            place(catalog, name, "s3://bucket/other")
    assert len(catalog.tables()) == 4


def test_names_know_case(catalog: Catalog) -> None:
    for name in ("Orders", "orders"):
        create(catalog, name)
    catalog.table("Orders").append([add("a")])
    assert {table.name: table.head for table in catalog.tables()} == {"Orders": 1, "orders": 0}


@pytest.mark.parametrize("act", ["drop_table", "pause"])
def test_unpublished_versions_need_a_word_more(catalog: Catalog, act: str) -> None:
    table = create(catalog)
    table.append([add("a")])
    with pytest.raises(Refused, match="2 versions"):
        getattr(catalog, act)("t")
    assert table.info().state == "active"
    execute(catalog, "UPDATE dl_tables SET published_version = 1")
    getattr(catalog, act)("t")


def test_a_paused_table_takes_commits(catalog: Catalog) -> None:
    table = create(catalog)
    catalog.pause("t", unpublished=True)
    assert table.info().state == "paused"
    table.append([add("a")])
    catalog.resume("t")
    assert (table.info().state, table.info().unpublished) == ("active", 2)


def test_what_is_not_there_cannot_be_dropped_or_paused(catalog: Catalog) -> None:
    for act in (catalog.drop_table, catalog.pause, catalog.resume, catalog.table):
        with pytest.raises(NotFound):
            act("t")


def test_a_table_made_again_at_the_same_place_starts_clean(catalog: Catalog) -> None:
    first = create(catalog)
    first.append([add("a")])
    with catalog.transaction() as tx:
        tx.set_transaction("t", "loader", 9)
    catalog.drop_table("t", unpublished=True)
    again = create(catalog)
    assert (again.info().head, paths(again), again.snapshot().transactions()) == (0, [], {})
    assert [entry.version for entry in again.history()] == [0]
    with catalog.transaction() as tx:
        tx.append("t", [add("a", size=3)])
        tx.set_transaction("t", "loader", 1)
    assert (tx.result.versions, tx.result.already_applied) == ({"t": 1}, False)
    assert again.snapshot().files().column("size").to_pylist() == [3]
    assert first.snapshot(0).metadata.id == again.snapshot(0).metadata.id  # a handle is a name, nothing more


def test_a_backlog_beyond_its_limit_takes_no_further_commits(lake_url: str) -> None:
    with opened(lake_url, writer=WriterSettings(backlog_limit=2)) as catalog:
        table = create(catalog)
        create(catalog, "u")
        table.append([add("a")])
        before = row_counts(catalog)
        for token in (None, "t"):
            with pytest.raises(Refused) as caught:
                table.append([add("b")], token=token)
            assert caught.value.table == "t"
        both = catalog.transaction()
        for name in ("u", "t"):
            both.append(name, [add("b")])
        with pytest.raises(Refused):
            both.commit()
        assert row_counts(catalog) == before
        catalog.table("u").append([add("b")])
        execute(catalog, "UPDATE dl_tables SET published_version = 0 WHERE name = 't'")
        assert table.append([add("b")]).versions == {"t": 2}


def test_two_who_create_at_once_make_one_table(lake_url: str) -> None:
    def attempt(catalog: Catalog) -> str:
        try:
            create(catalog)
        except AlreadyExists:
            return "taken"
        return "made"

    with opened(lake_url) as catalog, ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, [catalog] * 4)) == ["made", "taken", "taken", "taken"]
        assert len(catalog.tables()) == 1


WRONG_ROWS = [
    "UPDATE dl_mirror_status SET state = 'DONE'",
    "UPDATE dl_table_versions SET kind = 'other'",
    "UPDATE dl_commit_chunks SET codec = 'gzip'",
    "UPDATE dl_tables SET mirror_paused = NULL",
    "INSERT INTO dl_mirror_status SELECT * FROM dl_mirror_status",
]


def test_the_database_itself_refuses_states_that_do_not_exist(catalog: Catalog) -> None:
    create(catalog)
    for statement in WRONG_ROWS:
        with pytest.raises(Exception, match=r"(?i)constraint|null|Transient") as caught:
            execute(catalog, statement)
        assert not isinstance(caught.value, AssertionError | Conflict | IntegrityError)
    for state in ("SUCCESS", "FAILED", "PENDING"):
        execute(catalog, f"UPDATE dl_mirror_status SET state = '{state}'")


def test_the_names_that_others_rely_on_are_there() -> None:
    assert {"dl_tables", "dl_table_versions", "dl_mirror_status"} <= METADATA.tables.keys()
    assert all(name.startswith("dl_") for name in METADATA.tables)


def test_a_renamed_table_keeps_its_place_its_history_and_its_versions(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a.parquet")], token="load-1")
    renamed = catalog.rename_table("t", "sales.t")
    assert (renamed.name, renamed.location) == ("sales.t", "file:///nowhere/lake/t")
    assert [entry.version for entry in renamed.history()] == [1, 0]
    assert renamed.append([add("b.parquet")]).versions == {"sales.t": 2}
    assert [each.name for each in catalog.tables()] == ["sales.t"]
    # The reply to a transaction under the old name may have been lost: its answer is still true.
    with catalog.transaction(token="load-1") as tx:
        tx.append("t", [add("a.parquet")])
    assert (tx.result.versions, tx.result.already_applied) == ({"t": 1}, True)


def test_a_writer_that_remembers_a_table_by_its_old_name_is_refused(catalog: Catalog) -> None:
    """Also where another table has that name by then: its append belongs to neither of them."""
    create(catalog)
    other = SqlTxnLogWriter(catalog.database, catalog.settings, engine_info="other")
    assert other.commit(_append("t", "a.parquet")).versions == {"t": 1}
    catalog.rename_table("t", "renamed")
    with pytest.raises(NotFound, match="there is no table 't'"):
        other.commit(_append("t", "b.parquet"))
    begun = catalog.transaction()
    begun.append("renamed", [add("c.parquet")])
    catalog.rename_table("renamed", "again")
    place(catalog, "renamed", "s3://bucket/second")
    with pytest.raises(Conflict) as caught:
        begun.commit()
    assert caught.value.reason == "table-replaced"
    assert paths(catalog.table("again")) == ["a.parquet"]
    assert paths(catalog.table("renamed")) == []


def _append(table: str, path: str) -> Request:
    return Request(changes=(Change(table=table, actions=[add(path)]),))


def test_a_table_gets_no_name_that_is_taken_or_is_none(catalog: Catalog) -> None:
    create(catalog)
    place(catalog, "u", "s3://bucket/u")
    for name, new in (("t", "u"), ("t", "t"), ("t", "no name"), ("t", ""), ("gone", "v")):
        with pytest.raises((AlreadyExists, InvalidInput, NotFound)) as refused:
            catalog.rename_table(name, new)
        assert refused.value.hint
    assert [each.name for each in catalog.tables()] == ["t", "u"]
