"""Stock Delta Lake jobs create tables of the catalog, and bring in those that they meet, where the server allows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.delta.names import commit_name
from deltamirror.txnlog.access.tokens import Right
from tests.support.interfaces.commit_clients import UNTIMED, commit_lines
from tests.support.interfaces.status_pages import Served, served
from tests.support.mirrors.local import committed_files, log_of, make_table, mirror_of, published_files
from tests.support.readers.reader import Reader
from tests.support.spark.stock_jobs import LogStoreWrite, StockJob, job_settings

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.requirement("R90")]


@pytest.fixture
def page(lake: Catalog, tmp_path: Path) -> Iterator[Served]:
    with served(lake, create_below=f"{tmp_path}/new", import_below=f"{tmp_path}/old") as found:
        yield found


def settings(page: Served, locations: str) -> dict[str, str]:
    return job_settings(page.url, page.token("job", Right.WRITE), locations)


def test_a_table_that_a_job_creates_and_one_that_it_meets_are_tables_of_the_catalog(
    delta_spark: Reader, page: Served, tmp_path: Path
) -> None:
    new, old = (f"delta.`{tmp_path}/{name}`" for name in ("new/a b", "old/t"))
    nowhere = settings(page, "file:/nowhere/")
    delta_spark.run(StockJob(nowhere, [f"CREATE TABLE {old} (id LONG) USING delta", f"INSERT INTO {old} VALUES (1)"]))
    assert page.catalog.tables() == []
    statements = [
        f"CREATE TABLE {new} USING delta AS SELECT 1L AS id",
        f"INSERT INTO {new} VALUES (2)",
        f"INSERT INTO {old} SELECT * FROM {new}",
        f"SELECT count(*) AS n FROM {old}",
    ]
    asked = {**nowhere, "deltamirror.locations": f"file:{tmp_path}"}
    assert delta_spark.run(StockJob(asked, statements)) == [{"n": 3}]
    heads = {table.name: table.head for table in page.catalog.tables()}
    assert heads == {"a_b": 1, "t": 2}
    with mirror_of(page.catalog) as engine:
        assert engine.run(once=True).failures == []
    for name in heads:
        table = page.catalog.table(name)
        assert published_files(table) == committed_files(table)


@pytest.mark.parametrize("spelling", ["file:{}/", "file://{}", "{}/"])
def test_a_location_is_asked_for_however_its_beginning_is_spelled(
    delta_spark: Reader, lake: Catalog, tmp_path: Path, spelling: str
) -> None:
    folder = tmp_path / "a b ü"
    folder.mkdir()
    table = make_table(lake, folder, properties=UNTIMED)
    with mirror_of(lake) as engine:
        engine.mirror("t")
    with served(lake) as page:
        lines = commit_lines("a").decode().splitlines()
        write = LogStoreWrite(settings(page, spelling.format(folder)), f"file:{log_of(table) / commit_name(1)}", lines)
        assert delta_spark.run(write) == ""
    assert table.info().head == 1, "a beginning that is not known again lets a job write past the server"


def test_a_location_where_no_table_of_ours_can_lie_is_written_as_without_us(
    delta_spark: Reader, page: Served, tmp_path: Path
) -> None:
    log = tmp_path / "a\tb" / "_delta_log"
    log.mkdir(parents=True)
    write = LogStoreWrite(
        settings(page, f"file:{tmp_path}"), f"file:{log / commit_name(0)}", commit_lines("a").decode().splitlines()
    )
    assert delta_spark.run(write) == ""
    assert (log / commit_name(0)).read_bytes() == commit_lines("a")
