"""What was read may not have changed: stale transactions are refused, those that do not touch each other are not."""

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, Protocol, Table
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import Conflict, InvalidInput, NotFound
from deltamirror.txnlog.commit.request import Change, Request
from deltamirror.txnlog.tables.registry import drop_table
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, create, execute, info_of, paths, remove_of, row_counts

pytestmark = [pytest.mark.requirement("R36"), pytest.mark.default_on("sqlite", "postgresql")]

MON, TUE = add("mon", day="mon"), add("tue", day="tue")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog, partition_by=["day"])
    table.append([MON, TUE])
    return table


@pytest.mark.default_on(*ENGINES)
def test_a_stale_read_then_remove_never_commits(catalog: Catalog, table: Table) -> None:
    first, second = catalog.transaction(), catalog.transaction()
    for tx in (first, second):
        tx.remove("t", ["mon"])
        tx.append("t", [add(f"rewritten{id(tx)}", day="mon")])
    first.commit()
    before = row_counts(catalog)
    with pytest.raises(Conflict) as caught:
        second.commit()
    error = caught.value
    assert (error.table, error.read_version, error.actual_version, error.winner_version) == ("t", 1, 2, 2)
    assert error.winner_operation == "Manual Update"
    assert row_counts(catalog) == before
    assert len(paths(table)) == 2


def test_a_remove_means_having_read_the_whole_table(catalog: Catalog, table: Table) -> None:
    tx = catalog.transaction()
    tx.remove("t", ["mon"])
    table.append([add("tue2", day="tue")])
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.reason == "concurrent-append"


def test_writers_of_different_partitions_do_not_collide(catalog: Catalog, table: Table) -> None:
    transactions = []
    for day in ("mon", "tue"):
        tx = catalog.transaction()
        tx.read("t", partitions={"day": day})
        tx.remove("t", [day])
        tx.append("t", [add(f"{day}2", day=day)])
        transactions.append(tx)
    assert [tx.commit().versions["t"] for tx in transactions] == [2, 3]
    assert paths(table) == ["mon2", "tue2"]
    assert [info_of(table, version)["readVersion"] for version in (2, 3)] == [1, 1]


@pytest.mark.parametrize(
    "read", [{"partitions": {"day": "mon"}}, {"partitions": [{"day": ["tue", "mon"]}]}, {"all": True}]
)
def test_a_file_that_should_have_been_read_is_a_conflict(
    catalog: Catalog, table: Table, read: dict[str, object]
) -> None:
    tx = catalog.transaction()
    tx.read("t", **read)  # type: ignore[arg-type]
    tx.append("t", [add("sum", day="sum")])
    table.append([add("mon2", day="mon")])
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.reason == "concurrent-append"


def test_reading_a_file_conflicts_with_its_removal_only(catalog: Catalog, table: Table) -> None:
    readers = [catalog.transaction(), catalog.transaction()]
    for tx, name in zip(readers, ("mon", "tue"), strict=True):
        tx.read("t", files=[name])
        tx.append("t", [add(f"copy-of-{name}", day=name)])
    table.remove(["mon"])
    with pytest.raises(Conflict) as caught:
        readers[0].commit()
    assert caught.value.reason == "concurrent-delete-read"
    assert readers[1].commit().versions == {"t": 3}


def test_blind_appends_follow_anything(catalog: Catalog, table: Table) -> None:
    tx = catalog.transaction()
    tx.stage("t", [add("x", day="x")], read_version=1)
    table.remove(["mon"])
    table.append([add("y", day="y")])
    assert tx.commit().versions == {"t": 4}
    assert info_of(table, 4)["isBlindAppend"] is True


def test_what_others_change_of_the_metadata_stops_whoever_read_it(catalog: Catalog, table: Table) -> None:
    tx = catalog.transaction()
    tx.remove("t", ["mon"])
    table.alter(properties={"k": "v"})
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.reason == "metadata-changed"


def test_a_plain_append_is_checked_against_the_metadata_it_finds(catalog: Catalog, lake_url: str) -> None:
    """A writer that remembers the table notices that another one changed it."""
    table = create(catalog)
    table.append([add("a")])
    table.alter(properties={"delta.enableInCommitTimestamps": "false"})
    remembered = catalog.writer.state("t")
    table.alter(properties={"delta.enableInCommitTimestamps": "true"})
    catalog.writer._tables.see(remembered)
    table.append([add("b")])
    assert "inCommitTimestamp" in info_of(table, 4)
    catalog.writer._tables.see(remembered)
    table.append([add("c")], token="the general path")
    assert "inCommitTimestamp" in info_of(table, 5)


def test_a_version_that_is_not_there_cannot_have_been_read(catalog: Catalog, table: Table) -> None:
    tx = catalog.transaction()
    tx.stage("t", [add("x", day="x")], read_version=7)
    with pytest.raises(NotFound):
        tx.commit()


def test_write_skew_across_two_tables_is_refused(catalog: Catalog) -> None:
    """Each reads what the other writes; in any order, one of them would have seen something else."""
    for name in ("a", "b"):
        create(catalog, name)
    first, second = catalog.transaction(), catalog.transaction()
    first.read("a")
    first.append("b", [add("x")])
    second.read("b")
    second.append("a", [add("y")])
    first.commit()
    with pytest.raises(Conflict) as caught:
        second.commit()
    assert (caught.value.table, caught.value.read_version, caught.value.actual_version) == ("b", 0, 1)
    assert paths(catalog.table("a")) == []


