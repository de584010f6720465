"""A cleaning that ends at any step: no reader in the window notices, and the next cleaning ends as one would have.

This is G9 of the README.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.delta.lastcheckpoint import decode
from deltamirror.pipeline.service import cleaning as cleaning_module
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.object_store import ObjectStore
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.engines.duckdb import DuckdbDatabase
from deltamirror.txnlog.database.engines.postgresql import PostgresqlDatabase
from deltamirror.txnlog.database.engines.sqlite import SqliteDatabase
from tests.support.crashes.fuses import Fuse, arm_database, arm_stores
from tests.support.lakes.aging import HEAD, START, age, cleaning, lived
from tests.support.lakes.lake import execute, opened, paths
from tests.support.readers.reader import Reader
from tests.support.suite.examples import at_some_moments

_STATE = "SELECT t.log_start, c.log_start AS swept, c.cleaned_at > 0 AS finished FROM dl_tables t, dl_cleanups c"
_PATCHED = (Session, Database, SqliteDatabase, DuckdbDatabase, PostgresqlDatabase, DiskStore, ObjectStore)


class Killed(BaseException):
    """What nothing catches."""


class Death(Fuse):
    """From the chosen step on, nothing happens any more."""

    def burn(self) -> None:
        with self.lock:
            self.passed += 1
            dead = 0 < self.at <= self.passed
        if dead:
            raise Killed


@pytest.fixture
def original(sqlite_lake: str, tmp_path: Path) -> Path:
    """The folder of a lake whose one table is to be cleaned: checkpoints with sidecars, and an original aside."""
    with opened(sqlite_lake) as catalog, cleaning(catalog, checkpoint_sidecar_actions=3) as engine:
        lived(catalog, engine, str(tmp_path / "t"), properties={"delta.checkpointPolicy": "v2"})
        aside = tmp_path / "t/_delta_log/_deltamirror"
        aside.mkdir()
        (aside / f"{3:020}.json.0123456789ab").write_bytes(b"theirs\n")
        age(catalog, upto=12)
    kept = tmp_path / "original"
    kept.mkdir()
    with closing(sqlite3.connect(tmp_path / "lake.db")) as source, closing(sqlite3.connect(kept / "lake.db")) as target:
        source.backup(target)
    shutil.copytree(tmp_path / "t", kept / "t")
    return kept


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Death]:
    """Every statement and every call of a store is a step; objects are deleted a few at a time."""
    before = {kind: dict(vars(kind)) for kind in _PATCHED}
    monkeypatch.setattr(cleaning_module, "_BATCH", 4)
    death = Death(0)
    arm_database(death)
    arm_stores(death, lambda *_: None)
    yield death
    for kind, own in before.items():
        for name in vars(kind).keys() - own.keys():
            delattr(kind, name)
        for name in [name for name, value in own.items() if vars(kind)[name] is not value]:
            setattr(kind, name, own[name])


def restored(original: Path, folder: Path) -> str:
    for left in folder.glob("lake.db*"):
        left.unlink()
    shutil.copy(original / "lake.db", folder)
    shutil.rmtree(folder / "t")
    shutil.copytree(original / "t", folder / "t")
    return f"sqlite:///{folder / 'lake.db'}"


def objects(folder: Path) -> dict[str, bytes]:
    log = folder / "t/_delta_log"
    return {str(path.relative_to(log)): path.read_bytes() for path in log.rglob("*") if path.is_file()}


def cleaned(catalog: Catalog) -> None:
    with cleaning(catalog) as engine:
        engine.clean("t")


def assert_whole(found: dict[str, bytes], log_start: int = START) -> None:
    """All that the window and the records ask for is there, and the pointer leads to it."""
    assert {f"{version:020}.json" for version in range(min(log_start, START), HEAD + 1)} <= found.keys()
    assert any(name.startswith(f"{START:020}.checkpoint.") for name in found)
    pointer = decode(found["_last_checkpoint"]).pointer
    assert pointer is not None
    assert pointer.version >= START


@pytest.mark.crash
@pytest.mark.requirement("R19")
@pytest.mark.requirement("R20")
@at_some_moments
def test_whatever_a_cleaning_dies_of_readers_go_on_and_the_next_one_finishes_it(
    original: Path, tmp_path: Path, armed: Death, delta_rs: Reader, every: int
) -> None:
    with opened(restored(original, tmp_path)) as catalog:
        expected = {version: paths(catalog.table("t"), version=version) for version in (START, HEAD)}
        armed.passed = 0
        cleaned(catalog)
        steps, clean = armed.passed, objects(tmp_path)
        recorded = execute(catalog, _STATE)
    assert_whole(clean)
    assert len(objects(original)) - len(clean) > 20
    assert steps > 50
    for step in range(1, steps + 1, every):
        with opened(restored(original, tmp_path)) as catalog:
            armed.at, armed.passed = step, 0
            with pytest.raises(Killed):
                cleaned(catalog)
            armed.at = 0
            execute(catalog, "UPDATE dl_leases SET expires_at = 0")  # time goes by
            assert_whole(objects(tmp_path), catalog.table("t").info().log_start)
            for version, files in expected.items():
                assert delta_rs.snapshot(tmp_path / "t", version).paths == files, (step, version)
            cleaned(catalog)
            assert objects(tmp_path) == clean, step
            assert execute(catalog, _STATE) == recorded, step
