"""Metrics in Prometheus' form: counters and histograms of this process, and gauges that are read from SQL at a scrape.

``REGISTRY`` is public: a program that writes through :class:`deltamirror.Catalog` serves it beside its own metrics, by
any of prometheus_client's means; the mirror serves it at ``/metrics``. Code records by the functions of this module: no
other module knows the library. Labels have few values: a version is never one, and of tables the first
``metrics.tables`` that a process meets have a value of their own, all others are ``other``.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from deltamirror.telemetry.mentions import Mentions

__all__ = [
    "Sample",
    "count_alert_delivery",
    "count_attempt",
    "count_failure",
    "count_findings",
    "count_reload",
    "exposition",
    "forget_tables",
    "limit_tables",
    "observe_checkpoint",
    "observe_commit",
    "observe_maintenance",
    "observe_open",
    "observe_publish",
    "observe_spark_job",
    "observe_stage",
    "register",
    "set_settings_valid",
    "table_label",
]

_log = logging.getLogger(__name__)

REGISTRY: Final = CollectorRegistry()
"""All metrics of this process."""

OTHER_TABLES: Final = "other"
"""The value of the label ``table`` for tables beyond the bound."""

_SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LAGS: Final = (0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 30, 60, 300, 900, 3600)
_LONG: Final = (0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
_SIZES: Final = tuple(float(4**power) for power in range(5, 17))


@dataclass(frozen=True, slots=True)
class Description:
    """A metric as the reference page has it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


DESCRIPTIONS: Final[list[Description]] = []
"""The metrics of a process; ``deltamirror.ops.monitoring`` has those of the state in SQL."""


def _described(name: str, kind: str, text: str, labels: Sequence[str]) -> Mapping[str, Any]:
    DESCRIPTIONS.append(Description(name, kind, tuple(labels), text))
    return {"name": name, "documentation": text, "labelnames": labels, "registry": REGISTRY}


def _counter(name: str, text: str, labels: Sequence[str] = ()) -> Counter:
    return Counter(**_described(name, "counter", text, labels))


def _gauge(name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
    return Gauge(**_described(name, "gauge", text, labels))


def _histogram(name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float]) -> Histogram:
    return Histogram(**_described(name, "histogram", text, labels), buckets=buckets)


