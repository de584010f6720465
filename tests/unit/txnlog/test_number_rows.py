"""Rows of numbers as the value of a statement."""

from sqlalchemy import create_engine, select

from deltamirror.txnlog.database.number_rows import number_rows, rows_value


def test_rows_with_other_names_are_other_statements() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        for names, expected in ((("a", "b"), 1), (("b", "a"), 2), (("a", "b"), 1)):  # by the cache of statements, too
            query = select(number_rows("given", *names).c.a)
            assert connection.execute(query, {"given": rows_value([(1, 2)])}).scalars().all() == [expected]
    engine.dispose()
