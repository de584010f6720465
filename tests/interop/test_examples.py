"""The programs of ``examples/`` do what they say, and do it once, however often they are run."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.txnlog.access.tokens import Right
from tests.support.interfaces.status_pages import served
from tests.support.mirrors.local import committed_files, mirror_of, published_files
from tests.support.readers.reader import Reader
from tests.support.spark.commands import ExampleRun

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    *(pytest.mark.requirement(row) for row in ("R31", "R89", "R115", "R120")),
]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def arguments(tmp_path: Path) -> tuple[str, str]:
    """A catalog that is not there yet, and a folder for the tables."""
    return f"sqlite:///{tmp_path / 'lake.db'}", str(tmp_path / "lake")


def test_bronze_silver_and_gold_move_together(arguments: tuple[str, str], delta_spark: Reader) -> None:
    run = ExampleRun(str(EXAMPLES / "medallion.py"), arguments)
    assert delta_spark.run(run) == {"bronze.events": 1, "silver.payments": 1, "gold.daily": 1}
    with Catalog(arguments[0]) as catalog:
        rows = {name: catalog.table(name).to_arrow().num_rows for name in ("bronze.events", "silver.payments")}
        assert rows == {"bronze.events": 3, "silver.payments": 2}  # one amount is no number
        [daily] = catalog.table("gold.daily").to_arrow().to_pylist()
    assert (daily["users"], str(daily["total"])) == (2, "29.50")


def test_a_stream_that_is_restarted_takes_in_what_is_new(
    arguments: tuple[str, str], tmp_path: Path, delta_spark: Reader
) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    run = ExampleRun(str(EXAMPLES / "streaming.py"), (*arguments, str(incoming)))
    for number, rows in enumerate(({"clicks": 1, "purchases": 1}, {"clicks": 2, "purchases": 2})):
        events = [{"id": number, "kind": kind} for kind in ("click", "purchase")]
        (incoming / f"{number}.json").write_text("\n".join(map(json.dumps, events)))
        assert delta_spark.run(run) == rows


def test_a_daily_task_that_is_repeated_has_the_version_of_its_first_run(arguments: tuple[str, str]) -> None:
    main = runpy.run_path(str(EXAMPLES / "daily_load.py"))["main"]
    assert [main(*arguments, day) for day in ("2026-11-16", "2026-11-16", "2026-11-17")] == [1, 1, 2]
    with Catalog(arguments[0]) as catalog:
        assert catalog.table("weather").to_arrow().num_rows == 4


@pytest.mark.requirement("R90")
def test_delta_rs_appends_over_http(lake: Catalog, tmp_path: Path, delta_rs: Reader) -> None:
    table = lake.create_table("sales.orders", location=tmp_path / "orders", schema="id long")
    with served(lake) as page:
        environment = {**os.environ, "TOKEN": page.token("loader", Right.WRITE)}
        command = [sys.executable, str(EXAMPLES / "commit_with_delta_rs.py"), page.url, "sales.orders"]
        for version in (1, 2):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert (done.stdout, done.returncode) == (f"sales.orders has version {version}\n", 0), done.stderr
    with mirror_of(lake) as engine:
        engine.mirror("sales.orders")
    assert published_files(table) == committed_files(table)
    seen = delta_rs.snapshot(tmp_path / "orders", rows=True)
    assert (seen.version, seen.row_count) == (2, 6)
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 1, 2, 2, 3, 3]
