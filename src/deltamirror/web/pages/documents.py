"""The answers of the API: the numbers of the pages as JSON, with the names that ``--json`` has."""

from collections.abc import Sequence
from dataclasses import asdict

from deltamirror.config import redact_text
from deltamirror.ops.documents import attempt_document, slo_row_document, status_document
from deltamirror.ops.slo import SloRow
from deltamirror.txnlog.alerts import AlertRow, Silence
from deltamirror.web.pages.gathering import Overview, TableView


def overview_document(found: Overview, slo: Sequence[SloRow]) -> dict[str, object]:
    """``/api/v1/status``."""
    counted = asdict(found.totals)
    return {
        "now": found.now,
        "all_paused": counted.pop("all_paused"),
        "totals": counted,
        "stores": [asdict(store) for store in found.stores],
        "alerts": [_alert_document(alert, found) for alert in found.alerts],
        "silences": [_silence_document(each) for each in found.silences],
        "slo": [slo_row_document(row) for row in slo],
        "tables": [status_document(table) for table in found.found.tables],
        "matching": found.found.matching,
        "page": found.found.page,
        "pages": found.found.pages,
    }


def _alert_document(alert: AlertRow, found: Overview) -> dict[str, object]:
    return {
        **asdict(alert),
        "cause": redact_text(alert.cause),
        "silenced_until": found.silenced_until.get(alert.key),
    }


def _silence_document(silence: Silence) -> dict[str, object]:
    return {**asdict(silence), "reason": redact_text(silence.reason)}


def table_document(found: TableView, slo: Sequence[SloRow]) -> dict[str, object]:
    """``/api/v1/tables/NAME``."""
    return {
        "now": found.now,
        "table": status_document(found.status),
        "files": found.files,
        "silences": [_silence_document(each) for each in found.silences],
        "slo": [slo_row_document(row) for row in slo],
        "versions": [{**asdict(each), "lag_ms": each.lag_ms} for each in found.versions],
        "older": found.older,
        "attempts": [attempt_document(each, found.status) for each in found.attempts],
        "checkpoints": [
            {**asdict(each), "error_message": redact_text(each.error_message) if each.error_message else None}
            for each in found.checkpoints
        ],
        "compared": asdict(found.compared),
    }
