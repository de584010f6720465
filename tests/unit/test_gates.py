"""The gates of ``make check`` that are this repository's own catch what they are there for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def gate(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.requirement("R108")
def test_the_package_has_no_stubs() -> None:
    done = gate("check_stubs.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.requirement("R108")
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("# Good enough for now\n", '"for now"'),
        ("x = 1  # TODO\n", '"TODO"'),
        ("def publish():\n    '''Publishes.'''\n", "publish() has no body"),
        ("class Store:\n    def put(self):\n        pass\n", "put() has no body"),
        ("def put():\n    raise NotImplementedError\n", "put() has no body"),
    ],
)
def test_a_stub_is_found(tmp_path: Path, code: str, problem: str) -> None:
    (tmp_path / "module.py").write_text(code)
    done = gate("check_stubs.py", tmp_path)
    assert done.returncode == 1
    assert problem in done.stderr


@pytest.mark.requirement("R108")
def test_a_declaration_is_no_stub(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("class Store(Protocol[T]):\n    def put(self) -> None: ...\n")
    assert gate("check_stubs.py", tmp_path).returncode == 0


@pytest.mark.requirement("R103")
@pytest.mark.requirement("R104")
def test_imports_point_down_only_and_each_heavy_library_has_one_home() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
