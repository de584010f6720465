"""Processes, PostgreSQL and S3 for a quarter of an hour, or ``SOAK_MINUTES``, amid everything that goes wrong.

Writers and services, one of them on Spark, are killed and suspended, requests to both servers fail, hang, and lose
their answers, PostgreSQL crashes, objects of the logs disappear. Every few minutes there is an incident that lasts, or
that needs a person. Metrics, status and alerts tell the truth throughout. Afterwards everything is as if nothing of it
had happened.
"""

import json
import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.storage.open import store_at
from tests.soak.crowd import QUICK, Crowd, check_log
from tests.soak.incidents import LASTING, Incidents, all_notified
from tests.soak.truth import Watch, watching
from tests.soak.writer import journals
from tests.support.faults.postgres_proxy import PostgresProxy
from tests.support.faults.rules import UNAVAILABLE, Answer, Delay, Fault, Reset, Silence, Truncate
from tests.support.faults.s3_proxy import Access, S3Proxy
from tests.support.interfaces.commands import typed, variables
from tests.support.lakes.lake import add, execute, paths
from tests.support.mirrors.local import committed_files
from tests.support.monitoring.receivers import HttpReceiver, http_receiver
from tests.support.readers.reader import Reader
from tests.support.servers.ports import held_port
from tests.support.servers.postgres_server import PostgresServer
from tests.support.spark.programs import spark_environment

MINUTES = float(os.environ.get("SOAK_MINUTES", "15"))
SEED = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().randrange(10**6))))
TABLES = ("t", "u", "v")
UNSHARED = "w"
"""A table to which no writer commits, for incidents after which versions have other numbers."""
PATIENCE = 300.0
INCIDENT_SECONDS = min(120.0, MINUTES * 60 / 4)
"""From one incident to the next."""

STORE_FAULTS: Sequence[Fault] = (
    Reset.BEFORE,
    Reset.WITHIN,
    Reset.AFTER,
    Silence.AFTER,
    Delay(1.0),
    Truncate(20),
    UNAVAILABLE,
    Answer(403, "AccessDenied"),
    Answer(409, "ConditionalRequestConflict"),
    Answer(412, "PreconditionFailed"),
    Answer(429, "TooManyRequests", (("retry-after", "1"),)),
    Answer(500, "InternalError"),
    Answer(503, "SlowDown"),
)
DATABASE_FAULTS: Sequence[Fault] = (Reset.BEFORE, Reset.AFTER, Delay(0.5))


