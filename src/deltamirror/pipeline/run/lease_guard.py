"""Whose a table is, asked before each put."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

from deltamirror.errors import DeltaMirrorError, LeaseLost
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.leases import held_together
from deltamirror.work import Lease

_SURE_SECONDS: Final = 0.05
_MOST_TOGETHER: Final = 100
"""So many leases cost a database little more than one."""


class LeaseAnswers:
    """Whether the leases that a process works under are held. Safe to share between threads.

    No other process gets a lease before its time is over. So an answer of the database, which says how much of that is
    left, is good for a moment: never for more than half of the rest, nor for so long that a process which stood still,
    and whose clock did too, would go by an old one for long. Without a database they go by the clock of this machine.
    """

    def __init__(self, database: Database | None) -> None:
        self._database = database
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._together: dict[Lease, None] = {}
        self._sure_until: dict[Lease, float] = {}

    @contextmanager
    def asked_together(self, leases: Iterable[Lease]) -> Iterator[None]:
        """Let one question be for all of these leases inside of the ``with`` block, but for those that are ``done``."""
        mine = list(leases)
        with self._lock:
            self._together |= dict.fromkeys(mine)
        try:
            yield
        finally:
            for lease in mine:
                self.done(lease)

    def done(self, lease: Lease) -> None:
        """Ask for a lease no more: the work under it is over."""
        with self._lock:
            self._together.pop(lease, None)

    def is_held(self, lease: Lease, *, anew: bool = False) -> bool:
        """Whether a lease is held; ``anew``: whatever the database said a moment ago."""
        if self._database is None:
            return time.time() < lease.held_until
        if anew:
            return self._ask(self._database, lease)
        if self._is_sure(lease):
            return True
        # Another thread's question may be for this lease, too. A database that does not answer that one is asked again.
        is_alone = self._asking.acquire(timeout=_SURE_SECONDS)
        try:
            return self._is_sure(lease) or self._ask(self._database, lease)
        finally:
            if is_alone:
                self._asking.release()

    def _is_sure(self, lease: Lease) -> bool:
        return time.monotonic() < self._sure_until.get(lease, float("-inf"))

    def _ask(self, database: Database, lease: Lease) -> bool:
        asked = time.monotonic()
        with self._lock:
            alike = (each for each in self._together if (each.lane, each.owner) == (lease.lane, lease.owner))
            wanted = {lease, *islice(alike, _MOST_TOGETHER)}
        left = held_together(database, wanted)
        with self._lock:
            lasting = {each: until for each, until in self._sure_until.items() if until > asked and each not in wanted}
            told = {each: asked + min(seconds / 2, _SURE_SECONDS) for each, seconds in left.items()}
            self._sure_until = lasting | told
        return lease in left


class LeaseGuard:
    """Raises ``LeaseLost`` when another process holds, or may hold, the lease. Safe to share between threads."""

    def __init__(self, table: str, lease: Lease, answers: LeaseAnswers, given_up: threading.Event) -> None:
        self._table, self._lease, self._answers, self._given_up = table, lease, answers, given_up

    def __call__(self) -> None:
        """Before a put."""
        self._require(anew=False)

    def confirm(self) -> None:
        """Ask the database, whatever it said a moment ago: after it failed at something else."""
        self._require(anew=True)

    def _require(self, *, anew: bool) -> None:
        if self._given_up.is_set():
            raise LeaseLost(f"the work on table {self._table!r} took too long and was given up", table=self._table)
        if not self._is_held(anew=anew):
            raise LeaseLost(f"the lease of table {self._table!r} ended, or another process holds it", table=self._table)

    def _is_held(self, *, anew: bool) -> bool:
        """That the database does not answer is no failure of the table."""
        try:
            return self._answers.is_held(self._lease, anew=anew)
        except DeltaMirrorError as error:
            message = f"whether the lease of table {self._table!r} holds is not known: {error.message}"
            raise LeaseLost(message, hint=error.hint, table=self._table) from error
