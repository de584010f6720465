"""What a log holds beside its commits, and misleads readers: found by what it says, and moved out of their sight."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.delta.lastcheckpoint import LastCheckpoint, decode, encode
from deltamirror.errors import Diverged, LeaseLost, LogChanged, NotFound
from deltamirror.ops.reconcile.examination import Look
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.ops.reconcile.repair import Repaired, repair
from deltamirror.ops.reconcile.shortcuts import Shortcuts
from deltamirror.txnlog.queue.expected_objects import kept_log
from deltamirror.txnlog.queue.leases import release, take
from deltamirror.work import Lane
from tests.support.imports.adoptions import PLAIN, adopted, delta_rs_appends, logs_of, mirror
from tests.support.lakes.lake import opened, paths
from tests.support.lakes.moved import lake_in, lake_of_test
from tests.support.mirrors.local import append, committed_files, log_of, make_table, mirror_of, published_files
from tests.support.mirrors.reconcilers import reconciled, reconciler_of, reconciling

pytestmark = [pytest.mark.requirement("R39"), pytest.mark.requirement("R56")]

BOTH = pytest.mark.parametrize("strategy", [Strategy.SMART, Strategy.FULL])
INTERVAL = {"delta.checkpointInterval": "2", **PLAIN}


@pytest.fixture
def engine(lake: Catalog) -> Iterator[MirrorEngine]:
    with reconciling(lake) as found:
        yield found


@pytest.fixture(scope="module")
def made_lake(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog and a table at version 5 whose newest checkpoint is that of version 4."""
    folder = tmp_path_factory.mktemp("made")
    with lake_in(folder, made_catalogs) as lake, reconciling(lake) as engine:
        append(make_table(lake, folder, properties=INTERVAL), 5)
        mirror(engine)
    return folder


