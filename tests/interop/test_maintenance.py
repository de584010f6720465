"""Tables that were vacuumed, restored and optimized here, as Delta Lake on Spark sees them."""

from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import NotFound
from tests.support.lakes.vacuums import contents, first_row_deleted
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.spark.commands import TableOptimize

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.requirement("R89")]

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    """A table with files of every kind that a vacuum meets."""
    made = lake.create_table(
        "t",
        location=tmp_path / "t",
        schema="id long, _p string",
        partition_by=["_p"],
        properties={"delta.enableDeletionVectors": True},
    )
    for number, value in enumerate(("a", "b c/d%", "ünï", "a")):
        made.append(pa.table({"id": [2 * number, 2 * number + 1], "_p": [value, value]}))
    made.overwrite(pa.table({"id": [20, 21], "_p": ["a", "a"]}), replace_where="_p = 'a'")
    with lake.transaction() as tx:
        tx.stage("t", first_row_deleted(made.snapshot().adds({"_p": "a"})[0], tmp_path / "t", seed=1))
    for key in ("left.parquet", "_p=a/left.parquet", "_p=a/_left.parquet", "_hidden/x.parquet", ".x", "deep/x"):
        path = tmp_path / "t" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
    return made


def published(lake: Catalog) -> None:
    with mirror_of(lake) as engine:
        engine.mirror("t")


def spark_ids(delta_spark: Reader, folder: Path, version: int) -> list[int]:
    asked = f"SELECT CAST(id AS STRING) AS id FROM delta.`{folder}` VERSION AS OF {version}"
    return sorted(int(row["id"]) for row in delta_spark.sql(asked))


def ids(table: Table, version: int) -> list[int]:
    found: list[int] = table.to_arrow(["id"], version=version).column("id").to_pylist()
    return sorted(found)


def test_delta_spark_would_delete_the_same_files(
    table: Table, lake: Catalog, delta_spark: Reader, tmp_path: Path
) -> None:
    published(lake)
    delta_spark.sql(f"SET {_CHECK} = false")
    try:
        shown = delta_spark.sql(f"VACUUM delta.`{tmp_path / 't'}` RETAIN 0 HOURS DRY RUN")
    finally:
        delta_spark.sql(f"RESET {_CHECK}")
    root = f"file:{tmp_path / 't'}/"
    theirs = {unquote(row["path"]).removeprefix(root) for row in shown}
    ours = set(table.vacuum(0, dry_run=True, retention_check=False).paths())
    assert {unquote(path) for path in ours} == theirs
    assert len(ours) == 5


def test_delta_spark_reads_every_version_after_all_of_it(
    table: Table, lake: Catalog, delta_spark: Reader, tmp_path: Path
) -> None:
    table.restore(2)
    table.append(pa.table({"id": [30], "_p": ["a"]}))
    assert table.optimize() is not None
    published(lake)
    table.vacuum()
    published(lake)
    assert table.vacuum(0, retention_check=False).num_deleted > 0
    published(lake)
    for version in range(table.info().head - 2, table.info().head + 1):
        assert spark_ids(delta_spark, tmp_path / "t", version) == ids(table, version)
    operations = [row["operation"] for row in delta_spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 't'}` LIMIT 3")]
    assert operations == ["VACUUM END", "VACUUM START", "OPTIMIZE"]


def test_executors_put_files_together_or_leave_nothing_behind(
    table: Table, lake: Catalog, delta_spark: Reader, sqlite_lake: str, tmp_path: Path
) -> None:
    for number in (40, 50):
        table.append(pa.table({"id": [number, number + 1], "_p": ["a", "b c/d%"]}))
    before, expected = contents(tmp_path / "t"), ids(table, table.info().head)
    lost = tmp_path / "t" / unquote(table.snapshot().adds({"_p": "b c/d%"})[0].path)
    lost.rename(tmp_path / "lost")
    failed = delta_spark.run(TableOptimize(catalog=sqlite_lake, table="t"))
    assert isinstance(failed, NotFound)
    assert contents(tmp_path / "t") == before - {lost.relative_to(tmp_path / "t").as_posix()}
    (tmp_path / "lost").rename(lost)
    done = delta_spark.run(TableOptimize(catalog=sqlite_lake, table="t"))
    assert done == {"t": table.info().head}
    assert (ids(table, done["t"]), table.snapshot().count_files()) == (expected, 3)
    published(lake)
    assert spark_ids(delta_spark, tmp_path / "t", done["t"]) == expected


def test_executors_order_rows_and_delta_spark_takes_clustered_files_for_its_own(
    table: Table, lake: Catalog, delta_spark: Reader, sqlite_lake: str, tmp_path: Path
) -> None:
    expected = ids(table, table.info().head)
    done = delta_spark.run(TableOptimize(catalog=sqlite_lake, table="t", zorder_by=("id",)))
    assert done == {"t": table.info().head}
    clustered = lake.create_table("c", location=tmp_path / "c", schema="id long, v string", cluster_by=["id", "v"])
    for number in range(4):
        clustered.append(pa.table({"id": [number, 10 - number], "v": ["a", "b"]}))
    assert delta_spark.run(TableOptimize(catalog=sqlite_lake, table="c")) == {"c": 5}
    with mirror_of(lake) as engine:
        engine.run(once=True)
    assert ids(table, done["t"]) == expected
    [newest] = delta_spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 't'}` LIMIT 1")
    assert dict(newest["operationParameters"])["zOrderBy"] == '["id"]'
    with suppress(RequestFailed):  # Spark does not get what OPTIMIZE returns into Arrow, though it has done its work
        delta_spark.sql(f"OPTIMIZE delta.`{tmp_path / 'c'}`")
    [newest] = delta_spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path / 'c'}` LIMIT 1")
    assert (newest["version"], dict(newest["operationParameters"])["clusterBy"]) == (5, '["id","v"]')
    assert spark_ids(delta_spark, tmp_path / "c", 5) == ids(clustered, 5)
