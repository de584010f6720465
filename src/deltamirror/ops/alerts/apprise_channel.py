"""E-mail and chat services, through ``apprise``."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apprise

from deltamirror.config import AlertChannel
from deltamirror.errors import Unavailable
from deltamirror.ops.alerts.channels import HINT, wrong_url
from deltamirror.ops.alerts.messages import Message, text_of
from deltamirror.ops.alerts.secrecy import without_secrets
from deltamirror.txnlog.alerts.records import Event

_KINDS: Final = {
    "critical": apprise.NotifyType.FAILURE,
    "warning": apprise.NotifyType.WARNING,
    "info": apprise.NotifyType.INFO,
}
_LOGGER: Final = logging.getLogger("apprise")
_LOGGERS: Final = (_LOGGER, *(logging.getLogger(f"urllib3.{name}") for name in ("connectionpool", "util.retry")))
"""That name addresses, by which apprise sends."""


class AppriseChannel:
    """One service that apprise knows, by its address."""

    def __init__(self, settings: AlertChannel) -> None:
        self._settings = settings
        self._services = apprise.Apprise()
        url = "" if settings.url is None else settings.url.reveal()
        with _listening():
            is_known = self._services.add(url)
        if not is_known or len(self._services) != 1:  # several are told in threads, whose log lines are not kept back
            raise wrong_url(settings)

    def send(self, message: Message) -> None:
        """Send a title and a text."""
        kind = apprise.NotifyType.SUCCESS if message.event is Event.RESOLVED else _KINDS[message.severity]
        with _listening() as said:
            taken = self._services.notify(title=message.title, body=text_of(message), notify_type=kind)
        if not taken:
            why = without_secrets(self._settings, "; ".join(said) or "it was not taken")
            raise Unavailable(f"channel {self._settings.name!r}: {why}", hint=HINT)


@contextmanager
def _listening() -> Iterator[list[str]]:
    """What apprise says in this thread: it has no other way to tell of a failure. None of it reaches the log.

    It may repeat addresses, and so may the library that it sends by.
    """
    said: list[str] = []

    def kept_back(record: logging.LogRecord) -> bool:
        is_ours = record.thread == threading.get_ident()
        if is_ours and record.name == _LOGGER.name:
            said.append(record.getMessage())
        return not is_ours

    for logger in _LOGGERS:
        logger.addFilter(kept_back)
    try:
        yield said
    finally:
        for logger in _LOGGERS:
            logger.removeFilter(kept_back)
