"""A log that is written again from SQL: the commits bit for bit, whatever the database and the store."""

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, checkpoint_name, commit_name
from deltamirror.errors import DeltaMirrorError, Diverged, InvalidInput, InvalidLocation, NotFound, Refused
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import location_state, table_state
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.ops.rebuild.rebuilding import Rebuilt, rebuild
from deltamirror.ops.rebuild.restoring import restore_log
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.wiring import open_importer
from deltamirror.work import CheckpointOutcome, CommitOutcome, Outcome
from tests.support.lakes.lake import add, paths
from tests.support.logs.checkpoints import objects
from tests.support.mirrors.local import (
    append,
    committed_files,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
)
from tests.support.readers.reader import Reader

pytestmark = pytest.mark.default_on("sqlite")

HEAD = 12


def lived(catalog: Catalog, folder: Path, **more: Any) -> Table:
    """A table with versions 0 to 12."""
    table = make_table(catalog, folder / "home", **more)
    append(table, 9)
    table.remove(["f-3-2.parquet"])
    with catalog.transaction() as tx:
        tx.append("t", [add("x.parquet")])
        tx.set_transaction("t", "app", 7)
    table.append([add("y.parquet", size=7)])
    return table


def restored(engine: MirrorEngine, versions: range | None = None) -> Rebuilt:
    """What came of writing the log of the table again in its own place."""
    with Logs(engine, LocalInspector(engine.settings)) as logs:
        return restore_log(logs, "t", versions=versions)


def place(folder: Path, name: str = "again") -> Store:
    return store_at(str(folder / name), StorageSettings())


def commits_in(store: Store) -> dict[str, bytes]:
    prefix = f"{LOG_DIRECTORY}/"
    return {key.removeprefix(prefix): data for key, data in objects(store).items() if key.endswith(".json")}


def checkpoints_in(store: Store) -> list[int]:
    return [int(key.rpartition("/")[2][:20]) for key in objects(store) if ".checkpoint." in key]


def put(store: Store, version: int, data: bytes) -> str:
    key = f"{LOG_DIRECTORY}/{commit_name(version)}"
    store.create(key, data)
    return key


@pytest.mark.requirement("R66")
@pytest.mark.default_on("sqlite", "postgresql")
def test_rebuilt_commits_are_the_published_ones_byte_for_byte(catalog: Catalog, tmp_path: Path) -> None:
    table = lived(catalog, tmp_path)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    done = rebuild(catalog.database, "t", to=place(tmp_path))
    assert done == Rebuilt(first=0, last=HEAD, versions=HEAD + 1, already=0, checkpoint=None)
    assert commits_in(place(tmp_path)) == published_files(table) == committed_files(table)


@pytest.mark.default_on("sqlite-disk", "sqlite-s3")
def test_any_store_gets_nothing_but_the_commits(lake: Catalog, tmp_path: Path, any_store: Store) -> None:
    table = lived(lake, tmp_path)
    rebuild(lake.database, "t", to=any_store)
    assert objects(any_store) == {f"{LOG_DIRECTORY}/{name}": data for name, data in committed_files(table).items()}


@pytest.mark.default_on("sqlite-memory")
def test_a_second_rebuild_finds_everything_there(lake: Catalog, tmp_path: Path, any_store: Store) -> None:
    lived(lake, tmp_path)
    rebuild(lake.database, "t", to=any_store, checkpoints=True)
    before = objects(any_store)
    done = rebuild(lake.database, "t", to=any_store, checkpoints=True)
    assert done == Rebuilt(first=0, last=HEAD, versions=0, already=HEAD + 1, checkpoint=10)
    assert objects(any_store) == before


@pytest.mark.default_on("sqlite-memory")
def test_what_is_missing_is_put_again(lake: Catalog, tmp_path: Path, any_store: Store) -> None:
    table = lived(lake, tmp_path)
    rebuild(lake.database, "t", to=any_store)
    any_store.delete([f"{LOG_DIRECTORY}/{commit_name(version)}" for version in (3, 4, HEAD)])
    assert rebuild(lake.database, "t", to=any_store).versions == 3
    assert commits_in(any_store) == committed_files(table)


