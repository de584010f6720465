"""Checkpoints, sidecars and pointers that are lost or damaged: found, and written again."""

from pathlib import Path

import deltalake
import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.lastcheckpoint import LastCheckpoint, encode
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.ops.reconcile.repair import repair
from tests.support.imports.adoptions import logs_of
from tests.support.mirrors.local import append, log_of, make_table, mirror_of
from tests.support.mirrors.reconcilers import reconciled, reconciling

pytestmark = [pytest.mark.requirement("R56"), pytest.mark.default_on("sqlite")]

BOTH = pytest.mark.parametrize("strategy", [Strategy.SMART, Strategy.FULL])
V2 = {"delta.checkpointPolicy": "v2"}


def table_with_checkpoints(catalog: Catalog, folder: Path, *, properties: dict[str, str] | None = None) -> Table:
    """A table with checkpoints of the versions 2 and 4."""
    table = make_table(catalog, folder, properties={"delta.checkpointInterval": "2", **(properties or {})})
    for count in (3, 2):
        append(table, count)
        with mirror_of(catalog) as engine:
            assert engine.run(once=True).failures == []
    return table


def checkpoints(table: Table) -> dict[str, bytes]:
    """The files of checkpoints and the pointer, by name."""
    found = [
        *log_of(table).glob("*.checkpoint*"),
        *log_of(table).glob("_sidecars/*"),
        log_of(table) / "_last_checkpoint",
    ]
    return {path.name: path.read_bytes() for path in found if path.is_file()}


def one_of(table: Table, pattern: str) -> Path:
    [path] = log_of(table).glob(pattern)
    return path


@BOTH
@pytest.mark.parametrize("damage", ["gone", "other bytes"])
def test_a_checkpoint_is_written_again_though_there_is_a_newer_one(
    catalog: Catalog, tmp_path: Path, strategy: Strategy, damage: str
) -> None:
    table = table_with_checkpoints(catalog, tmp_path)
    before = checkpoints(table)
    assert len(before) == 3
    older = one_of(table, f"{2:020}.checkpoint.parquet")
    older.unlink() if damage == "gone" else older.write_bytes(b"PAR1 is not all of it PAR1")
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.checkpoints, found.missing, found.repaired, found.left) == ((2,), (), 1, 0)
        assert checkpoints(table) == before
        assert reconciled(engine, strategy)[0].checkpoints == ()
    assert len(deltalake.DeltaTable(log_of(table).parent, version=3).file_uris()) == 3


def test_what_cannot_be_written_again_is_said_to_be_left_and_not_forgotten_for_a_newer_one(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = table_with_checkpoints(catalog, tmp_path)
    before = checkpoints(table)
    older = one_of(table, f"{2:020}.checkpoint.parquet")
    older.unlink()
    older.mkdir()
    with reconciling(catalog) as engine:
        found, _ = reconciled(engine, Strategy.FULL)
        assert (found.checkpoints, found.repaired, found.left) == ((2,), 0, 1)
        with catalog.database.write() as session:  # as if the folder came after the comparison
            session.connection.exec_driver_sql("UPDATE dl_tables SET quarantined_at = NULL, quarantine_reason = NULL")
        append(table, 1)
        engine.run(once=True)
        assert one_of(table, f"{6:020}.checkpoint.parquet").is_file()
        assert reconciled(engine, Strategy.INCREMENTAL)[0].left == 1
        older.rmdir()
        engine.run(once=True)
        assert reconciled(engine, Strategy.FULL)[0].left == 0
    assert checkpoints(table).items() > (before.items() - {("_last_checkpoint", before["_last_checkpoint"])})


SIDECARS = {
    (Strategy.SMART, "gone", 4),
    (Strategy.SMART, "other bytes", 2),
    (Strategy.FULL, "shorter", 2),
    (Strategy.FULL, "other bytes", 4),
}


@pytest.mark.default_when(parameters=lambda those: (those["strategy"], those["damage"], those["version"]) in SIDECARS)
@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize("damage", ["gone", "shorter", "other bytes"])
@BOTH
def test_a_sidecar_is_written_again_with_its_checkpoint(
    lake: Catalog, tmp_path: Path, strategy: Strategy, damage: str, version: int
) -> None:
    table = table_with_checkpoints(lake, tmp_path, properties=V2)
    before = checkpoints(table)
    assert len(before) == 5
    sidecar = one_of(table, f"_sidecars/{version:020}.*")
    data = sidecar.read_bytes()
    if damage == "gone":
        sidecar.unlink()
    else:
        sidecar.write_bytes(data[:-1] if damage == "shorter" else data[:20] + bytes([data[20] ^ 1]) + data[21:])
    with reconciling(lake) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.checkpoints, found.repaired, found.left) == ((version,), 1, 0)
        assert reconciled(engine, Strategy.FULL)[0].checkpoints == ()
    assert sidecar.read_bytes() == data
    assert len(deltalake.DeltaTable(log_of(table).parent, version=version).file_uris()) == version


CUT, WRONG = b'{"version":4,', b'{"version":4,"size":1,"checksum":"0"}'
BEHIND = encode(LastCheckpoint(version=2, size=4))
POINTERS = {(Strategy.SMART, None), (Strategy.FULL, CUT), (Strategy.SMART, WRONG), (Strategy.FULL, BEHIND)}


@pytest.mark.default_when(
    parameters=lambda those: (
        (those["strategy"], those["damage"]) in POINTERS and (not those["properties"] or those["damage"] == BEHIND)
    )
)
@BOTH
@pytest.mark.parametrize("damage", [None, CUT, WRONG, BEHIND])
@pytest.mark.parametrize("properties", [{}, V2], ids=["classic", "V2"])
def test_the_pointer_is_written_again(
    lake: Catalog, tmp_path: Path, strategy: Strategy, damage: bytes | None, properties: dict[str, str]
) -> None:
    table = table_with_checkpoints(lake, tmp_path, properties=properties)
    before = checkpoints(table)
    pointer = log_of(table) / "_last_checkpoint"
    pointer.unlink() if damage is None else pointer.write_bytes(damage)
    with reconciling(lake) as engine:
        found, _ = reconciled(engine, strategy)
        assert (found.checkpoints, found.repaired, found.left) == ((4,), 1, 0)
        assert reconciled(engine, strategy)[0].checkpoints == ()
    assert checkpoints(table) == before


def test_a_repair_writes_all_of_it_again(lake: Catalog, tmp_path: Path) -> None:
    table = table_with_checkpoints(lake, tmp_path, properties=V2)
    before = checkpoints(table)
    for path in (one_of(table, f"_sidecars/{2:020}.*"), one_of(table, f"{4:020}.checkpoint.*")):
        path.unlink()
    with mirror_of(lake) as engine, logs_of(engine) as logs:
        assert sorted(repair(logs, "t").checkpoints) == [2, 4]
        assert repair(logs, "t").checkpoints == ()
    # The file that names a sidecar says when that was written: a sidecar that is new has a new one.
    assert {name for name in before if "sidecar" in name or "_last" in name} <= checkpoints(table).keys()
