"""Cleaning logs over every database and store: what is past its retention goes, and nothing that a reader may need.

This is G9 of the README.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings
from deltamirror.deltalog.retention import DAY
from deltamirror.errors import NotFound, Refused
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.storage.keys import temporary_name
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.expected_objects import kept_log
from tests.support.lakes.aging import (
    HEAD,
    START,
    Spot,
    age,
    cleaning,
    expected_names,
    lived,
    log_names,
    recorded,
    spot_of,
    store_of,
)
from tests.support.lakes.lake import add, execute, paths
from tests.support.lakes.moved import lake_of_test
from tests.support.mirrors.local import following, log_of
from tests.support.mirrors.reconcilers import reconciled, reconciler_of
from tests.support.readers.reader import Reader

pytestmark = pytest.mark.default_on("sqlite")

ALL_STORES = pytest.mark.parametrize("kind", ["disk", "s3"])


@pytest.fixture
def engine(lake: Catalog) -> Iterator[MirrorEngine]:
    with cleaning(lake) as found:
        yield found


@pytest.fixture
def table(lake: Catalog) -> Table:
    """The table that lived."""
    return lake.table("t")


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a catalog, with the table that lived in it if a test has that."""
    return lake_of_test(request, tmp_path, made="lived_lake")


def assert_all_open(reader: Reader, table: Table, spot: Spot | None = None, *, first: int = START) -> None:
    """Every version from one on is for a reader what it is in SQL."""
    spot = spot or Spot(table.location, StorageSettings())
    for version in range(first, table.info().head + 1):
        assert spot.seen(reader, version).paths == paths(table, version=version), (reader.name, version)


@pytest.mark.requirement("R19")
@pytest.mark.requirement("R20")
@ALL_STORES
@pytest.mark.default_on("sqlite-disk", "postgresql-s3")
def test_what_is_past_its_retention_goes_and_every_version_in_the_window_opens(
    lake_url: str,
    kind: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    delta_rs: Reader,
    duckdb_delta: Reader,
) -> None:
    spot = spot_of(kind, request, tmp_path)
    with spot.catalog(lake_url) as catalog, cleaning(catalog, spot.storage) as engine:
        table = lived(catalog, engine, spot.location)
        assert log_names(spot.store) == expected_names(0)
        age(catalog, upto=12)
        planned = engine.clean("t", dry_run=True)
        assert log_names(spot.store) == expected_names(0)
        assert (table.info().log_start, planned.log_start, planned.raised_from) == (0, START, 0)
        done = engine.clean("t")
        assert done.objects == planned.objects
        assert log_names(spot.store) == expected_names(START)
        assert {each.key.removeprefix("_delta_log/") for each in done.objects} == (
            expected_names(0) - expected_names(START)
        )
        assert recorded(catalog) == (START, START, len(done.objects), True)
        for reader in (delta_rs, duckdb_delta):
            assert_all_open(reader, table, spot)
        again = engine.clean("t")
        assert (again.objects, again.log_start, bool(again.reason)) == ((), START, True)
        table.append([add("later.parquet")])
        engine.mirror("t")
        assert spot.seen(delta_rs).paths == paths(table)
        assert paths(table, version=0) == []  # the database has it all


def test_the_reconciler_misses_nothing_that_was_cleaned(catalog: Catalog, tmp_path: Path) -> None:
    with cleaning(catalog) as engine:
        table = lived(catalog, engine, str(tmp_path / "t"))
        with catalog.database.read() as connection:
            before = kept_log(connection, "t")
        age(catalog, upto=12)
        engine.clean("t")
        for strategy in (Strategy.FULL, Strategy.SMART):
            found, _ = reconciled(engine, strategy)
            assert (found.missing, found.checkpoints, found.repaired, found.error) == ((), (), 0, None)
        with reconciler_of(engine) as (reconciler, _):
            assert reconciler.look(before).missing == ()  # it waited for its turn while the log was cleaned
        assert log_names(store_of(table)) == expected_names(START)


@pytest.mark.requirement("R57")
def test_a_cleaned_log_that_is_lost_comes_back_with_the_checkpoint_that_it_starts_with(
    catalog: Catalog, tmp_path: Path, delta_rs: Reader
) -> None:
    with cleaning(catalog) as engine:
        table = lived(catalog, engine, str(tmp_path / "t"))
        age(catalog, upto=12)
        engine.clean("t")
        before = {path.name: path.read_bytes() for path in log_of(table).glob("*.json")}
        for path in log_of(table).iterdir():
            path.unlink()
        found, _ = reconciled(engine, Strategy.SMART)
        assert (found.left, found.error) == (0, None)
        assert {path.name: path.read_bytes() for path in log_of(table).glob("*.json")} == before
        assert_all_open(delta_rs, table)
        assert engine.status("t")[0].lag_versions == 0


