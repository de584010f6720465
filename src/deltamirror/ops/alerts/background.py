"""Evaluating rules beside a service's other work."""

import logging

from deltamirror.config import LiveSettings, Settings, Switch
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.alerts.delivery import Dispatcher
from deltamirror.ops.alerts.evaluation import evaluate
from deltamirror.ops.alerts.explanations import facts_of
from deltamirror.ops.alerts.readings import observe
from deltamirror.ops.alerts.rules import ParsedRule, channels_in_force, rules_in_force, told_channels
from deltamirror.ops.service_thread import ServiceThread
from deltamirror.pipeline.failures.our_errors import our_error
from deltamirror.pipeline.service.shutdown import Ending
from deltamirror.telemetry import metrics
from deltamirror.txnlog.alerts.records import AlertChange, AlertKey, record
from deltamirror.txnlog.database.access import Database

_log = logging.getLogger(__name__)


def evaluate_now(database: Database, settings: Settings) -> list[AlertChange]:
    """Evaluate all rules once; the changes that this process made. A dispatcher sends their notifications."""
    channels = channels_in_force(settings)
    seen = observe(database, channels, Switch.of(settings))

    def channels_of(rule: ParsedRule, key: AlertKey) -> tuple[str, ...]:
        return told_channels(rule, channels, scope=key.scope, subject=key.subject)

    changes = evaluate(
        rules_in_force(settings),
        seen.readings,
        seen.known,
        now=seen.at,
        is_silenced=lambda key: any(each.covers(key) for each in seen.silences),
        channels_of=channels_of,
        explain=facts_of,
    )
    return record(database, changes)


class AlertWatch(ServiceThread):
    """A thread that evaluates the rules once in an interval, and has notifications sent. It holds up no publishing."""

    def __init__(self, database: Database, live: LiveSettings, *, ending: Ending) -> None:
        super().__init__(live, ending, name="deltamirror-alert-rules")
        self._database = database
        self._dispatcher = Dispatcher(database, counted=metrics.count_alert_delivery)

    def evaluate(self) -> list[AlertChange]:
        """One round: evaluate, and begin to send."""
        settings = self._live.current
        if not settings.alerts.enabled:
            return []
        made = evaluate_now(self._database, settings)
        self._dispatcher.dispatch(channels_in_force(settings), settings.alerts)
        return made

    def is_over(self, seconds: float) -> bool:
        """Whether the thread has ended, and those that send, or do within so many seconds each."""
        return super().is_over(seconds) and self._dispatcher.close(seconds)

    def work(self) -> None:
        """Round after round."""
        while not self._stop.is_set():
            # Changed settings count at once: a shorter interval does not wait for the longer one.
            self._is_woken(self._live.current.alerts.interval)
            if self._stop.is_set():
                return
            try:
                self.evaluate()
            except DeltaMirrorError as error:
                _log.debug("the rules of alerts are not evaluated: %s", error)
            except Exception as error:  # noqa: BLE001  this thread has to last as long as the service
                _log.error("the rules of alerts are not evaluated: %s", our_error(error))
