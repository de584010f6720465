"""The database's clock in statements."""

from typing import Any

from sqlalchemy import create_engine, select

from deltamirror.txnlog.database.clock import CLOCK


def test_a_statement_with_the_clock_in_it_is_compiled_once() -> None:
    compiled: dict[Any, Any] = {}
    with create_engine("sqlite://").connect() as connection:
        caching = connection.execution_options(compiled_cache=compiled)
        times = [caching.execute(select(CLOCK)).scalar_one() for _ in range(2)]
    assert len(compiled) == 1
    assert times == sorted(times)
