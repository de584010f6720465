"""What was said already, so that an outage is told of once, and not with every attempt."""

import threading
from collections.abc import Hashable


class Mentions:
    """Which troubles of which things were told of since they were last well. Safe to share between threads."""

    def __init__(self) -> None:
        self._said: dict[Hashable, set[Hashable]] = {}
        self._lock = threading.Lock()

    def is_news(self, thing: Hashable, trouble: Hashable) -> bool:
        """Whether this trouble was not told of; it counts as told from here on."""
        with self._lock:
            said = self._said.setdefault(thing, set())
            if trouble in said:
                return False
            said.add(trouble)
            return True

    def is_well(self, thing: Hashable) -> None:
        """A thing has no trouble any more: the next one is news."""
        with self._lock:
            self._said.pop(thing, None)