_COMMIT_SECONDS: Final = _histogram(
    "deltamirror_commit_seconds",
    "Time of a transaction in this process, from the call of commit to its answer. Outcome: committed, already-applied "
    "(a token or application transaction that was applied before), or the code of the error.",
    ["outcome"],
    buckets=_SHORT,
)
_COMMITS: Final = _counter("deltamirror_commits_total", "Transactions that this process committed.")
_OPEN_SECONDS: Final = _histogram(
    "deltamirror_open_seconds", "Time to read the state of a table from SQL when it is opened.", buckets=_SHORT
)
_PUBLISH_SECONDS: Final = _histogram(
    "deltamirror_publish_seconds",
    "Time from the commit of a version to its presence in the log, for versions that this process published.",
    ["table"],
    buckets=_LAGS,
)
_ATTEMPTS: Final = _counter(
    "deltamirror_attempts_total",
    "Units of work of the mirror that ended: the versions of a table, or a checkpoint. Outcome: success, failure, or "
    "abandoned (the lease was lost, or the base of a checkpoint was not usable).",
    ["lane", "outcome"],
)
_FAILURES: Final = _counter(
    "deltamirror_failures_total", "Units of work that failed, by the code of the error.", ["class", "lane"]
)
_STAGE_SECONDS: Final = _histogram(
    "deltamirror_stage_seconds",
    "Time that a unit of work, versions of one table, was in a stage (read, serialise, upload, verify), and that a "
    "checkpoint took (checkpoint); also where Spark executors did the work.",
    ["stage"],
    buckets=_SHORT,
)
_CHECKPOINT_SECONDS: Final = _histogram(
    "deltamirror_checkpoint_seconds", "Time to write and verify a checkpoint.", buckets=_LONG
)
_CHECKPOINT_BYTES: Final = _histogram(
    "deltamirror_checkpoint_bytes", "Size of a checkpoint, sidecars included.", buckets=_SIZES
)
_SPARK_JOB_SECONDS: Final = _histogram(
    "deltamirror_spark_job_seconds", "Time of a Spark job of the mirror.", buckets=_LONG
)
_FINDINGS: Final = _counter(
    "deltamirror_reconcile_findings_total",
    "Differences between a log and the database that this process found, by kind.",
    ["kind"],
)
_MAINTENANCE: Final = _counter(
    "deltamirror_maintenance_total",
    "Chores of this service, by table and time: optimize or vacuum. Outcome: done, or the code of the error; conflict: "
    "another writer changed the files meanwhile.",
    ["chore", "outcome"],
)
_MAINTENANCE_SECONDS: Final = _histogram(
    "deltamirror_maintenance_seconds",
    "Time that this service took to optimize or vacuum a table.",
    ["chore"],
    buckets=_LONG,
)
_DELIVERIES: Final = _counter(
    "deltamirror_alert_deliveries_total",
    "Alerts that were handed to a channel. Outcome: delivered or failed.",
    ["channel", "outcome"],
)
_RELOADS: Final = _counter(
    "deltamirror_settings_reloads_total",
    "Changes of the settings file that were looked at. Outcome: applied or refused.",
    ["outcome"],
)
_SETTINGS_VALID: Final = _gauge(
    "deltamirror_settings_valid",
    "1 while the settings file is the one in force; 0 while it has an error, and the values before it stay.",
)
_BUILD_INFO: Final = _gauge("deltamirror_build_info", "Always 1; the label names the release.", ["version"])
_SCRAPE_ERRORS: Final = _counter(
    "deltamirror_scrape_errors_total", "Scrapes at which a state in SQL could not be read: its gauges are missing then."
)

