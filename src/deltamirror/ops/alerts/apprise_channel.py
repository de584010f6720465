"""E-mail and chat services, through ``apprise``."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import apprise

from deltamirror.config import AlertChannel
from deltamirror.errors import Unavailable
from deltamirror.ops.alerts.channels import HINT, without_secrets, wrong_url
from deltamirror.ops.alerts.messages import Message, text_of

__all__ = ["AppriseChannel"]

_KINDS: Final = {
    "critical": apprise.NotifyType.FAILURE,
    "warning": apprise.NotifyType.WARNING,
    "info": apprise.NotifyType.INFO,
}
_LOGGER: Final = logging.getLogger("apprise")


class AppriseChannel:
    """One service that apprise knows, by its address."""

    def __init__(self, settings: AlertChannel) -> None:
        self._settings = settings
        self._services = apprise.Apprise()
        url = "" if settings.url is None else settings.url.reveal()
        with _listening():
            is_known = self._services.add(url)
        if not is_known:
            raise wrong_url(settings)

    def send(self, message: Message) -> None:
        """Send a title and a text."""
        kind = apprise.NotifyType.SUCCESS if message.event == "resolved" else _KINDS[message.severity]
        with _listening() as said:
            taken = self._services.notify(title=message.title, body=text_of(message), notify_type=kind)
        if not taken:
            why = without_secrets(self._settings, "; ".join(said) or "it was not taken")
            raise Unavailable(f"channel {self._settings.name!r}: {why}", hint=HINT)


@contextmanager
def _listening() -> Iterator[list[str]]:
    """What apprise says in this thread: it has no other way to tell of a failure. None of it reaches the log.

    It may repeat addresses.
    """
    said: list[str] = []

    def kept_back(record: logging.LogRecord) -> bool:
        is_ours = record.thread == threading.get_ident()
        if is_ours:
            said.append(record.getMessage())
        return not is_ours

    _LOGGER.addFilter(kept_back)
    try:
        yield said
    finally:
        _LOGGER.removeFilter(kept_back)
