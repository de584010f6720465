"""Any version of a table is one query, and partition filters are answered by the database."""

from collections.abc import Sequence

import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.txnlog.tables.listing import FILES_SCHEMA
from tests.support.lakes.lake import add, create, paths

pytestmark = pytest.mark.default_on("sqlite", "postgresql")

ODD_NAMES = ["a.b", "a'b", 'a"b', "a/b", "a~b", "a\\b", "$", "é", "a[0]", "*"]


def matching(table: Table, **partitions: object) -> list[str]:
    found = table.snapshot().files(partitions=partitions)  # type: ignore[arg-type]
    return sorted(found.column("path").to_pylist())


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog, partition_by=["day"])
    table.append([add("mon", day="mon"), add("tue", day="tue"), add("null", day=None), add("mon2", day="mon")])
    return table


def test_files_have_one_schema_with_rows_and_without(catalog: Catalog, table: Table) -> None:
    assert table.snapshot().files().schema == FILES_SCHEMA
    assert table.snapshot(0).files().schema == FILES_SCHEMA
    assert table.snapshot().files(partitions={"day": "never"}).schema == FILES_SCHEMA


FILTERS: list[tuple[str | Sequence[str | None] | None, list[str]]] = [
    ("mon", ["mon", "mon2"]),
    (["mon"], ["mon", "mon2"]),
    (["mon", "tue"], ["mon", "mon2", "tue"]),
    (None, ["null"]),
    ("", ["null"]),
    ([None], ["null"]),
    (["tue", None], ["null", "tue"]),
    (["tue", ""], ["null", "tue"]),
    ("MON", []),
    ([], []),
]


def test_a_partition_filter_selects_its_values(table: Table) -> None:
    for wanted, expected in FILTERS:
        assert matching(table, day=wanted) == expected, wanted


def test_column_names_of_a_filter_know_no_case(table: Table) -> None:
    assert matching(table, DAY="tue") == ["tue"]


def test_a_filter_on_another_column_is_refused(table: Table) -> None:
    with pytest.raises(InvalidInput, match="not partitioned by 'id'"):
        matching(table, id="1")


def test_an_empty_partition_value_is_a_null(catalog: Catalog, table: Table) -> None:
    table.append([add("empty", partition_values={"day": ""})])
    assert matching(table, day=None) == matching(table, day="") == ["empty", "null"]
    assert "empty" not in matching(table, day=["mon", "tue"])


def test_filters_on_several_columns_are_joined_by_and(catalog: Catalog) -> None:
    table = create(catalog, schema="id long, a string, b string", partition_by=["a", "b"])
    values = [("1", "x"), ("1", "y"), ("2", "x"), ("2", None)]
    table.append([add(f"{a}{b}", partition_values={"a": a, "b": b}) for a, b in values])
    assert matching(table, a="1", b="x") == ["1x"]
    assert matching(table, a=["1", "2"], b=["x", None]) == ["1x", "2None", "2x"]


def test_values_are_compared_as_the_log_spells_them(catalog: Catalog, table: Table) -> None:
    odd = ["it's", 'a"b', "a\\b", "50%", "a\nb", "ß😀", "null", "1", "\x1f", " "]
    table.append([add(f"odd{number}", day=value) for number, value in enumerate(odd)])
    for number, value in enumerate(odd):
        assert matching(table, day=value) == [f"odd{number}"], value


def test_a_nul_in_a_partition_value_does_not_hide_other_files(table: Table) -> None:
    table.append([add("nul", day="a\x00b")])
    assert matching(table, day="mon") == ["mon", "mon2"]
    assert len(paths(table)) == 5


def test_partition_columns_may_have_odd_names(catalog: Catalog) -> None:
    for number, name in enumerate(ODD_NAMES):
        table = create(catalog, f"t{number}", schema=f"id long, `{name}` string", partition_by=[name])
        table.append([add("one", partition_values={name: "1"}), add("none", partition_values={name: None})])
        assert matching(table, **{name: "1"}) == ["one"], name
        assert matching(table, **{name: None}) == ["none"], name