_SETTINGS_VALID.set(1)
_BUILD_INFO.labels(version=version("deltamirror")).set(1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value that is read at scrape time: of a counter if its name ends with ``_total``, otherwise of a gauge."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def exposition() -> tuple[bytes, str]:
    """All metrics of this process as a scraper reads them, and the content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST


def register(collector: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
    """Ask the collector at each scrape, until the returned function is called. Equal samples: the first counts.

    A collector that raises has no samples at that scrape, which ``deltamirror_scrape_errors_total`` counts.
    """
    return _STATE.add(collector)


def limit_tables(most: int) -> None:
    """How many tables have a label of their own from here on; those that do stay, as far as the bound allows."""
    _forget(_TABLES.limit(most))


def forget_tables(tables: Collection[str]) -> None:
    """These tables are gone: others may have their labels."""
    _forget(_TABLES.drop(tables))


def table_label(table: str) -> str:
    """The value of the label ``table`` for a table."""
    return _TABLES.label(table)


def observe_commit(seconds: float, *, outcome: str) -> None:
    """A transaction was answered."""
    _COMMIT_SECONDS.labels(outcome).observe(seconds)
    if outcome == "committed":
        _COMMITS.inc()


def observe_open(seconds: float) -> None:
    """The state of a table was read."""
    _OPEN_SECONDS.observe(seconds)


def observe_publish(table: str, seconds: Iterable[float]) -> None:
    """Versions of a table became visible, each so long after its commit."""
    histogram = _PUBLISH_SECONDS.labels(table_label(table))
    for each in seconds:
        histogram.observe(max(0.0, each))


def count_attempt(lane: str, outcome: str) -> None:
    """A unit of work ended."""
    _ATTEMPTS.labels(lane, outcome).inc()


def count_failure(code: str, lane: str) -> None:
    """A unit of work failed."""
    _FAILURES.labels(code, lane).inc()


def observe_stage(stage: str, seconds: float) -> None:
    """A unit of work was in a stage for so long."""
    _STAGE_SECONDS.labels(stage).observe(seconds)


def observe_checkpoint(seconds: float, num_bytes: int) -> None:
    """A checkpoint was written."""
    _CHECKPOINT_SECONDS.observe(seconds)
    _CHECKPOINT_BYTES.observe(num_bytes)


def observe_spark_job(seconds: float) -> None:
    """A Spark job ended."""
    _SPARK_JOB_SECONDS.observe(seconds)


def count_findings(kind: str, number: int) -> None:
    """So many differences of a kind between a log and the database were found."""
    _FINDINGS.labels(kind).inc(number)


def observe_maintenance(chore: str, seconds: float, *, outcome: str) -> None:
    """The files of a table were maintained, or could not be, in so many seconds."""
    _MAINTENANCE.labels(chore, outcome).inc()
    _MAINTENANCE_SECONDS.labels(chore).observe(seconds)


def count_alert_delivery(channel: str, outcome: str) -> None:
    """An alert was handed to a channel."""
    _DELIVERIES.labels(channel, outcome).inc()


def count_reload(outcome: str) -> None:
    """The settings file changed, and was looked at."""
    _RELOADS.labels(outcome).inc()


def set_settings_valid(valid: bool) -> None:
    """Whether the settings file is in force."""
    _SETTINGS_VALID.set(int(valid))


class _TableLabels:
    """Which tables have a label of their own. Safe to share between threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._labels: dict[str, None] = {}
        self._lock = threading.Lock()

    def label(self, table: str) -> str:
        if table not in self._labels:
            if len(self._labels) >= self._most:
                return OTHER_TABLES
            with self._lock:
                if len(self._labels) >= self._most:
                    return OTHER_TABLES
                self._labels[table] = None
        return table

    def limit(self, most: int) -> list[str]:
        """Change the bound; the tables that lose their label."""
        with self._lock:
            self._most = most
            return self._drop(list(self._labels)[most:])

    def drop(self, tables: Collection[str]) -> list[str]:
        """Take the labels of these tables away; those that had one."""
        with self._lock:
            return self._drop([table for table in tables if table in self._labels])

    def _drop(self, tables: list[str]) -> list[str]:
        for table in tables:
            del self._labels[table]
        return tables


class _State(Collector):
    """All collectors of state as one: families that several of them have are joined, as scrapers demand."""

    def __init__(self) -> None:
        self._collectors: list[Callable[[], Iterable[Sample]]] = []
        self._mentions = Mentions()

    def add(self, collector: Callable[[], Iterable[Sample]]) -> Callable[[], None]:
        self._collectors = [*self._collectors, collector]  # replaced, never changed: a scrape may be reading it
        return lambda: self._remove(collector)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry must not collect in order to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        for sample in self._samples():
            if (key := (sample.name, frozenset(sample.labels.items()))) not in seen:
                seen.add(key)
                family = families.get(sample.name) or families.setdefault(sample.name, _family(sample))
                family.add_sample(sample.name, dict(sample.labels), sample.value)
        yield from families.values()

    def _samples(self) -> Iterator[Sample]:
        for collector in self._collectors:
            try:
                samples = list(collector())
                self._mentions.is_well(id(collector))
                yield from samples
            except Exception as error:  # noqa: BLE001  the other metrics are served whatever state cannot be read
                _SCRAPE_ERRORS.inc()
                if self._mentions.is_news(id(collector), type(error).__name__):
                    _log.warning("metrics of the state in SQL are missing: %s", type(error).__name__)

    def _remove(self, collector: Callable[[], Iterable[Sample]]) -> None:
        rest = list(self._collectors)
        rest.remove(collector)
        self._collectors = rest


def _family(sample: Sample) -> Metric:
    kind = CounterMetricFamily if sample.name.endswith("_total") else GaugeMetricFamily
    return kind(sample.name, sample.help)


def _forget(tables: Iterable[str]) -> None:
    for table in tables:
        with suppress(KeyError):
            _PUBLISH_SECONDS.remove(table)


_TABLES: Final = _TableLabels(100)
_STATE: Final = _State()
REGISTRY.register(_STATE)
