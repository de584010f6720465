"""The examples run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.txnlog.access.tokens import Right
from tests.support.mirrors import committed_files, mirror_of, published_files
from tests.support.readers import Reader
from tests.support.status_pages import served

EXAMPLES = Path(__file__).parents[2] / "examples"


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
