"""Whatever a store does to a request of the mirror has the class and the action that the reference says, and passes."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.pipeline.failures.policy import EscalatedWhen, policy_of
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Data, ETag, Store
from tests.support.faults.rules import UNAVAILABLE, Answer, Delay, Fault, Reset, Silence, Throttle, Truncate
from tests.support.faults.s3_proxy import Access, S3Proxy, is_put
from tests.support.lakes.lake import add, execute
from tests.support.mirrors.local import committed_files, local_settings
from tests.support.stores.faulty import runner_over

RETRY, PERMANENT = 60.0, 3600.0
HASTY = {"timeout": 1.0, "transfer_timeout": 1.0}
TARGETS = {"commit": r".json", "checkpoint": ".checkpoint.parquet", "pointer": "_last_checkpoint"}


@dataclass(frozen=True)
class Trouble:
    """What befalls a put, how often, and the class that it gets; None: it passes without anybody's doing."""

    fault: Fault
    code: str | None
    times: int = 1
    is_found_out: bool = False
    """Whether a create asks what came of it, and so passes."""

    @property
    def ends_by_patience(self) -> bool:
        """Whether nothing but a time-out tells the client of it."""
        return isinstance(self.fault, Silence | Throttle)

    def code_at(self, target: str) -> str | None:
        """The class that it gets at one of the targets: only the pointer is not created."""
        return None if self.is_found_out and target != "pointer" else self.code


TROUBLES = {
    "403": Trouble(Answer(403, "AccessDenied"), "permission-denied"),
    "404 bucket": Trouble(Answer(404, "NoSuchBucket"), "not-found"),
    "409 once": Trouble(Answer(409, "ConditionalRequestConflict"), None),
    "409": Trouble(Answer(409, "ConditionalRequestConflict"), "transient", times=10),
    "412 once": Trouble(Answer(412, "PreconditionFailed"), None),
    "412": Trouble(Answer(412, "PreconditionFailed"), "transient", times=10),
    "413": Trouble(Answer(413, "EntityTooLarge"), "capacity-exceeded"),
    "429": Trouble(Answer(429, "TooManyRequests", (("retry-after", "1"),)), "throttled"),
    "500": Trouble(Answer(500, "InternalError"), "unavailable"),
    "503": Trouble(UNAVAILABLE, "unavailable"),
    "503 slow down": Trouble(Answer(503, "SlowDown"), "throttled"),
    "507": Trouble(Answer(507, "InsufficientStorage"), "capacity-exceeded"),
    "timeout": Trouble(Silence.BEFORE, "unavailable"),
    "lost reply, timeout": Trouble(Silence.AFTER, "unavailable"),
    "reset before": Trouble(Reset.BEFORE, "unavailable"),
    "reset within": Trouble(Reset.WITHIN, "unavailable"),
    "lost reply, reset": Trouble(Reset.AFTER, "unavailable", is_found_out=True),
    "too slow": Trouble(Throttle(30), "unavailable"),
    "late": Trouble(Delay(0.3), None),
}
SELDOM = ("409 once", "409", "500", "503 slow down", "507", "timeout", "reset before", "reset within", "too slow")
"""Whose class and way of passing another one has, too; ``tests/contract/store`` shows the class of each of them."""


class Hasty:
    """A store that waits for the answer to some puts for a second only; for all others as long as they may take."""

    def __init__(self, store: Store, hasty: Store, is_meant: Callable[[str], bool]) -> None:
        self._store, self._hasty, self._is_meant = store, hasty, is_meant

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, key: str, data: Data, **options: bool) -> object:
        return self._of(key).create(key, data, **options)

    def replace(self, key: str, data: Data, *, if_match: ETag | None) -> object:
        return self._of(key).replace(key, data, if_match=if_match)

    def _of(self, key: str) -> Store:
        return self._hasty if self._is_meant(key) else self._store


