"""Slips of a program: what is meant plainly is accepted, everything else is told what it was, and what to do."""

import json
from collections.abc import Callable, Generator, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from deltalake import Schema as DeltaRsSchema
from pyspark.sql import types as spark

from deltamirror import Add, Catalog, MirrorEngine, Remove, Table, Txn
from deltamirror.config import CatalogSettings
from deltamirror.delta.schema import Field, StructType, from_ddl
from deltamirror.errors import DeltaMirrorError, InvalidAction, InvalidInput, InvalidSchema, InvalidSettings, NotFound
from deltamirror.txnlog.database.opening import open_database
from tests.support.lakes.lake import add

COLUMNS = "id long NOT NULL, day date, amounts array<decimal(5,2)>"
JSON_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        {
            "name": "amounts",
            "type": {"type": "array", "elementType": "decimal(5,2)", "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ],
}
SPARK_SCHEMA = spark.StructType(
    [
        spark.StructField("id", spark.LongType(), nullable=False),
        spark.StructField("day", spark.DateType()),
        spark.StructField("amounts", spark.ArrayType(spark.DecimalType(5, 2))),
    ]
)
ARROW_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("day", pa.date32()),
        pa.field("amounts", pa.list_(pa.decimal128(5, 2))),
    ]
)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("slips")
    with pytest.MonkeyPatch.context() as patch, Catalog(f"sqlite:///{folder}/lake.db") as opened:
        patch.chdir(folder)
        opened.init()
        yield opened


@pytest.fixture(scope="module")
def orders(catalog: Catalog) -> Table:
    schema = "id long, day date, at timestamp, paid boolean, price decimal(5,2)"
    return catalog.create_table("orders", location="orders", schema=schema, partition_by=["day", "at", "paid", "price"])


@pytest.fixture
def made(catalog: Catalog) -> Iterator[str]:
    """The name of a table that a test creates; it is gone after the test."""
    yield "made"
    catalog.drop_table("made", unpublished=True)


def file(path: str = "a.parquet", **values: object) -> Add:
    partitions = {"day": None, "at": None, "paid": None, "price": None, **values}
    return add(path, partition_values=partitions)


@pytest.mark.parametrize(
    "schema",
    [
        COLUMNS,
        from_ddl(COLUMNS),
        json.dumps(JSON_SCHEMA),
        JSON_SCHEMA,
        SPARK_SCHEMA,
        SPARK_SCHEMA.json(),
        ARROW_SCHEMA,
        DeltaRsSchema.from_json(json.dumps(JSON_SCHEMA)),
    ],
    ids=["columns", "ours", "JSON", "dict", "Spark", "JSON of Spark", "Arrow", "delta-rs"],
)
def test_a_schema_is_accepted_in_every_form_that_programs_have(catalog: Catalog, made: str, schema: Any) -> None:
    table = catalog.create_table(made, location="made", schema=schema)
    assert table.snapshot().schema == from_ddl(COLUMNS)
    with catalog.transaction() as tx:
        tx.set_metadata(made, schema=schema, description="again")
    assert table.snapshot().schema == from_ddl(COLUMNS)


