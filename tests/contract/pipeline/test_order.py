"""What the store itself saw, while two mirrors with four threads each published to it and much went wrong (G3)."""

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import Settings, StorageSettings
from tests.support.faults.rules import UNAVAILABLE, Answer, Delay, Fault, Reset, Silence, Throttle, Truncate
from tests.support.faults.s3_proxy import Access, S3Proxy, proxy_before
from tests.support.lakes.lake import add
from tests.support.mirrors.local import following, local_settings
from tests.support.readers.reader import Reader
from tests.support.readers.s3_access import S3Access
from tests.support.servers.seaweed_server import SeaweedServer

SEED = 24
TABLES = [f"t{number}" for number in range(5)]
VERSIONS = 30
INTERVAL = 10
_OBJECT = re.compile(
    r"[^/]+/lake/(?P<table>\w+)/_delta_log/(?P<version>\d{20})\.(?P<kind>json|crc|checkpoint\.parquet)"
)
_POINTER = re.compile(r"[^/]+/lake/(?P<table>\w+)/_delta_log/_last_checkpoint")
_CHANCES: dict[Fault, float] = {
    UNAVAILABLE: 0.03,
    Answer(503, "SlowDown"): 0.02,
    Answer(429, "TooManyRequests", (("retry-after", "0"),)): 0.02,
    Answer(500, "InternalError"): 0.02,
    Answer(409, "ConditionalRequestConflict"): 0.02,
    Reset.BEFORE: 0.02,
    Reset.WITHIN: 0.02,
    Reset.AFTER: 0.05,
    Silence.AFTER: 0.015,
    Truncate(10): 0.02,
    Throttle(200_000): 0.02,
    Delay(0.1): 0.02,
}


@pytest.fixture
def proxy(seaweed_server: SeaweedServer, s3_bucket: str) -> Iterator[S3Proxy]:
    with proxy_before(seaweed_server, seed=SEED, slowest=0.02) as proxy:
        for fault, chance in _CHANCES.items():
            proxy.fail(fault, chance=chance, times=None)
        yield proxy


@dataclass
class Polling:
    """An independent reader that looks at the tables, one after the other, for as long as the block lasts."""

    reader: Reader
    bucket: str
    storage: StorageSettings
    versions: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def polled(self) -> Iterator[None]:
        thread = threading.Thread(target=self._poll)
        thread.start()
        try:
            yield
        finally:
            self.over.set()
            thread.join()

    def _poll(self) -> None:
        while not self.over.is_set():
            for table in TABLES:
                self._look(table)

    def _look(self, table: str) -> None:
        try:
            seen = self.reader.snapshot(f"s3://{self.bucket}/lake/{table}", store=self.storage)
        except Exception as error:  # noqa: BLE001  the test fails with all that went wrong
            self.wrong.append(f"{table}: {error}")
            return
        assert seen.version is not None
        if len(seen.files or ()) != seen.version:
            self.wrong.append(f"{table}: version {seen.version} has {len(seen.files or ())} files")
        self.versions[table].append(seen.version)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.requirement("R24")
