"""A change of metadata that the files of a table cannot follow is refused on every road into the log."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltamirror import Add, Catalog, DeletionVector, Table
from deltamirror.catalog.transaction import Transaction
from deltamirror.delta.actions import Action, CommitInfo, Metadata, Protocol
from deltamirror.delta.features import upgrade
from deltamirror.delta.lines import encode_commit
from deltamirror.delta.schema import Field, StructType, parse_schema, schema_string
from deltamirror.errors import Conflict, InvalidAction
from tests.support.imports.adoptions import PLAIN, add_line, adopted, mirror, mirroring, their_commit
from tests.support.lakes.lake import add, create, info_of, opened, paths, remove_of
from tests.support.mirrors.local import make_table

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.requirement("R119")]

FILES = [add(f"f{number}", stats='{"numRecords":1}') for number in range(3)]
MANY = [add(f"g{number}", stats='{"numRecords":1}') for number in range(12)]
PARTITIONED = [msgspec.structs.replace(file, path=f"day=x/{file.path}", partition_values={"day": "x"}) for file in MANY]
ROW_TRACKING = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
}


@pytest.fixture
def catalog(sqlite_lake: str) -> Iterator[Catalog]:
    """A catalog in which more than ten lines are many."""
    with opened(sqlite_lake, stage_above=10, chunk_lines=4) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = create(catalog)
    made.append(FILES)
    return made


def changed(table: Table, schema: str | None = None, **values: Any) -> Metadata:
    now = table.snapshot().metadata
    text = now.schema_string if schema is None else schema
    configuration = {**now.configuration, **values.pop("configuration", {})}
    return msgspec.structs.replace(now, schema_string=text, configuration=configuration, **values)


def typed(table: Table, name: str, kind: str) -> Metadata:
    """The metadata with another type of a column."""
    decoded = msgspec.json.decode(str(table.snapshot().metadata.schema_string))
    next(field for field in decoded["fields"] if field["name"] == name)["type"] = kind
    return changed(table, schema_string(parse_schema(decoded)))


def by_set_metadata(catalog: Catalog, table: Table) -> None:
    with catalog.transaction() as tx:
        tx.set_metadata("t", schema="id string, day string")


def by_stage(catalog: Catalog, table: Table) -> None:
    with catalog.transaction() as tx:
        tx.stage("t", [typed(table, "id", "string")])


def by_exact_version(catalog: Catalog, table: Table) -> None:
    catalog.writer.commit_at("t", table.info().head + 1, [typed(table, "id", "string")])


def by_large_commit(catalog: Catalog, table: Table) -> None:
    actions: list[Action] = [typed(table, "id", "string"), *MANY]
    with catalog.transaction() as tx:
        tx.stage("t", iter(actions))


def by_lines(catalog: Catalog, table: Table, *beside: Add) -> None:
    told = CommitInfo(operation="WRITE", in_commit_timestamp=table.snapshot().timestamp + 1)
    with catalog.transaction() as tx:
        lines = encode_commit([told, *beside, typed(table, "id", "string")])
        tx.stage_lines("t", lines, at_version=table.info().head + 1)


def by_many_lines(catalog: Catalog, table: Table) -> None:
    by_lines(catalog, table, *MANY)


ROADS = [by_set_metadata, by_stage, by_exact_version, by_large_commit, by_lines, by_many_lines]


@pytest.mark.parametrize("road", ROADS)
def test_every_road_refuses_what_the_files_of_a_table_cannot_follow(
    catalog: Catalog, table: Table, road: Callable[[Catalog, Table], None]
) -> None:
    with pytest.raises(InvalidAction) as caught:
        road(catalog, table)
    assert (caught.value.rule, caught.value.table) == ("metaData.change.type", "t")
    assert table.info().head == 1


@pytest.mark.parametrize("road", ROADS)
def test_every_road_takes_it_where_the_table_has_no_files(
    catalog: Catalog, table: Table, road: Callable[[Catalog, Table], None]
) -> None:
    table.remove([file.path for file in FILES])
    road(catalog, table)
    assert table.info().head == 3


def test_adding_a_column_that_rows_cannot_be_without_is_refused_inside_a_struct_too(table: Table) -> None:
    with pytest.raises(InvalidAction) as caught:
        table.alter(columns=["s struct<x: int not null>"])
    assert caught.value.rule == "metaData.change.added-not-null"
    table.alter(columns=["s struct<x: int>"])


def test_an_append_that_comes_in_between_counts(catalog: Catalog) -> None:
    """The table had no file when the change was computed, and has one when it commits."""
    table = create(catalog)
    tx = catalog.transaction()
    tx.set_metadata("t", schema="id string, day string")
    table.append(FILES)
    with pytest.raises(InvalidAction) as caught:
        tx.commit()
    assert caught.value.rule == "metaData.change.type"


def overwrite(files: list[Add], metadata: Metadata, added: list[Add]) -> list[Action]:
    return [metadata, *(remove_of(file) for file in files), *added]


@pytest.mark.parametrize("added", [PARTITIONED[:2], PARTITIONED], ids=["small", "staged"])
def test_an_overwrite_changes_types_and_partitioning(catalog: Catalog, table: Table, added: list[Add]) -> None:
    metadata = msgspec.structs.replace(typed(table, "id", "string"), partition_columns=["day"])
    with catalog.transaction() as tx:
        tx.stage("t", overwrite(FILES, metadata, added))
    assert paths(table) == sorted(file.path for file in added)
    assert table.snapshot().metadata.partition_columns == ["day"]
    plain = msgspec.structs.replace(metadata, partition_columns=[])
    with catalog.transaction() as tx:  # the files that are removed have values of partition columns that are gone
        tx.stage("t", overwrite(added, plain, FILES))
    assert table.snapshot().metadata.partition_columns == []
    assert table.snapshot(version=1).files().num_rows == len(FILES)


@pytest.mark.parametrize("added", [MANY[:2], MANY], ids=["small", "staged"])
def test_an_overwrite_that_leaves_a_file_is_none(catalog: Catalog, table: Table, added: list[Add]) -> None:
    for kept in ([], FILES[:1]):  # not removed; added again
        with pytest.raises(InvalidAction) as caught, catalog.transaction() as tx:
            tx.stage("t", overwrite(FILES[1:], typed(table, "id", "string"), [*added, *kept]))
        assert caught.value.rule == "metaData.change.type"


def test_an_overwrite_that_an_append_comes_before_is_none(catalog: Catalog, table: Table) -> None:
    actions = overwrite(FILES, typed(table, "id", "string"), MANY[:2])
    table.append([MANY[5]])
    with pytest.raises(InvalidAction) as caught, catalog.transaction() as tx:
        tx.stage("t", actions)
    assert caught.value.rule == "metaData.change.type"


def restored(
    catalog: Catalog, table: Table, metadata: Metadata, *, removes: list[Add], adds: list[Add], operation: str
) -> None:
    """Complete lines of another engine that bring earlier metadata back."""
    told = CommitInfo(operation=operation, in_commit_timestamp=table.snapshot().timestamp + 1)
    lines = encode_commit([told, metadata, *map(remove_of, removes), *adds])
    with catalog.transaction() as tx:
        tx.stage_lines("t", lines, at_version=table.info().head + 1)


@pytest.mark.parametrize("again", [FILES[:1], MANY], ids=["small", "large"])
def test_a_stock_restore_goes_back_past_a_column_that_no_file_has(
    catalog: Catalog, table: Table, again: list[Add]
) -> None:
    """Delta Spark restores across ADD COLUMN; the files that are left, or come back, are from before it."""
    early = add("early", stats='{"numRecords":1}')
    table.append([early, *(file for file in again if file not in FILES)])
    before, late = table.snapshot().metadata, add("late", stats='{"numRecords":1}')
    table.alter(columns="more int")
    table.append([late])
    table.remove([file.path for file in again])
    act = partial(restored, catalog, table, before)
    refused: list[tuple[list[Add], list[Add], str]] = [
        ([], again, "RESTORE"),
        ([FILES[1]], again, "RESTORE"),
        ([late], again, "WRITE"),
        ([late], [*again, add("new", stats='{"numRecords":1}')], "RESTORE"),
    ]
    for removes, adds, operation in refused:
        with pytest.raises(InvalidAction, match="more is gone") as caught:
            act(removes=removes, adds=adds, operation=operation)
        assert caught.value.table == "t"
    act(removes=[late], adds=again, operation="RESTORE")
    assert table.snapshot().metadata.schema_string == before.schema_string
    assert paths(table) == sorted({file.path for file in (early, *FILES, *again)})


def test_a_stock_restore_takes_deletion_vectors_back(catalog: Catalog) -> None:
    table = create(catalog, properties={"delta.enableDeletionVectors": "true"})
    table.append(FILES)
    before, late = table.snapshot().metadata, add("late", stats='{"numRecords":1}')
    table.alter(columns="more int")
    table.append([late])
    vector = DeletionVector(storage_type="u", path_or_inline_dv="ab" * 10, offset=1, size_in_bytes=40, cardinality=1)
    deleted = msgspec.structs.replace(FILES[0], deletion_vector=vector)
    with catalog.transaction() as tx:
        tx.stage("t", [remove_of(FILES[0]), deleted], read_version=table.info().head)
    restored(catalog, table, before, removes=[deleted, late], adds=[FILES[0]], operation="RESTORE")
    assert paths(table) == [file.path for file in FILES]


def test_a_stock_restore_to_columns_that_the_table_never_had_is_refused(catalog: Catalog, table: Table) -> None:
    table.alter(columns="more int")
    with pytest.raises(InvalidAction):
        restored(catalog, table, typed(table, "id", "string"), removes=[], adds=[], operation="RESTORE")


def test_a_stock_restore_keeps_the_rules_that_are_not_about_columns(catalog: Catalog) -> None:
    """Ids of columns that were dropped stay taken, and the table stays the one that it is."""
    table = create(catalog, properties={"delta.columnMapping.mode": "name"})
    table.append(FILES)
    before = table.snapshot().metadata
    table.alter(columns="more int")
    forgotten = msgspec.structs.replace(
        before, configuration={**before.configuration, "delta.columnMapping.maxColumnId": "1"}
    )
    tracked = msgspec.structs.replace(before, configuration={**before.configuration, **ROW_TRACKING})
    for metadata in (forgotten, tracked, msgspec.structs.replace(before, id="00000000-0000-0000-0000-000000000000")):
        with pytest.raises(InvalidAction):
            restored(catalog, table, metadata, removes=[], adds=[], operation="RESTORE")
    highest = table.snapshot().metadata.configuration["delta.columnMapping.maxColumnId"]
    kept = {**before.configuration, "delta.columnMapping.maxColumnId": highest}
    back = msgspec.structs.replace(before, configuration=kept)
    restored(catalog, table, back, removes=[], adds=[], operation="RESTORE")
    assert table.snapshot().metadata == back


def test_row_tracking_is_enabled_once_every_file_has_ids(catalog: Catalog, table: Table) -> None:
    tracked = changed(table, configuration=ROW_TRACKING)
    protocol = upgrade(table.snapshot().protocol, ["rowTracking"])
    with pytest.raises(InvalidAction) as caught, catalog.transaction() as tx:
        tx.stage("t", [tracked, protocol])
    assert caught.value.rule == "metaData.change.row-tracking"
    with catalog.transaction() as tx:
        tx.upgrade_protocol("t", "rowTracking")
    table.append([msgspec.structs.replace(file, data_change=False) for file in FILES[1:]])
    with pytest.raises(InvalidAction), catalog.transaction() as tx:
        tx.stage("t", [tracked])
    table.append([msgspec.structs.replace(FILES[0], data_change=False)])
    with catalog.transaction() as tx:
        tx.stage("t", [tracked])
    assert [file["base_row_id"] for file in table.snapshot().files().to_pylist()].count(None) == 0


def test_demands_on_rows_need_a_word_on_every_road_that_they_were_checked(catalog: Catalog, table: Table) -> None:
    demand = {"delta.constraints.positive": "id > 0"}
    roads: list[Callable[[Transaction], object]] = [
        lambda tx: tx.set_metadata("t", properties=demand),
        lambda tx: tx.stage("t", [changed(table, configuration=demand), protocol_of(table, "checkConstraints")]),
    ]
    for road in roads:
        with pytest.raises(InvalidAction) as caught, catalog.transaction() as tx:
            road(tx)
        assert caught.value.rule == "metaData.change.rows-unchecked"
    with catalog.transaction(rows_checked=True) as tx:
        tx.set_metadata("t", properties=demand)
    assert info_of(table, 2)["isBlindAppend"] is False  # as Delta Lake on Spark says: it has read the rows


def protocol_of(table: Table, feature: str) -> Protocol:
    return upgrade(table.snapshot().protocol, [feature])


def test_rows_that_come_in_while_others_are_checked_are_not_taken_for_checked(catalog: Catalog, table: Table) -> None:
    tx = catalog.transaction(rows_checked=True)
    tx.set_metadata("t", properties={"delta.constraints.positive": "id > 0"})
    table.append(MANY[:1])
    with pytest.raises(Conflict) as caught:
        tx.commit()
    assert caught.value.reason == "concurrent-append"


def mapped_table(catalog: Catalog, mode: str = "name") -> Table:
    made = create(catalog, properties={"delta.columnMapping.mode": mode})
    made.append(FILES)
    return made


def fields_of(table: Table) -> dict[str, Field]:
    return {field.name: field for field in table.snapshot().schema.fields}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_keep_their_ids_and_physical_names_when_a_schema_is_given_in_words(catalog: Catalog, mode: str) -> None:
    table = mapped_table(catalog, mode)
    before = fields_of(table)
    with catalog.transaction() as tx:
        tx.set_metadata("t", schema="day string, id long, amount double")
    after = fields_of(table)
    assert {name: after[name] for name in before} == before
    assert after["amount"].metadata["delta.columnMapping.id"] == 3


def test_a_column_that_is_dropped_and_added_again_does_not_bring_its_data_back(catalog: Catalog) -> None:
    table = create(catalog)
    table.append(FILES)
    table.alter(properties={"delta.columnMapping.mode": "name"})
    assert fields_of(table)["day"].physical_name == "day"
    for schema in ("id long", "id long, day string"):
        with catalog.transaction() as tx:
            tx.set_metadata("t", schema=schema)
    assert fields_of(table)["day"].physical_name != "day"
    assert fields_of(table)["day"].metadata["delta.columnMapping.id"] == 3


def test_a_mapped_column_that_gets_another_physical_name_is_refused(catalog: Catalog) -> None:
    table = mapped_table(catalog)
    fields = table.snapshot().schema.fields
    wrong = Field("id", fields[0].type, metadata={**fields[0].metadata, "delta.columnMapping.physicalName": "other"})
    with pytest.raises(InvalidAction) as caught, catalog.transaction() as tx:
        tx.stage("t", [changed(table, schema_string(StructType((wrong, *fields[1:]))))])
    assert caught.value.rule == "metaData.change.physical-name"


def test_versions_that_are_in_a_log_come_in_whatever_they_change_and_ours_is_held_against_them(
    lake: Catalog, tmp_path: Path
) -> None:
    """Readers of the log have them already. A commit of ours that goes after them has to fit the files they left."""
    table = make_table(lake, tmp_path, properties=PLAIN)
    with mirroring(lake) as engine:
        mirror(engine)
        with lake.transaction() as tx:
            tx.set_metadata("t", schema="id string")
        their_commit(table, 1, add_line("theirs"), isBlindAppend=True)
        done = adopted(engine, drop_conflicting=True)
        assert "keeps the types of its columns" in done.dropped[0].reason
        theirs = typed(table, "id", "string")
        their_commit(table, 2, msgspec.json.decode(encode_commit([theirs])))
        adopted(engine)
    assert table.snapshot().metadata == theirs


def test_a_partition_column_is_renamed_under_column_mapping(lake: Catalog, tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = lake.create_table(
        "renamed", location=tmp_path / "t", schema="id long, p string", partition_by=["p"], properties=mapped
    )
    schema = table.snapshot().schema
    fields = tuple(replace(column, name="q") if column.name == "p" else column for column in schema.fields)
    with lake.transaction(operation="RENAME COLUMN") as tx:
        tx.set_metadata("renamed", schema=replace(schema, fields=fields))
    assert table.snapshot().metadata.partition_columns == ["q"]
