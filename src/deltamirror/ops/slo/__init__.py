"""The service level objective: how long commits take to become visible, and how much of the error budget is left."""

from deltamirror.ops.slo.reporting import Objective, SloReport, SloRow, report

__all__ = ["Objective", "SloReport", "SloRow", "report"]
