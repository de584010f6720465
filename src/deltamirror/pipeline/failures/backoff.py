"""When a failed attempt is repeated."""

import random
from dataclasses import dataclass

from deltamirror.config import MirrorSettings
from deltamirror.errors import DeltaMirrorError, Throttled
from deltamirror.pipeline.failures.policy import policy_of

_MOST_REPEATS = 30


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential pauses with jitter, up to ``retry_max``, for as long as it takes.

    Permanent errors, which no retry cures, are retried every ``retry_permanent``.
    """

    settings: MirrorSettings

    def __call__(self, error: DeltaMirrorError, attempts: int) -> float:
        """The seconds to wait after a number of attempts that failed, the last of them with ``error``."""
        jitter = self.settings.retry_jitter / 100
        pause = self._nominal(error, attempts) * _chance(1 - jitter, 1 + jitter)
        asked = error.retry_after if isinstance(error, Throttled) else None
        # Who is asked to stay away does not come earlier, nor together with all others, nor never again.
        return max(pause, min(asked or 0.0, self.settings.retry_permanent) * _chance(1, 1 + jitter))

    def _nominal(self, error: DeltaMirrorError, attempts: int) -> float:
        if not policy_of(error.code).is_retried:
            return self.settings.retry_permanent
        settings = self.settings
        return growing_pause(settings.retry_base, attempts - 1, settings.retry_max, factor=settings.retry_factor)


def growing_pause(first: float, repeats: int, longest: float, *, factor: float = 2.0) -> float:
    """A pause that grows by a factor each time that it was of no use."""
    return min(first * factor ** min(repeats, _MOST_REPEATS), longest)


def _chance(least: float, most: float) -> float:
    return random.uniform(least, most)  # noqa: S311 -- spreads load, guards nothing