def test_under_column_mapping_filters_take_the_columns_name(catalog: Catalog) -> None:
    table = create(catalog, partition_by=["day"], properties={"delta.columnMapping.mode": "name"})
    physical = table.snapshot().physical_partition("day")
    assert physical.startswith("col-")
    table.append([add("mon", partition_values={physical: "mon"}), add("null", partition_values={physical: None})])
    assert matching(table, day="mon") == ["mon"]
    assert matching(table, day=None) == ["null"]


def test_every_version_keeps_its_files(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a"), add("b")])
    table.remove(["a"])
    table.append([add("a", size=7)])
    table.append([add("b", size=8)])  # added again: the later add replaces the earlier one
    expected = {0: {}, 1: {"a": 100, "b": 100}, 2: {"b": 100}, 3: {"a": 7, "b": 100}, 4: {"a": 7, "b": 8}}
    for version, files in expected.items():
        found = table.snapshot(version).files()
        assert dict(zip(found["path"].to_pylist(), found["size"].to_pylist(), strict=True)) == files
    added = table.snapshot().files().select(["path", "added_version"]).to_pylist()
    assert {row["path"]: row["added_version"] for row in added} == {"a": 3, "b": 4}


def test_spellings_of_one_path_are_one_file(catalog: Catalog) -> None:
    table = create(catalog)
    table.append([add("a%5Bb")])
    table.append([add("a%5bb", size=5, data_change=False)])
    assert table.snapshot().files().column("size").to_pylist() == [5]
    table.remove(["a%5Bb"])
    assert paths(table) == []


def test_paths_whose_hashes_collide_are_two_files(catalog: Catalog) -> None:
    first, second = "plumless", "buckeroo"  # the same crc32
    table = create(catalog)
    table.append([add(first)])
    table.append([add(second)])
    assert paths(table) == sorted([first, second])
    table.remove([first])
    assert paths(table) == [second]


def test_a_snapshot_does_not_see_later_commits(table: Table) -> None:
    taken = table.snapshot()
    table.append([add("later", day="mon")])
    assert "later" not in taken.files().column("path").to_pylist()
    assert taken.version == 1


@pytest.mark.parametrize("version", [-1, 2, 10**6])
def test_a_version_that_is_not_there_is_not_found(table: Table, version: int) -> None:
    with pytest.raises(NotFound):
        table.snapshot(version)
    with pytest.raises(NotFound):
        table.commit_file(version)


def test_history_is_newest_first_and_says_what_was_done(catalog: Catalog, table: Table) -> None:
    with catalog.transaction(
        operation="DELETE", parameters={"predicate": ["day = 'mon'"]}, metrics={"numRemovedFiles": "2"},
        user_metadata="why not",
    ) as tx:  # fmt: skip
        tx.remove("t", ["mon", "mon2"])
    newest, append, created = table.history()
    assert [entry.version for entry in (newest, append, created)] == [2, 1, 0]
    assert [entry.operation for entry in (newest, append, created)] == ["DELETE", "WRITE", "CREATE TABLE"]
    assert (newest.num_added, newest.num_removed, append.num_added) == (0, 2, 4)
    assert newest.parameters == {"predicate": ["day = 'mon'"]}
    assert (newest.metrics, newest.user_metadata) == ({"numRemovedFiles": "2"}, "why not")
    assert (newest.is_blind_append, append.is_blind_append) == (False, True)
    assert {entry.kind for entry in table.history()} == {"authored"}
    assert len(table.history(limit=1)) == 1


def test_a_transaction_id_is_unique_and_in_the_commit_info(table: Table) -> None:
    table.append([add("x", day="mon")])
    ids = [entry.txn_id for entry in table.history()]
    assert len(set(ids)) == 3
    assert ids[0].encode() in table.commit_file(2)


def test_a_transaction_that_only_read_leaves_no_version(catalog: Catalog, table: Table) -> None:
    before = table.info().head
    with catalog.transaction() as tx:
        tx.read("t")
    assert table.info().head == before
