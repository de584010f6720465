"""The columns of checkpoints: every leaf of the typed ones, and every field of every action, changed in turn."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog
from deltamirror.config import StorageSettings
from deltamirror.delta.schema import from_ddl
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.ops.validate.columns import ACTIONS
from deltamirror.ops.validate.validating import validate_file
from deltamirror.storage.open import store_at
from tests.support.mirrors.local import local_settings, mirror_of

pytestmark = pytest.mark.requirement("R68")

NOON = dt.datetime(2024, 5, 1, 12, 0, 0, 123_000, tzinfo=dt.UTC)
SCHEMA = (
    "p_text string, p_long bigint, p_double double, p_truth boolean, p_day date, p_time timestamp,"
    " p_clock timestamp_ntz, p_amount decimal(10,2), id bigint, small smallint, ratio double, narrow float,"
    " name string, day date, time timestamp, clock timestamp_ntz, amount decimal(10,2), place struct<x: int, y: string>"
)
PARTITIONS = ["p_text", "p_long", "p_double", "p_truth", "p_day", "p_time", "p_clock", "p_amount"]
VALUES: Mapping[str, Any] = {
    "text": "a",
    "long": 7,
    "double": 1.5,
    "truth": True,
    "day": NOON.date(),
    "time": NOON,
    "clock": NOON.replace(tzinfo=None),
    "amount": Decimal("1.50"),
}
ROW = {
    **{name: VALUES[name.removeprefix("p_")] for name in PARTITIONS},
    **{name: VALUES[name] for name in ("day", "time", "clock", "amount")},
    "id": 7,
    "small": 7,
    "ratio": 1.5,
    "narrow": 1.5,
    "name": "ann",
    "place": {"x": 7, "y": "ann"},
}
STATS, MISSING = "checkpoint.stats-parsed.differing", "checkpoint.stats-parsed.missing"
PARTITION = "checkpoint.partition-values-parsed.differing"
TYPED = {"stats_parsed": STATS, "partitionValues_parsed": PARTITION}


Leaf = tuple[str, ...]
Rows = list[dict[str, Any]]


def checkpointed(folder: Path, policy: str) -> Path:
    """The first checkpoint of a table with values of all types: its file, or its sidecar."""
    properties = {"delta.checkpointInterval": "2", "delta.checkpointPolicy": policy}
    with Catalog(f"sqlite:///{folder / 'lake.db'}", settings=local_settings()) as catalog:
        catalog.init()
        where = str(folder / "t")
        table = catalog.create_table("t", location=where, schema=SCHEMA, partition_by=PARTITIONS, properties=properties)
        for _ in range(2):
            table.append(pa.Table.from_pylist([ROW], schema=to_arrow(from_ddl(SCHEMA))))
        with mirror_of(catalog) as engine:
            assert engine.run(once=True).failures == []
    [found] = (folder / "t" / "_delta_log").glob("_sidecars/*" if policy == "v2" else "*.checkpoint.parquet")
    return found


@pytest.fixture(scope="module", params=["classic", "v2"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a checkpoint that has adds."""
    return checkpointed(tmp_path_factory.mktemp(request.param), request.param)


