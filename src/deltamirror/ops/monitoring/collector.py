"""The state of a catalog as metrics: read from SQL at a scrape, and not more often than settings allow."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from deltamirror.config import SEVERITIES, LiveSettings, Switch, redact_text
from deltamirror.errors import Unavailable
from deltamirror.telemetry import metrics
from deltamirror.telemetry.metrics import Sample
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.breakers import BreakerState
from deltamirror.txnlog.queue.gauges import MirrorGauges, TableGauges, mirror_gauges
from deltamirror.work import Lane

_REST: Final = 20.0
"""A state is read again after so many times as long as reading took: a twentieth of the time, however large it is."""
_PATIENCE: Final = 5.0
"""For how many seconds a scrape waits for the database; the other metrics are served without it."""

_MOST_STORES: Final = 100

_CIRCUITS: Final[Mapping[str, int]] = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}

Numbers = Iterable[tuple[Mapping[str, str], float]]


@dataclass(frozen=True, slots=True)
class StateMetric:
    """A gauge that is read from SQL: its name, and what it means."""

    name: str
    help: str
    labels: tuple[str, ...]
    numbers: Callable[[MirrorGauges], Numbers]

    def samples(self, state: MirrorGauges) -> Iterator[Sample]:
        """Its values in a state."""
        for labels, value in self.numbers(state):
            yield Sample(self.name, self.help, value, labels)


def _by_table(
    number: Callable[[TableGauges], float], together: Callable[[Iterable[float]], float]
) -> Callable[[MirrorGauges], Numbers]:
    """A number of each table that has a label; ``together`` makes one of those of all others."""

    def numbers(state: MirrorGauges) -> Numbers:
        grouped: dict[str, list[float]] = {}
        for table in state.tables:
            grouped.setdefault(metrics.table_label(table.name), []).append(number(table))
        return [({"table": label}, together(values)) for label, values in grouped.items()]

    return numbers


def _circuits(state: MirrorGauges) -> Numbers:
    """Those that are not closed first, since the number of stores with a label is bounded."""
    states = {redact_text(store): _CIRCUITS[circuit] for store, circuit in sorted(state.circuits.items())}
    worst_first = sorted(states.items(), key=lambda item: -item[1])
    shown, others = worst_first[:_MOST_STORES], worst_first[_MOST_STORES:]
    rest = [({"store": "other"}, max(number for _, number in others))] if others else []
    return [({"store": store}, number) for store, number in shown] + rest


def _leases(state: MirrorGauges) -> Numbers:
    return [({"lane": lane.value}, state.leases.get(lane.value, 0)) for lane in Lane]


STATE_METRICS: Final = (
    StateMetric(
        "deltamirror_mirror_lag_seconds",
        "Age of the oldest committed version that is not published, also if it was never attempted; 0 if there is "
        "none, or while the table is disabled. Table other: the largest of the tables without a label.",
        ("table",),
        _by_table(lambda table: table.lag_ms / 1_000, max),
    ),
    StateMetric(
        "deltamirror_mirror_lag_versions",
        "Committed versions that are not published; 0 while the table is disabled. Table other: the largest of the "
        "tables without a label.",
        ("table",),
        _by_table(lambda table: table.lag_versions, max),
    ),
    StateMetric(
        "deltamirror_checkpoint_age_versions",
        "Published versions behind the newest checkpoint. Table other: the largest of the tables without a label.",
        ("table",),
        _by_table(lambda table: table.checkpoint_age, max),
    ),
    StateMetric(
        "deltamirror_json_behind_checkpoint_bytes",
        "Bytes of the commits that a reader reads after the newest checkpoint. Table other: their sum.",
        ("table",),
        _by_table(lambda table: table.bytes_behind, sum),
    ),
    StateMetric(
        "deltamirror_active_files",
        "Live files at the head: those of the newest checkpoint, and added less removed since. Table other: their sum.",
        ("table",),
        _by_table(lambda table: table.active_files, sum),
    ),
    StateMetric(
        "deltamirror_backlog_versions",
        "Committed versions of all tables that are not published, but for those of disabled tables.",
        (),
        lambda state: [({}, sum(table.lag_versions for table in state.tables))],
    ),
    StateMetric("deltamirror_tables", "Tables of the catalog.", (), lambda state: [({}, len(state.tables))]),
    StateMetric(
        "deltamirror_quarantined_tables",
        "Tables in quarantine.",
        (),
        lambda state: [({}, sum(table.is_quarantined for table in state.tables))],
    ),
    StateMetric(
        "deltamirror_escalations_open",
        "Versions and checkpoints that failed so often that an operator has to look.",
        (),
        lambda state: [({}, state.escalations)],
    ),
    StateMetric(
        "deltamirror_alerts_firing",
        "Alerts that fire, by severity.",
        ("severity",),
        lambda state: [({"severity": severity}, state.firing.get(severity, 0)) for severity in SEVERITIES],
    ),
    StateMetric(
        "deltamirror_circuit_state",
        "Circuit of a store to which something happened: 0 closed, 1 half-open, 2 open.",
        ("store",),
        _circuits,
    ),
    StateMetric("deltamirror_leases", "Leases that are held, by lane.", ("lane",), _leases),
)


class StateCollector:
    """Reads the state of a catalog for scrapes, any number of which share one reading for ``metrics.refresh`` seconds.

    A thread of its own reads, so that a database that hangs does not keep the metrics of the process back.
    """

    def __init__(
        self,
        database: Database,
        live: LiveSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        self._database = database
        self._live = live
        self._clock = clock
        self._patience = patience
        self._lock = threading.Lock()
        self._reading: Future[list[Sample]] | None = None
        self._due = float("-inf")
        self._tables: frozenset[str] = frozenset()

    def __call__(self) -> list[Sample]:
        """The latest samples, at most ``metrics.refresh`` seconds old, or for longer where they take long to read."""
        with self._lock:
            if self._reading is None or (self._reading.done() and self._clock() >= self._due):
                self._reading = self._begun()
            reading = self._reading
        try:
            return reading.result(self._patience)
        except TimeoutError:
            message = f"the state of the mirror could not be read within {self._patience:g} s"
            raise Unavailable(message, hint="look after the database") from None

    def _begun(self) -> Future[list[Sample]]:
        reading = Future[list[Sample]]()
        threading.Thread(target=self._read, args=(reading,), name="deltamirror-metrics", daemon=True).start()
        return reading

    def _read(self, reading: Future[list[Sample]]) -> None:
        begun = self._clock()
        try:
            samples = self._samples()
        except BaseException as error:  # noqa: BLE001  the scrape that waits for it raises it
            self._rest(begun)
            reading.set_exception(error)
        else:
            self._rest(begun)
            reading.set_result(samples)

    def _rest(self, begun: float) -> None:
        now = self._clock()
        self._due = now + max(self._live.current.metrics.refresh, _REST * (now - begun))

    def _samples(self) -> list[Sample]:
        with self._database.read() as connection:
            state = mirror_gauges(connection, Switch.of(self._live.current))
        tables = frozenset(table.name for table in state.tables)
        metrics.forget_tables(self._tables - tables)
        self._tables = tables
        return [sample for metric in STATE_METRICS for sample in metric.samples(state)]


@contextmanager
def exported(database: Database, live: LiveSettings) -> Iterator[None]:
    """The state of the catalog is part of the metrics of this process for as long as the block lasts.

    Changed settings hold for the metrics, too.
    """
    unregister = metrics.register(StateCollector(database, live))
    unsubscribe = live.on_change(lambda settings: metrics.limit_tables(settings.metrics.tables))
    try:
        yield
    finally:
        unsubscribe()
        unregister()
