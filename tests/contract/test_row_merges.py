"""Rows merged with a source: what each clause does, what is refused, and what conflicts."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamirror import Catalog, Delete, Insert, Table, Update
from deltamirror.errors import Conflict, InvalidInput
from tests.support.rows.two_days import SECOND, ids, opened_files, rows, two_days
from tests.support.spark.frames import DataFrame

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


def source(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def test_a_merge_updates_deletes_and_inserts(table: Table) -> None:
    given = pa.concat_tables([rows(2, 3, 9), rows(5, day=SECOND)]).append_column(
        "gone", pa.array([False, True, False, False])
    )
    table.merge(
        given,
        ["id"],
        matched=[
            Delete("source.gone"),
            Update({"note": "source.note || '+'", "amount": "target.amount + source.amount"}),
        ],
        not_matched=Insert(where="source.id > 8"),
        not_matched_by_source=[
            Update({"note": "'orphan'"}, where="target.id = 1"),
            Delete("day = '2026-11-17' AND id = 6"),
        ],
    )
    found = {row["id"]: (row["note"], row["amount"]) for row in table.to_arrow().to_pylist()}
    assert found == {
        1: ("orphan", Decimal("1.00")),
        2: ("n2+", Decimal("4.00")),
        4: ("n4", Decimal("4.00")),
        5: ("n5+", Decimal("10.00")),
        9: (None, Decimal("9.00")),
    }
    entry = table.history()[0]
    assert entry.operation == "MERGE"
    assert entry.parameters == {
        "predicate": '["target.`id` = source.`id`"]',
        "matchedPredicates": '[{"predicate":"source.gone","actionType":"delete"},{"actionType":"update"}]',
        "notMatchedPredicates": '[{"predicate":"source.id > 8","actionType":"insert"}]',
        "notMatchedBySourcePredicates": '[{"predicate":"target.id = 1","actionType":"update"},'
        '{"predicate":"day = \'2026-11-17\' AND id = 6","actionType":"delete"}]',
    }
    expected = {
        "numSourceRows": "4",
        "numTargetRowsInserted": "1",
        "numTargetRowsMatchedUpdated": "2",
        "numTargetRowsMatchedDeleted": "1",
        "numTargetRowsNotMatchedBySourceUpdated": "1",
        "numTargetRowsNotMatchedBySourceDeleted": "1",
        "numTargetRowsCopied": "1",
        "numOutputRows": "5",
        "numTargetFilesRemoved": "2",
        "numTargetFilesAdded": "2",
    }
    assert {name: entry.metrics[name] for name in expected} == expected


def test_a_merge_opens_only_files_that_can_have_its_keys(table: Table, opened: list[str]) -> None:
    table.merge(source(id=[2], note=["x"]), ["id"], matched=Update({"note": "source.note"}))
    assert {path for path in opened if "11-17" in path} == set()
    opened.clear()
    table.merge(rows(77), ["id"], not_matched=Insert())
    assert opened == []
    assert ids(table) == [1, 2, 3, 4, 5, 6, 77]


@pytest.mark.parametrize(
    "clause", [Update({"note": "source.note"}), [Delete("source.note = 'a'"), Update({"note": "'z'"})]]
)
def test_two_rows_of_the_source_for_one_of_the_table_are_refused_by_the_key(table: Table, clause: Any) -> None:
    with pytest.raises(InvalidInput, match="2 rows of the source match the row with id = 2"):
        table.merge(source(id=[2, 2, 3], note=["a", "b", "c"]), ["id"], matched=clause)
    assert table.info().head == 2


def test_two_rows_of_the_source_may_delete_the_same_row(table: Table) -> None:
    table.merge(source(id=[2, 2, 4]), ["id"], matched=Delete())
    assert ids(table) == [1, 3, 5, 6]
    assert table.history()[0].metrics["numTargetRowsDeleted"] == "2"


def test_of_two_rows_only_one_of_which_acts_the_other_does_not_count(table: Table) -> None:
    table.merge(
        source(id=[2, 2], note=["a", "b"]), ["id"], matched=Update({"note": "source.note"}, where="source.note = 'b'")
    )
    assert ids(table, filter="note = 'b'") == [2]


def test_null_keys_match_nothing_and_keys_of_numbers_match_by_value(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("t", location=tmp_path / "t", schema="k double, v string")
    table.append(pa.table({"k": [None, float("nan"), -0.0, 2.0], "v": ["null", "nan", "zero", "two"]}))
    given = pa.table({"k": pa.array([None, 2, 0], pa.int32())})
    table.merge(given, "target.k = source.k", matched=Delete())
    assert sorted(table.to_arrow().column("v").to_pylist()) == ["nan", "null"]
    table.merge(pa.table({"k": [float("nan"), None]}), ["k"], matched=Delete())
    assert table.to_arrow().column("v").to_pylist() == ["null"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"on": ["id"]}, "has no clause"),
        ({"on": ["id"], "matched": [Update(), Delete("source.id = 1")]}, "clause 1 of matched has no condition"),
        ({"on": ["nope"], "matched": Delete()}, "there are: target.id, "),
        ({"on": "target.id > source.id", "matched": Delete()}, "no equality of target and source"),
        ({"on": [], "matched": Delete()}, "on names no column"),
        ({"on": ["nix"], "matched": Delete()}, "there is no column"),
        ({"on": "id = id", "matched": Delete()}, "'id' is a column of target and source: say which one"),
        ({"on": 5, "matched": Delete()}, "on has to be"),
        ({"on": ["id"], "matched": Insert()}, r"matched has to be .*Update\(…\) or Delete\(…\)"),
        ({"on": ["id"], "not_matched": [Delete()]}, r"not_matched has to be Insert\(…\)"),
        ({"on": ["id"], "matched": Update()}, "the source has no column 'day'"),
        ({"on": ["id"], "not_matched": Insert({"note": "'x'"})}, "'id' is NOT NULL, and missing"),
        ({"on": ["id"], "not_matched": Insert({"id": "target.id"})}, "there is no column 'target.id'"),
        ({"on": ["id"], "not_matched_by_source": Update()}, "get no values from it"),
        ({"on": ["id"], "not_matched_by_source": Delete("source.id = 1")}, "there is no column 'source.id'"),
        ({"on": ["id"], "matched": Update({"note": 5})}, "'note' cannot be set|is no value"),
        ({"on": ["id"], "matched": Delete(where=5)}, "where of matched has to be a text"),  # type: ignore[arg-type]  # the very slip
        ({"on": "target.note = source.id", "matched": Delete()}, "string and long have no type in common"),
        ({"on": ["id"], "matched": Delete(), "source": "rows"}, "source has to be rows"),
    ],
)
def test_a_wrong_merge_is_refused(table: Table, asked: dict[str, Any], message: str) -> None:
    given = {"source": source(id=[1, 2], note=["a", "b"]), **asked}
    with pytest.raises(InvalidInput, match=message):
        table.merge(**given)
    assert table.info().head == 2


def test_a_source_of_any_form_is_merged(table: Table) -> None:
    given = source(id=[1], note=["from here"])
    encoded = given.set_column(1, "note", given.column("note").dictionary_encode())
    for number, form in enumerate((given.to_reader(), encoded, DataFrame([given]), given.to_pandas()), start=1):
        table.merge(form, ["id"], matched=Update({"note": f"source.note || '{number}'"}))
        assert table.to_arrow("note", filter="id = 1").column("note").to_pylist() == [f"from here{number}"]


def test_a_merge_conflicts_with_rows_that_came_meanwhile(catalog: Catalog, table: Table) -> None:
    def raced(on: str, meanwhile: pa.Table) -> bool:
        tx = catalog.transaction()
        tx.merge("orders", source(id=[1]), on, matched=Update({"note": "'merged'"}))
        table.append(meanwhile)
        try:
            return bool(tx.commit())
        except Conflict:
            return False

    assert not raced("target.id = source.id", rows(7))
    assert raced("target.id = source.id AND target.day = '2026-11-16'", rows(8, day=SECOND))
    assert not raced("target.id = source.id AND target.day = '2026-11-16'", rows(9))


def test_an_empty_source_changes_what_it_does_not_have(table: Table, opened: list[str]) -> None:
    nothing = rows(1).slice(0, 0)
    assert table.merge(nothing, ["id"], matched=Delete(), not_matched=Insert()).versions == {}
    assert opened == []
    table.merge(nothing, ["id"], not_matched_by_source=Delete("id > 2"))
    assert ids(table) == [1, 2]
