"""Rows deleted, updated and merged: the files that are touched, the errors, and the races that are lost."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, Delete, DeletionVector, Insert, Table, Update
from deltamirror.errors import Conflict, InvalidInput, Refused, TokenReused
from deltamirror.rows import scanning
from deltamirror.steps import Moment, Step, observed
from tests.admission.vectors import inline_vector
from tests.support.rows.two_days import SCHEMA, SECOND, THIRD, ids, on_disk, opened_files, paths, rows, two_days
from tests.support.spark.frames import DataFrame, SparkSession

pytestmark = pytest.mark.requirement("R89")


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    with Catalog(sqlite_lake) as opened:
        yield opened


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    return two_days(catalog, tmp_path / "orders")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return opened_files(monkeypatch)


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id = 2", [1, 3, 4, 5, 6]),
        ("note = 'n1' OR ok", [3, 5]),
        ("NOT (note = 'n1')", [1, 3, 6]),  # null is neither
        ("note IS NULL AND id < 4", [1, 2, 4, 5, 6]),
        ("amount * 2 - 1 > 8.5 AND day = '2026-11-17'", [1, 2, 3, 4]),
        ("length(coalesce(note, '')) = 0", [1, 2, 4, 5]),
        ("CASE WHEN ok THEN id ELSE 0 END >= 4", [1, 2, 3, 5]),
        ("id = amount AND id <> 5", [5]),
        (None, []),
    ],
)
def test_the_rows_of_a_condition_are_deleted_and_no_others(table: Table, where: str | None, left: list[int]) -> None:
    before = sorted((row for row in table.to_arrow().to_pylist() if row["id"] in left), key=str)
    table.delete(where)
    assert sorted(table.to_arrow().to_pylist(), key=str) == before
    assert ids(table, version=2) == [1, 2, 3, 4, 5, 6]


def test_only_files_with_such_rows_are_rewritten(table: Table, opened: list[str]) -> None:
    [kept] = [path for path in paths(table) if "11-17" in path]
    table.delete("id = 2")
    assert {path for path in opened if "11-17" in path} == set()
    assert kept in paths(table)
    assert table.history()[0].num_added == table.history()[0].num_removed == 1


def test_a_file_all_of_whose_rows_go_is_not_rewritten(table: Table, opened: list[str]) -> None:
    table.delete("id <= 3")
    assert len(opened) == 1  # to see that they are all
    assert table.history()[0].num_added == 0
    assert ids(table) == [4, 5, 6]


@pytest.mark.parametrize("where", ["day = '2026-11-16'", "day < '2026-11-17' OR day IS NULL", None])
def test_partitions_are_deleted_without_a_look_into_files(table: Table, opened: list[str], where: str | None) -> None:
    table.delete(where)
    assert opened == []
    assert ids(table) == ([] if where is None else [4, 5, 6])
    assert table.history()[0].metrics["numDeletedRows"] == ("6" if where is None else "3")


@pytest.mark.parametrize("where", ["FALSE", "NULL", "1 = 2", "TRUE AND NULL", "NOT TRUE OR 'a' > 'b'"])
def test_a_condition_that_is_never_true_deletes_nothing(
    catalog: Catalog, table: Table, tmp_path: Path, where: str
) -> None:
    flat = catalog.create_table("flat", location=tmp_path / "flat", schema="id long")
    flat.append(pa.table({"id": [1, 2]}))
    for each in (table, flat):
        assert each.delete(where).versions == {}
        assert each.update({"id": "0"}, where).versions == {}
    assert flat.delete("TRUE OR NULL").versions == {"flat": 2}


def test_an_edit_that_finds_no_row_makes_no_version(catalog: Catalog, table: Table) -> None:
    assert table.delete("id = 99").versions == {}
    assert table.update({"note": "'x'"}, "id = 99").versions == {}
    with catalog.transaction() as tx:
        tx.delete("orders", "id = 99")
        tx.append("orders", rows(7))
    assert tx.result.versions == {"orders": 3}


def test_updated_rows_get_values_of_the_row_as_it_was(table: Table) -> None:
    values = {"amount": "amount * 1.115", "note": "note || '!'", "ok": "id > 2", "id": "id + 10", "day": THIRD}
    table.update(values, where="id IN (2, 3)")
    found = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert sorted(found) == [1, 4, 5, 6, 12, 13]
    assert found[12] == {"id": 12, "day": THIRD, "amount": Decimal("2.23"), "note": "n2!", "ok": False}
    assert found[13] == {"id": 13, "day": THIRD, "amount": Decimal("3.35"), "note": None, "ok": True}  # half up
    assert found[1] == rows(1).to_pylist()[0]


def test_all_rows_are_updated_where_nothing_says_which(table: Table) -> None:
    table.update({"note": None, "amount": 1})
    assert set(table.to_arrow().column("amount").to_pylist()) == {Decimal("1.00")}
    assert table.to_arrow().column("note").null_count == 6
    assert table.history()[0].metrics["numUpdatedRows"] == "6"


@pytest.mark.parametrize(
    ("values", "where", "message"),
    [
        ({"nix": "1"}, None, "has no column 'nix'"),
        ({"note": "nix"}, None, "there is no column 'nix'"),
        ({"note": "id"}, None, "'note' is string, and 'id' is long"),
        ({"id": "amount"}, None, "'id' is long, and 'amount' is decimal"),
        ({"amount": "12345678901"}, None, "no value of decimal"),
        ({"day": 5}, None, "'day' cannot be set: 5 is no value of date"),
        ({"note": "upper(note)"}, None, "the function 'upper' is not known here"),
        (
            {
                "note": "'x",
            },
            None,
            "is not expected",
        ),
        ({"id": "1", "ID": "2"}, None, "set twice"),
        ({}, None, "names no column"),
        ({"note": ["x"]}, None, "has to be an expression"),
        ({"id": None}, "id = 1", "'id' is NOT NULL"),
        ({"amount": "amount * 99999999.0"}, "id = 5", "cannot be computed"),
        ({"id": "9223372036854775807 + id"}, None, "overflow"),
        ({"ok": "1 / (id - 1) > 0"}, None, "divide by zero"),
    ],
)
def test_a_wrong_update_is_refused_and_leaves_nothing(
    table: Table, tmp_path: Path, values: dict[str, Any], where: str | None, message: str
) -> None:
    before = on_disk(tmp_path / "orders")
    with pytest.raises(InvalidInput, match=message):
        table.update(values, where)
    assert on_disk(tmp_path / "orders") == before
    assert table.info().head == 2


def test_several_tables_change_in_one_commit(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    catalog.create_table("staging", location=tmp_path / "staging", schema="batch int").append(
        pa.table({"batch": pa.array([17, 18], pa.int32())})
    )
    with catalog.transaction() as tx:
        tx.update("orders", {"note": "'paid'"}, "id = 1")
        tx.append("orders", rows(7))
        tx.delete("staging", "batch = 17")
    assert tx.result.versions == {"orders": 3, "staging": 2}
    assert ids(table, filter="note = 'paid' OR id = 7") == [1, 7]
    assert catalog.table("staging").to_arrow().to_pylist() == [{"batch": 18}]


def test_a_table_is_changed_once_in_a_transaction(catalog: Catalog, table: Table) -> None:
    for first in ("append", "delete", "update", "overwrite", "remove"):
        tx = catalog.transaction()
        arguments = {
            "append": (rows(9),),
            "overwrite": (rows(9),),
            "update": ({"note": "'x'"},),
            "remove": (min(paths(table)),),
        }
        getattr(tx, first)("orders", *arguments.get(first, ()))
        with pytest.raises(InvalidInput, match="already"):
            tx.delete("orders", "id = 1")
    with pytest.raises(InvalidInput, match="already"):
        tx.overwrite("orders", rows(1))


def test_deletion_vectors_are_honoured_and_gone(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table(
        "t", location=tmp_path / "t", schema=SCHEMA, properties={"delta.enableDeletionVectors": "true"}
    )
    table.append(rows(1, 2, 3, 4))
    [add] = table.snapshot().adds()
    vector = DeletionVector(**inline_vector([1]))
    with catalog.transaction() as tx:
        tx.remove("t", [add.path])
        tx.append("t", [replace(add, deletion_vector=vector)])
    assert ids(table) == [1, 3, 4]
    table.update({"note": "'seen'"}, "id IN (2, 3)")  # of which one is gone
    assert ids(table) == [1, 3, 4]
    assert ids(table, filter="note = 'seen'") == [3]
    assert all(each.deletion_vector is None for each in table.snapshot().adds())
    assert table.history()[0].metrics["numDeletionVectorsRemoved"] == "1"
    assert table.history()[0].metrics["numUpdatedRows"] == "1"


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_keep_their_names_in_files(catalog: Catalog, tmp_path: Path, mode: str) -> None:
    table = catalog.create_table(
        "t",
        location=tmp_path / "t",
        schema="`a b` long, p string, s struct<x: long>",
        partition_by=["p"],
        properties={"delta.columnMapping.mode": mode},
    )
    table.append(pa.table({"a b": [1, 2, 3], "p": ["x", "x", "y"], "s": [{"x": 1}, None, {"x": 3}]}))
    table.delete("`a b` = 1")
    with pytest.raises(InvalidInput, match=r"'s\.x' is a field, which cannot be set alone") as caught:
        table.update({"s.x": "5"})
    assert "give 's' a whole value" in caught.value.hint
    table.update({"`a b`": "`a b` * 10", "p": "'z'"}, "s.x = 3")
    expected = [{"a b": 2, "p": "x", "s": None}, {"a b": 30, "p": "z", "s": {"x": 3}}]
    assert sorted(table.to_arrow().to_pylist(), key=str) == expected
    physical = {each.physical_name for each in table.snapshot().schema.fields if each.name != "p"}
    for add in table.snapshot().adds():
        assert set(pq.ParquetFile(tmp_path / "t" / add.path).schema_arrow.names) == physical


def test_rows_keep_their_ids_where_the_table_tracks_them(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table(
        "t", location=tmp_path / "t", schema="id long", properties={"delta.enableRowTracking": "true"}
    )
    table.append(pa.table({"id": [10, 11, 12, 13]}))
    table.delete("id = 11")
    table.update({"id": "id + 100"}, "id = 12")
    settings = table.snapshot().metadata.configuration
    columns = [settings[f"delta.rowTracking.materialized{kind}ColumnName"] for kind in ("RowId", "RowCommitVersion")]
    [add] = table.snapshot().adds()
    stored = pq.read_table(tmp_path / "t" / add.path)
    found = dict(
        zip(stored["id"].to_pylist(), zip(*(stored[name].to_pylist() for name in columns), strict=True), strict=True)
    )
    assert found == {10: (0, 1), 112: (2, None), 13: (3, 1)}
    assert add.default_row_commit_version == 3
    assert table.to_arrow().column_names == ["id"]
    assert b'"tags":{"delta.rowTracking.preserved":"true"}' in table.commit_file(3)


def test_the_property_that_forbids_it_is_named(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table(
        "t", location=tmp_path / "t", schema="id long", properties={"delta.appendOnly": "true"}
    )
    table.append(pa.table({"id": [1, 2]}))
    with pytest.raises(Refused, match=r"delta\.appendOnly"):
        table.delete("id = 1")
    with pytest.raises(Refused, match=r"delta\.appendOnly"):
        table.update({"id": "2"})
    with pytest.raises(Refused, match=r"delta\.appendOnly"):
        table.delete()


def test_rules_for_values_do_not_bind_rows_that_are_copied(catalog: Catalog, table: Table) -> None:
    with catalog.transaction(rows_checked=True) as tx:
        tx.set_metadata("orders", properties={"delta.constraints.some": "id > 0"})
        tx.read("orders", all=True)
    table.delete("id = 1")
    with pytest.raises(Refused, match="checkConstraints"):
        table.update({"note": "'x'"}, "id = 2")
    with catalog.transaction(rows_checked=True) as tx:
        tx.update("orders", {"note": "'x'"}, "id = 2")
    assert ids(table, filter="note = 'x'") == [2]


def test_an_identity_column_is_never_set(catalog: Catalog, tmp_path: Path) -> None:
    identity = '"delta.identity.start":1,"delta.identity.step":1,"delta.identity.allowExplicitInsert":false'
    schema = (
        '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{%s}},'
        '{"name":"x","type":"long","nullable":true,"metadata":{}}]}'
    )
    table = catalog.create_table("t", location=tmp_path / "t", schema=schema % identity)
    with pytest.raises(Refused, match="'id' is an identity column"):
        table.update({"id": "5"})
    assert table.update({"x": "5"}).versions == {}  # an empty table


def race(catalog: Catalog, table: Table, first: str, second: Any) -> bool:
    """Whether a delete takes place although something else was committed after its table was taken."""
    tx = catalog.transaction()
    tx.delete("orders", first)
    second(table)
    try:
        tx.commit()
    except Conflict:
        return False
    return True


def test_a_delete_of_partitions_conflicts_with_changes_to_these_only(catalog: Catalog, table: Table) -> None:
    assert race(catalog, table, "day = '2026-11-16' AND id = 1", lambda t: t.append(rows(7, day=SECOND)))
    assert race(catalog, table, "day = '2026-11-16' AND id = 2", lambda t: t.delete("day = '2026-11-17' AND id = 5"))
    assert not race(catalog, table, "day = '2026-11-16' AND id = 3", lambda t: t.append(rows(8)))
    assert not race(catalog, table, "day = '2026-11-16' AND id = 3", lambda t: t.update({"note": "'x'"}, "id = 8"))
    assert ids(table) == [3, 4, 6, 7, 8]


def test_a_delete_by_other_columns_conflicts_with_rows_that_came(
    catalog: Catalog, table: Table, tmp_path: Path
) -> None:
    assert not race(catalog, table, "id = 1", lambda t: t.append(rows(7, day=SECOND)))
    assert not race(catalog, table, "id = 1", lambda t: t.delete("id = 2"))
    assert ids(table) == [1, 3, 4, 5, 6, 7]
    live = {add.path for version in range(table.info().head + 1) for add in table.snapshot(version).adds()}
    assert on_disk(tmp_path / "orders") == live  # the files of the losers are gone


def test_a_repeated_token_deletes_nothing_again(table: Table) -> None:
    first = table.delete("id = 1", token="once")
    table.append(rows(1))
    again = table.delete("id = 1", token="once")
    assert again.already_applied
    assert again.versions == first.versions
    with pytest.raises(TokenReused):
        table.delete("id = 2", token="once")
    assert ids(table) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("moment", list(Moment))
def test_an_edit_that_breaks_off_leaves_the_table_as_it_was(table: Table, tmp_path: Path, moment: Moment) -> None:
    class Struck(BaseException):
        pass

    def strike(at: Moment, step: Step) -> None:
        if (at, step) == (moment, Step.PUT_ROWS):
            raise Struck

    before = on_disk(tmp_path / "orders")
    with pytest.raises(Struck), observed(strike):
        table.update({"note": "'x'"}, "id IN (1, 4)")
    assert on_disk(tmp_path / "orders") == before
    assert ids(table) == [1, 2, 3, 4, 5, 6]


def test_the_history_says_what_delta_users_know(table: Table) -> None:
    table.delete("id = 1")
    table.update({"note": "'x'"}, "id = 2")
    updated, deleted = table.history(limit=2)
    assert (deleted.operation, deleted.parameters) == ("DELETE", {"predicate": '["id = 1"]'})
    assert (updated.operation, updated.parameters) == ("UPDATE", {"predicate": '["id = 2"]'})
    for entry, changed in ((deleted, "numDeletedRows"), (updated, "numUpdatedRows")):
        assert {name: entry.metrics[name] for name in ("numRemovedFiles", "numAddedFiles", changed)} == dict.fromkeys(
            ("numRemovedFiles", "numAddedFiles", changed), "1"
        )
        assert entry.metrics["numCopiedRows"] == ("2" if entry is deleted else "1")
        assert not entry.is_blind_append


def test_executors_change_files_by_the_same_rules(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_GROUP_BYTES", 1)  # a file a task
    spark = SparkSession()
    table.delete("id = 2", spark=spark)
    table.update({"note": "'seen'"}, "id IN (3, 4)", spark=spark)
    given = rows(1, 4, 8)
    table.merge(given, ["id"], matched=Update({"note": "'merged'"}), not_matched=Insert(), spark=spark)
    table.merge(DataFrame([rows(9)]), ["id"], matched=Delete(), not_matched=Insert())
    found = {row["id"]: row["note"] for row in table.to_arrow().to_pylist()}
    assert found == {1: "merged", 3: "seen", 4: "merged", 5: "n5", 6: None, 8: "n8", 9: None}
    counts = {name: table.history()[1].metrics[name] for name in ("numTargetRowsInserted", "numTargetRowsCopied")}
    assert counts == {"numTargetRowsInserted": "1", "numTargetRowsCopied": "3"}


def test_files_of_tasks_are_deleted_where_one_of_them_fails(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "_GROUP_BYTES", 1)
    before = on_disk(tmp_path / "orders")
    with pytest.raises(InvalidInput, match="divide by zero"):
        table.update({"ok": "1 / (id - 5) > 0"}, spark=SparkSession())
    assert on_disk(tmp_path / "orders") == before
    with pytest.raises(InvalidInput, match="spark has to be a session of Spark"):
        table.delete("id = 1", spark=5)


def test_a_filter_that_cannot_be_computed_is_told_in_our_words(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("t", location=tmp_path / "t", schema="`end` long, p long", partition_by=["p"])
    table.append(pa.table({"end": [1, 2**63 - 1], "p": [1, 1]}))
    for condition in ("end + 1 > 5", "1 / (p - 1) > 0"):
        with pytest.raises(InvalidInput, match="cannot be computed"):
            table.to_arrow(filter=condition)
        with pytest.raises(InvalidInput, match="cannot be computed"):
            table.delete(condition)
    assert table.to_arrow(filter="CASE WHEN end > 1 THEN end END = end").num_rows == 1


def test_files_that_are_added_before_an_edit_are_not_passed_over(catalog: Catalog, table: Table) -> None:
    [add, _] = table.snapshot().adds()
    tx = catalog.transaction()
    tx.append("orders", [replace(add, path="another.parquet")])
    with pytest.raises(InvalidInput, match="already"):
        tx.delete("orders", "id = 1")
