"""Whatever object a program puts into whatever parameter: it is accepted, or refused by an error of ours."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from deltamirror import Add, Catalog, Delete, Insert, MirrorEngine, Table, Transaction
from deltamirror.errors import DeltaMirrorError, Internal
from tests.support.lakes.lake import add
from tests.support.mirrors.local import local_settings
from tests.support.spark.frames import DataFrame

pytestmark = pytest.mark.requirement("R82")


class Colour(Enum):
    """A member is neither a text nor a number."""

    RED = 1


class Closed:
    """Says itself that it cannot be gone through, and has no length."""

    __iter__ = None
    __len__ = None


def _circle() -> dict[str, object]:
    circle: dict[str, object] = {}
    circle["a"] = circle
    return circle


JUNK: dict[str, Callable[[], object]] = {
    "None": lambda: None,
    "True": lambda: True,
    "zero": lambda: 0,
    "one": lambda: 1,
    "huge": lambda: 2**70,
    "float": lambda: 1.5,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "empty text": lambda: "",
    "text": lambda: "x",
    "bytes": lambda: b"x\xff",
    "bytearray": lambda: bytearray(b"x"),
    "memoryview": lambda: memoryview(b"x"),
    "empty list": list,
    "list of None": lambda: [None],
    "list of numbers": lambda: [1, 2],
    "list of texts": lambda: ["x", "y"],
    "list of lists": lambda: [["x"]],
    "tuple": lambda: ("x", 1),
    "set": lambda: {"x"},
    "empty dict": dict,
    "dict": lambda: {"a": None},
    "dict of objects": lambda: {"a": object()},
    "dict of numbers": lambda: {1: 2},
    "dict of itself": _circle,
    "generator": lambda: (each for each in (object(),)),
    "range": lambda: range(2),
    "object": object,
    "class": lambda: dict,
    "function": lambda: len,
    "ellipsis": lambda: ...,
    "date": lambda: date(2024, 5, 1),
    "datetime": lambda: datetime(2024, 5, 1, tzinfo=UTC),
    "far datetime": lambda: datetime.max,  # noqa: DTZ901 - a program may have it
    "timedelta": lambda: timedelta(0),
    "decimal": lambda: Decimal("1.5"),
    "path": lambda: Path("x"),
    "enum": lambda: Colour.RED,
    "exception": lambda: ValueError("x"),
    "closed": Closed,
    "numpy number": lambda: np.int64(1),
    "numpy array": lambda: np.array([1, 2]),
    "numpy texts": lambda: np.array(["x"]),
    "NaT": lambda: pd.NaT,
    "data frame": lambda: pd.DataFrame({"id": [1]}),
    "series": lambda: pd.Series([1]),
    "Arrow table": lambda: pa.table({"id": [1]}),
    "Arrow schema": lambda: pa.schema([("id", pa.duration("s"))]),
    "Arrow array": lambda: pa.array(["x"]),
    "frame of Spark": lambda: DataFrame([pa.table({"id": [1], "x": [1]})]),
    "stream of Spark": lambda: DataFrame([pa.table({"id": [1]})], isStreaming=True),
    "add": lambda: add("x"),
    "wrong add": lambda: Add(path=1, partition_values={1: object()}, size="1", modification_time=None, data_change=2),  # type: ignore[dict-item, arg-type]
    "adds": lambda: [add("x"), object()],
}


@dataclass(slots=True)
class Lake:
    """A catalog in memory, its mirror, a table of names and one of rows."""

    catalog: Catalog
    engine: MirrorEngine
    names: Iterator[int]

    def fresh(self) -> str:
        return f"made{next(self.names)}"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("junk")
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).chdir(folder)
        catalog = stack.enter_context(Catalog("sqlite:///:memory:"))
        catalog.init()
        table = catalog.create_table("t", location="lake/t", schema="id long, day date", partition_by=["day"])
        table.append([add("begun.parquet", partition_values={"day": None})])
        catalog.create_table("rows", location="lake/rows", schema="id long, day date", partition_by=["day"]).append(
            ROWS
        )
        engine = stack.enter_context(MirrorEngine(settings=local_settings(), database=catalog.database))
        yield Lake(catalog, engine, count())


Call = Callable[[Lake, dict[str, Any], tuple[Any, ...]], object]
Good = dict[str, Any]


def _opened(kind: type[Catalog] | type[MirrorEngine]) -> Call:
    def call(lake: Lake, given: Good, _: tuple[Any, ...]) -> None:
        with kind(**given):
            pass

    return call


def _of_catalog(name: str) -> Call:
    return lambda lake, given, more: getattr(lake.catalog, name)(*more, **given)


def _of_table(name: str, table: str = "t") -> Call:
    return lambda lake, given, more: getattr(lake.catalog.table(table), name)(*more, **given)


def _read(call: Call) -> Call:
    """Rows come when they are asked for, and errors with them."""
    return lambda lake, given, more: call(lake, given, more).read_all()  # type: ignore[attr-defined]


def _of_snapshot(name: str) -> Call:
    def call(lake: Lake, given: Good, _: tuple[Any, ...]) -> object:
        return getattr(lake.catalog, name)(**{"taken": lake.catalog.table("rows").snapshot(), **given})

    return call


def _of_engine(name: str) -> Call:
    return lambda lake, given, more: getattr(lake.engine, name)(*more, **given)


def _of_transaction(name: str, token: str | None = None) -> Call:
    """In a transaction that is committed, so that what was taken in is looked at."""

    def call(lake: Lake, given: Good, more: tuple[Any, ...]) -> None:
        with lake.catalog.transaction(token=token and lake.fresh()) as tx:
            getattr(tx, name)(given.pop("table"), *more, **given)

    return call


ROWS = pa.table({"id": [1, 2], "day": pa.array([date(2026, 11, 16), None])})
TABLE = {"location": "lake/made", "schema": "id long", "name": "t"}
ENTRIES: dict[str, tuple[Call, Good]] = {
    "Catalog": (_opened(Catalog), {"url": "sqlite:///:memory:"}),
    "Catalog.create_table": (_of_catalog("create_table"), TABLE),
    "Catalog.table": (_of_catalog("table"), {"name": "t"}),
    "Catalog.table_at": (_of_catalog("table_at"), {"location": "lake/t"}),
    "Catalog.drop_table": (_of_catalog("drop_table"), {"name": "gone"}),
    "Catalog.rename_table": (_of_catalog("rename_table"), {"name": "gone", "new_name": "new"}),
    "Catalog.pause": (_of_catalog("pause"), {"name": "t"}),
    "Catalog.resume": (_of_catalog("resume"), {"name": "t"}),
    "Catalog.transaction": (
        lambda lake, given, _: lake.catalog.transaction(**given).append("t", [add(lake.fresh())]),
        {},
    ),
    "Catalog.snapshot": (_of_catalog("snapshot"), {"names": ["t", "rows"]}),
    "Catalog.scan_snapshot": (_read(_of_snapshot("scan_snapshot")), {}),
    "Catalog.frame_of_snapshot": (_of_snapshot("frame_of_snapshot"), {"spark": None}),
    "Catalog.wait_until_published": (_of_catalog("wait_until_published"), {"versions": {}, "seconds": 0}),
    "Table.snapshot": (_of_table("snapshot"), {}),
    "Table.history": (_of_table("history"), {}),
    "Table.commit_file": (_of_table("commit_file"), {"version": 0}),
    "Table.append": (_of_table("append"), {"data": []}),
    "Table.append rows": (_of_table("append", "rows"), {"data": ROWS}),
    "Table.overwrite": (_of_table("overwrite", "rows"), {"data": ROWS}),
    "Table.overwrite schema": (_of_table("overwrite", "rows"), {"data": ROWS, "overwrite_schema": True}),
    "Table.delete": (_of_table("delete", "rows"), {}),
    "Table.update": (_of_table("update", "rows"), {"set": {"id": "id + 1"}}),
    "Table.merge": (_of_table("merge", "rows"), {"source": ROWS, "on": ["id"], "matched": Delete()}),
    "Table.to_arrow": (_of_table("to_arrow", "rows"), {}),
    "Table.scan": (_read(_of_table("scan", "rows")), {}),
    "Table.to_spark": (_of_table("to_spark", "rows"), {"spark": None}),
    "Table.remove": (_of_table("remove"), {"files": ["nothing"]}),
    "Table.alter": (_of_table("alter"), {}),
    "Table.optimize": (_of_table("optimize", "rows"), {}),
    "Table.restore": (_of_table("restore", "rows"), {}),
    "Table.vacuum": (_of_table("vacuum", "rows"), {}),
    "Transaction.append": (_of_transaction("append"), {"table": "t", "data": []}),
    "Transaction.append with a token": (_of_transaction("append", "token"), {"table": "t", "data": []}),
    "Transaction.append rows": (_of_transaction("append"), {"table": "rows", "data": ROWS}),
    "Transaction.overwrite": (_of_transaction("overwrite"), {"table": "rows", "data": ROWS}),
    "Transaction.overwrite with a token": (_of_transaction("overwrite", "token"), {"table": "rows", "data": ROWS}),
    "Transaction.delete": (_of_transaction("delete"), {"table": "rows"}),
    "Transaction.update": (_of_transaction("update"), {"table": "rows", "set": {"id": 1}}),
    "Transaction.merge": (
        _of_transaction("merge"),
        {"table": "rows", "source": ROWS, "on": ["id"], "not_matched": [Insert()]},
    ),
    "Transaction.remove": (_of_transaction("remove"), {"table": "t", "files": []}),
    "Transaction.record": (_of_transaction("record"), {"table": "t"}),
    "Transaction.restore": (_of_transaction("restore"), {"table": "rows"}),
    "Transaction.read": (_of_transaction("read"), {"table": "t"}),
    "Transaction.set_metadata": (_of_transaction("set_metadata"), {"table": "t"}),
    "Transaction.upgrade_protocol": (_of_transaction("upgrade_protocol"), {"table": "t", "features": ()}),
    "Transaction.set_transaction": (_of_transaction("set_transaction"), {"table": "t", "app_id": "a", "version": 1}),
    "Transaction.set_domain": (_of_transaction("set_domain"), {"table": "t", "domain": "d", "configuration": "{}"}),
    "Transaction.remove_domain": (_of_transaction("remove_domain"), {"table": "t", "domain": "d"}),
    "Transaction.stage": (_of_transaction("stage"), {"table": "t", "actions": []}),
    "Transaction.stage with a token": (_of_transaction("stage", "token"), {"table": "t", "actions": []}),
    "Transaction.stage_lines": (_of_transaction("stage_lines"), {"table": "t", "lines": b"", "at_version": 99}),
    "MirrorEngine": (_opened(MirrorEngine), {"url": "sqlite:///:memory:", "settings": local_settings()}),
    "MirrorEngine.mirror": (_of_engine("mirror"), {"table": "t"}),
    "MirrorEngine.mirror_again": (_of_engine("mirror_again"), {"table_id": 1, "table": "t"}),
    "MirrorEngine.checkpoint": (_of_engine("checkpoint"), {"table": "t"}),
    "MirrorEngine.clean": (_of_engine("clean"), {"table": "t"}),
    "MirrorEngine.prune": (_of_engine("prune"), {"table": "t", "keep": 60.0}),
    "MirrorEngine.status": (_of_engine("status"), {}),
    "MirrorEngine.run": (_of_engine("run"), {"once": True}),
}
PUBLIC = {kind.__name__: kind for kind in (Catalog, Table, Transaction, MirrorEngine)}


def parameters(entry: str) -> list[inspect.Parameter]:
    kind, _, method = entry.partition(" ")[0].partition(".")
    found = inspect.signature(getattr(PUBLIC[kind], method or "__init__")).parameters.values()
    return [parameter for parameter in found if parameter.name != "self"]


def test_every_public_method_that_takes_something_is_tried() -> None:
    methods = {
        f"{name}.{member}"
        for name, kind in PUBLIC.items()
        for member, _ in inspect.getmembers(kind, inspect.isfunction)
        if not member.startswith("_") and parameters(f"{name}.{member}")
    }
    assert methods == {entry.partition(" ")[0] for entry in ENTRIES if "." in entry}


def outcome(lake: Lake, entry: str, parameter: inspect.Parameter, junk: object) -> str | None:
    """What came of the junk, if that is no error of ours: nothing that anybody would have to report."""
    call, good = ENTRIES[entry]
    several = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    given = {**good} if several else {**good, parameter.name: junk}
    more = (junk,) if several else given.pop("features", ()) if entry == "Transaction.upgrade_protocol" else ()
    if several:
        given.pop(parameter.name, None)
    if entry == "Catalog.create_table":
        made = lake.fresh()
        given |= {
            name: text for name, text in (("name", made), ("location", f"memory://{made}")) if name != parameter.name
        }
    try:
        call(lake, given, more)
    except DeltaMirrorError as error:
        return repr(error) if type(error) is Internal or not error.hint else None
    except Exception as error:  # noqa: BLE001 - the very thing that is looked for
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("entry", ENTRIES)
def test_junk_is_accepted_or_refused_by_an_error_of_ours(lake: Lake, entry: str) -> None:
    found = {
        f"{parameter.name}={name}": problem
        for parameter in parameters(entry)
        for name, junk in JUNK.items()
        if (problem := outcome(lake, entry, parameter, junk())) is not None
    }
    assert found == {}
