"""Channels: where notifications go, and what each kind of receiver is sent."""

import hashlib
import hmac
import http
import http.client
import logging
import time
import urllib.error
import urllib.request
from importlib import import_module
from typing import Final, Protocol

import msgspec

from deltamirror.config import AlertChannel, Secret
from deltamirror.errors import DeltaMirrorError, InvalidSettings, MissingExtra, Unavailable
from deltamirror.ops.alerts.messages import Message, document, text_of, timestamp
from deltamirror.ops.alerts.secrecy import login_of, without_secrets
from deltamirror.txnlog.alerts.records import AlertRow, Event

HINT: Final = "check its url, and whether it is reachable; `deltamirror alert test CHANNEL` tries it"

_log = logging.getLogger("deltamirror.alerts")
_LEVELS: Final = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}
_COLOURS: Final = {"critical": "#d92d20", "warning": "#dc8a00", "info": "#2563eb"}
_PHRASES: Final = {status.value: status.phrase for status in http.HTTPStatus}
"""A phrase of the server's own may repeat the address."""
_RESOLVED_COLOUR: Final = "#16a34a"
_ALERTMANAGER_REPEAT: Final = 60.0
_FORGOTTEN_AFTER: Final = 4
"""After how many repetitions that did not come Alertmanager takes an alert for resolved."""


class Channel(Protocol):
    """A receiver of messages."""

    def send(self, message: Message) -> None:
        """Send a message, and return once it is taken; raises one of our errors, which tells no secret."""


def open_channel(settings: AlertChannel, *, timeout: float) -> Channel:
    """The channel that settings describe."""
    match settings.kind:
        case "log":
            return _LogChannel()
        case "webhook":
            return _Webhook(settings, timeout)
        case "slack":
            return _Slack(settings, timeout)
        case "alertmanager":
            return _Alertmanager(settings, timeout)
        case "apprise":
            return _apprise(settings)


def repeat_of(settings: AlertChannel) -> float:
    """After how many seconds a message is sent again while its alerts fire; 0: never."""
    if settings.repeat is not None:
        return settings.repeat
    return _ALERTMANAGER_REPEAT if settings.kind == "alertmanager" else 0.0


class _LogChannel:
    """Lines of this process's own log."""

    def send(self, message: Message) -> None:
        """A line for each alert, as far as a text names them."""
        level = logging.WARNING if message.event is Event.RESOLVED else _LEVELS[message.severity]
        for line in text_of(message).splitlines():
            fields = {"rule": message.rule, "event": message.event}
            _log.log(
                level, "[%s] %s: %s: %s", message.event.upper(), message.severity, message.rule, line, extra=fields
            )


class _HttpChannel:
    """What speaks JSON by HTTP."""

    def __init__(self, settings: AlertChannel, timeout: float) -> None:
        self._settings, self._timeout = settings, timeout

    def _post(self, body: object, *, path: str = "") -> None:
        data, (url, login) = msgspec.json.encode(body), login_of(_revealed(self._settings.url))
        request = urllib.request.Request(  # noqa: S310  the settings take http and https alone
            f"{url.rstrip('/')}{path}" if path else url,
            data=data,
            headers={"Content-Type": "application/json", "User-Agent": "deltamirror", **self._signed(data, login)},
            method="POST",
        )
        try:
            with _OPENER.open(request, timeout=self._timeout) as answer:
                answer.read(1)
        except urllib.error.HTTPError as error:
            error.close()
            raise self._error(f"HTTP {error.code} {_PHRASES.get(error.code, '')}".rstrip()) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            said = without_secrets(self._settings, str(getattr(error, "reason", error)))
            raise self._error(f"{type(error).__name__}: {said}") from None

    def _signed(self, data: bytes, login: str) -> dict[str, str]:
        headers = {"Authorization": f"Basic {login}"} if login else {}
        if self._settings.bearer is not None:
            headers["Authorization"] = f"Bearer {self._settings.bearer.reveal()}"
        if self._settings.signing_key is not None:
            digest = hmac.new(self._settings.signing_key.reveal().encode(), data, hashlib.sha256).hexdigest()
            headers["X-Deltamirror-Signature"] = f"sha256={digest}"
        return headers

    def _error(self, reason: str) -> DeltaMirrorError:
        return Unavailable(f"channel {self._settings.name!r}: {reason}", hint=HINT)


class _Webhook(_HttpChannel):
    """One JSON document a message."""

    def send(self, message: Message) -> None:
        """POST the document."""
        self._post(document(message))


class _Slack(_HttpChannel):
    """Slack's incoming webhooks, which Mattermost, Rocket.Chat and others take, too."""

    def send(self, message: Message) -> None:
        """POST a text with one attachment."""
        colour = _RESOLVED_COLOUR if message.event is Event.RESOLVED else _COLOURS[message.severity]
        attachment = {"color": colour, "text": _escaped(text_of(message)), "fallback": _escaped(message.title)}
        self._post({"text": _escaped(message.title), "attachments": [attachment]})


class _Alertmanager(_HttpChannel):
    """Alertmanager's API v2. It groups, silences and routes by itself: every alert is sent with labels of its own."""

    def send(self, message: Message) -> None:
        """POST all alerts of the message."""
        now = int(time.time() * 1000)
        ends = now + int(_FORGOTTEN_AFTER * 1000 * (repeat_of(self._settings) or _ALERTMANAGER_REPEAT))
        body = [
            _alertmanager_alert(alert, resolved=message.event is Event.RESOLVED, ends=ends) for alert in message.alerts
        ]
        self._post(body, path="/api/v2/alerts")


def _alertmanager_alert(alert: AlertRow, *, resolved: bool, ends: int) -> dict[str, object]:
    named = {alert.scope: alert.subject} if alert.subject else {}
    told = {
        "summary": f"{alert.rule}: {alert.scope} {alert.subject}".rstrip(),
        "description": alert.cause,
        "action": alert.action,
        "reading": alert.reading,
        "version": "" if alert.version is None else str(alert.version),
        "lag_seconds": "" if alert.lag_ms is None else f"{alert.lag_ms / 1000:g}",
    }
    return {
        "labels": {"alertname": alert.rule, "severity": alert.severity, "job": "deltamirror", **named},
        "annotations": {name: value for name, value in told.items() if value},
        "startsAt": timestamp(alert.fired_at or alert.since),
        "endsAt": timestamp((alert.resolved_at or ends) if resolved else ends),
    }


class _WithoutRedirects(urllib.request.HTTPRedirectHandler):
    """A message goes where the settings say, and nowhere else."""

    def redirect_request(self, *_: object) -> None:
        """None: the redirection is an error."""
        return


_OPENER: Final = urllib.request.build_opener(_WithoutRedirects)


def _revealed(secret: Secret | None) -> str:
    return "" if secret is None else secret.reveal()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _apprise(settings: AlertChannel) -> Channel:
    try:
        module = import_module("deltamirror.ops.alerts.apprise_channel")
    except ImportError as error:
        missing = "e-mail and chat services need apprise, which is not installed"
        raise MissingExtra(missing, hint="pip install 'deltamirror[alerts]'", extra="alerts") from error
    channel: Channel = module.AppriseChannel(settings)
    return channel


def wrong_url(settings: AlertChannel) -> InvalidSettings:
    """The error for an address that a library does not take."""
    message = f"channel {settings.name!r}: its `url` is not that of one service that apprise knows"
    return InvalidSettings(message, hint="https://github.com/caronc/apprise lists them", key="alerts.channels")