def test_what_is_meant_plainly_is_accepted(catalog: Catalog, made: str, tmp_path: Path) -> None:
    catalog.create_table(
        made,
        location=tmp_path / "made",
        schema="id long, day date",
        partition_by="day",
        properties={"delta.appendOnly": False, "delta.checkpointInterval": 20},
        features="deletionVectors",
    )
    table = catalog.table(made)
    metadata = table.snapshot().metadata
    assert (table.location, metadata.partition_columns) == (f"file://{tmp_path}/made", ["day"])
    assert metadata.configuration["delta.appendOnly"] == "false"
    assert metadata.configuration["delta.checkpointInterval"] == "20"
    single = add("one.parquet", partition_values={"day": "2024-05-01"})
    table.append(single)
    table.append(
        {"path": "two.parquet", "partition_values": {"day": date(2024, 5, 2)}, "size": 1, "modificationTime": 1}
    )
    table.append(
        pd.DataFrame({"path": ["three"], "size": [1], "modification_time": [1], "partition_values": ['{"day":null}']})
    )
    table.remove("one.parquet")
    with catalog.transaction(metrics={"numFiles": 1}) as tx:
        tx.stage(made, Txn(app_id="loader", version=1))
        tx.read(made, files="two.parquet")
    assert sorted(each.path for each in table.snapshot(as_of=date(2999, 1, 1)).adds()) == ["three", "two.parquet"]
    with pytest.raises(DeltaMirrorError, match="was not published within"):
        catalog.wait_until_published(tx.result, seconds=timedelta(0))


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("day", date(2024, 5, 1), "2024-05-01"),
        ("day", np.datetime64("2024-05-01"), "2024-05-01"),
        ("at", datetime(2024, 5, 1, 12, tzinfo=UTC), "2024-05-01T12:00:00.000000Z"),
        ("at", pd.Timestamp("2024-05-01T12:00:00Z"), "2024-05-01T12:00:00.000000Z"),
        ("paid", True, "true"),
        ("paid", np.bool_(False), "false"),
        ("price", Decimal("1.50"), "1.50"),
        ("day", np.str_("2024-05-01"), "2024-05-01"),
        ("day", None, None),
    ],
)
@pytest.mark.parametrize("road", ["append", "stage", "mapping"])
def test_a_partition_value_of_python_is_spelled_as_the_log_does(
    orders: Table, catalog: Catalog, column: str, value: Any, text: str | None, road: str
) -> None:
    given = file(**{column: value})
    with catalog.transaction(token=uuid4().hex) as tx:
        if road == "stage":
            tx.stage("orders", [given])
        elif road == "append":
            tx.append("orders", [given])
        else:
            fields = {"partitionValues": given.partition_values, "size": 1, "modificationTime": given.modification_time}
            tx.append("orders", [{"path": "a.parquet", **fields}])
    [found] = orders.snapshot().adds()
    orders.remove([found])
    assert found.partition_values[column] == text


@pytest.mark.parametrize("value", [object(), ["2024-05-01"], {"a": 1}, b"\xff", pd.NaT])
def test_a_partition_value_that_has_no_spelling_is_refused_and_not_null(orders: Table, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"action 1 \(add\), partitionValues.day"):
        orders.append([file(day=value)])


