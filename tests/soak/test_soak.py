"""Processes, PostgreSQL and S3 for a quarter of an hour, or ``SOAK_MINUTES``, amid everything that goes wrong.

Writers and services, one of them on Spark, are killed and suspended, requests to both servers fail, hang, and lose
their answers, PostgreSQL crashes, objects of the logs disappear. Afterwards everything is as if nothing of it had
happened.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.storage.open import store_at
from tests.soak.crowd import QUICK, Crowd, check_log
from tests.soak.writer import journals
from tests.support.faults.postgres_proxy import PostgresProxy
from tests.support.faults.rules import UNAVAILABLE, Answer, Delay, Fault, Reset, Silence, Truncate
from tests.support.faults.s3_proxy import Access, S3Proxy
from tests.support.interfaces.commands import variables
from tests.support.lakes.lake import add, body_of, paths
from tests.support.mirrors.local import committed_files
from tests.support.readers.reader import Reader
from tests.support.servers.postgres_server import PostgresServer
from tests.support.spark.programs import spark_environment

MINUTES = float(os.environ.get("SOAK_MINUTES", "15"))
SEED = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().randrange(10**6))))
TABLES = ("t", "u", "v")
PATIENCE = 300.0

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

    def __init__(
        self, catalog: Catalog, crowd: Crowd, s3: S3Proxy, database: PostgresProxy, direct: StorageSettings
    ) -> None:
        self.catalog, self.crowd, self.s3, self.database, self.direct = catalog, crowd, s3, database, direct
        self.locations = [info.location for info in catalog.tables()]
        self.lots = random.Random(SEED)
        self.happened: Counter[str] = Counter()

    @property
    def tables(self) -> list[Table]:
        """The tables, as the database has them."""
        return [self.catalog.table(name) for name in TABLES]

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
        while time.monotonic() < end:
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
        for service in self.crowd.of("service"):
            assert service.end(signal.SIGTERM, seconds=60) == 0, service.log
        # The one on Spark has been through the same, and is the only one that is left to publish these.
        for table in self.tables:
            table.append([add("last.parquet")])
        self._wait_until_published()
        for service in self.crowd.of("spark"):
            assert service.end(signal.SIGTERM, seconds=60) == 0, service.log

    def _wait_until_published(self) -> None:
        end = time.monotonic() + PATIENCE
        while not all(self._is_published(table) for table in self.tables):
            assert time.monotonic() < end, [table.info() for table in self.tables]
            time.sleep(1)

    def _is_published(self, table: Table) -> bool:
        info = table.info()
        return info.published == info.head and not self._missing(table)

    def _missing(self, table: Table) -> list[str]:
        store = store_at(table.location, self.direct)
        return [name for name in committed_files(table) if store.head(f"_delta_log/{name}") is None]

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
        """Somebody deletes an object of a log."""
        store = store_at(self.lots.choice(self.locations), self.direct)
        found = [meta.key for meta in store.list("_delta_log")]
        if found:
            store.delete([self.lots.choice(found)])


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
    through = {
        **QUICK,
        **spark_environment(),
        **variables(s3_proxy.settings(s3_settings)),
        "DELTAMIRROR_CATALOG__URL": postgres_proxy.url(postgres_database),
    }
    with Catalog(postgres_url, settings=replace(Settings(), storage=s3_settings)) as catalog:
        catalog.init()
        for name in TABLES:
            catalog.create_table(name, location=f"s3://{s3_bucket}/{name}", schema="id long")
        crowd = Crowd(tmp_path, through)
        try:
            for number in range(3):
                crowd.add_writer(f"writer{number}", TABLES)
            crowd.add_service("service")
            crowd.add_service("spark", "--master", "local[2]")
            yield Scene(catalog, crowd, s3_proxy, postgres_proxy, s3_settings)
        finally:
            crowd.kill_all()


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(MINUTES * 60 + 3 * PATIENCE)
@pytest.mark.requirement("R24")
@pytest.mark.requirement("R58")
@pytest.mark.requirement("R92")
@pytest.mark.requirement("R93")
def test_after_everything_that_goes_wrong_nothing_is_lost(
    scene: Scene, postgres_server: PostgresServer, s3_settings: StorageSettings, delta_rs: Reader, tmp_path: Path
) -> None:
    print(f"SOAK_SEED={SEED}")  # noqa: T201 - the order of what goes wrong
    scene.troubled(postgres_server)
    scene.settled()
    print(dict(scene.happened), {table.name: table.info().head for table in scene.tables})  # noqa: T201
    for table in scene.tables:
        check_log(table, s3_settings)
        assert delta_rs.snapshot(table.location, store=s3_settings).paths == paths(table)
        check_order(scene, table)
    check_promises(scene, tmp_path)


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


def check_promises(scene: Scene, folder: Path) -> None:
    """What a writer was told is so, once; what it was refused is not; transactions over all tables are whole."""
    places = {table.name: committed_at(table) for table in scene.tables}
    for journal in journals(folder):
        assert journal.unknown is None
        assert journal.sent
        for number, entry in journal.sent.items():
            versions = journal.told[number]
            for file in entry["files"]:
                found = {name: at[file] for name, at in places.items() if file in at}
                assert found == {name: [version] for name, version in (versions or {}).items()}


def committed_at(table: Table) -> dict[str, list[int]]:
    """The versions that add a file, by its path."""
    found: dict[str, list[int]] = {}
    for version in range(table.info().head + 1):
        for line in body_of(table, version).splitlines():
            if line.startswith(b'{"add":{"path":"'):
                found.setdefault(line.split(b'"')[5].decode(), []).append(version)
    return found
