"""Restore: an earlier version comes back as one more version, or nothing happens."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltamirror import Catalog, Insert, Table, Transaction, Update
from deltamirror.config import StorageSettings
from deltamirror.errors import Conflict, InvalidInput, NotFound, Refused, Unsupported
from deltamirror.storage.open import store_at
from tests.support.imports.importers import imported
from tests.support.lakes.lake import add, opened
from tests.support.lakes.vacuums import History, first_row_deleted
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader

pytestmark = pytest.mark.requirement("R89")

REFERENCE = Path(__file__).parents[1] / "reference/logs/delta-spark-4.4.0/df/_delta_log/00000000000000000012.json"


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    return lake.create_table("t", location=tmp_path / "t", schema="id long, p string", partition_by=["p"])


def rows(*ids: int, p: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": [p] * len(ids)})


def ids(table: Table, version: int | None = None) -> list[int]:
    found: list[int] = table.to_arrow(["id"], version=version).column("id").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("seed", range(3))
def test_any_version_of_a_random_history_comes_back(sqlite_lake: str, tmp_path: Path, seed: int) -> None:
    with opened(sqlite_lake) as catalog, mirror_of(catalog) as engine:
        history = History(catalog, engine, tmp_path, random.Random(seed))
        history.live(10)
        for version in history.chance.sample(range(history.table.info().head), 4):
            history.table.restore(version)
            assert {each.path for each in history.table.snapshot().adds()} == {
                each.path for each in history.table.snapshot(version).adds()
            }
            assert ids(history.table) == ids(history.table, version)


@pytest.mark.parametrize(
    "other",
    [
        lambda tx: tx.append("t", rows(9)),
        lambda tx: tx.overwrite("t", rows(9)),
        lambda tx: tx.delete("t", "id = 2"),
        lambda tx: tx.update("t", {"id": "id + 1"}),
        lambda tx: tx.merge("t", rows(2, 9), ["id"], matched=Update(), not_matched=Insert()),
        lambda tx: tx.set_metadata("t", properties={"delta.appendOnly": True}),
        lambda tx: tx.append("t", [add("a.parquet", partition_values={"p": "a"})]),
    ],
    ids=["append", "overwrite", "delete", "update", "merge", "metadata", "files"],
)
def test_a_table_that_is_restored_takes_no_other_change_in_the_same_transaction(
    lake: Catalog, table: Table, other: Callable[[Transaction], None]
) -> None:
    table.append(rows(1, 2))
    table.overwrite(rows(4))
    tx = lake.transaction()
    tx.restore("t", 1)
    other(tx)
    with pytest.raises(InvalidInput, match="restores 't', and changes it otherwise, too"):
        tx.commit()
    assert (table.info().head, ids(table)) == (2, [4])


def test_its_commit_is_that_of_delta_spark(table: Table) -> None:
    table.append(rows(1, 2))
    table.append(rows(3, p="b"))
    table.overwrite(rows(4))
    done = table.restore(2)
    assert done is not None
    assert ids(table) == [1, 2, 3]
    ours = [json.loads(line) for line in table.commit_file(4).splitlines()]
    theirs = [json.loads(line) for line in REFERENCE.read_bytes().splitlines()]
    # Theirs turns in-commit timestamps off, and has the protocol last.
    assert [*map(next, map(iter, ours))] == ["commitInfo", "metaData", "protocol", "add", "add", "remove"]
    assert {*map(next, map(iter, theirs))} == {"commitInfo", "metaData", "protocol", "add", "remove"}
    info, reference = ours[0]["commitInfo"], theirs[0]["commitInfo"]
    assert list(info) == ["inCommitTimestamp", *reference]
    assert list(info["operationMetrics"]) == list(reference["operationMetrics"])
    assert info["operationParameters"] == reference["operationParameters"]
    assert (info["isolationLevel"], info["isBlindAppend"]) == (reference["isolationLevel"], reference["isBlindAppend"])
    for name in ("add", "remove"):
        first, second = (next(line[name] for line in lines if name in line) for lines in (ours, theirs))
        assert (list(first), first["dataChange"]) == (list(second), second["dataChange"])


def test_a_time_is_a_version(table: Table) -> None:
    table.append(rows(1))
    moment = table.info().head_timestamp
    table.append(rows(2))
    table.restore(as_of=moment)
    assert ids(table) == [1]
    assert table.history(1)[0].parameters == {"version": None, "timestamp": str(moment)}


def test_metadata_comes_back_with_the_files_that_were_written_for_it(table: Table) -> None:
    table.append(rows(1))
    before = table.snapshot()
    table.alter(columns=["more string"], properties={"k": "v"}, features=["deletionVectors"])
    table.append(pa.table({"id": [2], "p": ["a"], "more": ["x"]}))
    table.restore(1)
    after = table.snapshot()
    assert (after.metadata, ids(table)) == (before.metadata, [1])
    assert "deletionVectors" in (after.protocol.writer_features or ())
    table.restore(3)
    assert {(each["id"], each["more"]) for each in table.to_arrow().to_pylist()} == {(1, None), (2, "x")}


def test_a_deletion_vector_goes_and_comes_back(table: Table, lake: Catalog, tmp_path: Path) -> None:
    table.alter(features=["deletionVectors"], properties={"delta.enableDeletionVectors": True})
    table.append(rows(1, 2))
    [whole] = table.snapshot().adds()
    with lake.transaction() as tx:
        tx.stage("t", first_row_deleted(whole, tmp_path / "t", seed=1))
    assert ids(table) == [2]
    table.restore(2)
    assert ids(table) == [1, 2]
    table.restore(3)
    assert ids(table) == [2]
    next((tmp_path / "t").glob("*.bin")).unlink()
    table.restore(2)
    with pytest.raises(NotFound, match=r"1 of 2 files are gone: deletion_vector_"):
        table.restore(3)


def test_row_ids_come_back(lake: Catalog, tmp_path: Path) -> None:
    properties = {"delta.enableRowTracking": True}
    table = lake.create_table("r", location=tmp_path / "r", schema="id long", properties=properties)
    table.append(pa.table({"id": [1, 2]}))
    [first] = table.snapshot().adds()
    table.overwrite(pa.table({"id": [3]}))
    table.restore(1)
    [again] = table.snapshot().adds()
    assert (again.base_row_id, again.default_row_commit_version) == (first.base_row_id, 1)
    table.append(pa.table({"id": [4]}))
    assert Counter(each.base_row_id for each in table.snapshot().adds()) == Counter([0, 3])


def test_clustering_columns_come_back(lake: Catalog, tmp_path: Path) -> None:
    table = lake.create_table("c", location=tmp_path / "c", schema="id long", cluster_by=["id"])
    domain = table.snapshot().domain_metadata()
    table.append(pa.table({"id": [1]}))
    table.restore(0)
    assert (table.snapshot().domain_metadata(), table.to_arrow().num_rows) == (domain, 0)


def test_paths_of_another_writer_keep_their_spelling(lake: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    for value in ("é ü", "b"):
        theirs = pa.table({"id": [1], "p": [value]})
        deltalake.write_deltalake(str(folder), theirs, mode="overwrite", partition_by=["p"])
    imported(lake, store_at(folder.as_uri(), StorageSettings()))
    table = lake.table("t")
    table.restore(0)
    assert table.snapshot().adds()[0].path == table.snapshot(0).adds()[0].path
    assert table.to_arrow().column("p").to_pylist() == ["é ü"]


def test_nothing_is_committed_where_the_table_is_so_already(table: Table) -> None:
    table.append(rows(1))
    assert (table.restore(1), table.info().head) == (None, 1)


def test_files_that_are_gone_are_named_and_nothing_is_committed(table: Table, tmp_path: Path) -> None:
    table.append(rows(1))
    table.overwrite(rows(2))
    [gone] = [path for path in (tmp_path / "t").rglob("*.parquet") if path.as_uri().endswith(first_of(table, 1))]
    gone.unlink()
    with pytest.raises(NotFound, match="cannot be restored to version 1: 1 of 1 files are gone: p=a/part-") as caught:
        table.restore(1)
    assert ("vacuum" in caught.value.hint, table.info().head) == (True, 2)


def first_of(table: Table, version: int) -> str:
    return table.snapshot(version).adds()[0].path.rpartition("/")[2]


def test_a_table_that_is_append_only_loses_no_rows(table: Table) -> None:
    table.append(rows(1))
    table.alter(properties={"delta.appendOnly": True})
    table.append(rows(2))
    with pytest.raises(Refused, match=r"delta\.appendOnly, and a restore to version 1 deletes rows"):
        table.restore(1)
    table.optimize()
    assert (ids(table), len(table.snapshot().adds())) == ([1, 2], 1)


@pytest.mark.parametrize("given", [{}, {"version": 1, "as_of": 5}, {"version": "1"}, {"as_of": object()}])
def test_a_version_or_a_time_has_to_be_given(table: Table, given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        table.restore(**given)  # type: ignore[arg-type]


def test_an_append_meanwhile_conflicts_and_nothing_of_it_is_lost(table: Table, lake: Catalog) -> None:
    table.append(rows(1))
    table.append(rows(2))
    transaction = lake.transaction()
    assert transaction.restore("t", 1)
    table.append(rows(3))
    with pytest.raises(Conflict, match="was added to what the transaction read"):
        transaction.commit()
    assert ids(table) == [1, 2, 3]


def test_delta_rs_and_duckdb_read_a_restored_table(
    table: Table, lake: Catalog, delta_rs: Reader, duckdb_delta: Reader, tmp_path: Path
) -> None:
    table.append(rows(1, 2))
    table.overwrite(rows(3))
    with mirror_of(lake) as engine:
        engine.mirror("t")
        table.restore(1)
        engine.mirror("t")
    for reader in (delta_rs, duckdb_delta):
        seen = [reader.snapshot(tmp_path / "t", version, rows=True) for version in (1, 3)]
        assert seen[0].row_digest == seen[1].row_digest
        assert seen[1].row_count == 2


def test_a_version_with_a_vector_that_has_no_file_is_refused_in_our_words(lake: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    deltalake.write_deltalake(str(folder), pa.table({"id": [1, 2]}))
    first = folder / "_delta_log/00000000000000000000.json"
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    vector = {"storageType": "u", "pathOrInlineDv": "no name", "offset": 1, "sizeInBytes": 36, "cardinality": 1}
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    for line in lines:
        line.get("protocol", {}).update(protocol)
        line.get("add", {}).update({"deletionVector": vector})
    [path] = [line["add"]["path"] for line in lines if "add" in line]
    remove = {"path": path, "dataChange": True, "deletionTimestamp": 1, "deletionVector": vector}
    first.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    first.with_name("00000000000000000001.json").write_text(f"{json.dumps({'remove': remove})}\n")
    imported(lake, store_at(folder.as_uri(), StorageSettings()))
    with pytest.raises(Unsupported, match=r"the file of the deletion vector uno name@1 of .* cannot be told"):
        lake.table("t").restore(0)


_NOTHING_FOUND: dict[str, Callable[[Transaction], object]] = {
    "restore": lambda tx: tx.restore("t", 1),
    "restore by time": lambda tx: tx.restore("t", as_of="2999-01-01"),
    "delete": lambda tx: tx.delete("t", "id = 99"),
    "update": lambda tx: tx.update("t", {"id": "id + 1"}, where="id = 99"),
    "merge": lambda tx: tx.merge("t", rows(99), ["id"], matched=Update()),
    "overwrite where": lambda tx: tx.overwrite("t", rows(), replace_where="p = 'a'"),
    "read": lambda tx: tx.read("t", all=True),
}


@pytest.mark.parametrize("work", _NOTHING_FOUND)
def test_a_change_that_finds_nothing_to_do_has_read_the_table(
    table: Table, lake: Catalog, tmp_path: Path, work: str
) -> None:
    """Another table is changed by what was seen: it must not be committed over a change of what was seen."""
    other = lake.create_table("other", location=tmp_path / "other", schema="id long, p string")
    table.append(rows(1, p="b"))
    transaction = lake.transaction()
    _NOTHING_FOUND[work](transaction)
    transaction.append("other", rows(1))
    table.append(rows(99))
    with pytest.raises(Conflict):
        transaction.commit()
    assert (ids(table), ids(other)) == ([1, 99], [])