Act = Callable[[Any], object]
"""Of a catalog; a type checker would find the slips."""
MADE: dict[str, Any] = {"location": "made", "schema": "id long"}
SLIPS: dict[str, tuple[Act, str, str]] = {
    "files(3)": (lambda c: c.table("orders").snapshot().files(3), "partitions has to be a mapping", "partitions={"),
    "files({3: x})": (lambda c: c.table("orders").snapshot().files({3: "x"}), "each key of partitions", "each key"),
    "files(day=[[x]])": (lambda c: c.table("orders").snapshot().files({"day": [["x"]]}), "a value of the col", "dates"),
    "append(surrogate)": (
        lambda c: c.table("orders").append(msgspec.structs.replace(file(), stats='{"a":"\ud800"}')),
        "without a UTF-8 form",
        "UTF-8",
    ),
    "Catalog(driver)": (lambda c: Catalog("sqlite+aiosqlite:///l.db"), "is not a catalog URL", "sqlite:///FILE"),
    "append(None)": (lambda c: c.table("orders").append(None), "not an add: None was given", "Add values"),
    "append(path)": (lambda c: c.table("orders").append("a.parquet"), "'a.parquet'", "a path says too little"),
    "append([path])": (lambda c: c.table("orders").append(["a.parquet"]), "'a.parquet'", "a path says too little"),
    "append(Path)": (lambda c: c.table("orders").append(Path("a.parquet")), "PosixPath", "a path says too little"),
    "append(bytes)": (lambda c: c.table("orders").append(b"x"), "bytes was given", "a path says too little"),
    "append(rows)": (lambda c: c.table("orders").append(pa.table({"x": [1]})), "column 'x', which the", "there are: "),
    "append(batch)": (
        lambda c: c.table("orders").append(pa.record_batch({"x": [1]})),
        "column 'x', which the",
        "there are: ",
    ),
    "append(pandas)": (
        lambda c: c.table("orders").append(pd.DataFrame({"x": [1]})),
        "column 'x', which the",
        "there are: ",
    ),
    "append([Remove])": (lambda c: c.table("orders").append([Remove(path="a", data_change=True)]), "a Remove", "Add"),
    "append(5)": (lambda c: c.table("orders").append(5), "5 (int)", "Add values"),
    "append(wrong field)": (
        lambda c: c.table("orders").append({"path": "a", "size": 1, "modificationTime": 1, "stat": "{}"}),
        "no field 'stat'",
        "docs/reference/actions.md",
    ),
    "remove(None)": (lambda c: c.table("orders").remove(None), "files has to be a list of paths, not None", "files=["),
    "remove(listing)": (
        lambda c: c.table("orders").remove(c.table("orders").snapshot().files()),
        "has to be a path",
        "column('path').to_pylist()",
    ),
    "remove([Path])": (lambda c: c.table("orders").remove([Path("a")]), "not a PosixPath", "give paths"),
    "token=123": (lambda c: c.transaction(token=123), "token has to be a text, not 123 (int)", 'token="…"'),
    "properties={…: None}": (
        lambda c: c.create_table("made", **MADE, properties={"delta.appendOnly": None}),
        "properties['delta.appendOnly'] has to be a text, not None",
        "'true'",
    ),
    "properties=[…]": (
        lambda c: c.create_table("made", **MADE, properties=["delta.appendOnly"]),
        "properties has to be a mapping",
        "properties={",
    ),
    "partition_by='a, b'": (
        lambda c: c.create_table("made", location="made", schema="a long, b long, c long", partition_by="a, b"),
        "there is no column 'a, b'",
        'partition_by=["a", "b"]',
    ),
    "partition_by=5": (lambda c: c.create_table("made", **MADE, partition_by=5), "partition_by", "partition_by=["),
    "location=None": (lambda c: c.create_table("made", location=None, schema="id long"), "location has", "location="),
    "name=None": (lambda c: c.create_table(None, **MADE), "name has to be a text", "name="),
    "schema=rows": (
        lambda c: c.create_table("made", location="made", schema=pa.table({"id": [1]})),
        "schema has to be a schema, not a Table",
        "of Arrow data, its schema",
    ),
    "schema=list": (
        lambda c: c.create_table("made", location="made", schema=["id long"]),
        "not a list",
        "a schema of Spark or Arrow",
    ),
    "schema=type": (lambda c: c.create_table("made", location="made", schema=spark.LongType()), "struct", "struct"),
    "schema=Field(text)": (
        lambda c: c.create_table("made", location="made", schema=StructType((Field("id", "long"),))),  # type: ignore[arg-type]  # the very slip
        "not made of fields and types",
        'Primitive("long")',
    ),
    "version='1'": (lambda c: c.table("orders").snapshot("1"), "version has to be a whole number, not '1'", "int"),
    "version=1.0": (lambda c: c.table("orders").commit_file(1.0), "version has to be a whole number", "int"),
    "version=True": (lambda c: c.table("orders").snapshot(True), "version has to be a whole number", "int"),
    "as_of=1.5": (lambda c: c.table("orders").snapshot(as_of=1.5), "as_of has to be a time", "2024-05-01T12:00:00Z"),
    "limit='3'": (lambda c: c.table("orders").history("3"), "limit has to be a whole number", "int"),
    "columns=5": (lambda c: c.table("orders").alter(columns=5), "columns has to be a list of texts", "columns=["),
    "rows_checked='yes'": (lambda c: c.transaction(rows_checked="yes"), "rows_checked has to be True or", "=True"),
    "parameters={…: object}": (lambda c: c.transaction(parameters={"a": object()}), "as JSON", "texts, numbers"),
    "a near name": (lambda c: c.table("Order"), "there is no table 'Order'", "did you mean 'orders'?"),
    "a table, not its name": (lambda c: c.transaction().append(c.table("orders"), []), "not a Table", "its name"),
    "stage(dict)": (lambda c: c.transaction().stage("orders", {"add": {}}), "list of actions, not a dict", "actions="),
    "stage_lines(None)": (
        lambda c: c.transaction().stage_lines("orders", None, at_version=1),
        "lines has to be a list",
        "lines=",
    ),
    "set_transaction(int)": (lambda c: c.transaction().set_transaction("orders", 5, 1), "app_id has to", 'app_id="…"'),
    "set_domain(dict)": (
        lambda c: c.transaction().set_domain("orders", "mine", {"a": 1}),
        "configuration has to be a text, not a dict",
        "JSON",
    ),
    "read(partitions=text)": (
        lambda c: c.transaction().read("orders", partitions="day"),
        "partitions has to be a list of mappings",
        "partitions=",
    ),
    "read(partitions={…: object})": (
        lambda c: c.transaction().read("orders", partitions={"day": [object()]}),
        "partitions['day']",
        "None for null",
    ),
    "wait(version)": (lambda c: c.wait_until_published(3, seconds=1), "versions has to be a mapping", "versions={"),
    "mirror(version='1')": (lambda c: engine(c).mirror("orders", "1"), "version has to be a whole number", "int"),
    "status(Table)": (lambda c: engine(c).status(c.table("orders")), "table has to be a text, not a Table", "name"),
    "run(once=1)": (lambda c: engine(c).run(once=1), "once has to be True or False", "once=True"),
    "run(observe=5)": (lambda c: engine(c).run(once=True, observe=5), "observe has to be a function", "outcome"),
    "settings={}": (
        lambda c: Catalog(settings={}),  # type: ignore[arg-type]  # the very slip
        "settings has to be a Settings, not a dict",
        "config.load",
    ),
    "url=bytes": (
        lambda c: Catalog(b"sqlite:///lake.db"),  # type: ignore[arg-type]  # the very slip
        "url has to be a text, not a bytes",
        "sqlite:///FILE",
    ),
    "database=url": (
        lambda c: MirrorEngine(database="sqlite:///x"),  # type: ignore[arg-type]  # the very slip
        "database has to be a Database",
        "url",
    ),
    "runner=text": (
        lambda c: MirrorEngine(runner="local"),  # type: ignore[arg-type]  # the very slip
        "runner has to be a Runner",
        "mirror.runner",
    ),
}


