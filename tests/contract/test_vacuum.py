"""Vacuum: what is refused, what its commits say, and what happens when something comes in between."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings
from deltamirror.errors import Diverged, InvalidInput, Refused, Unavailable, Unsupported
from deltamirror.steps import Moment, Step, observed
from deltamirror.storage.keys import temporary_name
from deltamirror.storage.open import store_at
from tests.support.imports.importers import imported
from tests.support.lakes.lake import add, opened, settings_for
from tests.support.lakes.vacuums import backdate, contents, first_row_deleted
from tests.support.mirrors.claims import end_leases
from tests.support.mirrors.local import local_settings, mirror_of

pytestmark = pytest.mark.requirement("R89")

REFERENCE = Path(__file__).parents[1] / "reference/logs/delta-spark-4.4.0/manual-compaction/_delta_log"
ROWS = pa.table({"id": [1, 2, 3]})
VECTORS = {"delta.enableDeletionVectors": True}


@pytest.fixture
def lake(sqlite_lake: str) -> Iterator[Catalog]:
    with opened(sqlite_lake, stage_above=3, chunk_lines=1) as found:
        yield found


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    """A table that was overwritten, ten days ago, and published; a file of a failed task is beside it."""
    made = lake.create_table("t", location=tmp_path / "t", schema="id long")
    made.append(ROWS)
    made.overwrite(ROWS)
    (tmp_path / "t" / "left.parquet").write_bytes(b"left")
    with mirror_of(lake) as engine:
        engine.mirror("t")
    backdate(lake, dict.fromkeys(range(3), 10))
    for key in contents(tmp_path / "t"):
        age(tmp_path / "t" / key)
    return made


def age(path: Path, days: float = 10) -> None:
    os.utime(path, (path.stat().st_mtime - days * 86_400,) * 2)


def removed(table: Table) -> str:
    [first] = table.snapshot(1).adds()
    return first.path


def info(line: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(line)["commitInfo"]
    return found


def test_less_than_the_retention_of_the_table_is_refused_unless_told(table: Table, tmp_path: Path) -> None:
    before = contents(tmp_path / "t")
    with pytest.raises(Refused, match=r"kept for 168 hours .* 1 were asked for") as caught:
        table.vacuum(timedelta(hours=1))
    assert "--no-retention-check" in caught.value.hint
    assert contents(tmp_path / "t") == before
    table.alter(properties={"delta.deletedFileRetentionDuration": "interval 30 minutes"})
    assert table.vacuum(timedelta(hours=1)).num_deleted == 2


@pytest.mark.parametrize("retain", [-1, float("nan"), float("inf"), timedelta(days=-1), "7d"])
def test_a_retention_that_is_no_length_of_time_is_refused(table: Table, retain: object) -> None:
    with pytest.raises(InvalidInput, match="retain has to be"):
        table.vacuum(retain, retention_check=False)  # type: ignore[arg-type]


def test_its_commits_have_the_fields_of_delta_spark(table: Table) -> None:
    done = table.vacuum(timedelta(0), retention_check=False)
    assert (done.num_deleted, done.version) == (2, 4)
    for version, reference in ((3, "00000000000000000003.json"), (4, "00000000000000000004.json")):
        ours, theirs = info(table.commit_file(version)), info((REFERENCE / reference).read_bytes())
        del ours["inCommitTimestamp"]
        assert list(ours) == list(theirs)
        for name in ("operation", "isolationLevel", "isBlindAppend", "operationParameters"):
            assert ours[name] == theirs[name]
        assert list(ours["operationMetrics"]) == list(theirs["operationMetrics"])  # type: ignore[call-overload]


def test_a_vacuum_that_finds_nothing_commits_nothing(table: Table) -> None:
    assert table.vacuum().num_deleted == 2
    assert (table.vacuum().version, table.info().head) == (None, 4)


def test_files_that_an_unpublished_commit_removed_stay(table: Table, lake: Catalog) -> None:
    live = table.snapshot().adds()[0].path
    table.overwrite(ROWS)
    backdate(lake, {3: 10})
    assert live not in set(table.vacuum().paths())
    with mirror_of(lake) as engine:
        engine.mirror("t")
    assert set(table.vacuum().paths()) == {live}


def test_change_data_of_an_unpublished_commit_stays(table: Table, lake: Catalog, tmp_path: Path) -> None:
    change = tmp_path / "t" / "_change_data" / "c d.parquet"
    change.parent.mkdir()
    change.write_bytes(b"changes")
    age(change)
    table.alter(properties={"delta.enableChangeDataFeed": True})
    time = table.info().head_timestamp + 1
    lines = [
        {"commitInfo": {"inCommitTimestamp": time, "timestamp": time, "operation": "DELETE", "txnId": "x"}},
        {"cdc": {"path": "_change_data/c%20d.parquet", "partitionValues": {}, "size": 7, "dataChange": False}},
    ]
    with lake.transaction() as tx:
        tx.stage_lines("t", [json.dumps(each) for each in lines], at_version=4)
    table.vacuum()
    assert change.exists()
    with mirror_of(lake) as engine:
        engine.mirror("t")
    table.vacuum()
    assert not change.exists()


def test_files_of_a_commit_that_is_being_staged_stay(table: Table, lake: Catalog, tmp_path: Path) -> None:
    files = [add(f"old-{number}.parquet") for number in range(6)]
    for file in files:
        (tmp_path / "t" / file.path).write_bytes(b"old")
        age(tmp_path / "t" / file.path)
    shown: list[set[str]] = []

    def look(moment: Moment, step: Step) -> None:
        if (moment, step) == (Moment.AFTER, Step.STORE_LINES):
            shown.append(set(table.vacuum(dry_run=True).paths()))

    with observed(look):
        table.append(files)
    assert not shown[-1] & {each.path for each in files}


def test_a_file_that_is_named_after_the_look_stays(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process brings it back while this one has decided already."""
    before = removed(table)
    record = Table._record

    def and_brings_back(self: Table, name: str, operation: str, *more: object) -> int:
        if operation == "VACUUM START":
            self.append([replace(self.snapshot(1).adds()[0])])
        return record(self, name, operation, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "_record", and_brings_back)
    done = table.vacuum()
    assert (done.num_files, done.num_deleted) == (2, 1)
    assert before in {each.path for each in table.snapshot().adds()}
    assert len(table.to_arrow()) == 2 * len(ROWS)