def test_a_table_that_is_only_read_is_checked_and_gets_no_version(catalog: Catalog) -> None:
    for name in ("source", "target"):
        create(catalog, name)
    with catalog.transaction() as tx:
        tx.read("source")
        tx.append("target", [add("x")])
    assert tx.result.versions == {"target": 1}
    assert catalog.table("source").info().head == 0


def test_a_transaction_that_only_reads_is_refused(catalog: Catalog, table: Table) -> None:
    tx = catalog.transaction()
    tx.read("t")
    with pytest.raises(InvalidInput):
        tx.commit()


def test_many_tables_commit_together_at_one_time(catalog: Catalog) -> None:
    names = ["a", "b", "c"]
    for name in names:
        create(catalog, name)
    execute(catalog, "UPDATE dl_heads SET committed_at = committed_at + 1000000 WHERE table_id = 2")
    with catalog.transaction() as tx:
        for name in reversed(names):
            tx.append(name, [add("x")])
    assert tx.result.versions == dict.fromkeys(reversed(names), 1)
    infos = [info_of(catalog.table(name), 1) for name in names]
    assert {info["timestamp"] for info in infos} == {tx.result.timestamp}
    assert len({info["txnId"] for info in infos}) == 1
    assert tx.result.timestamp > 1_000_000 + info_of(catalog.table("b"), 0)["timestamp"]


@pytest.mark.default_on(*ENGINES)
def test_all_tables_or_none(catalog: Catalog) -> None:
    for name in ("a", "b"):
        create(catalog, name)
    before = row_counts(catalog)
    wrong = [
        (Change(table="b", actions=[add("x")], at_version=7), Conflict),
        (Change(table="b", actions=[remove_of(add("x"))]), InvalidInput),
        (Change(table="b", actions=[Protocol(min_reader_version=9, min_writer_version=9)]), InvalidInput),
        (Change(table="nowhere", actions=[add("x")]), NotFound),
    ]
    for change, error in wrong:
        with pytest.raises(error):
            catalog.writer.commit(Request(changes=(Change(table="a", actions=[add("x")]), change)))
    assert row_counts(catalog) == before


def test_a_writer_notices_that_the_table_was_made_again(catalog: Catalog, table: Table) -> None:
    """What a writer remembers of a table does not outlive the table."""
    table.append([add("seen", day="mon")])
    drop_table(catalog.database, "t", unpublished=True)  # as another process does: this writer is not told
    create(catalog)
    assert table.append([add("fresh")]).versions == {"t": 1}
    assert paths(table) == ["fresh"]


def test_what_was_read_of_a_dropped_table_is_no_reading_of_the_next_one(catalog: Catalog, table: Table) -> None:
    tx = catalog.transaction()
    tx.read("t")
    tx.append("t", [add("stale", day="mon")])
    drop_table(catalog.database, "t", unpublished=True)
    create(catalog, partition_by=["day"]).append([add("other", day="mon")])
    with pytest.raises((Conflict, NotFound)):
        tx.commit()


def configure(catalog: Catalog, name: str, *, version: int, **properties: str) -> None:
    """Set properties as another writer does, who may set what we do not."""
    metadata = catalog.table(name).snapshot().metadata
    changed = replace(metadata, configuration={**metadata.configuration, **properties})
    with catalog.transaction() as tx:
        tx.stage_lines(name, b'{"commitInfo":{}}\n' + encode_commit([changed]), at_version=version)


@pytest.mark.parametrize(("operation", "follows"), [("OPTIMIZE", True), ("MERGE", False)])
def test_an_operation_that_keeps_the_data_need_not_have_seen_an_append(
    catalog: Catalog, operation: str, follows: bool
) -> None:
    """On a table whose level another writer has set: we offer Delta's strictest one only."""
    table = create(catalog, "u", properties={"delta.enableInCommitTimestamps": "false"})
    configure(catalog, "u", version=1, **{"delta.isolationLevel": "WriteSerializable"})
    table.append([add("a"), add("b")])
    compaction = catalog.transaction(operation=operation)
    compaction.remove("u", ["a", "b"], data_change=False)
    compaction.append("u", [add("ab", data_change=False)])
    with catalog.transaction() as tx:
        tx.read("u")
        tx.append("u", [add("c")])
    if follows:
        assert compaction.commit().versions == {"u": 4}
        assert paths(table) == ["ab", "c"]
        assert info_of(table, 4)["isolationLevel"] == "SnapshotIsolation"
        return
    with pytest.raises(Conflict) as caught:
        compaction.commit()
    assert caught.value.reason == "concurrent-append"


def test_a_commit_that_follows_the_enabling_of_row_tracking_says_that_its_rows_kept_no_ids(catalog: Catalog) -> None:
    untimed = {"delta.enableInCommitTimestamps": "false"}
    table = create(catalog, "u", features=["rowTracking", "domainMetadata"], properties=untimed)
    stats = '{"numRecords":3}'
    table.append([add("a", stats=stats)])
    rewrite = catalog.transaction()
    rewrite.remove("u", ["a"])
    rewrite.append("u", [add("b", stats=stats)])
    columns = {f"delta.rowTracking.materialized{name}ColumnName": f"_{name}" for name in ("RowId", "RowCommitVersion")}
    configure(catalog, "u", version=2, **{"delta.enableRowTracking": "true", **columns})
    assert rewrite.commit().versions == {"u": 3}
    assert info_of(table, 3)["tags"] == {"delta.rowTracking.preserved": "false"}
    table.append([add("c", stats=stats)])
    assert "tags" not in info_of(table, 4)
