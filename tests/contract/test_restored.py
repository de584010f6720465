"""A database that was restored from a backup finds out what its logs hold that it lacks, before it does harm.

Tables ``a`` and ``b`` were committed to after the backup; ``c`` was not.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import LiveSettings, Settings, StorageSettings, WriterSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.errors import Diverged, Unavailable
from deltamirror.ops.adopt.adoption import adopt_all
from deltamirror.pipeline.failures.circuit import Breakers
from deltamirror.pipeline.service import foreign_versions
from deltamirror.pipeline.service.first_look import Outlook
from deltamirror.pipeline.service.foreign_versions import FirstLooks, LookAhead, Sighting
from deltamirror.pipeline.service.lanes import MirrorLane
from deltamirror.storage.open import store_at
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.breakers import Breaker, BreakerState, change_breaker
from deltamirror.txnlog.tables.registry import TableInfo
from tests.support.databases.backups import backed_up
from tests.support.faults.rules import Reset, Silence
from tests.support.faults.s3_proxy import Access, S3Proxy
from tests.support.imports.adoptions import logs_of
from tests.support.lakes.lake import add, paths
from tests.support.mirrors.local import append, following, local_settings
from tests.support.readers.reader import Reader
from tests.support.servers.seaweed_server import SeaweedServer

pytestmark = [pytest.mark.requirement("R57"), pytest.mark.requirement("R39"), pytest.mark.default_on("sqlite")]

TABLES = ("a", "b", "c")


@dataclass(frozen=True)
class Lake:
    """Tables below a root, and how their database and store are reached."""

    url: str
    root: str
    storage: StorageSettings

    def settings(self, **writer: Any) -> Settings:
        found = replace(local_settings(), storage=self.storage)
        return replace(found, catalog=replace(found.catalog, url=self.url), writer=WriterSettings(**writer))

    def open(self, **writer: Any) -> Catalog:
        """A process that has committed to nothing."""
        return Catalog(settings=self.settings(**writer))

    def service(self, catalog: Catalog) -> MirrorEngine:
        return MirrorEngine(settings=self.settings(), database=catalog.database)

    def mirror(self) -> None:
        with self.open() as catalog, self.service(catalog) as engine:
            engine.run(once=True)

    def log(self, table: str) -> dict[str, bytes]:
        store = store_at(f"{self.root}/{table}", self.storage)
        found = {meta.key: store.read(meta.key) for meta in store.list(LOG_DIRECTORY)}
        return {key: each.data for key, each in found.items() if each is not None}

    def logs(self) -> dict[str, dict[str, bytes]]:
        return {name: self.log(name) for name in TABLES}


def restored(lake: Lake, *, later: Callable[[Catalog], None]) -> Lake:
    """The lake, all of it published, with a database from before ``later``."""
    with lake.open() as catalog:
        catalog.init()
        for name in TABLES:
            table = catalog.create_table(name, location=f"{lake.root}/{name}", schema="id long")
            append(table, 2)
    lake.mirror()
    backup = backed_up(lake.url)
    with lake.open() as catalog:
        later(catalog)
    lake.mirror()
    backup.restore()
    return lake


def more(catalog: Catalog) -> None:
    """What the backup lacks: of a, versions 3 to 5; of b, version 3, in the same transaction as version 5 of a."""
    catalog.table("a").append([add("one")], token="one")
    append(catalog.table("a"))
    with catalog.transaction(token="both") as tx:
        tx.append("a", [add("both")])
        tx.append("b", [add("both")])


@pytest.fixture
def lake(catalog_url: str, tmp_path: Path) -> Lake:
    """A restored lake on the local disk, once for each engine."""
    return restored(Lake(catalog_url, str(tmp_path / "lake"), StorageSettings()), later=more)


@pytest.fixture
def sqlite_disk(tmp_path: Path) -> Lake:
    """A place for a lake."""
    return Lake(f"sqlite:///{tmp_path / 'lake.db'}", str(tmp_path / "lake"), StorageSettings())


@pytest.fixture
def patient_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks past heads wait for an answer as everything else does."""
    monkeypatch.setattr(foreign_versions, "_SECONDS", 60.0)


@pytest.fixture
def on_s3(tmp_path: Path, s3_proxy: S3Proxy, seaweed_server: SeaweedServer, s3_bucket: str) -> Lake:
    """A place for a lake on S3, behind a proxy."""
    storage = s3_proxy.settings(seaweed_server.settings())
    return Lake(f"sqlite:///{tmp_path / 'lake.db'}", f"s3://{s3_bucket}/{uuid4()}", storage)


