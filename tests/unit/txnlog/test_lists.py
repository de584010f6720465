"""A list of numbers is one value on PostgreSQL, whose statement is then prepared once, and spelled out elsewhere."""

from typing import Any

from sqlalchemy import Column, LargeBinary, create_engine, event, select

from deltamirror.txnlog.database.lists import one_of
from deltamirror.txnlog.database.schema import METADATA, leases, tables

QUERY = select(leases.c.table_id).where(one_of(leases.c.table_id, "some")).order_by(leases.c.table_id)


def test_on_postgresql_the_statement_is_the_same_for_any_number_of_values() -> None:
    compiled = QUERY.compile(create_engine("postgresql+psycopg://"))
    assert "dl_leases.table_id = ANY (%(some)s::BIGINT[])" in str(compiled)
    assert not compiled.post_compile_params


def test_elsewhere_each_number_is_a_value_and_no_number_finds_no_row() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        METADATA.create_all(connection, [leases])
        for each in range(4):
            row = {"lane": "commits", "owner": "", "epoch": 1, "claimed_at": 0, "expires_at": 0}
            connection.execute(leases.insert().values(table_id=each, **row))
        for wanted in ([1, 3], [2], []):
            assert list(connection.execute(QUERY, {"some": wanted}).scalars()) == wanted
    engine.dispose()


def test_sqlite_finds_the_rows_by_their_key_instead_of_looking_at_all_of_them() -> None:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        METADATA.create_all(connection, [leases])
        plans: list[str] = []
        event.listen(engine, "before_cursor_execute", lambda *given: plans.append(_plan(*given[1:4])))
        connection.execute(QUERY, {"some": [1, 3]})
        connection.execute(QUERY.where(leases.c.lane == "commits"), {"some": [1, 3]})
    engine.dispose()
    assert len(plans) == 2
    assert all(plan.startswith("SEARCH dl_leases USING") for plan in plans), plans


def _plan(cursor: Any, statement: str, values: Any) -> str:
    return str(cursor.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchone()[-1])


def test_conditions_on_other_columns_or_parameters_are_other_statements() -> None:
    conditions = [
        one_of(tables.c.table_id, "some"),
        one_of(tables.c.table_id, "others"),
        one_of(tables.c.log_start, "some"),
    ]
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        METADATA.create_all(connection, [tables])
        connection.execute(tables.insert().values(**{each.name: _some(each) for each in tables.c}))
        for values in ({"some": [7], "others": [9]}, {"some": [9], "others": [7]}):  # by the cache of statements, too
            found = [connection.execute(select(tables.c.name).where(each), values).first() for each in conditions]
            assert [row is not None for row in found] == [values["some"] == [7], values["others"] == [7], False]
    engine.dispose()


def _some(column: Column[Any]) -> object:
    return {"table_id": 7, "log_start": 8}.get(column.name, b"" if isinstance(column.type, LargeBinary) else 0)
