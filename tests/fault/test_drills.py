"""Drills: each trouble of the runbooks is brought about, the runbook is followed to the letter, and all is well."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import update

from deltamirror import Catalog
from deltamirror.config import Settings, StorageSettings, load
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.storage.open import store_at
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import leases
from deltamirror.wiring import open_catalog, open_engine
from tests.support.faults.s3_proxy import S3Proxy
from tests.support.interfaces.commands import environment, variables
from tests.support.interfaces.runbooks import RUNBOOKS as PAGE
from tests.support.interfaces.runbooks import Step, follow, procedures
from tests.support.lakes.lake import add, paths
from tests.support.mirrors.local import append
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.servers.seaweed_server import SeaweedServer

pytestmark = pytest.mark.requirement("R57")

RUNBOOKS = procedures(PAGE)
QUICK = {"RUNNER": "local", "POLL": "0.05", "RETRY_BASE": "0.05"}
"""Settings of the mirror in drills."""


@dataclass(frozen=True)
class Lake:
    """The tables ``orders`` and ``items``, mirrored: commits and a checkpoint. The settings are the environment's."""

    root: str
    reader: Reader

    @property
    def settings(self) -> Settings:
        return load(environment=os.environ).settings

    @contextmanager
    def open(self) -> Iterator[Catalog]:
        with open_catalog(self.settings) as catalog:
            yield catalog

    def commit(self, count: int = 1) -> None:
        with self.open() as catalog:
            append(catalog.table("orders"), count)

    def mirror(self) -> None:
        with open_engine(self.settings) as engine:
            engine.run(once=True)

    def age_leases(self) -> None:
        """Leases are about to end: whoever waits for that need not wait for long."""
        with self.open() as catalog, catalog.database.write() as session:
            session.execute(update(leases).where(leases.c.expires_at > CLOCK).values(expires_at=CLOCK + 1_000))

    def commits(self, table: str = "orders") -> dict[str, bytes]:
        """What the log has to hold of commits."""
        with self.open() as catalog:
            found = catalog.table(table)
            versions = range(found.info().head + 1)
            return {f"{LOG_DIRECTORY}/{commit_name(each)}": found.commit_file(each) for each in versions}

    def log(self, table: str = "orders") -> dict[str, bytes]:
        store = store_at(f"{self.root}/{table}", self.settings.storage)
        found = {meta.key: store.read(meta.key) for meta in store.list(LOG_DIRECTORY)}
        return {key: each.data for key, each in found.items() if each is not None}

    def assert_well(self) -> None:
        """All commits of all tables are in their logs, to the byte, and a reader sees what the database has."""
        for table in ("orders", "items"):
            log, commits = self.log(table), self.commits(table)
            assert {key: log.get(key) for key in commits} == commits
            with self.open() as catalog:
                found = catalog.table(table)
                seen = self.reader.snapshot(found.location, store=self._store())
                assert (seen.version, seen.paths) == (found.info().head, paths(found))

    def _store(self) -> StorageSettings | None:
        return self.settings.storage if self.root.startswith("s3://") else None


def made(root: str, reader: Reader) -> Lake:
    lake = Lake(root, reader)
    with lake.open() as catalog:
        catalog.init()
        for name in ("orders", "items"):
            append(catalog.create_table(name, location=f"{root}/{name}", schema="id long"), 11)
    lake.mirror()
    return lake


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, with the settings of the drills."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DELTAMIRROR_")]:
        monkeypatch.delenv(name)
    for name, value in QUICK.items():
        monkeypatch.setenv(f"DELTAMIRROR_MIRROR__{name}", value)
    return tmp_path


@pytest.fixture
def lake(folder: Path, delta_rs: Reader) -> Lake:
    """A lake on the local disk."""
    return made(str(folder / "lake"), delta_rs)


@dataclass(frozen=True)
class Drill:
    """A runbook, part by part."""

    parts: dict[str, list[Step]]

    def check(self) -> str:
        return follow(self.parts["Check"])

    def act(self) -> str:
        return follow(self.parts["Act"])

    def verify(self) -> None:
        assert ": 0 found wrong" in follow(self.parts["Verify"])


