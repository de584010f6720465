"""What a database reads for an answer: in rows or steps, which are the same on every machine, and not in time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, event

from deltamirror import Catalog

_INSTRUCTIONS: Final = 100
_ROWS_READ: Final = (
    "SELECT sum(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class WHERE relname LIKE 'dl%' AND relkind IN ('r', 'i')"
)
"""Rows of sequential scans and entries of indexes, by this session since it last told the statistics."""


class Cost:
    """PostgreSQL: rows and index entries that were read. SQLite: how many hundreds of instructions were carried out."""

    count = 0
    _before = 0

    def step(self) -> None:
        self.count += 1

    def begin(self, connection: Connection) -> None:
        self._before = _rows_read(connection)

    def end(self, connection: Connection) -> None:
        self.count += _rows_read(connection) - self._before


@contextmanager
def counted(catalog: Catalog) -> Iterator[Cost]:
    """What is read inside, on SQLite or PostgreSQL."""
    cost = Cost()
    catalog.database.close()  # what is opened from here on is seen
    listeners = _on_sqlite(cost) if catalog.database.name == "sqlite" else _on_postgresql(cost)
    for name, listener in listeners.items():
        event.listen(catalog.database.engine, name, listener)
    try:
        yield cost
    finally:
        for name, listener in listeners.items():
            event.remove(catalog.database.engine, name, listener)


def _on_sqlite(cost: Cost) -> dict[str, Callable[..., None]]:
    def watch(driver: Any, *_: object) -> None:
        driver.set_progress_handler(cost.step, _INSTRUCTIONS)

    def unwatch(driver: Any, *_: object) -> None:
        driver.set_progress_handler(None, 0)

    return {"checkout": watch, "checkin": unwatch}


def _on_postgresql(cost: Cost) -> dict[str, Callable[..., None]]:
    return {"begin": cost.begin, "commit": cost.end, "rollback": cost.end}


def _rows_read(connection: Connection) -> int:
    cursor = connection.connection.cursor()
    cursor.execute(_ROWS_READ)
    return int(cursor.fetchone()[0] or 0)  # type: ignore[index]  # one row
