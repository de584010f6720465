"""Commands that look at the catalog start at once: they import no library that they have no work for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import deltamirror
from tests.support.interfaces.command_lines import TABLE

HEAVY = ("deltalake", "duckdb", "numpy", "obstore", "pandas", "prometheus_client", "pyarrow", "pyspark", "rich")
LOOKS: dict[str, tuple[str, ...]] = {
    "status": (),
    f"status {TABLE}": (),
    "status --slo": (),
    "table list": (),
    f"table history {TABLE}": (),
    f"report {TABLE}": (),
    "alert list": (),
    "token list": (),
    "config check": (),
    f"config show --table {TABLE}": (),
    "top --once": ("rich",),
    "health": ("obstore", "rich"),
}
"""The commands, and the libraries that each of them, or one before it, needs: to ask stores, to lay out a screen."""

_PROGRAM = f"""
import sys
from click.testing import CliRunner
from deltamirror.cli import cli
for line in sys.stdin.read().splitlines():
    done = CliRunner().invoke(cli, line.split())
    print(line, done.exit_code, *(name for name in {HEAVY!r} if name in sys.modules), sep="|")
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The exit status of each command, and what was imported by the end of it, in one process for all."""
    folder = tmp_path_factory.mktemp("start")
    with deltamirror.Catalog(f"sqlite:///{folder}/lake.db") as catalog:
        catalog.init()
        catalog.create_table(TABLE, location=folder / "lake" / TABLE, schema="id long")
    ours = {"PYTHONPATH": str(Path(deltamirror.__file__).parent.parent)}
    ours["DELTAMIRROR_CATALOG__URL"] = f"sqlite:///{folder}/lake.db"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=folder,
        env={**os.environ, **ours},
        input="\n".join(LOOKS),
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: rest for name, *rest in (line.split("|") for line in done.stdout.splitlines())}


@pytest.mark.parametrize("command", LOOKS)
def test_a_command_that_looks_imports_nothing_else(started: dict[str, list[str]], command: str) -> None:
    assert started[command] == ["0", *LOOKS[command]]
