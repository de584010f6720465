"""Sessions of PostgreSQL in which our guarantees hold, whatever the defaults of server, database and role.

Every connection is opened here. One round trip makes its settings and looks at the server; a server or a pooler that
would break a promise is refused by name.
"""

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import psycopg

from deltamirror.errors import CatalogMismatch

SETTINGS: Final[Mapping[str, str]] = {
    # Under serializable or repeatable read, a commit that waited for a head would fail instead of seeing what came.
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "TimeZone": "UTC",
    # Rows that a policy would hide are an error, not a table with fewer files.
    "row_security": "off",
    # Connections are kept for reuse, readers of large logs take their time; locks have a limit of their own.
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
}
"""What each session sets for itself, if the server knows it; ``synchronous_commit`` besides."""

_SINCE_14_OR_17 = ("idle_session_timeout", "transaction_timeout")

# remote_apply waits for more than "on" does; everything else waits for less.
_SYNCHRONOUS: Final = (
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
    " WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)"
)
_FACTS: Final = (
    "pg_backend_pid(), current_setting('server_encoding'), current_setting('fsync'),"
    " current_setting('full_page_writes')"
)
_BACKEND: Final = "SELECT pg_backend_pid()"
_ROUNDS: Final = 8
_GIVEN: Final = re.compile(r"(?:-c\s*|--)(\w+)\s*=")


class Sessions:
    """Opens connections with these parameters. ``limits`` are settings which the options of the address may change."""

    def __init__(self, parameters: Mapping[str, Any], limits: Mapping[str, str]) -> None:
        self._parameters = parameters
        given = set(_GIVEN.findall(str(parameters.get("options", ""))))
        own = {name: value for name, value in limits.items() if name not in given}
        self._settle, self._values = _settling({**SETTINGS, **own})
        self._probing = threading.Lock()
        self._pools_sessions = False

    def open(self, *, autocommit: bool) -> "psycopg.Connection[Any]":
        """A connection whose settings are made. Raises psycopg's errors, and CatalogMismatch for an unsafe server."""
        connection = psycopg.connect(**self._parameters, autocommit=True)
        try:
            *_, backend, encoding, fsync, full_pages = connection.execute(self._settle, self._values).fetchall()[0]
            _require_durable(encoding=encoding, fsync=fsync, full_page_writes=full_pages)
            if backend != connection.info.backend_pid:
                self._require_own_backend(connection)
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection

    def _require_own_backend(self, connection: "psycopg.Connection[Any]") -> None:
        """Refuse a pooler that gives a connection another process of the server for each transaction. Looks once."""
        with self._probing:
            if not self._pools_sessions:
                with psycopg.connect(**self._parameters, autocommit=True) as other:
                    if _share_backends(lambda: _backend(connection), lambda: _backend(other)):
                        raise _transaction_pooling()
                self._pools_sessions = True


def _settling(settings: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    calls = [
        f"CASE WHEN current_setting('{name}', true) IS NOT NULL THEN set_config('{name}', %({name})s, false) END"
        if name in _SINCE_14_OR_17
        else f"set_config('{name}', %({name})s, false)"
        for name in settings
    ]
    return f"SELECT {', '.join([*calls, _SYNCHRONOUS, _FACTS])}", dict(settings)


def _require_durable(*, encoding: str, fsync: str, full_page_writes: str) -> None:
    for name, value in (("fsync", fsync), ("full_page_writes", full_page_writes)):
        if value != "on":
            raise CatalogMismatch(
                f"the PostgreSQL server runs with {name}={value}: after a crash, acknowledged commits may be gone",
                hint=f"set {name}=on in the server's configuration, and reload it",
            )
    if encoding != "UTF8":
        raise CatalogMismatch(
            f"the database has the encoding {encoding}: it cannot hold every path and value",
            hint="create it by CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )


def _share_backends(first: Callable[[], int], second: Callable[[], int]) -> bool:
    """Whether two connections prove to have no process of their own.

    The second gets the process that the first has just given back, where the pooler hands out the last one; the first,
    which asks twice in a row, gets two of them, where it hands them out in turn, however many there are.
    """
    seen: tuple[set[int], set[int]] = set(), set()
    for _ in range(_ROUNDS):
        seen[0].update((first(), first()))
        seen[1].add(second())
        if seen[0] & seen[1] or max(map(len, seen)) > 1:
            return True
    return False


def _backend(connection: "psycopg.Connection[Any]") -> int:
    # Not prepared: on a process that is shared, the statement would be unknown the next time.
    [[backend]] = connection.execute(_BACKEND, prepare=False).fetchall()
    return int(backend)


def _transaction_pooling() -> CatalogMismatch:
    return CatalogMismatch(
        "the catalog URL leads to a pooler that shares connections between transactions: settings of a session,"
        " prepared statements and notices do not work there",
        hint="connect to PostgreSQL itself, or to a pool in session mode (pgbouncer: pool_mode=session)",
    )