@pytest.mark.requirement("R66")
@pytest.mark.default_on("sqlite-memory", "sqlite-s3")
def test_other_bytes_are_a_divergence_and_are_left_alone(lake: Catalog, tmp_path: Path, any_store: Store) -> None:
    table = lived(lake, tmp_path)
    key = put(any_store, 5, b'{"commitInfo":{"operation":"WRITE"}}\n')
    with pytest.raises(Diverged) as raised:
        rebuild(lake.database, "t", to=any_store)
    assert (raised.value.version, raised.value.key, raised.value.table) == (5, key, "t")
    found = any_store.read(key)
    assert found is not None
    assert found.data == b'{"commitInfo":{"operation":"WRITE"}}\n'
    below = {name: data for name, data in committed_files(table).items() if name < commit_name(5)}
    assert commits_in(any_store) == {**below, commit_name(5): found.data}


def test_a_range_that_continues_a_log_is_all_that_is_put(lake: Catalog, tmp_path: Path) -> None:
    table, target = lived(lake, tmp_path), place(tmp_path)
    rebuild(lake.database, "t", to=target, versions=range(4))
    done = rebuild(lake.database, "t", to=target, versions=range(4, 7))
    assert done == Rebuilt(first=4, last=6, versions=3, already=0, checkpoint=None)
    wanted = {name: data for name, data in committed_files(table).items() if name < commit_name(7)}
    assert commits_in(target) == wanted
    assert not checkpoints_in(target)


def test_a_log_that_begins_above_version_0_has_a_checkpoint_to_begin_with(
    lake: Catalog, tmp_path: Path, any_store: Store
) -> None:
    lived(lake, tmp_path)
    done = rebuild(lake.database, "t", to=any_store, versions=range(5, HEAD))
    assert done == Rebuilt(first=5, last=HEAD - 1, versions=HEAD - 5, already=0, checkpoint=5)
    assert checkpoints_in(any_store) == [5]
    pointer = any_store.read(f"{LOG_DIRECTORY}/_last_checkpoint")
    assert pointer is not None
    assert json.loads(pointer.data)["version"] == 5


def test_with_checkpoints_the_newest_that_is_due_is_written(catalog: Catalog, tmp_path: Path) -> None:
    lived(catalog, tmp_path, properties={"delta.checkpointInterval": "4"})
    observed: list[Outcome] = []
    target = place(tmp_path)
    done = rebuild(catalog.database, "t", to=target, versions=range(2, HEAD), checkpoints=True, observe=observed.append)
    assert done.checkpoint == 8
    assert checkpoints_in(target) == [2, 8]
    assert [type(each) for each in observed] == [CommitOutcome, CheckpointOutcome, CheckpointOutcome]


def test_no_checkpoint_is_due_before_the_first_interval(lake: Catalog, tmp_path: Path) -> None:
    append(make_table(lake, tmp_path), 3)
    assert rebuild(lake.database, "t", to=place(tmp_path), checkpoints=True).checkpoint is None


def test_a_rebuilt_checkpoint_is_the_one_of_the_mirror(lake: Catalog, tmp_path: Path) -> None:
    table = lived(lake, tmp_path)
    with mirror_of(lake) as engine:
        engine.run(once=True)
    rebuild(lake.database, "t", to=place(tmp_path), checkpoints=True)
    logs = log_of(table), tmp_path / "again" / LOG_DIRECTORY
    ours, theirs = (pq.ParquetFile(log / checkpoint_name(10)) for log in logs)
    assert ours.read().equals(theirs.read())
    assert ours.metadata.row_group(0).column(0).compression == theirs.metadata.row_group(0).column(0).compression


@pytest.mark.requirement("R89")
@pytest.mark.parametrize("versions", [range(HEAD + 1), range(5, HEAD + 1)], ids=["whole", "range"])
def test_delta_rs_reads_every_rebuilt_version(lake: Catalog, tmp_path: Path, delta_rs: Reader, versions: range) -> None:
    table = lived(lake, tmp_path)
    rebuild(lake.database, "t", to=place(tmp_path), versions=versions, checkpoints=True)
    for version in versions:
        seen = delta_rs.snapshot(tmp_path / "again", version)
        assert (seen.version, seen.paths) == (version, paths(table, version=version))


