"""``verify``: whatever becomes of a log, or of the SQL rows, is found and told; what is safe is repaired."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import deltalake
import msgspec
import pyarrow as pa
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings
from deltamirror.deltalog import delta_rs
from deltamirror.deltalog.delta_rs import DELTA_RS
from deltamirror.errors import Diverged, Internal, NotFound
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.ops.reconcile.shortcuts import TableStates
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.ops.verify import readers
from deltamirror.ops.verify.report import ComparedWith, Level, TableVerified
from deltamirror.ops.verify.verifying import Verifier, Versions
from deltamirror.pipeline.run.inspection import LocalInspector
from tests.support.imports.adoptions import adopted
from tests.support.imports.importers import importer_of
from tests.support.lakes.lake import execute
from tests.support.lakes.moved import lake_in, lake_of_test
from tests.support.mirrors.local import local_settings, log_of, mirror_of
from tests.support.mirrors.reconcilers import reconciled, reconciling

pytestmark = [pytest.mark.requirement("R70"), pytest.mark.requirement("R72")]

CHECKPOINT = 3
NEWEST = 4


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake, settings=local_settings()) as found:
        yield found


@pytest.fixture(scope="module")
def made_lake(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog and a table that has rows in five versions, published, with a checkpoint."""
    folder = tmp_path_factory.mktemp("made")
    properties = {"delta.checkpointInterval": str(CHECKPOINT)}
    with lake_in(folder, made_catalogs) as catalog:
        catalog.create_table("t", location=str(folder / "t"), schema="id long", properties=properties)
        for number in range(NEWEST):
            with catalog.transaction() as tx:
                tx.append("t", rows(number))
                tx.set_transaction("t", "loader", number)
            publish(catalog)
    return folder


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Rows in five versions, published, with a checkpoint."""
    return catalog.table("t")


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a catalog, with that table in it if a test has it."""
    return lake_of_test(request, tmp_path, made="made_lake")


def rows(number: int) -> pa.Table:
    return pa.table({"id": [number, number + 1]})


def publish(catalog: Catalog) -> None:
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).failures == []


def verifier(engine: MirrorEngine, level: Level, versions: Versions | None) -> Verifier:
    return Verifier(Logs(engine, LocalInspector(engine.settings)), level=level, versions=versions)


def verified(catalog: Catalog, level: Level = Level.STRICT, versions: Versions | None = None) -> TableVerified:
    with mirror_of(catalog) as engine:
        [found] = verifier(engine, level, versions).run(["t"])
        return found


def repaired(catalog: Catalog, found: TableVerified, **options: bool) -> TableVerified:
    with mirror_of(catalog) as engine, Logs(engine, LocalInspector(engine.settings)) as logs:
        return Verifier(logs, level=Level.STRICT).repaired(found, **{"replace_altered": False, **options})


@pytest.mark.parametrize("level", Level)
def test_a_published_table_has_not_drifted(catalog: Catalog, table: Table, level: Level) -> None:
    found = verified(catalog, level, Versions(every=True))
    assert not found.is_drift, found
    assert (found.error, found.late, found.published) == (None, 0, NEWEST)
    assert found.versions == (0 if level is Level.BASIC else NEWEST + 1)
    assert found.reader == (DELTA_RS if level is Level.PARANOID else "")


def test_deleted_and_changed_objects_are_found_and_repaired(catalog: Catalog, table: Table) -> None:
    log = log_of(table)
    for name in (f"{1:020}.json", f"{CHECKPOINT:020}.checkpoint.parquet", f"{NEWEST:020}.crc"):
        (log / name).unlink()
    changed = log / f"{2:020}.json"
    changed.write_bytes(changed.read_bytes().replace(b'"dataChange":true', b'"dataChange":null'))
    found = verified(catalog)
    assert (found.missing, found.altered, found.checkpoints) == ((1,), (2,), (CHECKPOINT,))
    assert NEWEST in found.checksums
    refused = repaired(catalog, found)
    assert isinstance(refused.error, Diverged)
    again = repaired(catalog, found, replace_altered=True)
    assert (again.is_drift, again.error) == (False, None), again
    assert not verified(catalog, Level.PARANOID, Versions(every=True)).is_drift


def test_a_log_that_is_gone_as_a_whole_is_found_and_repaired(catalog: Catalog, table: Table) -> None:
    shutil.rmtree(log_of(table))
    found = verified(catalog)
    assert (found.missing, found.error) == (tuple(range(NEWEST + 1)), None)
    assert not repaired(catalog, found).is_drift


