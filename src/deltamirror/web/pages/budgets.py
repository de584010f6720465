"""Error budgets on the pages. They count the versions of 30 days: that is done beside the requests, now and then."""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from deltamirror.ops.slo import SloRow
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.txnlog.access.patterns import TablePattern

_log = logging.getLogger(__name__)

Count = Callable[[TablePattern, str | None], tuple[SloRow, ...]]
"""The windows of the tables that a reader may see, or of one table."""

_LAST: Final = 15.0
_REST: Final = 20.0
"""After a count so many times as long passes before the next one: a large catalog spends a twentieth of its time."""
_AT_ONCE: Final = 2
_REMEMBERED: Final = 200
_FIRST: Final = 1.0
"""How long a page waits for figures that were never counted; after that they come with a later refresh."""


@dataclass(slots=True)
class _Figures:
    rows: tuple[SloRow, ...] = ()
    until: float = -math.inf
    is_being_counted: bool = False
    were_counted: threading.Event = field(default_factory=threading.Event)


class Budgets:
    """The figures of readers and of tables that were asked for lately. Safe to share between threads."""

    def __init__(self, count: Count, clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock, self._lock = count, clock, threading.Lock()
        self._found: OrderedDict[tuple[str, str | None], _Figures] = OrderedDict()
        self._counting = 0

    def of(self, visible: TablePattern, table: str | None = None) -> tuple[SloRow, ...]:
        """The windows, the shortest first, of some seconds ago; none while they are counted for the first time."""
        figures, is_due = self._known(visible, table)
        if is_due:
            threading.Thread(
                target=self._recount, args=(figures, visible, table), name="deltamirror-budgets", daemon=True
            ).start()
        if figures.is_being_counted:
            figures.were_counted.wait(_FIRST)
        return figures.rows

    def _known(self, visible: TablePattern, table: str | None) -> tuple[_Figures, bool]:
        """Figures, and whether the caller has to let them be counted."""
        key = visible.text, table
        with self._lock:
            figures = self._found.setdefault(key, _Figures())
            self._found.move_to_end(key)
            if len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
            is_old = self._clock() >= figures.until and not figures.is_being_counted
            is_due = is_old and self._counting < _AT_ONCE
            if is_due:
                figures.is_being_counted, self._counting = True, self._counting + 1
        return figures, is_due

    def _recount(self, figures: _Figures, visible: TablePattern, table: str | None) -> None:
        began = self._clock()
        try:
            figures.rows = self._count(visible, table)
        except Exception as error:  # noqa: BLE001  the figures before stay; the page tells of the database elsewhere
            _log.warning("the error budget was not counted: %s", our_error(error))
        ended = self._clock()
        with self._lock:
            self._counting -= 1
            figures.until = ended + max(_LAST, _REST * (ended - began))
            figures.is_being_counted = False
        figures.were_counted.set()
