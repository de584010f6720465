"""What a PostgreSQL server, database or role is set to does not weaken a guarantee: we set it, or refuse the server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

import deltamirror
from deltamirror import Catalog
from deltamirror.errors import CatalogMismatch, Unavailable
from deltamirror.txnlog.database.engines.sessions import SETTINGS
from tests.support.lakes.lake import add, create, execute, opened, paths
from tests.support.mirrors.local import following, make_table, mirror_of, until
from tests.support.servers.pgbouncer import pooled
from tests.support.servers.postgres_server import PostgresServer, prepared_server

pytestmark = [pytest.mark.postgres, pytest.mark.requirement("R93")]

HOSTILE = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "synchronous_commit": "off",
    "client_encoding": "LATIN1",
    "standard_conforming_strings": "off",
    "bytea_output": "escape",
    "TimeZone": "Asia/Kathmandu",
    "row_security": "on",
    "statement_timeout": "20s",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "20s",
}


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture
def hostile_url(postgres_url: str, postgres_database: str) -> str:
    """A database whose defaults are the wrong ones."""
    changes = (f"ALTER DATABASE {postgres_database} SET {name} = '{value}'" for name, value in HOSTILE.items())
    run(f"{postgres_url.rpartition('/')[0]}/postgres", *changes)
    return postgres_url


def test_every_session_sets_what_a_guarantee_rests_on(hostile_url: str) -> None:
    query = text("SELECT name, setting FROM pg_settings")
    with opened(hostile_url, busy_timeout=7.0, transaction_timeout=70.0) as catalog:
        catalog.init()
        with catalog.database.read() as connection:
            read = dict(tuple(row) for row in connection.execute(query))
        with catalog.database.write() as session:
            written = dict(tuple(row) for row in session.execute(query))
        glanced = dict(tuple(row) for row in catalog.database.glance(query, {}))
    expected = {**SETTINGS, "synchronous_commit": "on", "lock_timeout": "7000", "statement_timeout": "70000"}
    for found in (read, written, glanced):
        assert {name: found.get(name, value) for name, value in expected.items()} == expected


def test_every_connection_is_opened_in_one_place() -> None:
    package = Path(deltamirror.__file__).parent
    found = [path.name for path in package.rglob("*.py") if "psycopg.connect(" in path.read_text()]
    assert found == ["sessions.py"]


def test_commits_go_through_whatever_the_defaults_are(hostile_url: str) -> None:
    with opened(hostile_url, stage_above=10) as catalog:
        catalog.init()
        for name in ("one", "two"):
            create(catalog, name)

        def commit(writer: int) -> None:
            for number in range(5):
                with catalog.transaction() as tx:
                    for name in ("one", "two"):
                        tx.append(name, [add(f"日本-{writer}-{number}")])

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(commit, range(3)))
        catalog.table("one").append(add(f"large-{number}") for number in range(20))
        assert len(paths(catalog.table("one"))) == 35
        assert "日本-2-4" in paths(catalog.table("two"))


def test_a_server_that_waits_for_its_replicas_to_apply_goes_on_doing_so(postgres_url: str) -> None:
    with Catalog(f"{postgres_url}?options=-csynchronous_commit%3Dremote_apply") as catalog:
        assert catalog.database.glance(text("SHOW synchronous_commit"), {}) == [("remote_apply",)]


def test_the_address_may_change_the_limits_but_no_guarantee(postgres_url: str) -> None:
    options = "-csynchronous_commit%3Doff%20-clock_timeout%3D1234"
    with Catalog(f"{postgres_url}?options={options}") as catalog:
        assert catalog.database.glance(text("SHOW synchronous_commit"), {}) == [("on",)]
        assert catalog.database.glance(text("SHOW lock_timeout"), {}) == [("1234ms",)]


def test_a_database_in_another_encoding_is_refused_by_name(postgres_server: PostgresServer, postgres_url: str) -> None:
    name = f"{postgres_url.rpartition('/')[2]}_ascii"
    run(postgres_url, f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 STRATEGY FILE_COPY")
    try:
        with Catalog(postgres_server.url(name)) as catalog, pytest.raises(CatalogMismatch, match="SQL_ASCII") as caught:
            catalog.init()
        assert "UTF8" in caught.value.hint
    finally:
        postgres_server.drop_database(name)


@pytest.mark.parametrize("order", ["0", "1"], ids=["last used first", "in turn"])
def test_a_pooler_that_shares_connections_between_transactions_is_refused(
    postgres_server: PostgresServer, postgres_database: str, order: str
) -> None:
    with opened(postgres_server.url(postgres_database)) as catalog:
        catalog.init()
    settings = {"pool_mode": "transaction", "min_pool_size": "3", "server_round_robin": order}
    with (
        pooled(postgres_server, postgres_database, **settings) as url,
        Catalog(url) as catalog,
        pytest.raises(CatalogMismatch, match="shares connections between transactions") as caught,
    ):
        catalog.tables()
    assert "session" in caught.value.hint


def test_a_pooler_of_sessions_is_as_good_as_the_server(postgres_server: PostgresServer, postgres_database: str) -> None:
    with pooled(postgres_server, postgres_database, pool_mode="session") as url, opened(url, stage_above=3) as catalog:
        catalog.init()
        table = create(catalog)
        for number in range(8):
            table.append([add(f"small{number}")])
        table.append(add(f"large{number}") for number in range(8))
        assert len(paths(table)) == 16
        assert catalog.database.glance(text("SHOW synchronous_commit"), {}) == [("on",)]


def test_a_pooler_that_takes_no_options_is_named(postgres_server: PostgresServer, postgres_database: str) -> None:
    with (
        pooled(postgres_server, postgres_database, pool_mode="session") as url,
        Catalog(f"{url}?options=-csearch_path%3Dlake") as catalog,
        pytest.raises(CatalogMismatch, match="unsupported startup parameter") as caught,
    ):
        catalog.tables()
    assert "pooler" in caught.value.hint


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that a test may configure; it has a catalog with the table ``t``."""
    with prepared_server() as server:
        server.create_cluster()
        server.start()
        with opened(server.url()) as catalog:
            catalog.init()
            make_table(catalog, tmp_path_factory.mktemp("lake"), "t").append([add("kept")])
        yield server


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_commits_in_a_crash_is_refused_by_name(own_server: PostgresServer, name: str) -> None:
    run(own_server.url(), f"ALTER SYSTEM SET {name} = off")
    own_server.restart()
    try:
        with opened(own_server.url()) as catalog, pytest.raises(CatalogMismatch, match=f"{name}=off") as caught:
            catalog.table("t").append([add("lost")])
        assert f"set {name}=on" in caught.value.hint
    finally:
        run(own_server.url(), f"ALTER SYSTEM RESET {name}")
        own_server.restart()