def engine(catalog: Catalog) -> Any:
    return MirrorEngine(database=catalog.database, runner=NoRunner())


class NoRunner:
    """Runs nothing: a slip is found before anything is run."""

    def start(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return True

    def run(self, units: object) -> Generator[Any]:
        raise AssertionError(units)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_told_what_it_was_and_what_to_do(catalog: Catalog, orders: Table, slip: str) -> None:
    act, message, hint = SLIPS[slip]
    with pytest.raises(DeltaMirrorError) as caught:
        act(catalog)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert isinstance(caught.value, InvalidInput | NotFound)


def test_a_schema_that_is_none_is_an_invalid_schema(catalog: Catalog) -> None:
    with pytest.raises(InvalidSchema, match="not None"):
        catalog.create_table("made", location="made", schema=None)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "duckdb://", "duckdb:///"])
def test_a_catalog_url_without_a_file_is_no_catalog_in_memory(url: str) -> None:
    with pytest.raises(InvalidSettings, match="names no file"):
        Catalog(url)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("lake.db", "sqlite:///lake.db"),
        ("data/lake.duckdb", "duckdb:///data/lake.duckdb"),
        (Path("lake.db"), "sqlite:///lake.db"),
        ("user:secret@host/lake.db", "postgresql://USER@HOST/DATABASE"),
        ("mysql://host/lake", "postgresql://USER@HOST/DATABASE"),
    ],
)
def test_what_is_no_catalog_url_is_told_the_url_that_was_meant(url: Any, hint: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Catalog(url)
    assert hint in caught.value.hint
    assert "secret" not in f"{caught.value.message}{caught.value.hint}"


def test_the_old_scheme_of_postgresql_is_the_same_database() -> None:
    old, new = (
        open_database(CatalogSettings(url=f"{scheme}://me@nowhere/lake")) for scheme in ("postgres", "postgresql")
    )
    assert old.engine.url == new.engine.url


@pytest.mark.parametrize("token", [None, "one"])
@pytest.mark.parametrize("wrong", [{"path": object()}, {"size": "1"}, {"partition_values": [1]}])
def test_an_action_with_a_field_of_a_wrong_type_is_refused_with_and_without_a_token(
    orders: Table, token: str | None, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidAction) as caught:
        orders.append(msgspec.structs.replace(file(), **wrong), token=token)
    assert "docs/reference/actions.md" in caught.value.hint
