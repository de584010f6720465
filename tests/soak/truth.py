"""Whether services tell the truth: their metrics beside what SQL of our own counts, throughout."""

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from deltamirror import Catalog
from deltamirror.errors import Transient, Unavailable
from tests.soak.crowd import Member

Facts: TypeAlias = Mapping[tuple[str, str], float]
"""Numbers by the name of a metric, and by the value of its label; one without labels has an empty one."""

_PAUSE = 1.0
_PATIENCE = 15.0
_REST = 20.0
"""A service reads its state again after so many times as long as reading took: ``StateCollector``."""
_STATE = ("deltamirror_tables", "")
"""Is among the metrics of a service that can read its state."""
_COUNTS = text(
    """
    WITH lags AS (
        SELECT t.name, t.quarantined_at, h.version + 1 - coalesce(min(s.version), h.version + 1) AS versions
        FROM dl_tables t JOIN dl_heads h USING (table_id)
        LEFT JOIN dl_mirror_status s ON s.table_id = t.table_id AND s.state <> 'SUCCESS'
        WHERE t.name IS NOT NULL GROUP BY t.name, t.quarantined_at, h.version
    )
    SELECT 'deltamirror_mirror_lag_versions', name, versions FROM lags
    UNION ALL SELECT 'deltamirror_backlog_versions', '', sum(versions) FROM lags
    UNION ALL SELECT 'deltamirror_tables', '', count(*) FROM lags
    UNION ALL SELECT 'deltamirror_quarantined_tables', '', count(quarantined_at) FROM lags
    UNION ALL SELECT 'deltamirror_escalations_open', '', count(*) FROM dl_escalations WHERE closed_at IS NULL
    UNION ALL SELECT 'deltamirror_alerts_firing', severities.name, count(a.rule)
        FROM unnest(ARRAY['info', 'warning', 'critical']) severities (name)
        LEFT JOIN dl_alerts a ON a.severity = severities.name AND a.state = 'firing' GROUP BY severities.name
    UNION ALL SELECT 'deltamirror_circuit_state', store, array_position(ARRAY['closed', 'half-open', 'open'], state) - 1
        FROM dl_breakers
    """
)


def counted(catalog: Catalog) -> Facts:
    """The state of the mirror by one statement, and none of the product's."""
    with catalog.database.read() as connection:
        return {(name, label): float(number) for name, label, number in connection.execute(_COUNTS)}


def scraped(port: int) -> Facts:
    """What a service on this machine tells a scraper."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_PATIENCE) as response:
        families = list(text_string_to_metric_families(response.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, next(iter(sample.labels.values()), "")): sample.value for sample in samples}


class Watch(threading.Thread):
    """Scrapes a service again and again.

    A scrape is compared where the database had the same state before and after it, and the service has certainly read
    that state in between.
    """

    def __init__(self, catalog: Catalog, service: Member, port: int) -> None:
        super().__init__(name="watch", daemon=True)
        self._catalog, self._service, self._port = catalog, service, port
        self._pid = 0
        self._asked_since: float | None = None
        """When the service may have begun to read the state that it answers with."""
        self._fresh_from = 0.0
        """From when on it reads the state again."""
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self.answered = self.unanswered = self.compared = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        """Scrape until told to stop, whenever the service has certainly to read its state."""
        while not self._is_over.wait(_PAUSE):
            try:
                with self._lock:
                    self._look()
            except (OSError, HTTPException, Unavailable, Transient):
                self.unanswered += 1
            except ValueError as error:
                self.wrong.append(f"no scraper can read it: {error}")

    def stop(self) -> None:
        """End."""
        self._is_over.set()
        self.join()

    def agrees(self) -> bool:
        """Whether the service shows what the database has, and that did not change meanwhile."""
        with self._lock:
            before = counted(self._catalog)
            return not _differences(before, self._scrape()) and before == counted(self._catalog)

    def _look(self) -> None:
        if not self._is_read_again():
            return
        before, is_asked_first = counted(self._catalog), self._asked_since is None
        told = self._scrape()
        self.answered += 1
        if _STATE in told and is_asked_first and before == counted(self._catalog):
            self.compared += 1
            self.wrong += _differences(before, told)

    def _is_read_again(self) -> bool:
        """Whether a scrape is not answered with a state that was read before: not by a process that has just begun."""
        pid = self._service.process.pid if self._service.process else 0
        if pid != self._pid:
            self._pid, self._asked_since, self._fresh_from = pid, None, 0.0
        return time.monotonic() >= self._fresh_from

    def _scrape(self) -> Facts:
        self._asked_since = self._asked_since or time.monotonic()
        try:
            told = scraped(self._port)
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):  # it does not listen yet
                self._asked_since = None
            raise
        if _STATE in told:  # it took as long to read as it was asked for, or less
            now = time.monotonic()
            self._fresh_from = max(self._fresh_from, now + _REST * (now - self._asked_since))
            self._asked_since = None
        return told


def _differences(facts: Facts, told: Facts) -> list[str]:
    return [f"{key}: {told.get(key)}, not {number}" for key, number in facts.items() if told.get(key) != number]


@contextmanager
def watching(catalog: Catalog, service: Member, port: int) -> Iterator[Watch]:
    """A watch for as long as the block lasts."""
    watch = Watch(catalog, service, port)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