class Scene:
    """A table on S3 behind the proxy, whose every version gets a checkpoint."""

    hasty: str | None = None
    """How the keys end whose puts are given up after a second."""

    def __init__(self, catalog: Catalog, proxy: S3Proxy, bucket: str, direct: StorageSettings) -> None:
        every = {"delta.checkpointInterval": "1"}
        self.catalog, self.proxy, self.direct = catalog, proxy, direct
        self.table = catalog.create_table("t", location=f"s3://{bucket}/t", schema="id long", properties=every)

    @contextmanager
    def engine(self, **changed: Any) -> Iterator[MirrorEngine]:
        """A mirror that tries nothing again by itself within a call."""
        storage = replace(self.proxy.settings(self.direct), retries=0, **changed.pop("storage", {}))
        patient = {"retry_base": RETRY, "retry_max": RETRY, "retry_permanent": PERMANENT, "attempts": 5, **changed}
        settings = replace(local_settings(**patient), storage=storage)
        hasty = store_at(self.table.location, replace(storage, **HASTY))
        runner = runner_over(self.catalog, settings, lambda store: cast("Store", Hasty(store, hasty, self._is_hasty)))
        with (
            closing(runner),
            MirrorEngine(settings=settings, database=self.catalog.database, runner=runner) as engine,
        ):
            yield engine

    def _is_hasty(self, key: str) -> bool:
        return self.hasty is not None and key.endswith(self.hasty)

    def append(self) -> int:
        """Another version."""
        return self.table.append([add(f"{self.table.info().head + 1}.parquet")]).versions["t"]

    def row(self, lane: str, version: int) -> Any:
        """What is recorded of a version."""
        records = "dl_mirror_status" if lane == "commits" else "dl_checkpoints"
        query = f"SELECT state, error_code, next_attempt_at - updated_at FROM {records} WHERE version = :version"
        [row] = execute(self.catalog, query, version=version)
        return row

    def counted(self) -> int:
        """How many failures in a row the store's breaker counts."""
        return sum(count for (count,) in execute(self.catalog, "SELECT failures FROM dl_breakers"))

    def escalated(self, version: int) -> list[tuple[str, bool]]:
        """The classes that were escalated, and whether that is over."""
        query = "SELECT error_code, closed_at IS NOT NULL FROM dl_escalations WHERE version = :version"
        return [(code, bool(closed)) for code, closed in execute(self.catalog, query, version=version)]


@pytest.fixture
def scene(sqlite_lake: str, s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings) -> Iterator[Scene]:
    with Catalog(sqlite_lake, settings=replace(Settings(), storage=s3_settings)) as catalog:
        yield Scene(catalog, s3_proxy, s3_bucket, s3_settings)


def put_of(name: str) -> Callable[[Access], bool]:
    return lambda access: is_put(access) and access.key.endswith(name)


def assert_published(table: Table, direct: StorageSettings) -> None:
    """Every commit is in the log as it was committed, and the pointer names the head."""
    store = store_at(table.location, direct)
    for name, data in committed_files(table).items():
        found = store.read(f"_delta_log/{name}")
        assert found is not None, name
        assert found.data == data
    pointer = store.read("_delta_log/_last_checkpoint")
    assert pointer is not None
    assert f'"version":{table.info().head},'.encode() in pointer.data


@pytest.mark.requirement("R47")
@pytest.mark.requirement("R83")
@pytest.mark.requirement("R92")
@pytest.mark.parametrize(
    "trouble",
    [pytest.param(each, id=name, marks=[pytest.mark.elsewhere] * (name in SELDOM)) for name, each in TROUBLES.items()],
)
def test_each_fault_has_its_class_and_its_action_and_the_log_converges(scene: Scene, trouble: Trouble) -> None:
    with scene.engine() as engine:
        assert engine.run(once=True).failures == []
        for target, name in TARGETS.items():
            version = scene.append()
            scene.proxy.fail(trouble.fault, put_of(name), times=trouble.times)
            scene.hasty = name if trouble.ends_by_patience else None
            failures = engine.run(once=True).failures
            scene.hasty = None
            scene.proxy.heal()
            lane = "commits" if target == "commit" else "checkpoints"
            if (code := trouble.code_at(target)) is None:
                assert failures == [], target
            else:
                assert [failure.error.code for failure in failures] == [code], target
                assert_action(scene, lane, version, code)
            assert engine.run(once=True).failures == []
            assert scene.row(lane, version) == ("SUCCESS", None, None)
            assert all(closed for _, closed in scene.escalated(version))
            assert_published(scene.table, scene.direct)