@pytest.mark.parametrize("level", [Level.BASIC, Level.STRICT])
def test_a_foreign_commit_is_drift_and_is_not_repaired(catalog: Catalog, table: Table, level: Level) -> None:
    (log_of(table) / f"{NEWEST + 1:020}.json").write_bytes((log_of(table) / f"{NEWEST:020}.json").read_bytes())
    found = verified(catalog, level)
    assert (found.foreign, found.is_drift) == ((NEWEST + 1,), True)
    assert isinstance(repaired(catalog, found, replace_altered=True).error, Diverged)


def test_a_table_that_only_waits_is_late_and_has_not_drifted(catalog: Catalog, table: Table) -> None:
    table.append(rows(9))
    found = verified(catalog)
    assert (found.is_drift, found.late) == (False, 1)
    assert repaired(catalog, found).late == 0


def test_checksums_that_wait_behind_a_restore_are_late_and_the_restore_has_none(catalog: Catalog, table: Table) -> None:
    table.restore(version=2)
    publish(catalog)
    assert not verified(catalog).is_late, "the checksum of a restore follows from nothing: none is missing"
    table.restore(version=1)
    for number in (7, 8):
        table.append(rows(number))
    publish(catalog)  # a checkpoint, too: it is not the oldest version without a checksum
    found = verified(catalog)
    assert (found.is_drift, found.late, found.late_checksums) == (False, 0, (NEWEST + 3, NEWEST + 4))
    assert not repaired(catalog, found).is_late
    (log_of(table) / f"{NEWEST + 4:020}.crc").unlink()
    assert verified(catalog).checksums == (NEWEST + 4,), "one that was written before it was lost is no late one"


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE dl_files SET size = 1", "differing.size"),
        ("DELETE FROM dl_files", "only_in_b"),
        ("UPDATE dl_app_transactions SET app_version = 77", "txn"),
    ],
    ids=["size", "files", "transactions"],
)
def test_sql_rows_that_are_not_those_of_the_lines_are_found(
    catalog: Catalog, table: Table, statement: str, kind: str
) -> None:
    execute(catalog, statement)
    [found, *_] = verified(catalog).differences
    assert (found.compared, found.version) == (ComparedWith.PROJECTIONS, NEWEST)
    assert kind in found.counts


def test_a_damaged_row_is_a_difference_of_its_table_and_the_others_are_verified(
    catalog: Catalog, table: Table, tmp_path: Path
) -> None:
    catalog.create_table("u", location=str(tmp_path / "u"), schema="id long").append(rows(1))
    publish(catalog)
    (tmp_path / "u" / "_delta_log" / f"{1:020}.json").unlink()
    execute(catalog, "UPDATE dl_files SET tags = 'zz' WHERE commit_id IN (SELECT min(commit_id) FROM dl_files)")
    with mirror_of(catalog) as engine:
        damaged, other = verifier(engine, Level.STRICT, None).run()
    assert (damaged.table, damaged.error, other.table, other.missing) == ("t", None, "u", (1,))
    assert ComparedWith.PROJECTIONS in {each.compared for each in damaged.differences}
    assert [(each.table, each.column, each.found) for each in damaged.rows] == [("dl_files", "tags", "zz")]


