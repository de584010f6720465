"""Services write log compaction files where settings or properties ask for it, of published commits alone."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings
from deltamirror.delta import lines
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.ops.maintenance import chores
from deltamirror.ops.validate.validating import validate_log
from deltamirror.ops.verify.report import Level
from deltamirror.ops.verify.verifying import Verifier
from deltamirror.publish.compactions import compacted_lines
from deltamirror.storage.open import store_at
from deltamirror.wiring import open_importer, open_logs
from deltamirror.work import Chore
from tests.support.lakes.aging import age
from tests.support.mirrors.local import local_settings, until
from tests.support.mirrors.maintaining import chore_record, maintaining_service
from tests.support.readers.reader import Reader, assert_same_table

RARELY = {"delta.checkpointInterval": "1000"}


def service(catalog: Catalog, **more: Any) -> AbstractContextManager[MirrorEngine]:
    return maintaining_service(catalog, **{"compact": True, "compact_commits": 3, **more})


def table_of(catalog: Catalog, folder: Path, *, appends: int, name: str = "t", **properties: str) -> Table:
    table = catalog.create_table(
        name, location=str(folder / name), schema="id long", properties={**RARELY, **properties}
    )
    for number in range(appends):
        table.append(pa.table({"id": [number]}))
    return table


def compactions(folder: Path, name: str = "t") -> list[tuple[int, int]]:
    names = (path.name.split(".") for path in (folder / name / "_delta_log").glob("*.compacted.json"))
    return sorted((int(first), int(last)) for first, last, *_ in names)


def is_compacted(engine: MirrorEngine, upto: int, name: str = "t") -> bool:
    found = chore_record(engine, Chore.COMPACT, name)
    return found is not None and found.version == upto


def findings(folder: Path) -> list[str]:
    return [each.rule for each in validate_log(store_at(str(folder / "t"), StorageSettings())).findings]


@pytest.mark.default_on("sqlite", "postgresql")
def test_commits_are_compacted_once_there_are_enough_and_not_again(catalog: Catalog, tmp_path: Path) -> None:
    table = table_of(catalog, tmp_path, appends=7)
    with service(catalog) as engine:
        until(lambda: is_compacted(engine, 5))
        assert compactions(tmp_path) == [(0, 2), (3, 5)]
        found = chore_record(engine, Chore.COMPACT)
        assert found is not None
        assert (found.num_files, found.error_code) == (2, None)
        written = (tmp_path / "t" / "_delta_log" / f"{3:020}.{5:020}.compacted.json").read_bytes()
        assert [type(each).__name__ for each in lines.decode_commit(written)] == ["Add"] * 3
        table.delete("id = 0")
        until(lambda: is_compacted(engine, 8))
    assert compactions(tmp_path) == [(0, 2), (3, 5), (6, 8)]
    assert findings(tmp_path) == []


@pytest.mark.parametrize("by", ["setting", "property"])
def test_nothing_is_compacted_unless_it_is_asked_for(lake: Catalog, tmp_path: Path, by: str) -> None:
    table_of(lake, tmp_path, appends=3, name="left", **{"deltamirror.maintenanceCompact": "false"})
    table_of(lake, tmp_path, appends=3, **({} if by == "setting" else {"deltamirror.maintenanceCompact": "true"}))
    with service(lake, compact=by == "setting") as engine:
        until(lambda: is_compacted(engine, 2))
    assert (compactions(tmp_path), compactions(tmp_path, "left")) == ([(0, 2)], [])


def test_many_bytes_of_commits_are_left_as_they_are(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(lake, tmp_path, appends=8, note="x" * 1_000)
    first, second, third = (sum(len(table.commit_file(start + at)) for at in range(3)) for start in (0, 3, 6))
    assert first > max(second, third)
    monkeypatch.setattr(chores, "MOST_BYTES", max(second, third))
    with service(lake) as engine:
        until(lambda: is_compacted(engine, 8))
    assert compactions(tmp_path) == [(3, 5), (6, 8)]


def test_commits_of_a_checkpoint_are_not_compacted(lake: Catalog, tmp_path: Path) -> None:
    table = table_of(lake, tmp_path, appends=4)
    with MirrorEngine(settings=local_settings(), database=lake.database) as engine:
        engine.run(once=True)
        engine.checkpoint("t")
    table.append(pa.table({"id": [7]}))
    with service(lake) as engine:
        for number in range(4):
            table.append(pa.table({"id": [number]}))
        until(lambda: is_compacted(engine, 8))
    assert compactions(tmp_path) == [(6, 8)]


def test_a_table_that_began_with_a_checkpoint_is_compacted_from_its_first_commit_on(
    lake: Catalog, tmp_path: Path
) -> None:
    table = table_of(lake, tmp_path, appends=3)
    with MirrorEngine(settings=local_settings(), database=lake.database) as engine:
        engine.run(once=True)
        engine.checkpoint("t")
    lake.drop_table("t")
    for version in range(4):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    settings = replace(local_settings(), catalog=lake.settings.catalog)
    with open_importer(lake, settings, runner="local") as importer:
        importer.run(ImportOrder(location=str(tmp_path / "t"), name="t"))
    table = lake.table("t")
    with service(lake) as engine:
        for number in range(6):
            table.append(pa.table({"id": [number]}))
        until(lambda: is_compacted(engine, 8))
    assert compactions(tmp_path) == [(6, 8)]
    assert findings(tmp_path) == []


def test_a_log_with_compactions_is_verified_cleaned_and_its_own_are_not_touched(lake: Catalog, tmp_path: Path) -> None:
    table = table_of(lake, tmp_path, appends=5)
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    theirs = log / f"{0:020}.{2:020}.compacted.json"
    theirs.write_bytes(same := compacted_lines(map(table.commit_file, range(3))) + b"\n")
    with service(lake) as engine:
        until(lambda: is_compacted(engine, 5))
        assert theirs.read_bytes() == same
        with open_logs(engine) as logs:
            [verified] = Verifier(logs, level=Level.STRICT).run(["t"])
            assert (verified.misleading, verified.findings, verified.differences, verified.error) == ((), (), (), None)
        table.append(pa.table({"id": [9]}))
        until(lambda: engine.status("t")[0].lag_versions == 0)
        engine.checkpoint("t")
        age(lake, upto=6, days=40)
        engine.clean("t")
    assert compactions(tmp_path) == []


@pytest.mark.spark
def test_readers_see_the_same_by_compactions(
    lake: Catalog, tmp_path: Path, all_readers: tuple[Reader, ...], delta_spark: Reader
) -> None:
    table = table_of(lake, tmp_path, appends=2, **{"delta.enableDeletionVectors": "true"})
    table.update({"id": "id + 10"}, where="id = 1")
    table.delete("id = 0")
    for number in range(3):
        table.append(pa.table({"id": [number + 20]}))
    with service(lake) as engine:
        until(lambda: is_compacted(engine, 5))
    assert compactions(tmp_path) == [(0, 2), (3, 5)]
    for version in (None, 5, 4):
        assert_same_table([each.snapshot(str(tmp_path / "t"), version, rows=True) for each in all_readers])
    altered = tmp_path / "t" / "_delta_log" / f"{0:020}.{2:020}.compacted.json"
    whole = altered.read_bytes().splitlines(keepends=True)
    altered.write_bytes(b"".join(line for line in whole if b'"add"' not in line))
    assert delta_spark.snapshot(str(tmp_path / "t"), 2).paths == []  # so it is the compaction that it reads
