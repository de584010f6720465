"""An S3 server that is down: while it is left alone it sees no request, and tables elsewhere go on."""

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.escalations import escalations_of
from tests.support.faults.rules import UNAVAILABLE
from tests.support.faults.s3_proxy import S3Proxy
from tests.support.interfaces.commands import typed, variables
from tests.support.lakes.lake import add
from tests.support.mirrors.local import append, committed_files, following, local_settings, make_table, published_files

pytestmark = [pytest.mark.requirement("R55"), pytest.mark.requirement("R57")]

TABLES = [f"t{number}" for number in range(12)]


def end_threads() -> None:
    """Units that were under way when the store was left alone end by themselves."""
    for thread in threading.enumerate():
        if thread.name.startswith("mirror "):
            thread.join(60)


def test_a_store_that_is_left_alone_sees_no_request(
    sqlite_lake: str, tmp_path: Path, s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    down = threading.Event()
    s3_proxy.fail(UNAVAILABLE, lambda _: down.is_set(), times=None)
    storage = replace(s3_proxy.settings(s3_settings), retries=0)
    settings = replace(
        local_settings(threads=2, retry_base=3600.0, retry_max=3600.0, breaker_pause=3600.0), storage=storage
    )
    with Catalog(sqlite_lake, settings=settings) as catalog:
        tables = [catalog.create_table(name, location=f"s3://{s3_bucket}/{name}", schema="id long") for name in TABLES]
        local = make_table(catalog, tmp_path, "local")
        before = len(s3_proxy.log)
        down.set()
        with MirrorEngine(sqlite_lake, settings=settings) as engine:
            failures = engine.run(once=True).failures
            end_threads()
            seen = len(s3_proxy.log)
            # Five failures open it; units that were under way by then are not recorded, or fail, too.
            assert 5 <= len(failures) < len(TABLES)
            assert 5 <= seen - before < 1 + 2 * len(TABLES)
            for table in tables:
                table.append([add("file.parquet")])
            append(local, 3)
            with following(engine):
                catalog.wait_until_published({"local": 3}, seconds=60)
        with MirrorEngine(sqlite_lake, settings=settings) as engine:
            assert len(s3_proxy.log) == seen
            # One unit tries it.
            assert len(engine.run(once=True).failures) == 1
            end_threads()
            assert seen < len(s3_proxy.log) <= seen + 2
            down.clear()
            assert engine.run(once=True).failures == []
        assert published_files(local) == committed_files(local)
        for table in tables:
            store = store_at(table.location, s3_settings)
            for name, data in committed_files(table).items():
                found = store.read(f"_delta_log/{name}")
                assert found is not None
                assert found.data == data


@pytest.mark.requirement("R51")
def test_repair_finishes_at_once_what_failed_past_its_attempts(
    sqlite_lake: str, tmp_path: Path, s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    down = threading.Event()
    s3_proxy.fail(UNAVAILABLE, lambda _: down.is_set(), times=None)
    storage = replace(s3_proxy.settings(s3_settings), retries=0)
    patient = local_settings(attempts=5, retry_base=3600.0, retry_max=3600.0, breaker_pause=3600.0)
    settings = replace(patient, storage=storage)
    commands = {
        **variables(storage),
        "DELTAMIRROR_CATALOG__URL": sqlite_lake,
        "DELTAMIRROR_BREAKER__PAUSE": "3600",
    }
    with Catalog(sqlite_lake, settings=settings) as catalog, MirrorEngine(sqlite_lake, settings=settings) as engine:
        table = catalog.create_table("t", location=f"s3://{s3_bucket}/t", schema="id long")
        append(table, 2)
        down.set()
        for _ in range(5):
            assert engine.run(once=True).failures
        end_threads()
        with catalog.database.read() as connection:
            [opened] = escalations_of(connection, table.info().id)
        assert (opened.version, opened.error_code, opened.closed_at) == (0, "unavailable", None)
        assert "; next probe then" in typed("status", "t", folder=tmp_path, settings=commands).stdout
        assert troubles(engine) == (1, 1, 3)
        down.clear()
        done = typed("repair", "t", folder=tmp_path, settings=commands)
        assert (done.returncode, " is closed: it is back" in done.stderr) == (0, True)
        assert done.stdout.startswith("t is published up to version 2 ")
        assert troubles(engine) == (0, 0, 0)
        with catalog.database.read() as connection:
            [closed] = escalations_of(connection, table.info().id)
        assert closed.closed_at is not None
        store = store_at(table.location, s3_settings)
        found = {name: store.read(f"_delta_log/{name}") for name in committed_files(table)}
        assert {name: each.data for name, each in found.items() if each is not None} == committed_files(table)


def troubles(engine: MirrorEngine) -> tuple[int, int, int]:
    """How many versions of the table are escalated, have failed, and are behind."""
    (status,) = engine.status("t")
    return status.escalations, status.failed, status.lag_versions
