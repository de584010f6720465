"""The change data feed of a table of ours is, to Delta Lake on Spark, that of its own table after the same edits.

``test_row_edits.py`` has that for a table with mapped columns and row tracking; here, in ``make soak``, are others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Catalog, Delete, Insert, Table, Update
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader
from tests.support.rows.change_feed import feed
from tests.support.spark.commands import Edits

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.requirement("R89"),
]

COLUMNS, NAMES = "id long, p string, v double", ("id", "p", "v")
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {**FEED, "delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
ROWS = pa.table({"id": list(range(10)), "p": ["a", "b"] * 5, "v": [float(number) for number in range(10)]})
SOURCE = pa.table({"id": [0, 3, 6, 11, 12], "p": ["a", "n", "a", None, "ü/ö"], "v": [None, -1.0, 6.5, 1.0, 2.0]})


@dataclass(frozen=True)
class Step:
    """An edit in both languages; ``{t}`` is the table, ``{s}`` the source."""

    sql: str
    ours: Callable[[Table], object]


STEPS = (
    Step("DELETE FROM {t} WHERE id = 1 OR v = 4", lambda table: table.delete("id = 1 OR v = 4")),
    Step(
        "UPDATE {t} SET p = 'c', v = v * 2 WHERE id > 6",
        lambda table: table.update({"p": "'c'", "v": "v * 2"}, "id > 6"),
    ),
    Step(
        "MERGE INTO {t} target USING {s} source ON target.id = source.id WHEN MATCHED AND target.id = 3 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND target.id = 5 THEN UPDATE SET v = NULL "
        "WHEN NOT MATCHED BY SOURCE AND target.id = 7 THEN DELETE",
        lambda table: table.merge(
            SOURCE,
            ["id"],
            matched=[Delete("target.id = 3"), Update()],
            not_matched=Insert(),
            not_matched_by_source=[Update({"v": None}, "target.id = 5"), Delete("target.id = 7")],
        ),
    ),
    Step("DELETE FROM {t} WHERE p IS NULL", lambda table: table.delete("p IS NULL")),
    Step(
        "INSERT INTO {t} REPLACE WHERE p = 'ü/ö' SELECT 13L AS id, 'ü/ö' AS p, 1.5D AS v",
        lambda table: table.overwrite(pa.table({"id": [13], "p": ["ü/ö"], "v": [1.5]}), replace_where="p = 'ü/ö'"),
    ),
)


def with_rows(catalog: Catalog, folder: Path, properties: dict[str, str]) -> Table:
    table = catalog.create_table(
        folder.name, location=folder, schema=COLUMNS, partition_by=["p"], properties=properties
    )
    table.append(ROWS)
    return table


@pytest.mark.soak
@pytest.mark.parametrize("properties", [FEED, MAPPED], ids=["plain", "mapped"])
def test_the_feed_has_the_changes_that_delta_spark_would_have_recorded(
    properties: dict[str, str], lake: Catalog, tmp_path: Path, delta_spark: Reader
) -> None:
    theirs, source = f"delta.`{tmp_path / 'theirs'}`", f"parquet.`{tmp_path / 'source.parquet'}`"
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    pq.write_table(SOURCE, tmp_path / "source.parquet")
    delta_spark.sql(f"CREATE TABLE {theirs} ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({pairs})")
    delta_spark.sql(f"INSERT INTO {theirs} SELECT * FROM parquet.`{tmp_path / 'rows.parquet'}`")
    ours = with_rows(lake, tmp_path / "ours", properties)
    for step in STEPS:
        delta_spark.sql(step.sql.format(t=theirs, s=source))
        step.ours(ours)
    with mirror_of(lake) as engine:
        engine.run(once=True)
    assert feed(delta_spark, tmp_path / "ours", NAMES) == feed(delta_spark, tmp_path / "theirs", NAMES)


@pytest.mark.parametrize("properties", [pytest.param(FEED, marks=pytest.mark.soak), MAPPED], ids=["plain", "mapped"])
def test_executors_record_the_changes_that_this_process_records(
    properties: dict[str, str], lake: Catalog, sqlite_lake: str, tmp_path: Path, delta_spark: Reader
) -> None:
    update, delete = ({"v": "-v"}, "id = 2 OR id = 8"), "id = 4 OR id = 9"
    pq.write_table(SOURCE, tmp_path / "source.parquet")
    by_executors, here = (with_rows(lake, tmp_path / name, properties) for name in ("executors", "here"))
    edits = Edits(
        catalog=sqlite_lake,
        table=by_executors.name,
        update=update,
        delete=delete,
        source=f"SELECT * FROM parquet.`{tmp_path / 'source.parquet'}`",
    )
    assert delta_spark.run(edits) == 4
    here.update(*update)
    here.delete(delete)
    here.merge(SOURCE, ["id"], matched=Update(), not_matched=Insert())
    with mirror_of(lake) as engine:
        engine.run(once=True)
    recorded = feed(delta_spark, tmp_path / "executors", NAMES)
    assert {kind for _, kind, *_ in recorded} == {"insert", "delete", "update_preimage", "update_postimage"}
    assert recorded == feed(delta_spark, tmp_path / "here", NAMES)