def assert_action(scene: Scene, lane: str, version: int, code: str) -> None:
    """As ``pipeline/policy.py`` says, which the reference is written from."""
    policy, (state, recorded, gap) = policy_of(code), scene.row(lane, version)
    nominal = 1000 * (RETRY if policy.is_retried else PERMANENT)
    assert (state, recorded) == ("FAILED", code)
    assert 0.9 * nominal - 2 <= gap <= 1.1 * nominal
    assert scene.counted() == policy.speaks_of_store
    at_once = policy.escalates is EscalatedWhen.AT_ONCE
    assert scene.escalated(version) == ([(code, False)] if at_once else [])


@pytest.mark.requirement("R47")
def test_an_answer_that_is_cut_short_is_no_object(scene: Scene) -> None:
    with scene.engine(verify="strict") as engine:
        engine.run(once=True)
        version = scene.append()
        scene.proxy.fail(Truncate(20), lambda access: access.method == "GET" and access.key.endswith(f"{version}.json"))
        [failure] = engine.run(once=True).failures
        assert (failure.error.code, failure.stage.value) == ("unavailable", "verify")
        assert engine.run(once=True).failures == []
    assert_published(scene.table, scene.direct)


@pytest.mark.requirement("R47")
def test_a_server_that_refuses_or_has_no_name_is_unavailable(scene: Scene) -> None:
    scene.append()
    with scene.engine() as engine, scene.proxy.refusing():
        assert [failure.error.code for failure in engine.run(once=True).failures] == ["unavailable"]
    with scene.engine(storage={"endpoint": "http://no-such-host.invalid", **HASTY}) as engine:
        assert [failure.error.code for failure in engine.run(once=True).failures] == ["unavailable"]
    with scene.engine() as engine:
        assert engine.run(once=True).failures == []
    assert_published(scene.table, scene.direct)


@pytest.mark.requirement("R47")
@pytest.mark.requirement("R48")
def test_a_store_that_asks_for_time_in_its_answer_gets_it(scene: Scene) -> None:
    asked = Answer(503, "SlowDown</Code><RetryAfterSeconds>600</RetryAfterSeconds><Code>")
    with scene.engine() as engine:
        engine.run(once=True)
        version = scene.append()
        scene.proxy.fail(asked, put_of(".json"))
        assert [failure.error.code for failure in engine.run(once=True).failures] == ["throttled"]
        _, _, gap = scene.row("commits", version)
        assert 600_000 <= gap <= 660_000


@pytest.mark.requirement("R48")
@pytest.mark.requirement("R50")
def test_four_times_503_and_then_200_are_pauses_of_1_2_4_8_seconds_whoever_tries(scene: Scene) -> None:
    times = {"retry_base": 1.0, "retry_max": 30.0}
    with scene.engine(**times) as engine:
        engine.run(once=True)
    version, gaps = scene.append(), []
    scene.proxy.fail(Answer(503, "SlowDown"), put_of(".json"), times=4)
    for _ in range(4):
        with scene.engine(**times) as engine:  # another process, for all that it knows
            assert [failure.error.code for failure in engine.run(once=True).failures] == ["throttled"]
        gaps.append(scene.row("commits", version)[2] / 1000)
    with scene.engine(**times) as engine:
        assert engine.run(once=True).failures == []
    for gap, nominal in zip(gaps, (1, 2, 4, 8), strict=True):
        assert 0.9 * nominal - 0.002 <= gap <= 1.1 * nominal
    attempts = "SELECT attempt, outcome FROM dl_mirror_attempts WHERE version = :version ORDER BY attempt"
    outcomes = [*((number, "FAILED") for number in range(1, 5)), (5, "SUCCESS")]
    assert [tuple(row) for row in execute(scene.catalog, attempts, version=version)] == outcomes
    assert [access.status for access in scene.proxy.log if put_of(f"{version:020d}.json")(access)] == [503] * 4 + [200]
