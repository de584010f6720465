"""How Hypothesis treats examples that take long: as all others, since a machine may stand still at any of them."""

from hypothesis import HealthCheck, settings

settings.register_profile("deltamirror", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("deltamirror")
