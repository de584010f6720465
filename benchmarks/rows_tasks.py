"""What the processes do that measure rows; each has a fresh process for itself."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from benchmarks.bare_format import BareFormat
from benchmarks.lab import TABLE, Place
from benchmarks.stock_spark import stock_session
from deltamirror import Catalog, Insert, Update
from deltamirror.spark import register

ROWS = "id long, customer long, amount double, note string, at timestamp"
_FEW = 1_000
_WARM = 5
_ROUNDS = 3


def write_source(*, path: str, count: int) -> None:
    """So many rows in one Parquet file, of which both DataFrames are made."""
    pq.write_table(_rows(count), path, row_group_size=count // 8)


def arrow_by_deltamirror(*, place: dict[str, str], count: int) -> dict[str, float]:
    """Seconds to append rows of Arrow, and to read them all again."""
    rows = _rows(count)
    with Catalog(Place(**place).url) as catalog:
        table = catalog.table(TABLE)
        table.append(rows.slice(0, _FEW))
        figures = {"append": _best(lambda: table.append(rows))}
        table.overwrite(rows)
        figures["scan"] = _best(table.to_arrow)
    return figures


def arrow_by_delta_rs(*, place: dict[str, str], count: int) -> dict[str, float]:
    """The same by delta-rs."""
    rows, folder = _rows(count), f"{Place(**place).folder}/table"
    write_deltalake(folder, rows.slice(0, _FEW))
    figures = {"append": _best(lambda: write_deltalake(folder, rows, mode="append"))}
    write_deltalake(folder, rows, mode="overwrite")
    figures["scan"] = _best(lambda: DeltaTable(folder).to_pyarrow_table())
    return figures


def single_by_deltamirror(*, place: dict[str, str], count: int) -> float:
    """Appends of one row a second."""
    row = _rows(1)
    with Catalog(Place(**place).url) as catalog:
        table = catalog.table(TABLE)
        return count / _seconds(lambda: [table.append(row) for _ in range(count)])


def single_by_delta_rs(*, place: dict[str, str], count: int) -> float:
    """The same by delta-rs."""
    row, folder = _rows(1), f"{Place(**place).folder}/table"
    write_deltalake(folder, row)
    return count / _seconds(lambda: [write_deltalake(folder, row, mode="append") for _ in range(count)])


def frames(*, place: dict[str, str], source: str, count: int) -> dict[str, dict[str, float]]:
    """Ours and Delta Spark's figures in one session, in turns: a JVM compiles its code as it goes."""
    where = Place(**place)
    spark = stock_session()
    register(spark)
    frame, changes = spark.read.parquet(source), _changes(spark, count)
    with Catalog(where.url) as catalog:
        sides = {
            "deltamirror": _ours(catalog, where.url, spark, changes=changes),
            "Delta Spark": _delta_spark(f"{where.folder}/stock", spark, changes=changes),
        }
        for few in (side["append"] for side in sides.values()):
            few(frame.limit(_FEW))
        found = _in_turns({name: partial(side["append"], frame) for name, side in sides.items()}, "append")
        for side in sides.values():
            side["overwrite"](frame)
        spark.dataSource.register(BareFormat)
        bare = {"bare": lambda: _read(spark.read.format("bare").schema(frame.schema).load(source))}
        for way, more in (("scan by the format", bare), ("scan by to_spark", {})):
            works = {**{name: side[way] for name, side in sides.items()}, **more}
            for name, figures in _in_turns(works, way).items():
                found[name] = found.get(name, {}) | figures
        for name, side in sides.items():
            found[name]["merge"] = _seconds(side["merge"])
    spark.stop()
    return found


def single_by_delta_spark(*, place: dict[str, str], count: int) -> float:
    """Appends of one row a second by Delta Spark, once it is warm."""
    spark, folder = stock_session(), f"{Place(**place).folder}/stock"
    row = spark.createDataFrame(_rows(1)).coalesce(1)

    def append() -> None:
        row.write.format("delta").mode("append").save(folder)

    for _ in range(_WARM):
        append()
    begin = time.perf_counter()
    for _ in range(count):
        append()
    found = count / (time.perf_counter() - begin)
    spark.stop()
    return found


def _ours(catalog: Catalog, url: str, spark: SparkSession, *, changes: DataFrame) -> dict[str, Callable[..., object]]:
    """What is measured of our tables, by name."""
    table = catalog.table(TABLE)
    reader = spark.read.format("deltamirror").option("catalog", url)
    return {
        "append": table.append,
        "overwrite": table.overwrite,
        "scan by the format": lambda: _read(reader.load(TABLE)),
        "scan by to_spark": lambda: _read(table.to_spark(spark)),
        "merge": lambda: table.merge(changes, ["id"], matched=Update(), not_matched=Insert(), spark=spark),
    }


def _delta_spark(folder: str, spark: SparkSession, *, changes: DataFrame) -> dict[str, Callable[..., object]]:
    """The same of a table of Delta Spark."""
    changes.createOrReplaceTempView("changes")
    into = f"MERGE INTO delta.`{folder}` t USING changes s ON t.id = s.id"
    statement = f"{into} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

    def scan() -> None:
        _read(spark.read.format("delta").load(folder))

    return {
        "append": lambda rows: rows.write.format("delta").mode("append").save(folder),
        "overwrite": lambda rows: rows.write.format("delta").mode("overwrite").save(folder),
        "scan by the format": scan,
        "scan by to_spark": scan,
        "merge": lambda: spark.sql(statement).collect(),
    }


def _read(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _changes(spark: SparkSession, count: int) -> DataFrame:
    """A hundredth of the rows, spread over all of them; of these, some are new."""
    ids = np.random.default_rng(2).choice(count + count // 1_000, count // 100, replace=False)
    return spark.createDataFrame(_rows(len(ids), ids=ids))


def _rows(count: int, *, ids: Any = None) -> pa.Table:
    random = np.random.default_rng(1)
    notes = pa.array([f"note {number:05}" for number in range(10_000)])
    columns = {
        "id": pa.array(np.arange(count) if ids is None else ids, pa.int64()),
        "customer": pa.array(random.integers(0, 1_000_000, count), pa.int64()),
        "amount": pa.array(random.random(count) * 1_000),
        "note": notes.take(pa.array(random.integers(0, len(notes), count))),
        "at": pa.array(1_700_000_000_000_000 + random.integers(0, 10**13, count), pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def _in_turns(works: Mapping[str, Callable[[], object]], name: str) -> dict[str, dict[str, float]]:
    """By side, the seconds of the quickest of three."""
    rounds = [{side: _seconds(work) for side, work in works.items()} for _ in range(_ROUNDS)]
    return {side: {name: min(each[side] for each in rounds)} for side in works}


def _best(work: Callable[[], object]) -> float:
    """Seconds of the quickest of three: the first ones import modules and compile code."""
    return min(_seconds(work) for _ in range(_ROUNDS))


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
