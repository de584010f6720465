"""How Hypothesis looks for examples.

The default suite tries the same ones at every run, so that a change is judged by what it changed; with
``RANDOM_EXAMPLES`` set, as in `make soak`, it looks for others, and for more where they take long. A machine may
stand still at any example: none is too slow.
"""

import os

from hypothesis import HealthCheck, settings

_RANDOM = "RANDOM_EXAMPLES" in os.environ

__all__ = ["long_examples"]


def long_examples(count: int) -> int:
    """How many of so many examples are tried that take a second each: a sixth of them in the default suite."""
    return count if _RANDOM else -(-count // 6)


settings.register_profile(
    "deltamirror", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not _RANDOM
)
settings.load_profile("deltamirror")
