"""The proxy before PostgreSQL: it notes what was executed, and lets the chosen statements meet their faults."""

from typing import Any

import psycopg
import pytest

from tests.support.faults.postgres_proxy import PostgresProxy, Statement
from tests.support.faults.rules import UNAVAILABLE, Delay, Fault, Reset, Silence, Throttle, Truncate

pytestmark = [pytest.mark.postgres, pytest.mark.requirement("R92")]

PATIENCE: dict[str, Any] = {"connect_timeout": 60}


@pytest.fixture
def url(postgres_proxy: PostgresProxy, postgres_database: str) -> str:
    return postgres_proxy.url(postgres_database)


def is_commit(statement: Statement) -> bool:
    return statement.text == "COMMIT"


def test_statements_are_noted_as_they_are_executed(url: str, postgres_proxy: PostgresProxy) -> None:
    with psycopg.connect(url) as connection:
        for _ in range(8):
            connection.execute("SELECT %s::int + 1", [1])
    texts = [statement.text for statement in postgres_proxy.log]
    # Before the sixth time it is prepared, and then executed by its name.
    assert texts.count("SELECT $1::int + 1") == 9
    assert texts[-1] == "COMMIT"
    assert all(statement.completed for statement in postgres_proxy.log)


def test_rows_are_copied_through(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE numbers (n int)")
        with connection.cursor().copy("COPY numbers FROM STDIN") as copy:
            for number in range(5_000):
                copy.write_row([number])
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (5_000,)


TAKES_PLACE: dict[Fault, bool] = {
    Reset.BEFORE: False,
    Reset.WITHIN: False,
    Reset.AFTER: True,
    Truncate(3): True,
}


@pytest.mark.parametrize("fault", TAKES_PLACE)
def test_a_commit_without_an_answer_took_place_or_did_not(
    fault: Fault, url: str, postgres_url: str, postgres_proxy: PostgresProxy
) -> None:
    postgres_proxy.fail(fault, is_commit)
    connection = psycopg.connect(url, **PATIENCE)
    connection.execute("CREATE TABLE made (n int)")
    with pytest.raises(psycopg.OperationalError):
        connection.commit()
    connection.close()
    with psycopg.connect(postgres_url) as direct:
        [there] = direct.execute("SELECT to_regclass('made') IS NOT NULL").fetchone() or ()
    assert there == TAKES_PLACE[fault]
    (commit,) = [statement for statement in postgres_proxy.log if is_commit(statement)]
    assert (commit.fault, commit.completed is not None) == (fault, TAKES_PLACE[fault])


@pytest.mark.parametrize("fault", [Silence.BEFORE, Silence.AFTER])
def test_a_silent_connection_is_given_up_by_its_client(fault: Fault, url: str, postgres_proxy: PostgresProxy) -> None:
    postgres_proxy.fail(fault, lambda statement: "pg_sleep" in statement.text)
    connection = psycopg.connect(url)
    connection.pgconn.send_query(b"SELECT pg_sleep(0)")
    connection.pgconn.flush()
    while not (met := [statement for statement in postgres_proxy.log if statement.fault]):
        connection.pgconn.flush()
    assert [statement.fault for statement in met] == [fault]
    assert connection.pgconn.is_busy()
    connection.close()


@pytest.mark.parametrize("fault", [Delay(0.05), Throttle(20_000)])
def test_what_is_late_is_whole(fault: Fault, url: str, postgres_proxy: PostgresProxy) -> None:
    postgres_proxy.fail(fault, times=None)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT repeat('x', 2000)").fetchone() == ("x" * 2000,)


def test_connections_are_refused_for_a_while(url: str, postgres_proxy: PostgresProxy) -> None:
    connection = psycopg.connect(url)
    with postgres_proxy.refusing():
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, **PATIENCE)
    connection.close()
    with psycopg.connect(url) as again:
        assert again.execute("SELECT 1").fetchone() == (1,)


def test_an_answer_of_http_is_none_of_postgresql(postgres_proxy: PostgresProxy) -> None:
    with pytest.raises(TypeError, match="befalls"):
        postgres_proxy.fail(UNAVAILABLE)
