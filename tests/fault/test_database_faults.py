"""Connections to PostgreSQL that break at random statements: each commit happens once, and is published once."""

import threading
import time
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import Settings
from deltamirror.errors import CatalogMismatch, CommitUnknown, Transient, Unavailable
from tests.support.faults.postgres_proxy import PostgresProxy, Statement
from tests.support.faults.rules import Delay, Fault, Reset, Truncate
from tests.support.lakes.lake import add, execute
from tests.support.mirrors.local import committed_files, following, local_settings, log_of, make_table, published_files

pytestmark = [pytest.mark.postgres, pytest.mark.requirement("R92"), pytest.mark.requirement("R93")]

WRITERS, COMMITS = 3, 12
CHANCES: dict[Fault, float] = {
    Reset.BEFORE: 0.01,
    Reset.WITHIN: 0.01,
    Reset.AFTER: 0.02,
    Truncate(2): 0.01,
    Delay(0.02): 0.03,
}


@pytest.fixture
def settings(postgres_proxy: PostgresProxy, postgres_database: str) -> Settings:
    """Of a catalog by way of the proxy."""
    quick = local_settings(retry_base=0.01, retry_max=0.05, lease=2.0, checkpoint_interval=10)
    return replace(
        quick,
        catalog=replace(quick.catalog, url=postgres_proxy.url(postgres_database)),
        writer=replace(quick.writer, retry_base=0.01, retry_max=0.05),
    )


class Writer(threading.Thread):
    """Commits by token until each of them has an answer; it may not keep the first one that it gets."""

    def __init__(self, settings: Settings, name: str) -> None:
        super().__init__(name=name)
        self._settings = settings
        self.answers: dict[str, int] = {}

    def run(self) -> None:
        with Catalog(settings=self._settings) as catalog:
            for number in range(COMMITS):
                path = f"{self.name}-{number}.parquet"
                self.answers[path] = self._insist(catalog, path)

    def _insist(self, catalog: Catalog, path: str) -> int:
        while True:
            try:
                return catalog.table("t").append([add(path, stats='{"numRecords":1}')], token=path).versions["t"]
            except (CommitUnknown, Transient, Unavailable):
                time.sleep(0.01)


@pytest.mark.requirement("R38")
@pytest.mark.requirement("R50")
def test_connections_that_break_at_any_statement_lose_no_commit_repeat_none_and_publish_all(
    postgres_url: str, postgres_proxy: PostgresProxy, settings: Settings, tmp_path: Path
) -> None:
    with Catalog(postgres_url) as direct:
        direct.init()
        table = make_table(direct, tmp_path)
        for fault, chance in CHANCES.items():
            postgres_proxy.fail(fault, chance=chance, times=None)
        writers = [Writer(settings, f"writer-{number}") for number in range(WRITERS)]
        with MirrorEngine(settings=settings) as engine, following(engine):
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join(300)
            postgres_proxy.heal()
            direct.wait_until_published({"t": WRITERS * COMMITS}, seconds=120)
        answers = {path: version for writer in writers for path, version in writer.answers.items()}
        listed = table.snapshot().files().select(["path", "added_version"]).to_pylist()
        assert {row["path"]: row["added_version"] for row in listed} == answers
        assert sorted(answers.values()) == list(range(1, WRITERS * COMMITS + 1))
        assert published_files(table) == committed_files(table)
        assert execute(direct, "SELECT count(*) FROM dl_mirror_status WHERE state <> 'SUCCESS'") == [(0,)]
        assert not list(log_of(table).glob(".*"))
    met = {statement.fault for statement in postgres_proxy.log if statement.fault}
    assert len(met) >= 3


@pytest.mark.parametrize("fault", [Reset.BEFORE, Reset.WITHIN, Reset.AFTER, Truncate(2)])
def test_a_connection_that_breaks_while_it_is_tried_is_replaced_or_said_to_be_broken(
    postgres_url: str, postgres_proxy: PostgresProxy, settings: Settings, fault: Fault
) -> None:
    """Before a connection of the pool is used, the server has to answer on it: what breaks then is no error of ours."""
    with Catalog(postgres_url) as direct:
        direct.init()
    with Catalog(settings=settings) as catalog:
        catalog.create_table("t", location="memory://none/t", schema="id long")
        for _ in range(5):
            postgres_proxy.fail(fault, _is_ping)
            try:
                assert catalog.table("t").snapshot(0).version == 0
            except Unavailable:
                assert catalog.table("t").snapshot(0).version == 0, "the next one works"
    assert [each.fault for each in postgres_proxy.log if _is_ping(each) and each.fault] == [fault] * 5


def _is_ping(statement: Statement) -> bool:
    return statement.text.strip("; ") == ""


def test_what_a_broken_connection_leads_to_is_put_down_to_the_connection(settings: Settings) -> None:
    """By chance, a connection that breaks while it is tried is seen too late to be as if it had been closed."""

    def tried() -> None:
        try:
            raise psycopg.OperationalError("connection socket closed")
        finally:
            raise psycopg.ProgrammingError("can't change 'autocommit' now: connection in transaction status ACTIVE")

    with Catalog(settings=settings) as catalog, pytest.raises(psycopg.ProgrammingError) as raised:
        tried()
    found = catalog.database.translate(raised.value)
    assert isinstance(found, Unavailable)
    assert "connection socket closed" in found.message


def test_what_the_server_says_counts_more_than_what_went_before(settings: Settings) -> None:
    error = psycopg.errors.UndefinedTable("there is no dl_tables")
    error.__context__ = psycopg.OperationalError("connection socket closed")
    with Catalog(settings=settings) as catalog:
        assert isinstance(catalog.database.translate(error), CatalogMismatch)
