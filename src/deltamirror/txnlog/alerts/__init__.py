"""Alerts in SQL: their states, the notifications that are due, and silences."""

from deltamirror.txnlog.alerts.records import AlertRow, alerts_now, has_alerts, known_alerts
from deltamirror.txnlog.alerts.silences import Silence, end_silence, silence, silences

__all__ = ["AlertRow", "Silence", "alerts_now", "end_silence", "has_alerts", "known_alerts", "silence", "silences"]
