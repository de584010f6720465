"""A store that never answers costs its own tables only, few threads, and no more than a lease when a service ends.

On disk a pipe that has no writer stands for a file of a dead mount.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.catalog import catalog as catalog_module
from deltamirror.config import Secret, Settings, StorageSettings, Switch
from deltamirror.delta.names import LAST_CHECKPOINT, commit_name
from deltamirror.errors import Unavailable
from deltamirror.ops.reconcile.repair import repair
from deltamirror.ops.report import report_on
from deltamirror.pipeline.service import foreign_versions
from deltamirror.storage import files
from deltamirror.storage.calls import MOST_HUNG
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.status import table_status
from tests.support.imports.adoptions import logs_of
from tests.support.interfaces.commands import following as service
from tests.support.mirrors.local import append, following, local_settings, log_of, make_table, published_files, until
from tests.support.stores.dead_disk import COMMAND, dead

HASTY = replace(StorageSettings(), timeout=0.2, transfer_timeout=0.2)
NEVER = "86400"
"""Seconds after which a call is given up, where the point is that nobody waits for that."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as opened:
        opened.init()
        yield opened


@contextmanager
def hasty_service(catalog: Catalog) -> Iterator[None]:
    """A service that gives up calls soon, with the thread that compares logs."""
    settings = local_settings(Settings(storage=HASTY))
    settings = replace(settings, reconcile=replace(settings.reconcile, interval=0.05))
    with MirrorEngine(settings=settings, database=catalog.database) as engine, following(engine):
        yield


@pytest.mark.requirement("R58")
def test_a_table_that_hangs_delays_neither_commits_nor_checkpoints_nor_repairs_of_another(
    catalog: Catalog, tmp_path: Path
) -> None:
    properties = {"delta.checkpointInterval": "2"}
    hanging, fine = (make_table(catalog, tmp_path, name, properties=properties) for name in ("a", "b"))
    with MirrorEngine(settings=local_settings(), database=catalog.database) as engine:
        for table in (hanging, fine):
            append(table, 2)
        engine.run(once=True)
        append(hanging, 2)
        before = set(threading.enumerate())
        with dead(log_of(hanging) / LAST_CHECKPOINT, log_of(hanging) / commit_name(3)), hasty_service(catalog):
            append(fine, 2)
            until((log_of(fine) / "00000000000000000004.checkpoint.parquet").is_file)
            (log_of(fine) / commit_name(1)).unlink()
            until((log_of(fine) / commit_name(1)).is_file)
            made = [thread for thread in set(threading.enumerate()) - before if thread.name == "deltamirror-store"]
            assert len(made) <= 4 * MOST_HUNG  # with those that are at work, or idle
        with logs_of(engine) as logs:
            repair(logs, "a")  # a pipe in a log stops its table, where the comparison came to see it
        engine.run(once=True)
    assert sorted(published_files(hanging)) == [commit_name(version) for version in range(5)]


