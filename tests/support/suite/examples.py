"""How many examples, seeds and moments the default suite tries.

The default suite tries the same ones at every run, so that a change is judged by what it changed; with
``RANDOM_EXAMPLES`` set, as in `make soak`, it looks for others, and for more of them. A machine may stand still at any
example: none is too slow.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

_RANDOM = "RANDOM_EXAMPLES" in os.environ

at_some_moments = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.elsewhere)])
"""For a test that breaks off work at one moment after the other: the default suite has every third, `make soak` all."""


def long_examples(count: int) -> int:
    """How many of so many examples are tried that take a second each: a tenth of them in the default suite."""
    return count if _RANDOM else -(-count // 10)


settings.register_profile(
    "deltamirror",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not _RANDOM,
    max_examples=100 if _RANDOM else 40,
)
settings.load_profile("deltamirror")
