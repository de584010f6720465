"""Health: database, store, progress, reconciler, Spark, settings; each with a state, a reason and what to do."""

from deltamirror.ops.health.monitor import HealthMonitor, check
from deltamirror.ops.health.process import ProcessParts
from deltamirror.ops.health.report import HealthReport, HealthState, PartHealth

__all__ = ["HealthMonitor", "HealthReport", "HealthState", "PartHealth", "ProcessParts", "check"]
