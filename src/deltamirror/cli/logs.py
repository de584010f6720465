"""Log lines on standard error, for people or for collectors, never with a secret in them."""

import logging
import sys
from datetime import UTC, datetime
from typing import Final

import msgspec

from deltamirror.config import LogSettings, redact_text
from deltamirror.telemetry.traces import current_trace

ROOT: Final = "deltamirror"
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logs(settings: LogSettings) -> None:
    """Send log lines to standard error as ``settings`` say; those of libraries only where all details are wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    detailed = settings.level == "debug"
    logger, libraries = logging.getLogger(ROOT), logging.getLogger()
    logger.setLevel(settings.level.upper())
    logger.handlers[:] = [] if detailed else [handler]
    logger.propagate = detailed
    # Without a handler, Python itself would write their warnings to standard error.
    libraries.handlers[:] = [handler if detailed else logging.NullHandler()]


class TextLines(logging.Formatter):
    """Lines such as ``2024-01-01T12:00:00.000Z warning txnlog: text``. What the fields say, the text says."""

    def format(self, record: logging.LogRecord) -> str:
        """One redacted line."""
        name = record.name.removeprefix(f"{ROOT}.")
        text = f"{_time(record)} {record.levelname.lower()} {name}: {record.getMessage()}"
        return redact_text(text + self._trace(record))

    def _trace(self, record: logging.LogRecord) -> str:
        return "\n" + self.formatException(record.exc_info) if record.exc_info else ""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields given as ``extra``, and what work it is of."""

    def format(self, record: logging.LogRecord) -> str:
        """One redacted JSON object."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if trace := current_trace():
            line["trace"] = trace
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode({key: _told(value) for key, value in line.items()}).decode()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _told(value: object) -> int | str:
    return value if isinstance(value, int) else redact_text(str(value))


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}
