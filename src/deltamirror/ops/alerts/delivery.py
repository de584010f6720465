"""Sending notifications that are due, each channel in a thread of its own, each message within its time."""

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from deltamirror.config import AlertChannel, AlertSettings
from deltamirror.errors import DeltaMirrorError, Unavailable
from deltamirror.ops.alerts.channels import HINT, open_channel, repeat_of
from deltamirror.ops.alerts.messages import Message
from deltamirror.ops.alerts.secrecy import without_secrets
from deltamirror.pipeline.failures.backoff import growing_pause
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.telemetry.mentions import Mentions
from deltamirror.txnlog.alerts.deliveries import DeliveryClaim, channels_due, claim, record_failed, record_sent
from deltamirror.txnlog.database.access import Database

_log = logging.getLogger(__name__)


def send_within(channel: AlertChannel, message: Message, *, seconds: float) -> None:
    """Send a message, or raise one of our errors after so many seconds: a receiver that hangs is left behind."""
    _Sender(channel).send(message, seconds=seconds)


class _Sender:
    """Sends messages to one channel, each in a thread that may be left behind; never more than one of them."""

    def __init__(self, channel: AlertChannel) -> None:
        self._channel = channel
        self._thread: threading.Thread | None = None

    def send(self, message: Message, *, seconds: float) -> None:
        """Send a message within so many seconds, or raise one of our errors."""
        name = self._channel.name
        if self._thread is not None and self._thread.is_alive():
            raise Unavailable(f"channel {name!r}: it still hangs at a notification before")
        outcome: SimpleQueue[BaseException | None] = SimpleQueue()
        arguments = (message, seconds, outcome)
        self._thread = threading.Thread(
            target=self._tried, args=arguments, name=f"deltamirror-alert-{name}", daemon=True
        )
        self._thread.start()
        try:
            error = outcome.get(timeout=seconds)
        except Empty:
            raise Unavailable(f"channel {name!r}: no answer within {seconds:g} s") from None
        if error is not None:
            raise _ours(self._channel, error)

    def _tried(self, message: Message, seconds: float, outcome: "SimpleQueue[BaseException | None]") -> None:
        try:
            open_channel(self._channel, timeout=seconds).send(message)
        except BaseException as error:  # noqa: BLE001  whatever a library raises is the outcome
            outcome.put(error)
        else:
            outcome.put(None)


class Dispatcher:
    """Sends what is due. A channel that hangs or fails delays itself alone."""

    def __init__(self, database: Database, *, counted: Callable[[str, str], None] = lambda *_: None) -> None:
        self._database, self._counted = database, counted
        self._threads: dict[str, threading.Thread] = {}
        self._senders: dict[AlertChannel, _Sender] = {}
        self._mentions = Mentions()
        self._stop = threading.Event()

    def dispatch(self, channels: tuple[AlertChannel, ...], settings: AlertSettings) -> None:
        """Begin to send the notifications that are due; those under way go on."""
        due = channels_due(self._database)
        for channel in channels:
            running = self._threads.get(channel.name)
            if channel.name not in due or (running is not None and running.is_alive()):
                continue
            thread = threading.Thread(
                target=self._drain, args=(channel, settings), name=f"deltamirror-alerts-{channel.name}", daemon=True
            )
            self._threads[channel.name] = thread
            thread.start()

    def close(self, seconds: float) -> bool:
        """Begin nothing more; whether all that was being sent came to its end within so many seconds each."""
        self._stop.set()
        for thread in self._threads.values():
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads.values())

    def drain(self, channel: AlertChannel, settings: AlertSettings) -> None:
        """Send all that is due of a channel, one message after the other."""
        seconds = 2 * settings.timeout + 1
        while not self._stop.is_set() and (found := claim(self._database, channel.name, seconds=seconds)) is not None:
            self._send(channel, found, settings)

    def _drain(self, channel: AlertChannel, settings: AlertSettings) -> None:
        try:
            self.drain(channel, settings)
        except Exception as error:  # noqa: BLE001  the next evaluation tries again
            level = logging.DEBUG if isinstance(error, DeltaMirrorError) else logging.ERROR
            _log.log(level, "notifications of channel %r are not sent: %s", channel.name, our_error(error))

    def _send(self, channel: AlertChannel, found: DeliveryClaim, settings: AlertSettings) -> None:
        try:
            sender = self._senders.setdefault(channel, _Sender(channel))
            sender.send(Message(event=found.event, alerts=found.alerts), seconds=settings.timeout)
        except DeltaMirrorError as error:
            self._counted(channel.name, "failed")
            if self._mentions.is_news(channel.name, error.code):
                _log.warning("a notification was not sent: %s", error, extra={"channel": channel.name})
            pause = growing_pause(settings.retry_base, found.attempts, settings.retry_max)
            record_failed(self._database, found, error.message, pause=pause)
            return
        self._counted(channel.name, "sent")
        self._mentions.is_well(channel.name)
        record_sent(self._database, found, repeat=repeat_of(channel))


def _ours(channel: AlertChannel, error: BaseException) -> DeltaMirrorError:
    if isinstance(error, DeltaMirrorError):  # it tells no secret
        return error
    return Unavailable(f"channel {channel.name!r}: {without_secrets(channel, our_error(error).message)}", hint=HINT)