def test_a_log_with_foreign_versions_is_not_trusted(table: Table, tmp_path: Path) -> None:
    (tmp_path / "t/_delta_log/00000000000000000003.json").write_text("{}")
    before = contents(tmp_path / "t")
    for _ in range(2):
        with pytest.raises(Diverged, match="quarantine"):
            table.vacuum()
    assert contents(tmp_path / "t") == before


def test_a_path_that_may_lie_in_the_folder_under_another_name_stops_it(table: Table, lake: Catalog) -> None:
    time = table.info().head_timestamp + 1
    info = {"inCommitTimestamp": time, "timestamp": time, "operation": "CLONE", "txnId": "x"}
    file = {"path": "dbfs:/mnt/t/x.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}
    with lake.transaction() as tx:
        lines = [{"commitInfo": info}, {"add": {**file, "dataChange": True}}]
        tx.stage_lines("t", [json.dumps(each) for each in lines], at_version=3)
    with pytest.raises(Unsupported, match=r"dbfs:/mnt/t/x\.parquet"):
        table.vacuum()


def test_tombstones_that_came_with_a_checkpoint_keep_their_files(lake: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    for _ in range(2):
        deltalake.write_deltalake(str(folder), ROWS, mode="overwrite")
    deltalake.DeltaTable(str(folder)).create_checkpoint()
    (folder / "_delta_log/00000000000000000000.json").unlink()
    for key in contents(folder):
        age(folder / key)
    imported(lake, store_at(folder.as_uri(), StorageSettings()))
    assert len(contents(folder)) == 2
    assert lake.table("t").vacuum(dry_run=True).num_files == 0


def test_a_store_that_fails_is_recorded_and_the_next_vacuum_goes_on(table: Table, tmp_path: Path) -> None:
    def fail(moment: Moment, step: Step) -> None:
        if step is Step.DELETE_UNREFERENCED:
            raise Unavailable("injected", hint="none")

    with observed(fail), pytest.raises(Unavailable, match="injected"):
        table.vacuum()
    assert [each.operation for each in table.history(2)] == ["VACUUM END", "VACUUM START"]
    assert table.history(1)[0].parameters == {"status": "FAILED"}
    assert table.vacuum().num_deleted == 2
    assert contents(tmp_path / "t") == {each.path for each in table.snapshot().adds()}


KILLED = """
import os, signal, sys
from deltamirror import Catalog
from deltamirror.catalog.maintenance import vacuum
from deltamirror.storage.keys import temporary_name
from deltamirror.storage.open import store_at
from deltamirror.steps import Moment, Step, observed
vacuum._BATCH = vacuum._AT_ONCE = 1
def die(moment, step):
    if step is Step.DELETE_UNREFERENCED and moment is Moment.AFTER:
        os.kill(os.getpid(), signal.SIGKILL)
with Catalog(sys.argv[1]) as catalog, observed(die):
    catalog.table("t").vacuum()
"""


@pytest.mark.crash
def test_a_vacuum_that_is_killed_loses_nothing_and_is_run_again(
    table: Table, lake: Catalog, tmp_path: Path, sqlite_lake: str
) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, sqlite_lake], check=False)
    assert killed.returncode == -signal.SIGKILL
    live = {each.path for each in table.snapshot().adds()}
    assert contents(tmp_path / "t") > live
    assert [each.operation for each in table.history(1)] == ["VACUUM START"]
    end_leases(lake.database)
    assert table.vacuum().num_deleted == 1
    assert contents(tmp_path / "t") == live
    assert table.to_arrow().equals(ROWS)


