"""kill -9 of a driver, or of an executor, at the main steps of the crash matrix, and a restart on Spark.

A restart finds all that it goes by in SQL and in the log, wherever the dead mirror ran: the default suite has these
steps without Spark (``test_crash_matrix.py``), and ``make soak`` has them here.
"""

import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from deltamirror import Catalog
from deltamirror.steps import Moment, Step
from deltamirror.txnlog.database.schema import leases
from tests.support.crashes.sightings import seen
from tests.support.lakes.lake import execute
from tests.support.lakes.small_lakes import INTERVAL, copied, prepared
from tests.support.mirrors.local import mirror_of, published_files
from tests.support.spark.programs import spark_environment

ROOT = Path(__file__).parents[2]
OF_DRIVER = (Step.CLAIM_COMMITS, Step.RECORD_COMMITS, Step.CLAIM_CHECKPOINT, Step.RECORD_CHECKPOINT)
OF_EXECUTOR = (Step.PUT_COMMIT, Step.PUT_CHECKSUM, Step.PUT_CHECKPOINT, Step.MOVE_POINTER)

pytestmark = [
    pytest.mark.crash,
    pytest.mark.elsewhere,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.requirement("R29"),
]


def run_on_spark(url: str, folder: Path, point: str = "", *fuse: str) -> int:
    """What the process ended with."""
    command = [sys.executable, "-m", "tests.support.crashes.spark_crash", url, point, *fuse]
    environment = {**os.environ, **spark_environment(), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with (folder / "spark.log").open("ab") as log:
        done = subprocess.run(command, stdout=log, stderr=log, env=environment, cwd=folder, check=False)
    return done.returncode


def lakes(folder: Path) -> tuple[str, dict[str, Any]]:
    """A lake with something to do, and what has to become of it."""
    parts = prepared(f"sqlite:///{folder}/lake.db", f"{folder}/lake")
    urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("clean", "struck")}
    for name, url in urls.items():
        copied(parts["second"], url, f"{folder}/{name}")
    return urls["struck"], mirrored_here(urls["clean"])


def mirrored_here(url: str) -> dict[str, Any]:
    """What becomes of a lake that a mirror in this process runs over."""
    with Catalog(url) as catalog, mirror_of(catalog, checkpoint_interval=INTERVAL) as engine:
        engine.run(once=True)
        return comparable(seen(catalog, None))


def comparable(state: dict[str, Any]) -> dict[str, Any]:
    """Without how often something was tried: a crash may take one more."""
    records = state["records"]
    rows = [[table, version, done, code] for table, version, done, _, code in records["dl_mirror_status"]]
    return {**state, "records": {**records, "dl_mirror_status": rows}}


def end_leases(url: str) -> None:
    """Let the leases of a driver that is gone end."""
    with Catalog(url) as catalog, catalog.database.write() as session:
        session.execute(update(leases).values(expires_at=0))


def restarted(url: str, folder: Path) -> dict[str, Any]:
    """What becomes of a lake whose driver is gone, on Spark again."""
    end_leases(url)
    assert run_on_spark(url, folder) == 0, (folder / "spark.log").read_text()
    with Catalog(url) as catalog:
        return comparable(seen(catalog, None))


def test_a_driver_killed_before_it_records_what_was_put_is_made_good_without_spark(tmp_path: Path) -> None:
    url, expected = lakes(tmp_path)
    died = run_on_spark(url, tmp_path, f"{Moment.BEFORE} {Step.RECORD_COMMITS}")
    assert died == -signal.SIGKILL, (tmp_path / "spark.log").read_text()
    with Catalog(url) as catalog:
        # The executors have put objects, and nobody has recorded any.
        assert execute(catalog, "SELECT DISTINCT published_version FROM dl_tables ORDER BY 1") == [(1,), (5,)]
        assert any(len(published_files(catalog.table(name))) > count for name, count in (("t", 6), ("u", 2)))
    end_leases(url)
    assert mirrored_here(url) == expected


@pytest.mark.parametrize(("step", "moment"), list(product(OF_DRIVER, Moment)))
def test_a_driver_killed_at_a_step_is_made_good_by_the_next_one(step: Step, moment: Moment, tmp_path: Path) -> None:
    url, expected = lakes(tmp_path)
    died = run_on_spark(url, tmp_path, f"{moment} {step}")
    assert died == -signal.SIGKILL, (tmp_path / "spark.log").read_text()
    assert restarted(url, tmp_path) == expected


@pytest.mark.parametrize(("step", "moment"), list(product(OF_EXECUTOR, Moment)))
def test_an_executor_killed_at_a_step_is_made_good_by_its_driver(step: Step, moment: Moment, tmp_path: Path) -> None:
    url, expected = lakes(tmp_path)
    fuse = tmp_path / "fuse"
    ended = run_on_spark(url, tmp_path, f"{moment} {step}", str(fuse))
    assert (ended, fuse.exists()) == (0, True), (tmp_path / "spark.log").read_text()
    with Catalog(url) as catalog:
        assert comparable(seen(catalog, None)) == expected
