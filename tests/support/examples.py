"""How Hypothesis looks for examples.

The default suite tries the same ones at every run, so that a change is judged by what it changed; with
``RANDOM_EXAMPLES`` set, as in `make soak`, it looks for others. A machine may stand still at any example: none is too
slow.
"""

import os

from hypothesis import HealthCheck, settings

_RANDOM = "RANDOM_EXAMPLES" in os.environ

settings.register_profile(
    "deltamirror", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=not _RANDOM
)
settings.load_profile("deltamirror")