@pytest.fixture
def table(lake: Catalog) -> Table:
    """A table at version 5 whose newest checkpoint is that of version 4."""
    return lake.table("t")


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a catalog, with that table in it if a test has it."""
    return lake_of_test(request, tmp_path, made="made_lake")


def seen(table: Table) -> tuple[int, list[str]]:
    """The version and the files that delta-rs sees."""
    found = deltalake.DeltaTable(log_of(table).parent)
    return found.version(), sorted(uri.rpartition("/")[2] for uri in found.file_uris())


def assert_seen(table: Table) -> None:
    assert seen(table) == (table.info().head, paths(table))


def repaired(engine: MirrorEngine, **options: bool) -> Repaired:
    with logs_of(engine) as logs:
        return repair(logs, "t", **options)


def saved(table: Table) -> list[str]:
    return sorted(path.name.rpartition(".")[0] for path in log_of(table).glob("_deltamirror/*"))


@BOTH
@pytest.mark.parametrize("version", [5, 9], ids=["at the head", "beyond it"])
def test_a_pointer_that_leads_nowhere_is_moved_aside_and_written_again(
    engine: MirrorEngine, table: Table, strategy: Strategy, version: int
) -> None:
    pointer = log_of(table) / "_last_checkpoint"
    before = pointer.read_bytes()
    pointer.write_bytes(encode(LastCheckpoint(version=version, size=1)))
    found, _ = reconciled(engine, strategy)
    assert (found.misleading, found.checkpoints, found.left) == (("_delta_log/_last_checkpoint",), (4,), 0)
    assert pointer.read_bytes() == before
    assert saved(table) == ["_last_checkpoint"]
    assert_seen(table)
    append(table, 2)
    mirror(engine)
    assert decode(pointer.read_bytes()).version == 6


def test_a_pointer_is_moved_aside_though_there_is_no_checkpoint_to_point_to(
    lake: Catalog, tmp_path: Path, engine: MirrorEngine
) -> None:
    table = make_table(lake, tmp_path)
    append(table, 2)
    mirror(engine)
    pointer = log_of(table) / "_last_checkpoint"
    pointer.write_bytes(b'{"version":1,"size":1}')
    assert reconciled(engine, Strategy.SMART)[0].misleading == ("_delta_log/_last_checkpoint",)
    assert not pointer.exists()
    assert_seen(table)


def test_a_pointer_that_a_checkpoint_replaced_since_it_was_judged_stays(
    engine: MirrorEngine, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    pointer = log_of(table) / "_last_checkpoint"
    ours, times = pointer.read_bytes(), pointer.stat()
    pointer.write_bytes(b'{"version":99,"size":1}'.ljust(len(ours)))
    os.utime(pointer, ns=(times.st_atime_ns, times.st_mtime_ns))
    with engine.database.read() as connection:
        log = kept_log(connection, "t")
    with logs_of(engine) as logs, logs.turn(log, waits=False) as turn:
        findings = logs.examine(log, Look(full=True))
        assert [each.meta.key for each in findings.misleading] == ["_delta_log/_last_checkpoint"]
        with replaced(pointer) as another:  # a file of the same size and, to the second, of the same time
            another.write_bytes(ours)
            os.utime(another, ns=(times.st_atime_ns, times.st_mtime_ns + 1_000_000))
        assert logs.set_aside(log, findings, turn, waits=False) == ()
    assert pointer.read_bytes() == ours
    assert "taken away" not in caplog.text


def test_a_checkpoint_that_comes_during_a_comparison_beside_one_that_misleads_keeps_its_pointer(
    engine: MirrorEngine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = take(engine.database, 1, lane=Lane.CHECKPOINTS, owner="another", seconds=3600)
    assert lease is not None
    append(table, 1)
    mirror(engine)
    log, wrong = log_of(table), f"{6:020}.checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet"
    shutil.copy(log / f"{4:020}.checkpoint.parquet", log / wrong)
    judged = Shortcuts.pointer

    def after_a_checkpoint(*arguments: Any) -> Any:
        if not (log / f"{6:020}.checkpoint.parquet").exists():
            release(engine.database, [lease])
            mirror(engine)
        return judged(*arguments)

    monkeypatch.setattr(Shortcuts, "pointer", after_a_checkpoint)
    assert reconciled(engine, Strategy.SMART)[0].misleading == (f"_delta_log/{wrong}",)
    assert decode((log / "_last_checkpoint").read_bytes()).version == 6
    assert_seen(table)


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """Another file, which takes the place of this one."""
    another = file.with_name("another.tmp")
    yield another
    another.rename(file)


def test_a_pointer_is_not_moved_aside_while_a_checkpoint_is_written(engine: MirrorEngine, table: Table) -> None:
    pointer = log_of(table) / "_last_checkpoint"
    before, wrong = pointer.read_bytes(), b'{"version":99,"size":1}'
    pointer.write_bytes(wrong)
    lease = take(engine.database, 1, lane=Lane.CHECKPOINTS, owner="another", seconds=3600)
    assert lease is not None
    with engine.database.read() as connection:
        log = kept_log(connection, "t")
    busy = pytest.raises(LeaseLost, match="another process writes a checkpoint of table 't'")
    with reconciler_of(engine) as (reconciler, _), busy:
        reconciler.look(log)
    assert (pointer.read_bytes(), saved(table)) == (wrong, [])
    release(engine.database, [lease])
    assert reconciled(engine, Strategy.SMART)[0].left == 0
    assert (pointer.read_bytes(), saved(table)) == (before, ["_last_checkpoint"])


def test_a_pointer_that_repeats_something_else_than_its_checkpoint_is_written_again(
    lake: Catalog, tmp_path: Path, engine: MirrorEngine
) -> None:
    table = make_table(lake, tmp_path, properties={"delta.checkpointInterval": "2", "delta.checkpointPolicy": "v2"})
    append(table, 2)
    mirror(engine)
    pointer = log_of(table) / "_last_checkpoint"
    before = pointer.read_bytes()
    told = decode(before).pointer
    assert told is not None
    assert told.v2_checkpoint is not None
    assert told.v2_checkpoint.sidecar_files
    sparing = LastCheckpoint(
        version=2,
        size=told.size,
        v2_checkpoint=type(told.v2_checkpoint)(
            path=told.v2_checkpoint.path,
            size_in_bytes=told.v2_checkpoint.size_in_bytes,
            modification_time=told.v2_checkpoint.modification_time,
            sidecar_files=(),
        ),
    )
    pointer.write_bytes(encode(sparing))
    assert reconciled(engine, Strategy.SMART)[0].checkpoints == (2,)
    assert pointer.read_bytes() == before


def test_a_later_checkpoint_of_somebody_else_that_says_what_the_database_says_is_kept(
    engine: MirrorEngine, table: Table
) -> None:
    deltalake.DeltaTable(log_of(table).parent).create_checkpoint()
    before = {path.name: path.read_bytes() for path in log_of(table).iterdir()}
    assert decode(before["_last_checkpoint"]).version == 5
    found, _ = reconciled(engine, Strategy.FULL)
    assert (found.misleading, found.checkpoints, found.repaired) == ((), (), 0)
    assert {path.name: path.read_bytes() for path in log_of(table).iterdir()} == before


@pytest.fixture
def left(engine: MirrorEngine, table: Table) -> Path:
    """A log that delta-rs committed to and wrote a checkpoint of, and whose foreign commits were moved out since."""
    log = log_of(table)
    delta_rs_appends(table, 1)
    delta_rs_appends(table, 2)
    deltalake.DeltaTable(log.parent).create_checkpoint()
    assert reconciled(engine, Strategy.FULL)[0].foreign == (6, 7)
    assert (log / f"{7:020}.checkpoint.parquet").exists()
    for version in (6, 7):
        (log / f"{version:020}.json").unlink()
    return log


def test_the_checkpoint_of_commits_that_were_moved_out_is_moved_out_by_a_repair(
    engine: MirrorEngine, table: Table, left: Path
) -> None:
    done = repaired(engine)
    assert done.misleading == (f"_delta_log/{7:020}.checkpoint.parquet", "_delta_log/_last_checkpoint")
    assert saved(table) == [f"{7:020}.checkpoint.parquet", "_last_checkpoint"]
    assert_seen(table)
    append(table, 2)
    mirror(engine)
    assert_seen(table)
    assert published_files(table) == committed_files(table)
    assert reconciled(engine, Strategy.FULL)[0].misleading == ()


def test_a_checkpoint_at_or_below_the_head_that_disagrees_is_found_by_what_it_says(
    lake: Catalog, engine: MirrorEngine, table: Table, left: Path
) -> None:
    with lake.database.write() as session:  # somebody follows the guide, but for the repair
        session.connection.exec_driver_sql("UPDATE dl_tables SET quarantined_at = NULL, quarantine_reason = NULL")
        session.connection.exec_driver_sql("UPDATE dl_heads SET diverged_version = NULL")
    append(table, 2)
    mirror(engine)
    assert seen(table) != (7, paths(table))
    found, _ = reconciled(engine, Strategy.SMART)
    assert f"_delta_log/{7:020}.checkpoint.parquet" in found.misleading
    assert_seen(table)


def test_a_pointer_beyond_the_head_keeps_no_process_from_committing_and_a_repair_ends_it(
    lake: Catalog, engine: MirrorEngine, table: Table, sqlite_lake: str
) -> None:
    (log_of(table) / "_last_checkpoint").write_bytes(encode(LastCheckpoint(version=9, size=1)))
    assert repaired(engine).misleading == ("_delta_log/_last_checkpoint",)
    with opened(sqlite_lake) as another:
        append(another.table("t"))
    mirror(engine)
    assert_seen(table)
    assert engine.status("t")[0].state == "active"


def test_a_wrong_checksum_is_moved_aside_where_none_are_written(lake: Catalog, table: Table) -> None:
    wrong = log_of(table) / f"{5:020}.crc"
    wrong.write_bytes(wrong.read_bytes().replace(b'"numFiles":5', b'"numFiles":6'))
    with mirror_of(lake, checksums=False) as engine:
        assert reconciled(engine, Strategy.FULL)[0].misleading == (f"_delta_log/{wrong.name}",)
    assert not wrong.exists()
    assert saved(table) == [wrong.name]


def theirs(table: Table, name: str, *, of: int) -> Path:
    """A checkpoint of a version under the name of another, with the time of what was there before all of it."""
    target = log_of(table) / name
    shutil.copy(log_of(table) / f"{of:020}.checkpoint.parquet", target)
    os.utime(target, (0, 0))
    return target


def test_a_checkpoint_that_readers_begin_with_is_judged_at_once_however_old_its_file_is(
    engine: MirrorEngine, table: Table
) -> None:
    wrong = theirs(table, f"{5:020}.checkpoint.parquet", of=4)
    assert seen(table) != (5, paths(table))
    assert reconciled(engine, Strategy.SMART)[0].misleading == (f"_delta_log/{wrong.name}",)
    assert_seen(table)


def test_an_older_checkpoint_of_somebody_else_is_judged_when_the_samples_come_round(
    engine: MirrorEngine, table: Table
) -> None:
    append(table, 4)
    mirror(engine)
    assert reconciled(engine, Strategy.SMART)[0].misleading == ()  # of versions 0 to 4
    wrong = theirs(table, f"{3:020}.checkpoint.parquet", of=4)
    rounds = [reconciled(engine, Strategy.SMART)[0].misleading for _ in range(2)]
    assert rounds == [(), (f"_delta_log/{wrong.name}",)]
    assert saved(table) == [wrong.name]


def test_what_was_judged_is_not_read_again_by_the_same_process_unless_it_changes(
    engine: MirrorEngine, table: Table
) -> None:
    deltalake.DeltaTable(log_of(table).parent).create_checkpoint()
    found = log_of(table) / f"{5:020}.checkpoint.parquet"
    os.utime(found, (0, 0))
    with reconciler_of(engine) as (reconciler, inspector):
        for looks, times in enumerate([(0, 0), (0, 0), (1, 1)], 1):
            os.utime(found, times)
            before = len(inspector.reads)
            assert reconciler.run(Strategy.SMART, ["t"]).tables[0].misleading == ()
            assert (f"_delta_log/{found.name}" in inspector.reads[before:]) == (looks != 2)


@pytest.mark.parametrize("data", [b"", b"PAR1 and something else"], ids=["emptied", "of another size"])
def test_a_checkpoint_of_ours_is_judged_by_its_size_whatever_its_time_is(
    engine: MirrorEngine, table: Table, data: bytes
) -> None:
    append(table, 4)
    mirror(engine)
    reconciled(engine, Strategy.SMART)  # versions 0 to 4: the next sample has others
    ours = log_of(table) / f"{4:020}.checkpoint.parquet"
    before, found = ours.read_bytes(), ours.stat()
    ours.write_bytes(data)
    os.utime(ours, ns=(found.st_mtime_ns, found.st_mtime_ns))
    assert reconciled(engine, Strategy.SMART)[0].checkpoints == (4,)
    assert ours.read_bytes() == before


ODD_NAMES = (
    "3.json",
    "6.json",
    f"{6:026}.json",
    f"{3:026}.json",
    "99999999999999999999.json",
    "5.checkpoint.parquet",
    f"{4:020}.checkpoint.1.1.parquet",
    "6.crc",
    "2.3.compacted.json",
)


@BOTH
def test_names_that_only_spark_takes_for_log_files_are_moved_aside_and_stop_no_table(
    engine: MirrorEngine, table: Table, strategy: Strategy
) -> None:
    log = log_of(table)
    before = {path.name for path in log.iterdir()}
    for name in ODD_NAMES:
        shutil.copy(log / f"{5:020}.json", log / name)
        os.utime(log / name, (0, 0))
    found, _ = reconciled(engine, strategy)
    assert sorted(found.misleading) == sorted(f"_delta_log/{name}" for name in ODD_NAMES)
    assert (found.foreign, found.altered, found.left) == ((), (), 0)
    assert {path.name for path in log.iterdir()} == {*before, "_deltamirror"}
    assert saved(table) == sorted(ODD_NAMES)
    assert engine.status("t")[0].state == "active"
    append(table)
    mirror(engine)
    assert_seen(table)


def test_a_misspelt_name_among_the_commits_of_somebody_else_is_no_commit_of_theirs(
    engine: MirrorEngine, table: Table
) -> None:
    delta_rs_appends(table, 1)
    shutil.copy(log_of(table) / f"{6:020}.json", log_of(table) / f"{7:021}.json")
    assert reconciled(engine, Strategy.SMART)[0].foreign == (6,)
    assert saved(table) == [f"{7:021}.json"]
    adopted(engine)
    assert engine.status("t")[0].state == "active"
    assert_seen(table)


LINKED = (f"{3:020}.json", f"{4:020}.checkpoint.parquet", f"{5:020}.crc", "_last_checkpoint")


@BOTH
@pytest.mark.parametrize("target", ["donor", "nothing"])
def test_a_link_in_the_place_of_an_object_is_taken_away_and_the_object_written_again(
    engine: MirrorEngine, table: Table, tmp_path: Path, strategy: Strategy, target: str
) -> None:
    (tmp_path / "donor").write_bytes(b"somebody's")
    before = {path.name: path.read_bytes() for path in log_of(table).iterdir()}
    for name in LINKED:
        (log_of(table) / name).unlink()
        (log_of(table) / name).symlink_to(tmp_path / target)
    (log_of(table) / f"{2:020}.json").unlink()
    (log_of(table) / f"{9:020}.json").symlink_to(tmp_path / target)
    found, _ = reconciled(engine, strategy)
    assert (found.error, found.missing, found.left) == (None, (2, 3), 0)
    assert {path.name: path.read_bytes() for path in log_of(table).iterdir()} == before
    assert not any(path.is_symlink() for path in log_of(table).iterdir())
    assert (tmp_path / "donor").read_bytes() == b"somebody's"
    assert_seen(table)


def test_where_nothing_can_be_moved_aside_the_table_stops_and_the_place_for_it_is_named(
    engine: MirrorEngine, table: Table
) -> None:
    log = log_of(table)
    (log / "_deltamirror").write_bytes(b"no folder")
    shutil.copy(log / f"{5:020}.json", log / "6.json")
    (log / f"{2:020}.json").unlink()
    found, _ = reconciled(engine, Strategy.SMART)
    assert (found.missing, (log / f"{2:020}.json").exists()) == ((2,), True)
    reason = str(engine.status("t")[0].quarantine_reason)
    assert "_delta_log/6.json" in reason
    assert "_delta_log/_deltamirror" in reason
    (log / "_deltamirror").unlink()
    repaired(engine)
    assert saved(table) == ["6.json"]
    assert_seen(table)


def test_an_empty_object_above_the_head_is_foreign(engine: MirrorEngine, table: Table) -> None:
    empty = log_of(table) / f"{6:020}.json"
    empty.touch()
    assert reconciled(engine, Strategy.SMART)[0].foreign == (6,)
    assert engine.status("t")[0].state == "quarantined"
    with pytest.raises(Diverged, match=empty.name):
        repaired(engine)
    with pytest.raises(Diverged, match=f"{empty.name} in the log of table 't' is empty") as refused:
        adopted(engine)
    assert "deltamirror repair t" in refused.value.hint
    empty.unlink()
    repaired(engine)
    append(table)
    mirror(engine)
    assert_seen(table)


@pytest.mark.requirement("R24")
def test_nothing_is_put_behind_a_gap_and_a_lost_log_comes_back_from_its_start(
    engine: MirrorEngine, table: Table
) -> None:
    shutil.rmtree(log_of(table))
    append(table)
    failure = engine.run(once=True).failures[0]
    assert isinstance(failure.error, LogChanged)
    assert (failure.version, failure.key) == (6, f"_delta_log/{5:020}.json")
    assert published_files(table) == {}
    found, _ = reconciled(engine, Strategy.SMART)
    assert (found.missing, found.left) == (tuple(range(6)), 0)
    assert published_files(table) == committed_files(table)
    assert_seen(table)


def test_where_the_whole_place_is_gone_the_table_stops_and_asks(
    engine: MirrorEngine, table: Table, tmp_path: Path
) -> None:
    place, elsewhere = log_of(table).parent, tmp_path / "unmounted"
    place.rename(elsewhere)
    append(table)
    assert engine.run(once=True).failures
    found, _ = reconciled(engine, Strategy.SMART)
    assert isinstance(found.error, NotFound)
    (status,) = engine.status("t")
    assert status.state == "quarantined"
    assert status.quarantine_reason is not None
    assert status.quarantine_reason.startswith(f"nothing is at {table.location}")
    with pytest.raises(NotFound, match="nothing is at") as refused:
        repaired(engine)
    assert "--begin-anew" in refused.value.hint
    assert not place.exists()
    elsewhere.rename(place)
    repaired(engine)
    assert published_files(table) == committed_files(table)
    assert engine.status("t")[0].escalations == 0


def test_a_log_is_begun_anew_where_somebody_says_so(engine: MirrorEngine, table: Table) -> None:
    shutil.rmtree(log_of(table).parent)
    assert reconciled(engine, Strategy.FULL)[0].left == 6
    repaired(engine, begin_anew=True)
    assert published_files(table) == committed_files(table)
    assert_seen(table)