def test_objects_of_a_bucket_are_vacuumed(sqlite_lake: str, s3_bucket: str, s3_settings: StorageSettings) -> None:
    settings = local_settings(replace(settings_for(sqlite_lake), storage=s3_settings))
    with Catalog(settings=settings) as catalog:
        table = catalog.create_table("t", location=f"s3a://{s3_bucket}/lake/t", schema="id long")
        table.append(ROWS)
        table.overwrite(ROWS)
        with MirrorEngine(settings=settings, database=catalog.database) as engine:
            engine.mirror("t")
        backdate(catalog, dict.fromkeys(range(3), 1))
        done = table.vacuum(0, retention_check=False)
        assert (list(done.paths()), done.num_deleted) == ([removed(table)], 1)
        assert table.to_arrow().equals(ROWS)


def test_every_database_knows_which_files_are_needed(lake_url: str, tmp_path: Path) -> None:
    """Vacuum, restore and optimize ask it in their own ways."""
    with opened(lake_url) as catalog:
        table = catalog.create_table("t", location=tmp_path / "t", schema="id long", properties=VECTORS)
        table_id = table.info().id
        table.append(ROWS)
        table.overwrite(ROWS)
        with catalog.transaction() as tx:
            tx.stage("t", first_row_deleted(table.snapshot().adds()[0], tmp_path / "t", seed=1))
        with mirror_of(catalog) as engine:
            engine.mirror("t")
        table.overwrite(ROWS)
        backdate(catalog, dict.fromkeys(range(5), 10), table_id=table_id)
        for key in contents(tmp_path / "t"):
            age(tmp_path / "t" / key)
        assert list(table.vacuum().paths()) == [removed(table)]
        assert table.restore(3) is not None
        assert len(table.to_arrow()) == len(ROWS) - 1
        assert table.optimize() is not None
        assert len(table.to_arrow()) == len(ROWS) - 1


def test_what_a_killed_writer_left_half_written_on_a_disk_goes_after_a_day(table: Table, tmp_path: Path) -> None:
    folder = tmp_path / "t" / "day=1"
    folder.mkdir()
    old, young = (folder / temporary_name(f"part-{number}.parquet") for number in range(2))
    hidden = folder / ".part-2.parquet.tmp"  # of another program
    for path in (old, young, hidden):
        path.write_bytes(b"half")
    age(old, days=1.1)
    age(hidden, days=100)
    table.vacuum(0, retention_check=False)
    assert (old.exists(), young.exists(), hidden.exists()) == (False, True, True)
    age(young, days=3)
    table.vacuum()
    assert young.exists(), "within the retention of the table"
    age(young, days=7)
    table.vacuum(dry_run=True)
    assert young.exists()
    table.vacuum()
    assert not young.exists()
