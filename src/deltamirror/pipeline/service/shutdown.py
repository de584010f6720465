"""Coming to an end in time: work in hand is finished if it does not take long, and given up if it does."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_TO_FINISH: Final = 0.5
_TO_GIVE_UP: Final = 0.25
"""Parts of a lease; the rest of it is for closing what is open. A service that is ended is gone within one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How something that waits for stores comes to its end.

    Work that is given up did not fail: its tables go to the next owner, as after a crash.
    """

    lease: Callable[[], float]
    give_up: Callable[[], None]
    """End every wait for stores."""

    def wait(self, is_over: Callable[[float], bool]) -> bool:
        """Wait until work is over, by a function that waits for so many seconds; whether it is."""
        lease = self.lease()
        if is_over(_TO_FINISH * lease):
            return True
        self.give_up()
        return is_over(_TO_GIVE_UP * lease)