def test_a_standby_is_read_from_and_said_to_be_one(own_server: PostgresServer) -> None:
    mark = own_server.data / "standby.signal"
    own_server.stop()
    mark.touch()
    own_server.start()
    try:
        with opened(own_server.url()) as catalog:
            table = catalog.table("t")
            assert paths(table) == ["kept"]
            for actions in ([add("lost")], (add(f"lost{number}") for number in range(9))):
                with pytest.raises(Unavailable) as caught:
                    table.append(actions)
                assert "standby" in caught.value.hint
                assert caught.value.retryable
    finally:
        own_server.stop()
        mark.unlink()
        own_server.start()


def test_a_service_waits_while_its_server_is_a_standby_and_no_table_has_failed(
    own_server: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = own_server.data / "standby.signal"
    with opened(own_server.url()) as catalog:
        make_table(catalog, tmp_path, "mirrored")
        own_server.stop()
        mark.touch()
        own_server.start()
        with mirror_of(catalog, lease=2.0) as engine, following(engine):
            try:
                until(lambda: "during recovery" in caplog.text)
            finally:
                own_server.stop()
                mark.unlink()
                own_server.start()
            catalog.wait_until_published({"mirrored": 0}, seconds=120)
        assert execute(catalog, "SELECT * FROM dl_mirror_attempts") == []


def test_a_server_without_a_connection_left_is_worth_another_try(own_server: PostgresServer) -> None:
    run(own_server.url(), "CREATE ROLE limited LOGIN PASSWORD 'x' CONNECTION LIMIT 1")
    url = own_server.url().replace("deltamirror:deltamirror-tests@", "limited:x@")
    with (
        closing(psycopg.connect(url)),
        opened(url) as catalog,
        pytest.raises(Unavailable, match="too many connections") as caught,
    ):
        catalog.tables()
    assert "max_connections" in caught.value.hint