def test_every_runbook_has_its_drill_and_all_parts() -> None:
    drilled = {"The log directory is lost", "The database is restored from an old backup", "A store is down"}
    assert set(RUNBOOKS) == {*drilled, "A checkpoint is corrupt", "A lease is stuck"}
    for title, parts in RUNBOOKS.items():
        assert list(parts) == ["Check", "Act", "Verify"], title
        assert all(parts.values()), title


def test_a_lost_log_directory_is_written_again(lake: Lake) -> None:
    drill, before = Drill(RUNBOOKS["The log directory is lost"]), lake.log()
    shutil.rmtree(Path(lake.root) / "orders" / LOG_DIRECTORY)
    with pytest.raises(RequestFailed):
        lake.reader.snapshot(f"{lake.root}/orders")
    assert "active" in drill.check()
    assert "13 found wrong, 13 written, 0 left" in drill.act()
    drill.verify()
    after = lake.log()
    assert {key: data for key, data in before.items() if key.endswith(".json")}.items() <= after.items()
    assert [key for key in after if key.endswith(".checkpoint.parquet")]
    lake.assert_well()


def test_a_database_from_an_old_backup_gets_its_logs_back(lake: Lake, folder: Path) -> None:
    drill = Drill(RUNBOOKS["The database is restored from an old backup"])
    shutil.copy(folder / "deltamirror.db", folder / "backup.db")
    with lake.open() as catalog:
        sent = catalog.table("orders").append([add("sent")], token="sent").versions
    lake.commit(2)
    lake.mirror()
    for path in folder.glob("deltamirror.db*"):
        path.unlink()
    shutil.copy(folder / "backup.db", folder / "deltamirror.db")
    before = lake.log()
    said = drill.check()
    assert "orders is in quarantine: the log holds 00000000000000000012.json, and the database is at version 11" in said
    assert "orders, versions 12 to 14: would be adopted" in said
    assert "items" not in said.partition("would be adopted")[2]
    assert "orders, versions 12 to 14: adopted" in drill.act()
    drill.verify()
    assert lake.log() == before
    with lake.open() as catalog:
        assert catalog.table("orders").append([add("sent")], token="sent").versions == sent
    lake.commit()
    lake.mirror()
    lake.assert_well()


def test_a_store_that_was_down_gets_all_that_waited(
    folder: Path,
    delta_rs: Reader,
    s3_proxy: S3Proxy,
    s3_bucket: str,
    seaweed_server: SeaweedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drill = Drill(RUNBOOKS["A store is down"])
    for name, value in variables(s3_proxy.settings(seaweed_server.settings())).items():
        monkeypatch.setenv(name, value)
    lake = made(f"s3://{s3_bucket}/{uuid4()}", delta_rs)
    with s3_proxy.refusing():
        lake.commit(3)
        assert "unavailable" in drill.check()
    assert "3 versions" in drill.act()
    drill.verify()
    lake.assert_well()


def test_a_corrupt_checkpoint_is_written_again(lake: Lake) -> None:
    drill = Drill(RUNBOOKS["A checkpoint is corrupt"])
    [checkpoint] = (Path(lake.root) / "orders" / LOG_DIRECTORY).glob("*.checkpoint.parquet")
    written = checkpoint.read_bytes()
    checkpoint.write_bytes(written[: len(written) // 2] + bytes(len(written) - len(written) // 2))
    with pytest.raises(RequestFailed):
        lake.reader.snapshot(f"{lake.root}/orders")
    assert "checkpoint" in drill.check()
    drill.act()
    drill.verify()
    assert checkpoint.read_bytes() == written
    lake.assert_well()


def test_what_a_service_that_hangs_had_is_done_by_others_once_it_is_ended(
    lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drill = Drill(RUNBOOKS["A lease is stuck"])
    lake.commit(2)
    settings = {name: value for name, value in os.environ.items() if name.startswith("DELTAMIRROR_")}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.mirrors.stuck_service"],
        cwd=folder,
        env={**environment(settings), "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    ) as stuck:
        try:
            assert stuck.stdout is not None
            assert stuck.stdout.readline() == "orders\n"
            monkeypatch.setenv("PID", str(stuck.pid))
            lake.mirror()
            assert f":{stuck.pid}:" in drill.check()
            lake.age_leases()
            drill.act()
        finally:
            stuck.kill()
    drill.verify()
    lake.assert_well()