def test_whatever_goes_wrong_with_a_table_is_an_error_of_it_alone(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(TableStates, "at", fail)
    found = verified(catalog)
    assert isinstance(found.error, Internal)
    assert "KeyError" in found.error.message


def test_a_published_version_beyond_the_head_is_drift_and_no_error(catalog: Catalog, table: Table) -> None:
    execute(catalog, "UPDATE dl_tables SET published_version = published_version + 1")
    for level in Level:
        found = verified(catalog, level)
        assert (found.error, found.is_drift, found.late) == (None, True, 0)
        assert "published_version" in {each.column for each in found.rows}


def test_checkpoints_that_readers_pass_over_are_set_aside_as_their_remedy_says(catalog: Catalog, table: Table) -> None:
    log = log_of(table)
    stray = [log / f"{2:020}.checkpoint.{1:010}.{2:010}.parquet", log / f"{1:020}.checkpoint.parquet"]
    shutil.copy(log / f"{CHECKPOINT:020}.checkpoint.parquet", stray[0])
    stray[1].touch()
    found = verified(catalog)
    assert {each.rule for each in found.findings} == {"checkpoint.parts.missing", "checkpoint.empty"}
    assert (found.misleading, stray[0].exists()) == ((), True), "a look changes nothing, nor takes one under way away"
    again = repaired(catalog, found)
    assert (again.is_drift, again.error, [each.exists() for each in stray]) == (False, None, [False, False])


def test_a_checksum_that_another_writer_never_wrote_is_late(catalog: Catalog, tmp_path: Path) -> None:
    there = str(tmp_path / "t")
    for number in range(3):
        deltalake.write_deltalake(there, rows(number), mode="append")
    with importer_of(catalog) as (importer, _):
        importer.run(ImportOrder(location=there, name="t"))
    found = verified(catalog)
    assert (found.is_drift, found.late_checksums) == (False, (0, 1, 2))
    again = repaired(catalog, found)
    assert (again.is_drift, again.is_late) == (False, False)
    deltalake.write_deltalake(there, rows(9), mode="append")
    assert verified(catalog).foreign == (3,)
    with mirror_of(catalog) as engine:
        adopted(engine)
    found = verified(catalog)
    assert (found.is_drift, found.late_checksums) == (False, (3,))
    with reconciling(catalog) as engine:
        reconciled(engine, Strategy.SMART)
    assert not verified(catalog).is_late, "the reconciler writes it"


HISTOGRAM = b'"fileCounts":['
ALTERED = {
    "an empty one": lambda _: b"",
    "a wrong histogram": lambda data: data.replace(HISTOGRAM, HISTOGRAM + b"1", 1),
    "a wrong number": lambda data: data.replace(b'"numFiles":', b'"numFiles":1', 1),
    "another transaction": lambda data: data.replace(b'"txnId":"', b'"txnId":"0', 1),
}


@pytest.mark.parametrize("alter", ALTERED.values(), ids=ALTERED)
def test_a_checksum_that_verify_finds_is_one_that_repair_writes_again(
    catalog: Catalog, table: Table, alter: Callable[[bytes], bytes]
) -> None:
    path = log_of(table) / f"{NEWEST:020}.crc"
    ours = path.read_bytes()
    path.write_bytes(alter(ours))
    assert path.read_bytes() != ours
    found = verified(catalog)
    assert found.checksums == (NEWEST,)
    assert not repaired(catalog, found).is_drift
    assert path.read_bytes() == ours


def test_a_true_checksum_of_another_writer_is_kept(catalog: Catalog, table: Table) -> None:
    path = log_of(table) / f"{NEWEST:020}.crc"
    told = json.loads(path.read_bytes())
    theirs = json.dumps({name: told[name] for name in reversed(told) if name not in ("fileSizeHistogram", "allFiles")})
    path.write_text(theirs)
    assert not verified(catalog, Level.PARANOID).is_drift
    with reconciling(catalog) as engine:
        reconciled(engine, Strategy.FULL)
    assert path.read_text() == theirs


def test_versions_are_compared_that_are_asked_for(catalog: Catalog, table: Table) -> None:
    assert verified(catalog, versions=Versions(1)).versions == 1
    missing = verified(catalog, versions=Versions(NEWEST + 1)).error
    assert isinstance(missing, NotFound)
    assert f"there are 0 to {NEWEST}" in missing.message


def test_a_log_that_breaks_a_rule_is_drift_by_its_state_and_by_the_rule(catalog: Catalog, table: Table) -> None:
    (log_of(table) / f"{NEWEST:020}.json").write_text("{\n")
    found = verified(catalog)
    assert "line.json" in {each.rule for each in found.findings}
    assert ComparedWith.LOG in {each.compared for each in found.differences}


def test_only_a_paranoid_look_misses_the_rows(catalog: Catalog, table: Table) -> None:
    next(Path(log_of(table)).parent.glob("*.parquet")).unlink()
    assert not verified(catalog).is_drift
    [found] = verified(catalog, Level.PARANOID).differences
    assert found.compared is ComparedWith.READER
    assert found.first.startswith(f"{DELTA_RS}: ")


def test_the_own_scan_reads_where_there_is_no_other_reader(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_rs, "find_spec", lambda _: None)
    found = verified(catalog, Level.PARANOID)
    assert (found.reader, found.is_drift) == (readers.OWN_SCAN, False)
    next(Path(log_of(table)).parent.glob("*.parquet")).unlink()
    assert verified(catalog, Level.PARANOID).is_drift


def test_a_table_on_s3_is_read_by_another_reader_with_the_keys_of_the_settings(
    sqlite_lake: str, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    settings = msgspec.structs.replace(local_settings(), storage=s3_settings)
    with (
        Catalog(sqlite_lake, settings=settings) as catalog,
        MirrorEngine(settings=settings, database=catalog.database) as engine,
    ):
        catalog.create_table("t", location=f"s3://{s3_bucket}/t", schema="id long").append(rows(1))
        assert engine.run(once=True).failures == []
        [found] = verifier(engine, Level.PARANOID, None).run(["t"])
    assert (found.reader, found.is_drift, found.error) == (DELTA_RS, False, None), found
