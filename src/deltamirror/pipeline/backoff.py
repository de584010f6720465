"""When a failed attempt is repeated."""

import random
from dataclasses import dataclass

from deltamirror.config import MirrorSettings
from deltamirror.errors import DeltaMirrorError, Throttled

__all__ = ["RetryPolicy"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential pauses with jitter; what no retry cures is looked at once in a long while, until it is repaired."""

    settings: MirrorSettings

    def __call__(self, error: DeltaMirrorError, attempts: int) -> float:
        """The seconds to wait after a number of attempts that failed, the last of them with ``error``."""
        if not error.retryable:
            return self.settings.retry_permanent
        pause = min(self.settings.retry_base * 2.0 ** min(attempts - 1, 30), self.settings.retry_max)
        asked = error.retry_after if isinstance(error, Throttled) else None
        # Half of the pause is left to chance, so that tables that failed together do not come back together.
        return max(pause * random.uniform(0.5, 1.0), asked or 0.0)  # noqa: S311 -- spreads load, guards nothing
