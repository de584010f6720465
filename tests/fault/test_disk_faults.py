"""A disk that is full, in the middle of a checkpoint too, or read-only: nothing is torn, and it goes on afterwards."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.stores.small_disk import COMMAND
from tests.support.suite.skips import missing_kernel_feature

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program saw on a disk of its own."""
    allowed = subprocess.run([*COMMAND, "true"], capture_output=True, text=True, check=False)
    if allowed.returncode != 0:
        missing_kernel_feature(f"a disk of its own for a process ({' '.join(COMMAND)}): {allowed.stderr.strip()}")
    folder = tmp_path_factory.mktemp("small")
    command = [*COMMAND, sys.executable, "-m", "tests.support.stores.small_disk", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.requirement("R47")
@pytest.mark.requirement("R58")
@pytest.mark.requirement("R92")
@pytest.mark.parametrize(
    ("when", "code", "published"),
    [
        ("full", "capacity-exceeded", 2),
        ("full at a checkpoint", "capacity-exceeded", 3),
        ("read-only", "permission-denied", 3),
    ],
)
def test_a_disk_that_takes_nothing_is_told_by_its_class_and_nothing_is_torn(
    report: dict[str, Any], when: str, code: str, published: int
) -> None:
    assert report[when] == {
        "failures": [[code, "put"]],
        "in order": True,
        "published": published,
        "temporaries": [],
    }


@pytest.mark.requirement("R93")
@pytest.mark.parametrize(("when", "published"), [("room", 2), ("room again", 3), ("writable again", 4)])
def test_a_disk_with_room_takes_all_of_it(report: dict[str, Any], when: str, published: int) -> None:
    assert report[when] == {"failures": [], "in order": True, "published": published, "temporaries": []}
