"""A clone alone has all that its tests need: nothing beside it is looked at, and nothing is skipped for want of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.reference_logs.own import own_logs

ROOT = Path(__file__).parents[2]
_MOST_OF_THEM = 1_000
COLLECT = ("-m", "pytest", "--collect-only", "-q", "-n0", "-p", "no:cacheprovider")


def project_files() -> list[str]:
    """What a clone would have if all were committed."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted({name for name in listed if name and (ROOT / name).is_file() and not name.startswith(".venv")})


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project in an empty folder."""
    folder = tmp_path_factory.mktemp("empty") / "clone"
    for name in project_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def python(*arguments: str, folder: Path, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with as little of this machine as can be."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(folder / "src"), **environment}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )


def test_a_clone_in_an_empty_folder_has_all_that_the_tests_import(clone: Path) -> None:
    """That they run there is for whoever runs them in a clone, such as ``.ci/run``."""
    here = {path.relative_to(ROOT) for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert len(here) > _MOST_OF_THEM
    assert {name for name in here if not (clone / name).is_file()} == set()


def test_a_clone_has_the_reference_logs(clone: Path) -> None:
    logs = own_logs()
    here = {path.relative_to(ROOT) for path in logs.root.rglob("*") if path.is_file()}
    assert [name for name in logs.tables if not any((logs.root / name).rglob("*"))] == []
    assert {name for name in here if not (clone / name).is_file()} == set()


def test_the_golden_lane_fails_where_its_tables_are_not_there(clone: Path, tmp_path: Path) -> None:
    done = python(*COLLECT, "--golden", "-m", "reference", folder=clone, home=tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "set DELTAMIRROR_SHARED" in done.stderr


SKIPS = """
import pytest

from tests.support.suite.skips import missing_kernel_feature

def test_kernel():
    missing_kernel_feature("a disk")

@pytest.mark.xfail(reason="known")
def test_known():
    raise AssertionError
"""


@pytest.mark.parametrize(
    ("module", "code", "told"),
    [
        pytest.param(SKIPS, 0, "test_kernel: the kernel lacks a disk", id="kernel"),
        pytest.param("import pytest\ndef test_a(): pytest.skip('no data')", 1, "to skip a test: no data", id="call"),
        pytest.param("import pytest\n@pytest.mark.skip(reason='x')\ndef test_a(): ...", 4, "test_a", id="mark"),
        pytest.param(
            "import pytest\n@pytest.mark.skipif(False, reason='x')\ndef test_a(): ...",
            4,
            "test_a",
            id="if",
            marks=pytest.mark.elsewhere,
        ),
        pytest.param("import pytest\npytest.importorskip('nothing_like_it')", 2, "to skip a test", id="module"),
    ],
)
def test_only_a_missing_kernel_feature_skips_a_test_and_is_told(
    module: str, code: int, told: str, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(module)
    options = ("-m", "pytest", "-p", "tests.support.suite.skips", "--rootdir", str(tmp_path), "-c", os.devnull)
    done = python(*options, str(tmp_path), folder=ROOT, home=tmp_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stdout + done.stderr