def states(catalog: Catalog) -> dict[str, str]:
    return {info.name: info.state for info in catalog.tables()}


def test_a_service_leaves_these_tables_alone_says_so_once_and_goes_on_with_the_others(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    before = lake.logs()
    with lake.open(look_ahead=False) as catalog:
        append(catalog.table("c"))
        append(catalog.table("a"))
        for _ in range(2):
            with lake.service(catalog) as engine, following(engine):
                catalog.wait_until_published({"c": 3}, seconds=60)
        assert states(catalog) == {"a": "quarantined", "b": "quarantined", "c": "active"}
        with lake.service(catalog) as engine:
            [reason] = [status.quarantine_reason for status in engine.status("b")]
    assert reason is not None
    assert reason.startswith("the log holds 00000000000000000003.json, and the database is at version 2")
    said = [record.message for record in caplog.records if "is in quarantine" in record.message]
    assert sorted(text.partition(" is in")[0] for text in said) == ["table 'a'", "table 'b'"]
    after = lake.logs()
    assert {name: after[name] for name in "ab"} == {name: before[name] for name in "ab"}


def test_the_first_commit_of_a_process_is_refused_and_changes_nothing(lake: Lake) -> None:
    before = lake.logs()
    with lake.open() as catalog:
        for _ in range(2):
            with pytest.raises(
                Diverged, match=r"version 3 to the log of table 'a'; the database is at version 2"
            ) as met:
                catalog.table("a").append([add("late")])
            assert met.value.exit_status == 2
            assert "deltamirror adopt" in met.value.hint
        several = catalog.transaction()
        several.append("c", [add("late")])
        several.append("b", [add("late")])
        with pytest.raises(Diverged, match="'b'"):
            several.commit()
        append(catalog.table("c"))
        assert {info.name: info.head for info in catalog.tables()} == {"a": 2, "b": 2, "c": 3}
        assert states(catalog) == {"a": "quarantined", "b": "quarantined", "c": "active"}
    lake.mirror()
    assert {name: lake.log(name) for name in "ab"} == {name: before[name] for name in "ab"}


def assert_recovered(lake: Lake, reader: Reader) -> None:
    """One command adopts the logs; what was committed under tokens is known again; all tables go on, readers, too."""
    before = lake.logs()
    with lake.open() as catalog:
        with pytest.raises(Diverged):
            append(catalog.table("a"))
        with lake.service(catalog) as engine, logs_of(engine) as logs:
            done = adopt_all(logs)
        assert not done.failed
        assert {each.table: each.adopted for each in done.adopted} == {"a": (3, 4, 5), "b": (3,)}
        assert lake.logs() == before

        assert catalog.table("a").append([add("one")], token="one").versions == {"a": 3}
        with catalog.transaction(token="both") as tx:
            tx.append("a", [add("both")])
            tx.append("b", [add("both")])
        assert tx.result.versions == {"a": 5, "b": 3}
        for name in TABLES:
            append(catalog.table(name), 2, prefix="since")
        with lake.service(catalog) as engine:
            assert engine.run(once=True).failures == []
            assert {status.name: (status.state, status.head, status.lag_versions) for status in engine.status()} == {
                "a": ("active", 7, 0),
                "b": ("active", 5, 0),
                "c": ("active", 4, 0),
            }
        for name in TABLES:
            table, log = catalog.table(name), lake.log(name)
            for version in range(table.info().head + 1):
                assert log[f"{LOG_DIRECTORY}/{commit_name(version)}"] == table.commit_file(version)
            seen = reader.snapshot(table.location, store=lake.storage if lake.storage.endpoint else None)
            assert (seen.version, seen.paths) == (table.info().head, paths(table))


def test_one_command_adopts_all_tables_and_everything_goes_on(lake: Lake, delta_rs: Reader) -> None:
    assert_recovered(lake, delta_rs)


@pytest.mark.usefixtures("patient_looks")
def test_one_command_adopts_all_tables_on_s3_and_everything_goes_on(on_s3: Lake, delta_rs: Reader) -> None:
    assert_recovered(restored(on_s3, later=more), delta_rs)


def test_commits_wait_in_the_database_where_that_was_asked_for(lake: Lake) -> None:
    with lake.open(on_divergence="accept") as catalog:
        append(catalog.table("a"))
        assert catalog.table("a").info().head == 3
        assert states(catalog)["a"] == "quarantined"


def test_a_database_that_is_older_than_the_start_of_the_log_finds_the_checkpoint(sqlite_disk: Lake) -> None:
    def many(catalog: Catalog) -> None:
        append(catalog.table("a"), 10)

    lake = restored(sqlite_disk, later=many)
    folder = Path(lake.root) / "a" / LOG_DIRECTORY
    for version in range(10):
        (folder / f"{version:020}.json").unlink()
    with lake.open() as catalog:
        with pytest.raises(Diverged, match=r"version 10 .*the database is at version 2"):
            append(catalog.table("a"))
        with lake.service(catalog) as engine:
            [status] = engine.status("a")
            assert status.quarantine_reason is not None
            assert "_last_checkpoint" in status.quarantine_reason


def test_what_others_published_between_the_question_and_the_look_is_ours(sqlite_disk: Lake) -> None:
    lake = sqlite_disk
    with lake.open() as catalog:
        catalog.init()
        table = catalog.create_table("t", location=f"{lake.root}/t", schema="id long")
        asked = table.info()
        append(table)
        with lake.service(catalog) as engine:
            engine.mirror("t")
        look = LookAhead(catalog.database, lake.settings())
        seen = look.sighting(asked)
        assert seen == Sighting(1, f"{LOG_DIRECTORY}/{1:020}.json")
        assert not look.mark(asked, seen)
        assert table.info().state == "active"
        assert look.sighting(table.info()) is None


def of_the_look(access: Access) -> bool:
    """Whether somebody asks for what follows the head."""
    return access.method == "HEAD" and not access.key.endswith(f"{2:020}.json")  # the newest that all tables have


@pytest.mark.usefixtures("patient_looks")
def test_a_store_that_does_not_answer_keeps_nobody_from_committing_and_is_asked_again(
    on_s3: Lake, s3_proxy: S3Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    lake = restored(on_s3, later=more)
    s3_proxy.fail(Reset.BEFORE, of_the_look, times=None)
    with lake.open() as catalog:
        append(catalog.table("c"), 2)
        append(catalog.table("a"))
        assert {info.name: info.head for info in catalog.tables()} == {"a": 3, "b": 2, "c": 4}
    assert len([record for record in caplog.records if "cannot be looked at" in record.message]) == 1
    s3_proxy.heal()
    with lake.open() as catalog:
        with pytest.raises(Diverged, match="version 3"):
            append(catalog.table("b"))
        with pytest.raises(Diverged, match=r"version 4 .*database is at version 3"):
            append(catalog.table("a"))


@pytest.mark.usefixtures("patient_looks")
def test_writers_wait_for_a_store_that_does_not_answer_for_a_twentieth_of_their_time(
    on_s3: Lake, s3_proxy: S3Proxy
) -> None:
    lake, times = restored(on_s3, later=more), list[float]()
    with lake.open() as catalog:
        looks = FirstLooks(catalog.database, lake.settings(), owner="a test", clock=lambda: times.pop(0))
        before = len(list(filter(of_the_look, s3_proxy.log)))
        s3_proxy.fail(Reset.BEFORE, of_the_look, times=None)
        times[:] = [100.0, 100.0, 101.5]  # a second and a half goes by before the store is given up
        looks.before_commit(["c"])
        for name in ("c", "a"):
            times[:] = [131.4]
            looks.before_commit([name])
        s3_proxy.heal()
        assert len(list(filter(of_the_look, s3_proxy.log))) == before + 1
        times[:] = [131.5, 131.5]
        looks.before_commit(["a"])
        assert states(catalog)["a"] == "quarantined"
        looks.before_commit(["a"])
        assert len(list(filter(of_the_look, s3_proxy.log))) == before + 2


def test_what_was_seen_and_could_not_be_written_down_is_looked_at_again(
    sqlite_disk: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = restored(sqlite_disk, later=more)
    with lake.open() as catalog:
        looks = FirstLooks(catalog.database, lake.settings(), owner="a test")

        def away(*_: object) -> bool:
            raise Unavailable("the database is away")

        with monkeypatch.context() as broken:
            broken.setattr(LookAhead, "mark", away)
            with pytest.raises(Unavailable):
                looks.before_commit(["a"])
        looks.before_commit(["a"])
        assert states(catalog)["a"] == "quarantined"


def leave_alone(catalog: Catalog, store: str) -> None:
    shut = Breaker(
        store=store, state=BreakerState.OPEN, failures=5, retry_at=4_000_000_000_000, error_code="unavailable"
    )
    with catalog.database.write() as session:
        change_breaker(session, store, lambda *_: shut, owner="a test", reason=lambda _: "a test")


def test_a_store_whose_circuit_is_open_is_not_looked_at(
    on_s3: Lake, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = restored(on_s3, later=more)
    # Tables that the store served before are published all the same: it is about the looks alone.
    monkeypatch.setattr(MirrorLane, "jobs", lambda *_, **__: [])
    bucket = lake.root.removeprefix("s3://").partition("/")[0]
    store = f"s3://{bucket}/ at {s3_proxy.endpoint}"
    with lake.open() as catalog:
        leave_alone(catalog, store)
        before = len(s3_proxy.log)
        append(catalog.table("a"))
        catalog.table("c").append([add("x")])
        with lake.service(catalog) as engine:
            engine.run(once=True)
        assert len(s3_proxy.log) == before
        assert states(catalog) == dict.fromkeys(TABLES, "active")


def test_a_service_goes_on_where_it_cannot_look(on_s3: Lake, s3_proxy: S3Proxy) -> None:
    lake = restored(on_s3, later=more)
    s3_proxy.fail(Silence.BEFORE, of_the_look, times=None)
    with lake.open(look_ahead=False) as catalog:
        append(catalog.table("c"))
        with lake.service(catalog) as engine:
            engine.run(once=True)
        assert catalog.table("c").info().published == 3


class HangingLook(LookAhead):
    """Looks at tables of one store when that is let go."""

    store = "memory://"

    def __init__(self, database: Database) -> None:
        super().__init__(database, Settings())
        self.let_go = threading.Event()

    def sighting(self, table: TableInfo) -> Sighting | None:
        if table.location.startswith(self.store):
            self.let_go.wait()
        return super().sighting(table)


def test_a_store_that_hangs_is_waited_for_alone(sqlite_disk: Lake) -> None:
    with sqlite_disk.open() as catalog:
        catalog.init()
        hanging = f"memory://{uuid4()}/"
        for name, root in (("a", sqlite_disk.root), ("b", sqlite_disk.root), ("c", hanging + "lake")):
            catalog.create_table(name, location=f"{root}/{name}", schema="id long")
        look, wakes = HangingLook(catalog.database), queue.SimpleQueue[None]()
        live = LiveSettings.of(sqlite_disk.settings())
        breakers = Breakers(catalog.database, live, owner="a test")
        with closing(Outlook(catalog.database, look, breakers, live=live)) as outlook:
            outlook.look(lambda: wakes.put(None))
            wakes.get()
            wakes.get()
            assert outlook.awaited() == [hanging]
            look.let_go.set()
            wakes.get()
            assert outlook.awaited() == []


def test_what_could_not_be_looked_at_is_not_forgotten_when_the_database_fails(
    sqlite_disk: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite_disk.open() as catalog:
        catalog.init()
        table = catalog.create_table("a", location=f"{sqlite_disk.root}/a", schema="id long").info()
        looked = queue.SimpleQueue[int]()

        def sighting(_: LookAhead, info: TableInfo) -> None:
            looked.put(info.id)
            raise Unavailable("the store is away")

        monkeypatch.setattr(LookAhead, "sighting", sighting)
        monkeypatch.setattr("deltamirror.pipeline.service.first_look._PAUSE", 0.0)
        live = LiveSettings.of(sqlite_disk.settings())
        look, breakers = LookAhead(catalog.database, live), Breakers(catalog.database, live, owner="a test")
        wakes = queue.SimpleQueue[None]()
        with closing(Outlook(catalog.database, look, breakers, live=live)) as outlook:
            outlook.look(lambda: wakes.put(None))
            wakes.get()
            for owner, name in ((Outlook, "_active"), (Breakers, "gate")):
                with monkeypatch.context() as patch:
                    patch.setattr(owner, name, _away)
                    with pytest.raises(Unavailable):
                        outlook.look(lambda: wakes.put(None))
            outlook.look(lambda: wakes.put(None))
            wakes.get()
        assert [looked.get(), looked.get()] == [table.id] * 2


def _away(*_: object) -> None:
    raise Unavailable("the database is away")
