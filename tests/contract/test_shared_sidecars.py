"""Checkpoints that share sidecars: what is lost of one is lost of all, and all are made good together."""

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import CleanupSettings, ReconcileSettings, StorageSettings
from deltamirror.delta import names
from deltamirror.deltalog.checkpoint_pieces import named_sidecars
from deltamirror.deltalog.comparison import list_log
from deltamirror.deltalog.expiry import is_usable
from deltamirror.deltalog.retention import DAY
from deltamirror.errors import LogChanged
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.ops.reconcile.repair import repair
from deltamirror.ops.verify.report import Level
from deltamirror.ops.verify.verifying import Verifier
from deltamirror.steps import Step
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.imports.adoptions import logs_of
from tests.support.imports.importers import imported
from tests.support.lakes.aging import age, log_names, store_of
from tests.support.lakes.lake import add, execute, opened, paths
from tests.support.lakes.moved import lake_in, moved
from tests.support.mirrors.local import local_settings, log_of, make_table
from tests.support.mirrors.reconcilers import reconciled
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.requirement("R56"), pytest.mark.requirement("R9"), pytest.mark.default_on("sqlite")]

PROPERTIES = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}
VERSIONS = (2, 4, 6, 8)
"""Those with checkpoints, each of which names the sidecars of the ones before."""
SETTINGS = replace(
    local_settings(checkpoint_sidecar_actions=4),
    cleanup=CleanupSettings(enabled=False),
    reconcile=ReconcileSettings(interval=0.0, sample=1),
)


