"""kill -9 of a driver between what its executors put and its record of it, and a restart on Spark."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import update

from deltamirror import Catalog
from deltamirror.steps import Moment, Step
from deltamirror.txnlog.schema import leases
from tests.support.lake import execute
from tests.support.mirrors import mirror_of, published_files
from tests.support.sightings import seen
from tests.support.small_lakes import INTERVAL, copied, prepared
from tests.support.spark_programs import spark_environment

ROOT = Path(__file__).parents[2]
POINT = f"{Moment.BEFORE} {Step.RECORD_COMMITS}"


def run_on_spark(url: str, folder: Path, point: str = "") -> int:
    """What the process ended with."""
    command = [sys.executable, "-m", "tests.support.spark_crash", url, point]
    environment = {**os.environ, **spark_environment(), "PYTHONPATH": str(ROOT)}
    with (folder / "spark.log").open("ab") as log:
        done = subprocess.run(command, stdout=log, stderr=log, env=environment, cwd=folder, check=False)
    return done.returncode


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.requirement("R29")
def test_a_driver_killed_before_it_records_what_was_put_is_made_good_by_the_next_one(tmp_path: Path) -> None:
    parts = prepared(f"sqlite:///{tmp_path}/lake.db", f"{tmp_path}/lake")
    urls = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("clean", "struck")}
    for name, url in urls.items():
        copied(parts["second"], url, f"{tmp_path}/{name}")
    with Catalog(urls["clean"]) as catalog, mirror_of(catalog, checkpoint_interval=INTERVAL) as engine:
        engine.run(once=True)
        expected = seen(catalog, None)
    assert run_on_spark(urls["struck"], tmp_path, POINT) == -signal.SIGKILL, (tmp_path / "spark.log").read_text()
    with Catalog(urls["struck"]) as catalog:
        # The executors have put objects, and nobody has recorded any.
        assert execute(catalog, "SELECT DISTINCT published_version FROM dl_tables ORDER BY 1") == [(1,), (5,)]
        assert any(len(published_files(catalog.table(name))) > count for name, count in (("t", 6), ("u", 2)))
        with catalog.database.write() as session:
            session.execute(update(leases).values(expires_at=0))
    assert run_on_spark(urls["struck"], tmp_path) == 0, (tmp_path / "spark.log").read_text()
    with Catalog(urls["struck"]) as catalog:
        found = seen(catalog, None)
    assert found["objects"] == expected["objects"]
    assert found["records"] == expected["records"]