def imported(catalog: Catalog, folder: Path, *, without: range) -> Table:
    """A table that is imported from its checkpoint of version 5, after these commits were cleaned up."""
    table = lived(catalog, folder)
    with mirror_of(catalog) as engine:
        engine.mirror("t", 5)
        engine.checkpoint("t")
        engine.run(once=True)
    log, location = log_of(table), table.location
    for version in without:
        (log / commit_name(version)).unlink()
    catalog.drop_table("t")
    with open_importer(catalog, local_settings(), runner="local") as importer:
        importer.run(ImportOrder(location=location, name="u"))
    return catalog.table("u")


@pytest.mark.requirement("R66")
def test_the_log_of_an_imported_table_is_rebuilt_from_its_first_version(catalog: Catalog, tmp_path: Path) -> None:
    table, target = imported(catalog, tmp_path, without=range(5)), place(tmp_path)
    done = rebuild(catalog.database, "u", to=target)
    assert done == Rebuilt(first=5, last=HEAD, versions=HEAD - 4, already=0, checkpoint=5)
    assert commits_in(target) == published_files(table)
    assert_same_versions(table, target, range(5, HEAD + 1))


def test_an_imported_table_without_its_first_commit_begins_with_a_checkpoint(
    catalog: Catalog, tmp_path: Path, delta_rs: Reader
) -> None:
    table, target = imported(catalog, tmp_path, without=range(6)), place(tmp_path)
    done = rebuild(catalog.database, "u", to=target, checkpoints=True)
    assert done == Rebuilt(first=5, last=HEAD, versions=HEAD - 5, already=0, checkpoint=10)
    assert commits_in(target) == published_files(table)
    assert checkpoints_in(target) == [5, 10]
    assert_same_versions(table, target, range(5, HEAD + 1))
    for version in range(5, HEAD + 1):
        assert delta_rs.snapshot(tmp_path / "again", version).paths == paths(table, version=version)


def assert_same_versions(table: Table, target: Store, versions: range) -> None:
    """SQL, the log that was imported, and the one that was rebuilt say the same."""
    home = store_at(table.location, StorageSettings())
    for version in versions:
        state = location_state(target, version)
        assert compare(state, location_state(home, version)).equal
        assert compare(state, table_state(table.snapshot().database, table.name, version)).equal


def test_a_log_that_was_lost_comes_back_in_its_place(lake: Catalog, tmp_path: Path) -> None:
    table = lived(lake, tmp_path)
    with mirror_of(lake) as engine:
        engine.mirror("t", 8)
        published = published_files(table)
        for path in log_of(table).iterdir():
            path.unlink()
        done = restored(engine)
        assert done == Rebuilt(first=0, last=8, versions=9, already=0, checkpoint=None)
        assert published_files(table) == published
        engine.run(once=True)
    assert published_files(table) == committed_files(table)


LOSSES = {
    "*": (HEAD + 1, 0),
    "*00[369].*": (3, HEAD - 2),
    "*1[0-2].crc": (0, HEAD + 1),
    "*checkpoint*": (0, HEAD + 1),
    "_last*": (0, HEAD + 1),
}


@pytest.mark.requirement("R57")
@pytest.mark.requirement("R66")
@pytest.mark.parametrize("lost", LOSSES)
def test_what_is_lost_of_a_log_comes_back_bit_for_bit(lake: Catalog, tmp_path: Path, lost: str) -> None:
    assert_comes_back(lake, str(tmp_path / "t"), Settings(), lost=lost)


