"""What goes wrong for longer, and what needs a person: seen in the alerts and numbers of the mirror, and put right."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from deltamirror import Catalog, Table
from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.errors import Diverged, LeaseLost, Transient, Unavailable
from deltamirror.storage.open import store_at
from tests.soak.crowd import Crowd, Member
from tests.soak.truth import Watch
from tests.support.faults.s3_proxy import S3Proxy
from tests.support.interfaces.commands import typed
from tests.support.lakes.lake import add, execute
from tests.support.monitoring.receivers import HttpReceiver

T = TypeVar("T")
LASTING = "drift-found"
"""The alert that fires for an hour after its cause is over."""
_FAILED = "SELECT table_id, version FROM dl_mirror_status WHERE state = 'FAILED'"
_UNPUBLISHED = """
    SELECT t.name, h.version, nullif(t.published_version, -1), h.version - t.published_version,
           count(*) FILTER (WHERE s.state = 'PENDING'), count(*) FILTER (WHERE s.state = 'FAILED')
    FROM dl_tables t JOIN dl_heads h USING (table_id) JOIN dl_mirror_status s USING (table_id)
    WHERE s.state <> 'SUCCESS' GROUP BY t.name, h.version, t.published_version ORDER BY t.name
"""
_FIRING = "SELECT rule, subject FROM dl_alerts WHERE state = 'firing'"
_PASSING = (Unavailable, Transient, OSError)
"""A server was away, or crashed since the last question."""
_SHOWN = ("name", "head", "published", "lag_versions", "pending", "failed")
_FOREIGN = """\
{{"commitInfo":{{"inCommitTimestamp":{now},"timestamp":{now},"operation":"WRITE"}}}}
{{"add":{{"path":"foreign-{now}.parquet","partitionValues":{{}},"size":10,"modificationTime":{now},"dataChange":true}}}}
"""


class Notified(NamedTuple):
    """One alert in a notification; ``fired_at`` tells it from an earlier one of the same subject."""

    event: str
    rule: str
    subject: str
    fired_at: int


def all_notified(receiver: HttpReceiver) -> set[Notified]:
    """Everything that the channel was told until this moment."""
    documents = [request.document for request in list(receiver.requests.queue)]
    return {
        Notified(document["event"], document["rule"], alert["subject"], alert["fired_at"])
        for document in documents
        for alert in document["alerts"]
    }


@dataclass
class Incidents:
    """Each takes part of a minute, ends with the mirror as it was before, and is counted.

    ``table`` is one to which no other process commits. ``operator`` has the settings of a person's commands, which
    reach database and store directly.
    """

    catalog: Catalog
    crowd: Crowd
    s3: S3Proxy
    direct: StorageSettings
    watch: Watch
    table: Table
    operator: Mapping[str, str]
    folder: Path
    patience: float
    happened: Counter[str] = field(default_factory=Counter)

    def next(self) -> None:
        """The kinds take turns."""
        kinds: list[Callable[[], None]] = [self.outage, self.foreign_commit, self.lost_log]
        kind = kinds[self.happened.total() % len(kinds)]
        kind()
        self.happened[kind.__name__] += 1

    def outage(self) -> None:
        """The store is down: the alerts say so, the numbers are those of SQL, and other processes do what failed."""
        with self.s3.refusing():
            self.until(lambda: bool(self._firing("lag-warning")) and bool(self._failed()))
            self._check_numbers()
            stuck = self.answered(self._failed)
            for service in self._services():
                service.kill()
        self.until(lambda: not stuck & self._failed() and not self._firing("lag-warning", "circuit-open"))

    def foreign_commit(self) -> None:
        """Another writer commits to a log: nothing is overwritten, the table is in quarantine until it is adopted."""
        self.until(self._is_published)
        info = self.answered(self.table.info)
        data = _FOREIGN.format(now=int(time.time() * 1000)).encode()
        store_at(info.location, self.direct).create(f"{LOG_DIRECTORY}/{commit_name(info.head + 1)}", data)
        self._commit()
        self.until(lambda: self._firing("quarantined") == {self.table.name})
        self._typed("status", "--check", exits=2)
        self._typed("adopt", self.table.name, "--dry-run")
        self._typed("adopt", self.table.name)
        assert self.answered(lambda: self.table.commit_file(info.head + 1)) == data
        self.until(lambda: self._is_published() and not self._firing("quarantined"))

    def lost_log(self) -> None:
        """A whole log is deleted, and the data files are not: it comes back bit for bit."""
        self.until(self._is_published)
        store = store_at(self.table.location, self.direct)
        store.put("data.parquet", b"PAR1")
        store.delete([meta.key for meta in store.list(LOG_DIRECTORY)])
        self._typed("reconcile", self.table.name)
        self._typed("reconcile", self.table.name, "--strategy", "full")
        self._commit()
        self.until(self._is_published)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait, and look after processes; by turns, since any process may be made to stand still for minutes."""
        for _ in range(int(self.patience * 2)):
            with suppress(*_PASSING):
                if condition():
                    return
            self.crowd.look_after()
            threading.Event().wait(0.5)
        raise AssertionError(f"not within {self.patience:g} s: {execute(self.catalog, _FIRING)} {self.table.info()}")

    def answered(self, question: Callable[[], T]) -> T:
        """What the database answers: a connection of the pool may be one to a server that crashed since."""
        answers: list[T] = []

        def ask() -> bool:
            answers.append(question())
            return True

        self.until(ask)
        return answers[0]

    def _commit(self) -> None:
        token = str(uuid4())
        with suppress(Diverged):  # it is in quarantine already
            self.answered(lambda: self.table.append([add(f"{token}.parquet")], token=token))

    def _is_published(self) -> bool:
        info = self.table.info()
        return info.published == info.head and info.state == "active"

    def _check_numbers(self) -> None:
        """While no writer commits, ``status`` shows what SQL counts; so does the service that is scraped."""
        for writer in self.crowd.of("writer"):
            writer.suspend(self.patience)
        try:
            self.until(self._are_numbers_equal)
            self.until(self.watch.agrees)
        finally:
            for writer in self.crowd.of("writer"):
                writer.wake()

    def _are_numbers_equal(self) -> bool:
        """Asked again where something changed meanwhile, such as a transaction that was under way."""
        before = execute(self.catalog, _UNPUBLISHED)
        shown: list[dict[str, Any]] = json.loads(self._typed("status", "--json"))["tables"]
        if execute(self.catalog, _UNPUBLISHED) != before:
            return False
        late = [table for table in shown if table["lag_versions"]]
        numbers = sorted(tuple(table[name] for name in _SHOWN) for table in late)
        assert numbers == [tuple(row) for row in before], f"{numbers}, not {before}"
        assert all(table["lag_ms"] > 0 for table in late)
        assert all(table["error"] for table in late if table["failed"])
        return True

    def _services(self) -> list[Member]:
        return [*self.crowd.of("service"), *self.crowd.of("spark")]

    def _failed(self) -> set[tuple[int, int]]:
        return {(row[0], row[1]) for row in execute(self.catalog, _FAILED)}

    def _firing(self, *rules: str) -> set[str]:
        return {row.subject for row in execute(self.catalog, _FIRING) if row.rule in rules}

    def _typed(self, *arguments: str, exits: int = 0) -> str:
        """What a command says; typed again where a service has the lease that it needs, which passes."""
        answers: list[CompletedProcess[str]] = []

        def is_told() -> bool:
            answers.append(typed(*arguments, folder=self.folder, settings=self.operator))
            return answers[-1].returncode != LeaseLost.exit_status

        self.until(is_told)
        said = answers[-1]
        assert said.returncode == exits, (arguments, said.returncode, said.stdout, said.stderr)
        return said.stdout