def with_zones(kind: pa.DataType, path: str = "") -> pa.DataType:
    """The types of a checkpoint's columns, with the zone that INT96 does not tell."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, with_zones(each.type, each.name)) for each in kind])
    return pa.timestamp("us", "UTC" if path.endswith("time") else None) if pa.types.is_timestamp(kind) else kind


def rules_of(path: Path, table: pa.Table) -> set[str]:
    """The rules that a file of these rows breaks by itself."""
    pq.write_table(table, path)
    return set(validate_file(store_at(str(path.parent), StorageSettings()), path.name).counts)


def typed_leaves(value: object, path: Leaf) -> Iterator[Leaf]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from typed_leaves(inner, (*path, name))
    elif value is not None:
        yield path


def value_at(row: Mapping[str, Any], path: Leaf) -> Any:
    for name in path:
        row = row[name]
    return row


def replaced(row: Mapping[str, Any], path: Leaf, value: object) -> dict[str, Any]:
    name, *rest = path
    return {**row, name: replaced(row[name], tuple(rest), value) if rest else value}


def moved(value: Any, direction: int) -> object:
    """A value below or above another one of its type."""
    match value:
        case bool():
            return not value
        case str():
            return f"{value}z" if direction > 0 else value[:-1]
        case dt.date():
            return value + direction * dt.timedelta(days=1)
        case _:
            return value + direction


def last_add(rows: Rows) -> int:
    return max(place for place, row in enumerate(rows) if row["add"])


def broken_cells(path: Path, table: pa.Table) -> set[tuple[str, str]]:
    """The rules that a file of these rows breaks by itself, with the fields."""
    pq.write_table(table, path)
    found = validate_file(store_at(str(path.parent), StorageSettings()), path.name).findings
    return {(each.rule, each.field) for each in found}


def read_with_zones(checkpoint: Path) -> pa.Table:
    table = pq.ParquetFile(checkpoint, coerce_int96_timestamp_unit="us").read()
    return table.cast(pa.schema([each.with_type(with_zones(each.type)) for each in table.schema]))


def test_every_typed_value_that_leaves_out_what_its_text_includes_is_found(checkpoint: Path, tmp_path: Path) -> None:
    table = read_with_zones(checkpoint)
    rows = table.to_pylist()
    place = last_add(rows)
    leaves = [leaf for name in TYPED for leaf in typed_leaves(rows[place]["add"][name], ("add", name))]
    assert len(leaves) == len(PARTITIONS) + 1 + 3 * 11

    def broken(change: Callable[[Any], object]) -> set[tuple[str, str]]:
        changed = rows[place]
        for leaf in leaves:
            changed = replaced(changed, leaf, change(value_at(changed, leaf)))
        some = [*rows[:place], changed, *rows[place + 1 :]]
        return broken_cells(tmp_path / "x.parquet", pa.Table.from_pylist(some, table.schema))

    def cells(rules: Mapping[str, str], wider: str = "") -> set[tuple[str, str]]:
        return {(rules[leaf[1]], ".".join(leaf)) for leaf in leaves if leaf[2] != wider}

    assert broken(lambda value: value) == set()
    assert broken(lambda _: None) == cells({**TYPED, "stats_parsed": MISSING})
    # A bound that is wider than its text loses no row.
    assert broken(lambda value: moved(value, -1)) == cells(TYPED, wider="minValues")
    assert broken(lambda value: moved(value, 1)) == cells(TYPED, wider="maxValues")


@pytest.mark.parametrize(
    ("leaf", "value"),
    [
        (("minValues", "time"), VALUES["time"] + dt.timedelta(microseconds=999)),
        (("maxValues", "clock"), VALUES["clock"] - dt.timedelta(microseconds=999)),
        (("minValues", "name"), "an"),
        (("maxValues", "ratio"), float("nan")),
    ],
)
def test_a_bound_that_a_writer_derives_in_its_own_way_is_in_order(
    checkpoint: Path, tmp_path: Path, leaf: Leaf, value: object
) -> None:
    table = read_with_zones(checkpoint)
    rows = table.to_pylist()
    place = last_add(rows)
    rows[place] = replaced(rows[place], ("add", "stats_parsed", *leaf), value)
    assert rules_of(tmp_path / "x.parquet", pa.Table.from_pylist(rows, table.schema)) == set()


def test_a_lower_bound_that_is_no_number_is_above_all_others(checkpoint: Path, tmp_path: Path) -> None:
    table = pq.read_table(checkpoint)
    rows = table.to_pylist()
    place = last_add(rows)
    rows[place] = replaced(rows[place], ("add", "stats_parsed", "minValues", "ratio"), float("nan"))
    assert rules_of(tmp_path / "x.parquet", pa.Table.from_pylist(rows, table.schema)) == {STATS}


@pytest.mark.parametrize("text", ["-9.99e+20", "1e-7", "1000000000000000000"])
def test_a_decimal_that_delta_rs_cannot_read_may_be_missing(tmp_path: Path, text: str) -> None:
    stats = f'{{"numRecords":1,"minValues":{{"amount":{text}}}}}'
    bounds = pa.struct([pa.field("amount", pa.decimal128(38, 10))])
    parsed = pa.struct([pa.field("numRecords", pa.int64()), pa.field("minValues", bounds)])
    schema = with_fields(
        "add", lambda each: [each, pa.field("stats_parsed", parsed)] if each.name == "stats" else [each]
    ).schema
    add = {"path": "a", "partitionValues": [], "size": 1, "modificationTime": 1, "dataChange": False, "stats": stats}
    row = {"add": {**add, "stats_parsed": {"numRecords": 1, "minValues": {"amount": None}}}}
    assert rules_of(tmp_path / "x.parquet", pa.Table.from_pylist([row], schema)) == set()


def test_a_file_without_a_text_has_nothing_to_be_held_against(checkpoint: Path, tmp_path: Path) -> None:
    table = pq.read_table(checkpoint)
    rows = table.to_pylist()
    place = last_add(rows)
    rows[place] = replaced(rows[place], ("add", "stats"), None)
    assert rules_of(tmp_path / "x.parquet", pa.Table.from_pylist(rows, table.schema)) == set()


def empty_checkpoint() -> pa.Table:
    """A row of nulls, with a column for every action."""
    fields = [pa.field(name, as_nullable(pa.struct(list(to_arrow(kind))))) for name, kind in ACTIONS.items()]
    return pa.Table.from_pylist([{}], pa.schema(fields))


def with_fields(action: str, change: Callable[[pa.Field], list[pa.Field]]) -> pa.Table:
    """An empty checkpoint with other fields in an action."""
    schema = empty_checkpoint().schema
    changed = pa.struct([made for each in schema.field(action).type for made in change(each)])
    return pa.Table.from_pylist(
        [{}], pa.schema([each.with_type(changed) if each.name == action else each for each in schema])
    )


OTHER_TYPES = (pa.string(), pa.binary(), pa.int32(), pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("ms"))


def ill_typed_fields(path: Path, table: pa.Table) -> set[str]:
    return {field for rule, field in broken_cells(path, table) if rule == "checkpoint.schema"}


@pytest.mark.parametrize("action", ACTIONS)
def test_every_field_of_every_action_has_its_type(tmp_path: Path, action: str) -> None:
    path, kinds = (
        tmp_path / "x.parquet",
        {each.name: each.type for each in empty_checkpoint().schema.field(action).type},
    )
    assert ill_typed_fields(path, empty_checkpoint()) == set()
    for other in (*OTHER_TYPES, pa.uint64(), pa.struct([pa.field("x", pa.int64())])):
        wrong = with_fields(action, lambda each, to=other: [each.with_type(to)])  # type: ignore[misc]
        fields = {
            field.rpartition(".")[0] if field.count(".") > 1 else field for field in ill_typed_fields(path, wrong)
        }
        assert fields == {f"{action}.{name}" for name, kind in kinds.items() if kind != other}, other
    twice = with_fields(action, lambda each: [each, each.with_name(each.name.upper())])
    assert ill_typed_fields(path, twice) == {f"{action}.{name}" for each in kinds for name in (each, each.upper())}
    renamed = with_fields(action, lambda each: [each.with_name(f"x{each.name}")])
    needed = {f"{action}.{each.name}" for each in ACTIONS[action].fields if not each.nullable}
    assert ill_typed_fields(path, renamed) == needed


def as_nullable(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, as_nullable(each.type)) for each in kind])
    return kind


@pytest.mark.parametrize("name", ["partitionValues", "size", "modificationTime", "dataChange"])
def test_an_add_that_lacks_what_it_has_to_have_is_found(checkpoint: Path, tmp_path: Path, name: str) -> None:
    table = pq.read_table(checkpoint)
    rows = table.to_pylist()
    place = last_add(rows)
    rows[place] = replaced(rows[place], ("add", name), None)
    changed = pa.Table.from_pylist(rows, table.schema)
    found = rules_of(tmp_path / "x.parquet", changed)
    assert found == {"checkpoint.field.missing"}


@pytest.mark.parametrize("leaf", [("numRecords",), ("nullCount", "id"), ("nullCount", "place", "x")])
def test_counts_of_typed_statistics_are_long(checkpoint: Path, tmp_path: Path, leaf: Leaf) -> None:
    table = pq.read_table(checkpoint)
    schema = retyped(table.schema, ("add", "stats_parsed", *leaf), pa.string())
    rows = [replaced(row, ("add", "stats_parsed", *leaf), "0") if row["add"] else row for row in table.to_pylist()]
    found = rules_of(tmp_path / "x.parquet", pa.Table.from_pylist(rows, schema))
    assert found == {"checkpoint.schema"}


def retyped(schema: pa.Schema, path: Leaf, kind: pa.DataType) -> pa.Schema:
    name, *rest = path
    of_struct = pa.schema(list(schema.field(name).type)) if rest else None
    to = kind if of_struct is None else pa.struct(list(retyped(of_struct, tuple(rest), kind)))
    return pa.schema([each.with_type(to) if each.name == name else each for each in schema])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("add", "path"), pa.large_string()),
        (("protocol", "writerFeatures"), pa.list_(pa.field("item", pa.string(), nullable=False))),
        (("add", "tags"), pa.map_(pa.string(), pa.field("v", pa.large_string(), nullable=False))),
    ],
)
def test_widths_and_names_within_lists_and_maps_are_the_business_of_writers(
    tmp_path: Path, path: Leaf, kind: pa.DataType
) -> None:
    table = empty_checkpoint()
    changed = pa.Table.from_pylist([{}], retyped(table.schema, path, kind))
    assert rules_of(tmp_path / "x.parquet", changed) == {"checkpoint.row.empty"}


def test_a_second_column_of_an_action_is_found(checkpoint: Path, tmp_path: Path) -> None:
    table = pq.read_table(checkpoint)
    again = table.append_column("Add", pa.nulls(table.num_rows, table.schema.field("add").type))
    assert rules_of(tmp_path / "x.parquet", again) == {"checkpoint.schema"}