class Scene:
    """Everything that takes part."""

    def __init__(self, incidents: Incidents, database: PostgresProxy, receiver: HttpReceiver) -> None:
        self.incidents, self.database, self.receiver = incidents, database, receiver
        self.catalog, self.crowd, self.s3, self.direct = (
            incidents.catalog, incidents.crowd, incidents.s3, incidents.direct
        )  # fmt: skip
        self.locations = [info.location for info in self.catalog.tables() if info.name in TABLES]
        self.lots = random.Random(SEED)
        self.happened: Counter[str] = Counter()
        self.lost: set[tuple[str, str]] = set()
        """Locations and keys of objects that were deleted."""

    @property
    def tables(self) -> list[Table]:
        """The tables, as the database has them."""
        return self.incidents.answered(lambda: [self.catalog.table(name) for name in TABLES])

    def troubled(self, server: PostgresServer) -> None:
        """Let things go wrong, one after the other, for as long as was asked."""
        kinds: dict[str, Callable[[], None]] = {
            "kill": lambda: self.crowd.one(self.lots).kill(),
            "suspend": lambda: self.crowd.one(self.lots).suspend(self.lots.uniform(0.5, 8)),
            "store": lambda: self.s3.fail(self.lots.choice(STORE_FAULTS), times=self.lots.randint(1, 20), chance=0.3),
            "statements": lambda: self.database.fail(self.lots.choice(DATABASE_FAULTS), times=3, chance=0.05),
            "commits": lambda: self.database.fail(Reset.AFTER, lambda each: each.text == "COMMIT", times=2),
            "store away": lambda: self._away(self.s3),
            "database away": lambda: self._away(self.database),
            "database crash": lambda: self._crash(server),
            "lost object": self._lose,
            "heal": self._heal,
        }
        weights = [6, 4, 8, 3, 3, 1, 1, 1, 2, 6]
        end = time.monotonic() + MINUTES * 60
        incident = time.monotonic() + INCIDENT_SECONDS
        while time.monotonic() < end:
            if time.monotonic() >= incident:
                self.incidents.next()
                incident = time.monotonic() + INCIDENT_SECONDS
            [kind] = self.lots.choices(list(kinds), weights)
            self.happened[kind] += 1
            kinds[kind]()
            time.sleep(self.lots.uniform(0.1, 2.0))
            self.crowd.look_after()

    def settled(self) -> None:
        """Nothing goes wrong any more: writers come to an end, and all is published."""
        self._heal()
        self.crowd.look_after()
        for member in self.crowd.members:
            member.wake()
        self.crowd.stop_file.touch()
        for writer in self.crowd.of("writer"):
            assert writer.end(signal.SIGCONT, seconds=PATIENCE) == 0, writer.log
        self._wait_until_published()
        self.incidents.until(self._is_all_told)
        self.incidents.until(self.incidents.watch.agrees)
        for service in self.crowd.of("service"):
            assert service.end(signal.SIGTERM, seconds=60) == 0, service.log
        # The one on Spark has been through the same, and is the only one that is left to publish these.
        for table in self.tables:
            self.incidents.answered(partial(table.append, [add("last.parquet")], token=table.name))
        self._wait_until_published()
        for service in self.crowd.of("spark"):
            assert service.end(signal.SIGTERM, seconds=60) == 0, service.log

    def _is_all_told(self) -> bool:
        """No alert fires any more, and the channel was told of the end of each that it was told of."""
        firing = "SELECT rule FROM dl_alerts WHERE state = 'firing' AND rule <> :lasting"
        if execute(self.catalog, firing, lasting=LASTING):
            return False
        told = [each for each in all_notified(self.receiver) if each.rule != LASTING]
        begun, ended = ({each[1:] for each in told if each.event == event} for event in ("firing", "resolved"))
        return begun == ended

    def _wait_until_published(self) -> None:
        self.incidents.until(lambda: all(map(self._is_published, self.tables)))

    def _is_published(self, table: Table) -> bool:
        info = table.info()
        listed = {meta.key for meta in store_at(table.location, self.direct).list(LOG_DIRECTORY)}
        committed = {f"{LOG_DIRECTORY}/{commit_name(version)}" for version in range(info.head + 1)}
        return info.published == info.head and committed <= listed

    def _heal(self) -> None:
        self.s3.heal()
        self.database.heal()

    def _away(self, proxy: S3Proxy | PostgresProxy) -> None:
        with proxy.refusing():
            time.sleep(self.lots.uniform(0.5, 5))

    def _crash(self, server: PostgresServer) -> None:
        server.crash()
        time.sleep(self.lots.uniform(0, 3))
        server.start()

    def _lose(self) -> None:
        """Another process deletes an object of a log."""
        location = self.lots.choice(self.locations)
        store = store_at(location, self.direct)
        if found := [meta.key for meta in store.list(LOG_DIRECTORY)]:
            chosen = self.lots.choice(found)
            self.lost.add((location, chosen))
            store.delete([chosen])


@pytest.fixture
def scene(
    postgres_url: str,
    postgres_database: str,
    postgres_proxy: PostgresProxy,
    s3_proxy: S3Proxy,
    s3_bucket: str,
    s3_settings: StorageSettings,
    tmp_path: Path,
) -> Iterator[Scene]:
    direct = {**QUICK, **variables(s3_settings), "DELTAMIRROR_CATALOG__URL": postgres_url}
    with (
        Catalog(postgres_url, settings=replace(Settings(), storage=s3_settings)) as catalog,
        http_receiver() as receiver,
        held_port() as port,
    ):
        catalog.init()
        for name in (*TABLES, UNSHARED):
            catalog.create_table(name, location=f"s3://{s3_bucket}/{name}", schema="id long")
        through = {
            **direct,
            **spark_environment(),
            **variables(s3_proxy.settings(s3_settings)),
            "DELTAMIRROR_CATALOG__URL": postgres_proxy.url(postgres_database),
            "DELTAMIRROR_ALERTS__CHANNELS": json.dumps([{"name": "hook", "kind": "webhook", "url": receiver.url}]),
        }
        crowd = Crowd(tmp_path, through)
        try:
            for number in range(3):
                crowd.add_writer(f"writer{number}", TABLES)
            service = crowd.add_service("service", "--listen", str(port))
            crowd.add_service("spark", "--master", "local[2]")
            with watching(catalog, service, port) as watch:
                incidents = Incidents(
                    catalog, crowd, s3_proxy, s3_settings, watch, catalog.table(UNSHARED), direct, tmp_path, PATIENCE
                )
                yield Scene(incidents, postgres_proxy, receiver)
        finally:
            crowd.kill_all()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(MINUTES * 60 + 6 * PATIENCE)
