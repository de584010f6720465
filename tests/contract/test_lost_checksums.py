"""Version checksums that are lost, or tell readers something else: found, and written again."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.checksum import Checksum
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.pipeline.plan import checksum_seeds
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.tables.reading import Snapshot
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add
from tests.support.mirrors.local import append, log_of, make_table, mirror_of
from tests.support.mirrors.reconcilers import reconciled, reconciling

pytestmark = pytest.mark.default_on("sqlite")


def checksum_of(table: Table, version: int) -> Path:
    return log_of(table) / f"{version:020}.crc"


def checksums(table: Table) -> dict[str, bytes]:
    """All that a log has, by name."""
    return {path.name: path.read_bytes() for path in log_of(table).glob("*.crc")}


def touch(path: Path) -> None:
    """Somebody was at it an hour after it was put there."""
    later = time.time() + 3600
    os.utime(path, (later, later))


def test_a_checksum_that_is_missing_since_the_newest_checkpoint_is_written_again(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = make_table(catalog, tmp_path)
    append(table, 14)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    before = checksums(table)
    for version in (4, 10, 12, 13):
        checksum_of(table, version).unlink()
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, Strategy.SMART)
        assert (found.repaired, found.missing, found.left) == (3, (), 0)
    after = checksums(table)
    assert after == {name: data for name, data in before.items() if name != checksum_of(table, 4).name}


@pytest.mark.requirement("R56")
@pytest.mark.default_when(
    parameters=lambda those: (
        those["lake_url"] == "sqlite" and (those["strategy"] is Strategy.SMART) == (those["largest"] == 900)
    )
)
@pytest.mark.parametrize("strategy", [Strategy.SMART, Strategy.FULL])
@pytest.mark.parametrize("largest", [16_000_000, 900], ids=["one chain", "chains that end at large commits"])
def test_a_checksum_that_says_something_else_is_written_again_and_one_that_says_the_same_is_kept(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: Strategy, largest: int
) -> None:
    monkeypatch.setattr("deltamirror.publish.checksums._LARGEST", largest)
    table = make_table(catalog, tmp_path)
    append(table, 6)
    table.append([add(f"{number}.parquet") for number in range(10)])
    append(table, 5)
    with reconciling(catalog) as engine:
        for version in range(13):
            engine.mirror("t", version)
        before = checksums(table)
        assert len(before) == (13 if largest > 900 else 12)
        for version, (said, says) in {3: (b'"numFiles":3', b'"numFiles":4'), 11: (b"{", b"[")}.items():
            path = checksum_of(table, version)
            path.write_bytes(path.read_bytes().replace(said, says, 1))
            touch(path)
        spelled = b" " + checksum_of(table, 5).read_bytes()
        checksum_of(table, 5).write_bytes(spelled)
        touch(checksum_of(table, 5))
        found, _ = reconciled(engine, strategy)
        assert (found.altered, found.repaired, found.left, found.error) == ((), 2, 0, None)
        again, _ = reconciled(engine, strategy)
        assert again.repaired == 0
    after = checksums(table)
    assert after == {**before, checksum_of(table, 5).name: spelled}


@pytest.mark.default_on(*ENGINES)
def test_a_table_with_too_many_files_is_counted_once_however_many_checksums_are_missing(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, counted, count = make_table(lake, tmp_path), list[int](), checksum_seeds.seed_of_state
    append(table, 14)
    with mirror_of(lake) as engine:
        engine.run(once=True)

    def counting(database: Database, table_id: int, name: str, version: int) -> Checksum | None:
        counted.append(version)
        return count(database, table_id, name, version)

    monkeypatch.setattr(checksum_seeds, "_MOST_LISTED", 3)
    monkeypatch.setattr(checksum_seeds, "seed_of_state", counting)
    for version in (11, 12, 13):
        checksum_of(table, version).unlink()
    with reconciling(lake) as engine:
        assert reconciled(engine, Strategy.SMART)[0].repaired == 0
    assert counted == [10]


def test_the_files_of_a_table_with_too_many_are_not_looked_at_to_find_that(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltamirror.publish.checksums._LARGEST", 900)
    table, looked = make_table(catalog, tmp_path), list[int]()
    look = Snapshot.file_numbers

    def looking(taken: Snapshot, *, limit: int) -> pa.Table:
        looked.append(taken.version)
        return look(taken, limit=limit)

    monkeypatch.setattr(Snapshot, "file_numbers", looking)
    table.append([add(f"{number}.parquet") for number in range(10)])  # too large for a checksum
    append(table, 1)
    with mirror_of(catalog) as engine:
        monkeypatch.setattr(checksum_seeds, "_MOST_LISTED", 9)
        for version in range(3):
            engine.mirror("t", version)
        assert (looked, list(checksums(table))) == ([], [checksum_of(table, 0).name])
        monkeypatch.setattr(checksum_seeds, "_MOST_LISTED", 11)
        append(table, 1)
        engine.run(once=True)
    assert (looked, checksum_of(table, 3).exists()) == ([2], True)


def test_a_table_whose_files_are_never_listed_is_not_counted_for_the_list_at_each_version(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = {"delta.dataSkippingNumIndexedCols": "33"}
    table = catalog.create_table("t", location=tmp_path / "t", schema="id long", properties=wide)
    append(table)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        assert b'"allFiles"' not in checksum_of(table, 1).read_bytes()
        monkeypatch.setattr("deltamirror.pipeline.plan.planning.seed_of_state", None)
        append(table)
        assert engine.run(once=True).failures == []
    assert checksum_of(table, 2).is_file()