def test_a_log_whose_names_are_never_synced_delays_another_table_by_one_small_call(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mount dies after the objects of a unit were put, and the only job that the disk may have waits for it."""
    hanging, fine = (make_table(catalog, tmp_path, name) for name in ("hanging", "fine"))
    entered, release, sync = threading.Event(), threading.Event(), files.sync_folder

    def sync_folder(path: Path) -> None:
        if path == log_of(hanging):
            entered.set()
            release.wait(120)
        sync(path)

    monkeypatch.setattr(files, "sync_folder", sync_folder)
    storage = replace(StorageSettings(), timeout=0.2, transfer_timeout=float(NEVER))
    settings = local_settings(Settings(storage=storage), concurrency=2, batch_tables=1)
    with MirrorEngine(settings=settings, database=catalog.database) as engine, following(engine):
        try:
            assert entered.wait(60)
            append(fine, 1)
            catalog.wait_until_published({"fine": 1}, seconds=60)
            assert hanging.info().published is None
        finally:
            release.set()
        catalog.wait_until_published({"hanging": 0}, seconds=60)


def test_a_first_commit_to_a_table_that_hangs_goes_on(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_versions, "_SECONDS", 0.05)
    make_table(catalog, tmp_path)
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as other, dead(tmp_path / "t" / "_delta_log" / LAST_CHECKPOINT):
        append(other.table("t"), 3)
        assert other.table("t").info().head == 3


@contextmanager
def silent_server() -> Iterator[tuple[str, threading.Event]]:
    """A store that takes connections and requests, and says nothing; and whether it was asked to put an object."""
    asked, connections = threading.Event(), list[socket.socket]()

    def listen(connection: socket.socket) -> None:
        with suppress(OSError):
            while data := connection.recv(65536):
                if data.startswith(b"PUT "):
                    asked.set()

    def accept() -> None:
        with suppress(OSError):
            while True:
                connections.append(server.accept()[0])
                threading.Thread(target=listen, args=(connections[-1],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        finally:
            for connection in connections:
                connection.close()


def test_a_small_read_of_a_server_that_never_answers_is_given_up_however_much_is_asked_for() -> None:
    keys = {"access_key_id": "key", "secret_access_key": Secret("secret"), "region": "here", "allow_http": True}
    with silent_server() as (endpoint, _):
        times = {"timeout": 0.2, "transfer_timeout": float(NEVER), "retries": 0}
        store = store_at("s3://bucket/t", StorageSettings(endpoint=endpoint, **keys, **times))  # type: ignore[arg-type]
        with pytest.raises(Unavailable, match="no answer"):
            store.read_range("k", 0, 2**30)


def environment_of(folder: Path, **storage: str) -> dict[str, str]:
    """Settings of a service that waits for stores for ever, and for nothing else."""
    times = dict.fromkeys(("timeout", "transfer_timeout", "connect_timeout"), NEVER)
    return {
        **{f"DELTAMIRROR_STORAGE__{name.upper()}": value for name, value in (times | storage).items()},
        "DELTAMIRROR_CATALOG__URL": f"sqlite:///{folder / 'lake.db'}",
        "DELTAMIRROR_MIRROR__LEASE": "4",
        "DELTAMIRROR_RECONCILE__INTERVAL": "0.1",
    }


def is_stopped_in_order(catalog: Catalog, folder: Path, settings: dict[str, str], hangs: Callable[[], bool]) -> None:
    with service("--runner", "local", folder=folder, settings=settings, program=COMMAND) as running:
        until(hangs)
        catalog.wait_until_published({"fine": 0}, seconds=120)
        status, said, complained = running.stop()
    assert (status, said.partition(";")[0]) == (0, "Stopped"), complained
    assert catalog.table("hanging").info().published is None
    assert report_on(catalog.database, "hanging", switch=Switch()).attempts == ()  # the next owner goes on


@pytest.mark.requirement("R58")
def test_a_signal_ends_a_service_whose_disk_never_answers(catalog: Catalog, tmp_path: Path) -> None:
    for name in ("fine", "hanging"):
        make_table(catalog, tmp_path, name)

    def is_claimed() -> bool:
        with catalog.database.read() as connection:
            return bool(table_status(connection, "hanging").leases)

    with dead(tmp_path / "hanging" / "_delta_log" / commit_name(0)):
        is_stopped_in_order(catalog, tmp_path, environment_of(tmp_path), is_claimed)


@pytest.mark.requirement("R58")
def test_a_signal_ends_a_service_whose_server_never_answers(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_module, "has_delta_log", lambda *_: False)
    make_table(catalog, tmp_path, "fine")
    catalog.create_table("hanging", location="s3://bucket/hanging", schema="id long")
    keys: dict[str, Any] = {"access_key_id": "key", "secret_access_key": "secret", "region": "here"}
    with silent_server() as (endpoint, asked):
        settings = environment_of(tmp_path, endpoint=endpoint, allow_http="true", **keys)
        is_stopped_in_order(catalog, tmp_path, settings, asked.is_set)