@pytest.mark.requirement("R24")
@pytest.mark.requirement("R58")
@pytest.mark.requirement("R92")
@pytest.mark.requirement("R93")
@pytest.mark.requirement("R101")
def test_after_everything_that_goes_wrong_nothing_is_lost(
    scene: Scene, postgres_server: PostgresServer, s3_settings: StorageSettings, delta_rs: Reader, tmp_path: Path
) -> None:
    print(f"SOAK_SEED={SEED}")  # noqa: T201 - the order of what goes wrong
    scene.troubled(postgres_server)
    scene.settled()
    print(dict(scene.happened + scene.incidents.happened), {table.name: table.info().head for table in scene.tables})  # noqa: T201
    committed = {table.name: committed_files(table) for table in scene.tables}
    for table in scene.tables:
        check_log(table, committed[table.name], s3_settings)
        assert delta_rs.snapshot(table.location, store=s3_settings).paths == paths(table)
        check_order(scene, table)
        check_times(scene, table)
    check_promises(committed, tmp_path)
    check_watch(scene.incidents.watch)
    check_commands(scene)


def check_watch(watch: Watch) -> None:
    """The service that was scraped said what the database has, whenever it could be compared."""
    print(f"{watch.answered} scrapes, {watch.compared} compared, {watch.unanswered} without an answer")  # noqa: T201
    assert not watch.wrong
    assert watch.compared >= MINUTES / 4


def check_commands(scene: Scene) -> None:
    """A person who looks finds nothing to do."""
    for command in ("status --check --max-lag 0", "reconcile", "health"):
        said = typed(*command.split(), folder=scene.incidents.folder, settings=scene.incidents.operator)
        assert said.returncode == 0, (command, said.stdout, said.stderr)


def check_times(scene: Scene, table: Table) -> None:
    """SQL has the time at which each version became visible; the store agrees where its object was put once."""
    listed = store_at(table.location, scene.direct).list(LOG_DIRECTORY)
    put = {meta.key: meta.modified for meta in listed if (table.location, meta.key) not in scene.lost}
    query = """
        SELECT version, committed_at, published_at FROM dl_mirror_status
        JOIN dl_table_versions USING (table_id, version) JOIN dl_tables USING (table_id) WHERE name = :name
    """
    rows = execute(scene.catalog, query, name=table.name)
    assert all(row.committed_at <= row.published_at for row in rows)
    visible = {f"{LOG_DIRECTORY}/{commit_name(row.version)}": row.published_at for row in rows}
    late = [published_at - put[key] for key, published_at in visible.items() if key in put]
    assert min(late) >= 0  # the store tells whole seconds
    assert statistics.median(late) <= 2_000, "most were put and recorded without a fault in between"


def check_order(scene: Scene, table: Table) -> None:
    """No version was asked to be put before the store had taken the one before it."""
    taken: dict[str, int] = {}
    asked: dict[str, int] = {}
    for access in scene.s3.log:
        if is_commit(access, table):
            asked.setdefault(access.key, access.arrived)
            if access.completed is not None and access.status in (200, 412):
                taken[access.key] = min(taken.get(access.key, access.completed), access.completed)
    keys = sorted(asked)
    late = [key for before, key in pairwise(keys) if asked[key] < taken[before]]
    assert not late


def is_commit(access: Access, table: Table) -> bool:
    return access.method == "PUT" and access.key.endswith(".json") and f"/{table.name}/_delta_log/" in f"/{access.key}"


def check_promises(committed: Mapping[str, Mapping[str, bytes]], folder: Path) -> None:
    """What a writer was told is so, once; what it was refused is not; transactions over all tables are whole."""
    places = {table: committed_at(commits) for table, commits in committed.items()}
    for journal in journals(folder):
        assert journal.unknown is None
        assert journal.sent
        for number, entry in journal.sent.items():
            versions = journal.told[number]
            for file in entry["files"]:
                found = {name: at[file] for name, at in places.items() if file in at}
                assert found == {name: [version] for name, version in (versions or {}).items()}


def committed_at(commits: Mapping[str, bytes]) -> dict[str, list[int]]:
    """The versions that add a file, by its path."""
    found: dict[str, list[int]] = {}
    for name, body in commits.items():
        for line in body.splitlines():
            if line.startswith(b'{"add":{"path":"'):
                found.setdefault(line.split(b'"')[5].decode(), []).append(int(name.partition(".")[0]))
    return found