def test_a_log_that_is_rebuilt_elsewhere_starts_where_the_cleaned_one_does(
    lake: Catalog, engine: MirrorEngine, table: Table, tmp_path: Path, delta_rs: Reader
) -> None:
    age(lake, upto=12)
    engine.clean("t")
    rebuild(lake.database, "t", to=store_at(str(tmp_path / "again"), StorageSettings()))
    for version in (START, HEAD):
        assert delta_rs.snapshot(tmp_path / "again", version).paths == paths(table, version=version)


@pytest.mark.parametrize(
    ("upto", "days", "start"),
    [
        (12, 29.9, 0),
        (12, 31, 10),  # a day more than retention is past it at any hour of the day
        (9, 40, 5),
        (10, 40, 10),
        (4, 40, 0),
        (HEAD, 40, 20),
    ],
)
def test_the_log_starts_with_the_newest_checkpoint_that_the_oldest_version_in_the_window_needs(
    lake: Catalog, engine: MirrorEngine, table: Table, upto: int, days: float, start: int
) -> None:
    age(lake, upto=upto, days=days)
    assert engine.clean("t").log_start == table.info().log_start == start
    assert log_names(store_of(table)) == expected_names(start)


def test_retention_is_what_the_table_says(lake: Catalog, engine: MirrorEngine, tmp_path: Path) -> None:
    short = {"delta.logRetentionDuration": "interval 1 day"}
    table = lived(lake, engine, str(tmp_path / "t"), properties=short)
    age(lake, upto=12, days=3)
    assert engine.clean("t").log_start == START
    table.alter(properties={"delta.logRetentionDuration": "interval 100 days"})
    age(lake, upto=17, days=50)
    assert engine.clean("t").log_start == START
    assert table.info().log_start == START


def test_a_table_that_keeps_its_log_keeps_it(lake: Catalog, engine: MirrorEngine, tmp_path: Path) -> None:
    table = lived(lake, engine, str(tmp_path / "t"), properties={"delta.enableExpiredLogCleanup": "false"})
    age(lake, upto=HEAD)
    done = engine.clean("t")
    assert (done.objects, done.log_start) == ((), 0)
    assert "delta.enableExpiredLogCleanup" in done.reason
    assert log_names(store_of(table)) == expected_names(0)


def test_without_a_checkpoint_nothing_goes(lake: Catalog, engine: MirrorEngine, tmp_path: Path) -> None:
    table = lived(lake, engine, str(tmp_path / "t"), properties={"delta.checkpointInterval": "100"})
    age(lake, upto=HEAD)
    assert engine.clean("t").objects == ()
    assert len(log_names(store_of(table))) == 2 * (HEAD + 1)


def test_commits_that_carry_no_time_of_their_own_are_as_old_as_their_objects(
    lake: Catalog, engine: MirrorEngine, tmp_path: Path
) -> None:
    lived(lake, engine, str(tmp_path / "t"), properties={"delta.enableInCommitTimestamps": "false"})
    age(lake, upto=12, objects=False)
    assert engine.clean("t").objects == ()
    execute(lake, "UPDATE dl_mirror_status SET published_at = published_at - :back WHERE version <= 12", back=40 * DAY)
    assert engine.clean("t").log_start == START


def test_versions_that_are_not_published_keep_what_they_stand_on(
    lake: Catalog, engine: MirrorEngine, table: Table
) -> None:
    for number in range(4):
        table.append([add(f"waits-{number}.parquet")])
    age(lake, upto=HEAD + 4)
    assert engine.clean("t").log_start == 20
    assert log_names(store_of(table)) == expected_names(20)


@pytest.mark.parametrize("loss", ["gone", "other bytes", "commit gone"])
def test_a_checkpoint_that_is_not_as_it_was_written_replaces_nothing(
    lake: Catalog, engine: MirrorEngine, table: Table, loss: str
) -> None:
    lost = log_of(table) / f"{START:020}.{'json' if loss == 'commit gone' else 'checkpoint.parquet'}"
    if loss == "other bytes":
        lost.write_bytes(lost.read_bytes() + b"x")
    else:
        lost.unlink()
    age(lake, upto=12)
    done = engine.clean("t")
    assert done.log_start == 5
    assert set(log_names(store_of(table))) | {lost.name} == expected_names(5)


@pytest.mark.parametrize("state", ["gone", "damaged", "behind"])
def test_nothing_goes_that_the_pointer_does_not_lie_behind(
    lake: Catalog, engine: MirrorEngine, table: Table, state: str
) -> None:
    pointer = log_of(table) / "_last_checkpoint"
    match state:
        case "gone":
            pointer.unlink()
        case "damaged":
            pointer.write_bytes(b'{"version":20,"checksum":"0"}')
        case "behind":
            pointer.write_bytes(b'{"version":5,"size":1}')
    age(lake, upto=12)
    done = engine.clean("t")
    assert done.log_start == (5 if state == "behind" else 0)
    assert f"{START:020}.checkpoint.parquet" in log_names(store_of(table))


