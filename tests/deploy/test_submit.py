"""The example for ``spark-submit``, run as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.interfaces.commands import environment, typed

SUBMIT = Path(__file__).parents[2] / "deploy" / "spark" / "submit.sh"


@pytest.mark.elsewhere  # a Spark of its own, for an example: left to `make soak`
def test_spark_submit_runs_the_mirror(tmp_path: Path) -> None:
    for words in (["init"], ["table", "create", "orders", "--location", "lake/orders", "--schema", "id long"]):
        assert typed(*words, folder=tmp_path).returncode == 0
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    known = environment({"PATH": programs, "PYTHON": sys.executable, "MASTER": "local[1]"})
    done = subprocess.run([SUBMIT, "--once"], cwd=tmp_path, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Published 1 version of 1 table." in done.stdout
    assert (tmp_path / "lake/orders/_delta_log" / f"{0:020}.json").exists()