@pytest.fixture(scope="module")
def shared_lake(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog, ``lake.db``, and a table whose checkpoints share sidecars."""
    folder = tmp_path_factory.mktemp("shared")
    with (
        lake_in(folder, made_catalogs) as catalog,
        MirrorEngine(settings=SETTINGS, database=catalog.database) as engine,
    ):
        table = make_table(catalog, folder, properties=PROPERTIES)
        for _ in VERSIONS:
            grow(table, engine)
        assert [len(each) for each in sidecars_of(table).values()] == [2, 4, 6, 8]
    return folder


@pytest.fixture
def lake(shared_lake: Path, tmp_path: Path) -> Iterator[Catalog]:
    """A copy of it, for a test to damage."""
    moved(shared_lake, tmp_path)
    with opened(f"sqlite:///{tmp_path / 'lake.db'}") as found:
        yield found


@pytest.fixture
def engine(lake: Catalog) -> Iterator[MirrorEngine]:
    with MirrorEngine(settings=SETTINGS, database=lake.database) as found:
        yield found


@pytest.fixture
def table(lake: Catalog) -> Table:
    return lake.table("t")


def grow(table: Table, engine: MirrorEngine) -> None:
    """Two versions with files behind all others, and a checkpoint."""
    for _ in range(2):
        version = table.info().head + 1
        table.append([add(f"f-{version:02}-{n}.parquet", stats='{"numRecords":1}') for n in range(3)])
    assert engine.run(once=True).failures == []


def manifests_of(table: Table) -> dict[int, Path]:
    """The checkpoints in the log, of which each version has one at most."""
    found = list(log_of(table).glob("*.checkpoint.*.json"))
    assert len({path.name[:20] for path in found}) == len(found)
    return {int(path.name[:20]): path for path in sorted(found)}


def sidecars_of(table: Table) -> dict[int, list[str]]:
    """What each of them names."""
    store = store_of(table)
    listed = {meta.key: meta for meta in list_log(store).others.values()}
    return {
        version: named_sidecars(store, listed[f"{names.LOG_DIRECTORY}/{path.name}"])
        for version, path in manifests_of(table).items()
    }


def damaged(table: Table, damage: str, *, version: int = 2) -> str:
    """A sidecar that was made for a version, which is damaged from here on; its name."""
    path = min((log_of(table) / "_sidecars").glob(f"{version:020}.*"))
    data = path.read_bytes()
    match damage:
        case "gone":
            path.unlink()
        case "shorter":
            path.write_bytes(data[:-1])
        case "other bytes":
            path.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])
    return path.name


def assert_sound(engine: MirrorEngine, table: Table, *readers: Reader, versions: tuple[int, ...] = VERSIONS) -> None:
    """Every checkpoint that a reader may choose is whole, and says what the database says."""
    assert tuple(manifests_of(table)) == versions
    with logs_of(engine) as logs:
        [verified] = Verifier(logs, level=Level.STRICT).run([table.name])
    assert (verified.error, verified.findings) == (None, ())  # of the rules that `validate_log` holds a log against
    # Aging moves the times in SQL away from those in the lines.
    assert {each.column for each in verified.rows} <= {"committed_at"}
    assert not dataclasses.replace(verified, rows=()).is_drift, verified
    assert reconciled(engine, Strategy.FULL)[0].misleading == ()
    for reader in readers:
        for version in range(versions[0], table.info().head + 1):
            assert reader.snapshot(log_of(table).parent, version).paths == paths(table, version=version)


def test_checkpoints_share_sidecars_and_readers_open_them(
    engine: MirrorEngine, table: Table, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    first, *_, last = sidecars_of(table).values()
    assert set(first) < set(last)
    assert_sound(engine, table, delta_rs, duckdb_delta)


@pytest.mark.parametrize(
    ("strategy", "damage"),
    [
        (Strategy.SMART, "gone"),
        (Strategy.SMART, "shorter"),
        (Strategy.FULL, "gone"),
        (Strategy.FULL, "other bytes"),
    ],
)
def test_all_checkpoints_that_share_a_lost_sidecar_are_written_again(
    engine: MirrorEngine,
    table: Table,
    delta_rs: Reader,
    duckdb_delta: Reader,
    strategy: Strategy,
    damage: str,
) -> None:
    lost = damaged(table, damage, version=4)
    before = manifests_of(table)
    kept = before[2].read_bytes()
    found, _ = reconciled(engine, strategy)
    assert (found.checkpoints, found.left, found.error) == ((4, 6, 8), 0, None)
    assert {key.rpartition("/")[2] for key in found.misleading} == {before[version].name for version in (4, 6, 8)}
    assert manifests_of(table)[2].read_bytes() == kept
    aside = {path.name.rpartition(".")[0] for path in (log_of(table) / "_deltamirror").iterdir()}
    assert aside == {before[version].name for version in (4, 6, 8)}
    assert all(
        lost not in named or (log_of(table) / "_sidecars" / lost).is_file() for named in sidecars_of(table).values()
    )
    assert_sound(engine, table, delta_rs, duckdb_delta)


@pytest.mark.parametrize("damage", ["gone", "other bytes"])
def test_a_repair_leaves_only_checkpoints_that_are_whole(
    engine: MirrorEngine, table: Table, delta_rs: Reader, duckdb_delta: Reader, damage: str
) -> None:
    damaged(table, damage)
    damaged(table, "gone", version=6)
    with logs_of(engine) as logs:
        assert repair(logs, "t").checkpoints == VERSIONS
        assert repair(logs, "t").checkpoints == ()
    assert_sound(engine, table, delta_rs, duckdb_delta)


def test_a_manifest_that_was_altered_does_not_stay_beside_the_one_that_is_written_again(
    engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    path = manifests_of(table)[6]
    path.write_bytes(path.read_bytes() + b"\n")
    damaged(table, "gone", version=2)
    found, _ = reconciled(engine, Strategy.FULL)
    assert (found.checkpoints, found.left) == (VERSIONS, 0)
    assert_sound(engine, table, delta_rs)


@pytest.mark.parametrize("damage", ["gone", "other bytes"])
def test_the_next_checkpoint_does_not_build_on_a_lost_sidecar_and_the_next_comparison_finds_all_that_share_it(
    engine: MirrorEngine, table: Table, delta_rs: Reader, duckdb_delta: Reader, damage: str
) -> None:
    lost = damaged(table, damage)
    grow(table, engine)
    named = sidecars_of(table)
    assert [lost in each for each in named.values()] == [True, True, True, True, False]
    assert {names.sidecar_version(each) for each in named[10]} == {10}
    assert _attempts(engine, version=10) == 2  # none of the older ones is tried
    found, _ = reconciled(engine, Strategy.SMART)
    assert (found.checkpoints, found.left) == (VERSIONS, 0)
    grow(table, engine)
    assert set(sidecars_of(table)[10]) < set(sidecars_of(table)[12])
    assert_sound(engine, table, delta_rs, duckdb_delta, versions=(*VERSIONS, 10, 12))


def test_a_checkpoint_that_nothing_builds_on_any_more_is_looked_through_however_old_it_is(
    lake: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader
) -> None:
    assert reconciled(engine, Strategy.SMART)[0].checkpoints == ()
    execute(lake, "UPDATE dl_checkpoints SET updated_at = updated_at - :back", back=DAY)
    lost = damaged(table, "other bytes")
    for path in log_of(table).rglob("*.*"):
        os.utime(path, (path.stat().st_mtime - DAY / 1_000,) * 2)
    grow(table, engine)
    assert lost not in sidecars_of(table)[10]
    found, _ = reconciled(engine, Strategy.SMART)
    assert (found.checkpoints, found.left) == (VERSIONS, 0)
    assert_sound(engine, table, delta_rs, versions=(*VERSIONS, 10))


def _attempts(engine: MirrorEngine, *, version: int) -> int:
    """How often a checkpoint was tried."""
    with engine.database.read() as connection:
        query = f"SELECT attempts FROM dl_checkpoints WHERE version = {version}"
        return int(connection.exec_driver_sql(query).scalar_one())


def test_a_repair_that_dies_between_moving_and_recording_is_finished_by_the_next(
    engine: MirrorEngine, table: Table, delta_rs: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(table, "gone")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("deltamirror.txnlog.queue.findings.Turn.take_checkpoint_back", die)
        with pytest.raises(KeyboardInterrupt):
            reconciled(engine, Strategy.FULL)
    assert manifests_of(table) == {}
    found, _ = reconciled(engine, Strategy.SMART)
    assert (found.checkpoints, found.left) == (VERSIONS, 0)
    assert_sound(engine, table, delta_rs)


def test_manifests_stay_where_the_folder_of_sidecars_is_a_link(
    engine: MirrorEngine, table: Table, tmp_path: Path
) -> None:
    before = manifests_of(table)
    (log_of(table) / "_sidecars").rename(tmp_path / "elsewhere")
    (log_of(table) / "_sidecars").symlink_to(tmp_path / "elsewhere")
    found, _ = reconciled(engine, Strategy.FULL)
    assert found.error is not None
    assert manifests_of(table) == before


def test_a_log_that_is_rebuilt_elsewhere_has_sidecars_of_its_own(
    lake: Catalog, engine: MirrorEngine, table: Table, tmp_path: Path, delta_rs: Reader
) -> None:
    store = store_at(str(tmp_path / "again"), StorageSettings())
    rebuild(lake.database, "t", to=store, checkpoints=True)
    sidecars = {meta.key.rpartition("/")[2] for meta in store.list(names.SIDECARS)}
    assert {names.sidecar_version(each) for each in sidecars} == {VERSIONS[-1]}
    assert delta_rs.snapshot(tmp_path / "again").paths == paths(table)


def test_sidecars_of_an_imported_log_are_never_named_again(
    table: Table, tmp_path: Path, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    """Not even those that we wrote, by another catalog."""
    folder = tmp_path / "theirs" / "t"
    shutil.copytree(log_of(table).parent, folder)
    with Catalog(f"sqlite:///{tmp_path / 'again.db'}") as catalog:
        catalog.init()
        imported(catalog, store_at(str(folder), StorageSettings()))
        with MirrorEngine(settings=SETTINGS, database=catalog.database) as engine:
            again = catalog.table("t")
            grow(again, engine)
            assert {names.sidecar_version(each) for each in sidecars_of(again)[10]} == {10}
            grow(again, engine)
            assert set(sidecars_of(again)[10]) < set(sidecars_of(again)[12])
            assert_sound(engine, again, delta_rs, duckdb_delta, versions=(*VERSIONS, 10, 12))


def test_cleaning_keeps_the_sidecars_that_a_checkpoint_names_which_stays(
    lake: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    table.remove(["f-01-0.parquet"])
    table.append([add("z.parquet")])
    assert engine.run(once=True).failures == []  # the checkpoint 10 lacks a sidecar that all others name
    before = sidecars_of(table)
    gone = set(before[8]) - set(before[10])
    assert {names.sidecar_version(each) for each in gone} == {2}
    age(lake, upto=9)
    assert engine.clean("t").log_start == 8
    assert set(before[8]) <= _stored(table)
    assert_sound(engine, table, delta_rs, duckdb_delta, versions=(8, 10))
    grow(table, engine)
    age(lake, upto=11)
    assert engine.clean("t").log_start == 10
    assert _stored(table) == set(before[10]) | set(sidecars_of(table)[12])
    assert not gone & _stored(table)
    assert_sound(engine, table, delta_rs, duckdb_delta, versions=(10, 12))


def _stored(table: Table) -> set[str]:
    return {name.rpartition("/")[2] for name in log_names(store_of(table)) if name.startswith("_sidecars/")}


def test_a_cleaning_while_the_next_checkpoint_is_put_keeps_what_that_one_names(
    lake: Catalog, engine: MirrorEngine, table: Table, delta_rs: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base was read, and the sidecars of the next one are in the log; what names them is not."""
    age(lake, upto=8)
    for number in range(2):
        table.append([add(f"later-{number}.parquet")])
    cleaned: list[int] = []
    enter = Step.__enter__

    def clean_first(step: Step) -> object:
        if step is Step.PUT_MANIFEST and not cleaned:
            cleaned.append(0)
            cleaned[0] = engine.clean("t").log_start
        return enter(step)

    monkeypatch.setattr(Step, "__enter__", clean_first)
    assert engine.run(once=True).failures == []
    assert cleaned == [8]
    assert set(sidecars_of(table)[10]) <= _stored(table)
    assert {names.sidecar_version(each) for each in sidecars_of(table)[10]} >= {2, 4, 6, 8}
    assert_sound(engine, table, delta_rs, versions=(8, 10))


def test_a_log_does_not_come_to_start_with_a_checkpoint_that_nothing_builds_on_any_more(
    lake: Catalog, engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one may build on one before it at this moment, and name sidecars of that."""
    age(lake, upto=7)

    def distrust(store: Store, name: str, digest: bytes) -> bool:
        execute(lake, "UPDATE dl_checkpoints SET digest = NULL WHERE version = 6")
        return is_usable(store, name, digest)

    monkeypatch.setattr("deltamirror.pipeline.service.cleaning.is_usable", distrust)
    before = log_names(store_of(table))
    with pytest.raises(LogChanged):
        engine.clean("t")
    assert (log_names(store_of(table)), table.info().log_start) == (before, 0)
