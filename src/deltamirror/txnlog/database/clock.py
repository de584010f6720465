"""The database's clock: the one by which commits, leases and retries are timed, whichever process looks at it."""

from typing import Any, Final

from sqlalchemy import BigInteger, Connection, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class _Clock(FunctionElement[int]):
    """Milliseconds since the epoch when the statement runs."""

    # A function, not a plain column element: statements with one of these are compiled anew each time they run.
    name = "clock"
    type = BigInteger()
    inherit_cache = True


@compiles(_Clock, "postgresql")
def _postgresql(*_: Any, **__: Any) -> str:
    # Not now(), which is the time when the transaction began, before it waited for its locks.
    return "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"


@compiles(_Clock, "sqlite")
def _sqlite(*_: Any, **__: Any) -> str:
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"


@compiles(_Clock, "duckdb")
def _duckdb(*_: Any, **__: Any) -> str:
    # The time of the transaction's start; the queue comes before that, so it is the time under the lock.
    return "epoch_ms(now())"


CLOCK: Final = _Clock()


def time_of(connection: Connection) -> int:
    """The time by the database's clock."""
    return int(connection.execute(select(CLOCK)).scalar_one())