@pytest.mark.requirement("R57")
def test_a_log_that_is_lost_on_s3_comes_back_bit_for_bit(
    sqlite_lake: str, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    settings = Settings(storage=s3_settings)
    with Catalog(sqlite_lake, settings=settings) as catalog:
        assert_comes_back(catalog, f"s3://{s3_bucket}/t", settings, lost="*")


def assert_comes_back(catalog: Catalog, location: str, settings: Settings, *, lost: str) -> None:
    table = catalog.create_table("t", location=location, schema="id long")
    append(table, HEAD)
    home = store_at(table.location, settings.storage)
    with MirrorEngine(settings=local_settings(settings), database=catalog.database) as engine:
        engine.run(once=True)
        home.put("data.parquet", b"of the table")  # without any object, all of its place would be gone
        before = objects(home)
        home.delete([key for key in before if key.startswith(LOG_DIRECTORY) and fnmatch(Path(key).name, lost)])
        assert objects(home) != before
        done = restored(engine)
    assert objects(home) == before
    assert (done.versions, done.already) == LOSSES[lost]


def test_of_a_lost_log_only_the_versions_that_are_asked_for_come_back(lake: Catalog, tmp_path: Path) -> None:
    table = lived(lake, tmp_path)
    with mirror_of(lake) as engine:
        engine.run(once=True)
        for path in log_of(table).glob("*.json"):
            path.unlink()
        assert restored(engine, versions=range(3)).versions == 3
        names = [commit_name(version) for version in range(3)]
        assert published_files(table) == {name: committed_files(table)[name] for name in names}
        assert restored(engine).already == 3
    assert published_files(table) == committed_files(table)


def test_versions_are_not_restored_without_the_one_before_them(lake: Catalog, tmp_path: Path) -> None:
    table = lived(lake, tmp_path)
    with mirror_of(lake) as engine:
        engine.run(once=True)
        for path in log_of(table).glob("*.json"):
            path.unlink()
        with pytest.raises(Refused, match=r"version 2 .* is gone from its log, too"):
            restored(engine, versions=range(3, 6))
        assert published_files(table) == {}
        restored(engine)
    assert published_files(table) == committed_files(table)


@pytest.mark.parametrize(("version", "command"), [(4, "repair"), (HEAD + 1, "adopt")])
def test_other_bytes_in_the_tables_own_log_change_nothing(
    lake: Catalog, tmp_path: Path, version: int, command: str
) -> None:
    table = lived(lake, tmp_path)
    with mirror_of(lake) as engine:
        engine.run(once=True)
        (log_of(table) / commit_name(2)).unlink()
        (log_of(table) / commit_name(version)).write_bytes(b"{}\n")
        before = objects(store_at(table.location, StorageSettings())), engine.status("t")
        with pytest.raises(Diverged, match=commit_name(version)) as raised:
            restored(engine)
        assert f"deltamirror {command} t" in raised.value.hint
        assert (objects(store_at(table.location, StorageSettings())), engine.status("t")) == before


def test_nothing_is_restored_while_the_table_is_paused(lake: Catalog, tmp_path: Path) -> None:
    table = lived(lake, tmp_path)
    with mirror_of(lake) as engine:
        engine.run(once=True)
        (log_of(table) / commit_name(2)).unlink()
        lake.pause("t")
        before = engine.status("t")
        with pytest.raises(Refused, match="paused"):
            restored(engine)
        assert engine.status("t") == before


def test_at_its_own_location_what_was_not_published_is_left_to_the_mirror(lake: Catalog, tmp_path: Path) -> None:
    table = lived(lake, tmp_path)
    with mirror_of(lake) as engine:
        with pytest.raises(Refused, match="up to nothing"):
            restored(engine)
        engine.mirror("t", 3)
        with pytest.raises(Refused, match="up to version 3"):
            restored(engine, versions=range(2, 6))
    assert len(published_files(table)) == 4


@pytest.mark.parametrize(
    ("versions", "error"),
    [
        (range(3, HEAD + 2), NotFound),
        (range(99, 100), NotFound),
        (range(-1, 3), NotFound),
        (range(5, 5), InvalidInput),
    ],
)
def test_versions_that_are_not_there_are_refused(
    lake: Catalog, tmp_path: Path, versions: range, error: type[DeltaMirrorError]
) -> None:
    lived(lake, tmp_path)
    with pytest.raises(error):
        rebuild(lake.database, "t", to=place(tmp_path), versions=versions)
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("where", ["other", "other/inside", "home/t", "home/t/inside", "home", "."])
def test_a_location_that_meets_a_table_of_the_catalog_is_refused(lake: Catalog, tmp_path: Path, where: str) -> None:
    lived(lake, tmp_path)
    make_table(lake, tmp_path, "other")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidLocation, match="location of table"):
        rebuild(lake.database, "t", to=place(tmp_path, where))
    assert sorted(tmp_path.rglob("*")) == before