@pytest.mark.requirement("R93")
def test_what_a_writer_left_half_written_is_swept_after_a_day(engine: MirrorEngine, table: Table) -> None:
    old, young = (log_of(table) / temporary_name(f"{HEAD:020}.json") for _ in range(2))
    for path in (old, young):
        path.write_bytes(b"half")
    two_days_ago = time.time() - 2 * DAY / 1_000
    os.utime(old, (two_days_ago, two_days_ago))
    engine.clean("t")
    assert (old.exists(), young.exists()) == (False, True)


def test_what_is_no_object_of_the_log_stays(lake: Catalog, engine: MirrorEngine, table: Table) -> None:
    strange = {"00000000000000000003.txt", "3.json", "_last_vacuum_info", "_staged_commits/00000000000000000003.a.json"}
    for name in strange:
        (log_of(table) / name).parent.mkdir(exist_ok=True)
        (log_of(table) / name).write_bytes(b"{}\n")
    age(lake, upto=12)
    engine.clean("t")
    assert log_names(store_of(table)) == expected_names(START) | strange


def test_what_lies_before_an_imported_history_is_not_ours_to_sweep(
    lake: Catalog, engine: MirrorEngine, table: Table
) -> None:
    execute(lake, "UPDATE dl_tables SET log_start = 10")
    assert engine.clean("t").objects == ()
    assert log_names(store_of(table)) == expected_names(0)
    age(lake, upto=17)
    assert engine.clean("t").log_start == 15
    assert log_names(store_of(table)) == expected_names(15)


def test_saved_originals_go_with_their_versions(lake: Catalog, engine: MirrorEngine, table: Table) -> None:
    saved = {f"_deltamirror/{version:020}.json.{hashlib.sha256(b'').hexdigest()[:12]}" for version in (3, 14)}
    (log_of(table) / "_deltamirror").mkdir()
    for name in saved:
        (log_of(table) / name).write_bytes(b"theirs\n")
    age(lake, upto=12)
    engine.clean("t")
    assert log_names(store_of(table)) - expected_names(START) == {name for name in saved if "014.json" in name}


def test_sidecars_go_with_their_checkpoints(
    lake: Catalog, tmp_path: Path, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    with cleaning(lake) as engine:  # sidecars are so small that checkpoints share none
        table = lived(lake, engine, str(tmp_path / "t"), properties={"delta.checkpointPolicy": "v2"})
        sidecars = {name for name in log_names(store_of(table)) if name.startswith("_sidecars/")}
        assert {int(name[10:30]) for name in sidecars} == {5, 10, 15, 20}
        age(lake, upto=12)
        engine.clean("t")
        left = log_names(store_of(table))
        assert {name for name in left if name.startswith("_sidecars/")} == {
            n for n in sidecars if int(n[10:30]) >= START
        }
        assert {int(name[:20]) for name in left if ".checkpoint." in name and name[0] != "_"} == {10, 15, 20}
        for reader in (delta_rs, duckdb_delta):
            assert_all_open(reader, table)


@pytest.mark.parametrize("state", ["paused", "quarantined"])
def test_a_table_that_is_not_mirrored_is_not_cleaned(
    lake: Catalog, engine: MirrorEngine, table: Table, state: str
) -> None:
    age(lake, upto=12)
    changed = "mirror_paused = true" if state == "paused" else "quarantined_at = 1, quarantine_reason = 'why'"
    execute(lake, f"UPDATE dl_tables SET {changed}")
    with pytest.raises(Refused):
        engine.clean("t")
    assert log_names(store_of(table)) == expected_names(0)


def test_a_table_that_there_is_not(engine: MirrorEngine) -> None:
    with pytest.raises(NotFound):
        engine.clean("nothing")


def test_readers_that_go_on_reading_never_notice(lake: Catalog, tmp_path: Path, delta_rs: Reader) -> None:
    with cleaning(lake, enabled=True, interval=0) as engine:
        table = lived(lake, engine, str(tmp_path / "t"))
        with following(engine):
            for version in range(HEAD + 1, HEAD + 18):
                table.append([add(f"h-{version}.parquet")])
                [status] = engine.status("t")
                assert status.checkpoint is not None
                # A reader that stands still has the pointer of this moment, not one of a month ago.
                age(lake, upto=min(version - 8, status.checkpoint.version))
                seen = delta_rs.snapshot(tmp_path / "t")
                assert seen.version is not None
                assert seen.paths == paths(table, version=seen.version)