def test_versions_checkpoints_and_pointers_come_in_order_whatever_the_store_does(
    postgres_url: str,
    proxy: S3Proxy,
    s3_bucket: str,
    s3_settings: StorageSettings,
    delta_rs: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in S3Access.of(s3_settings).environment().items():
        monkeypatch.setenv(name, value)
    settings = mirror_settings(proxy.settings(s3_settings))
    with Catalog(postgres_url, settings=replace(settings, storage=s3_settings)) as catalog:
        catalog.init()
        for name in TABLES:
            catalog.create_table(name, location=f"s3://{s3_bucket}/lake/{name}", schema="id long")
        polling = Polling(delta_rs, s3_bucket, s3_settings)
        with mirrors(postgres_url, settings):
            catalog.wait_until_published(dict.fromkeys(TABLES, 0), seconds=120)
            with polling.polled():
                commit_all(catalog)
                catalog.wait_until_published(dict.fromkeys(TABLES, VERSIONS), seconds=300)
        with MirrorEngine(postgres_url, settings=settings) as engine, following(engine):
            wait_for_checkpoints(engine)
    for table in TABLES:
        assert_order(Story(proxy.log, table))
    assert {access.fault for access in proxy.log} == {None, *_CHANCES}
    assert not polling.wrong
    for versions in polling.versions.values():
        assert versions == sorted(versions)
        assert len(set(versions)) > 1


def mirror_settings(storage: StorageSettings) -> Settings:
    """Four threads at work, on few versions of few tables at once."""
    small: dict[str, Any] = {"concurrency": 2, "threads": 4, "batch_tables": 3, "batch_versions": 3}
    quick = replace(storage, timeout=2.0)
    return replace(local_settings(**small, checkpoint_interval=INTERVAL), storage=quick)


@contextmanager
def mirrors(url: str, settings: Settings) -> Iterator[None]:
    """Two services, each with a database pool and stores of its own."""
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(following(stack.enter_context(MirrorEngine(url, settings=settings))))
        yield


def wait_for_checkpoints(engine: MirrorEngine) -> None:
    """Wait for the last ones; whatever befalls them they have two minutes."""
    deadline = time.monotonic() + 120
    while [status.checkpoint and status.checkpoint.version for status in engine.status()] != [VERSIONS] * 5:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def commit_all(catalog: Catalog) -> None:
    for version in range(1, VERSIONS + 1):
        for name in TABLES:
            catalog.table(name).append([add(f"{version}.parquet", stats='{"numRecords":1}')])


class Story:
    """What the store saw of one table."""

    def __init__(self, log: Iterable[Access], table: str) -> None:
        self.puts: dict[tuple[str, int], list[Access]] = defaultdict(list)
        self.reads: dict[tuple[str, int], list[Access]] = defaultdict(list)
        self.pointers: list[tuple[int, Access]] = []
        for access in log:
            found, pointer = _OBJECT.fullmatch(access.key), _POINTER.fullmatch(access.key)
            if found and found["table"] == table:
                kept = self.puts if access.method == "PUT" else self.reads
                kept[found["kind"], int(found["version"])].append(access)
            elif pointer and pointer["table"] == table and access.method == "PUT":
                self.pointers.append((int(json.loads(access.body)["version"]), access))

    def completed(self, kind: str, version: int) -> int:
        """When the object came into being. It did so once: every other put was answered otherwise, or not at all."""
        (made,) = [access for access in self.puts[kind, version] if access.status == 200]
        assert made.completed is not None
        return made.completed

    def versions(self, kind: str) -> list[int]:
        return sorted(version for found, version in self.puts if found == kind)


def assert_order(story: Story) -> None:
    assert story.versions("json") == list(range(VERSIONS + 1))
    assert_commits_in_order(story)
    assert_checkpoints_after_commits(story)
    assert_pointers_after_checkpoints(story)


def assert_commits_in_order(story: Story) -> None:
    for version in range(VERSIONS + 1):
        assert {access.if_none_match for access in story.puts["json", version]} == {"*"}
        assert {access.status for access in story.puts["json", version]} <= {200, 412, 409, 429, 500, 503, None}
        came = story.completed("json", version)
        assert first(story.puts["json", version + 1], came) > came or version == VERSIONS
        assert first(story.puts["crc", version], came + 1) > came


def assert_checkpoints_after_commits(story: Story) -> None:
    written = story.versions("checkpoint.parquet")
    assert written
    assert all(version % INTERVAL == 0 and version > 0 for version in written)
    for version in written:
        assert first(story.puts["checkpoint.parquet", version]) > story.completed("json", version)


def assert_pointers_after_checkpoints(story: Story) -> None:
    """After the checkpoint that it names was complete, and read back."""
    for version, pointer in story.pointers:
        came = story.completed("checkpoint.parquet", version)
        read_back = [a.completed for a in story.reads["checkpoint.parquet", version] if a.completed and a.status == 200]
        assert came < min(read_back, default=0) < pointer.arrived
    moved = [version for version, pointer in story.pointers if pointer.status == 200]
    assert moved == sorted(set(moved))
    assert moved[-1] == VERSIONS


def first(accesses: Sequence[Access], default: int = 0) -> int:
    """When the first of them arrived."""
    return min((access.arrived for access in accesses), default=default)
