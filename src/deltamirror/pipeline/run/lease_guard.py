"""Whose a table is, asked before each put."""

import threading
import time
from typing import Final

from deltamirror.errors import DeltaMirrorError, LeaseLost
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.leases import held_for
from deltamirror.work import Lease

_SURE_SECONDS: Final = 0.05


class LeaseGuard:
    """Raises ``LeaseLost`` when another process holds, or may hold, the lease. Safe to share between threads.

    No other process gets a lease before its time is over. So an answer of the database, which says how much of that is
    left, is good for a moment: never for more than half of the rest, nor for so long that a process which stood still,
    and whose clock did too, would go by an old one for long. Without a database it goes by the clock of this machine.
    """

    def __init__(self, table: str, lease: Lease, database: Database | None, given_up: threading.Event) -> None:
        self._table, self._lease, self._database, self._given_up = table, lease, database, given_up
        self._sure_until = float("-inf")

    def __call__(self) -> None:
        """Before a put."""
        if self._given_up.is_set():
            raise LeaseLost(f"the work on table {self._table!r} took too long and was given up", table=self._table)
        if not self._is_held():
            raise LeaseLost(f"the lease of table {self._table!r} ended, or another process holds it", table=self._table)

    def confirm(self) -> None:
        """Ask the database, whatever it said a moment ago: after it failed at something else."""
        self._sure_until = float("-inf")
        self()

    def _is_held(self) -> bool:
        if self._database is None:
            return time.time() < self._lease.held_until
        asked = time.monotonic()
        if asked < self._sure_until:
            return True
        left = self._asked(self._database)
        self._sure_until = asked + min(left / 2, _SURE_SECONDS)
        return left > 0

    def _asked(self, database: Database) -> float:
        """For how long the lease holds, by the database. That it does not answer is no failure of the table."""
        try:
            return held_for(database, self._lease)
        except DeltaMirrorError as error:
            message = f"whether the lease of table {self._table!r} holds is not known: {error.message}"
            raise LeaseLost(message, hint=error.hint, table=self._table) from error
