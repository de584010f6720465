"""A user at a prompt: an empty working folder, a clean environment, and the command."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deltamirror.cli import cli

ADD = {
    "path": "a.parquet",
    "partitionValues": {"day": "2024-01-01"},
    "size": 10,
    "modificationTime": 1,
    "dataChange": True,
}


class Prompt:
    """Runs commands in a folder; an unexpected exit status fails the test with all that was said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, stdin: str | bytes = "", exits: int | None = 0) -> Result:
        result = CliRunner().invoke(cli, args, input=stdin, prog_name="deltamirror")
        assert exits in (None, result.exit_code), f"{args}: exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr
        return result

    def json(self, *args: str, stdin: str | bytes = "") -> Any:
        """The JSON document that a command answers."""
        return json.loads(self(*args, "--json", stdin=stdin).stdout)

    def error(self, *args: str, stdin: str | bytes = "", exits: int) -> dict[str, Any]:
        """The JSON object of a failure; standard output has to be empty."""
        result = self(*args, "--json", stdin=stdin, exits=exits)
        assert result.stdout == ""
        error: dict[str, Any] = json.loads(result.stderr)["error"]
        assert error["exit_status"] == exits
        return error

    def dump(self, name: str = "deltamirror.db") -> list[str]:
        """Everything that an SQLite catalog holds."""
        with sqlite3.connect(self.folder / name) as connection:
            dumped = list(connection.iterdump())
        connection.close()
        return dumped


@pytest.fixture
def prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prompt:
    """A prompt in an empty folder, without settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("DELTAMIRROR_")]:
        monkeypatch.delenv(name)
    return Prompt(tmp_path)


@pytest.fixture
def orders(prompt: Prompt, made_catalogs: Path) -> Prompt:
    """A prompt in a folder with a catalog that has the table ``orders``, partitioned by day."""
    shutil.copy(made_catalogs / "lake.db", prompt.folder / "deltamirror.db")
    prompt(
        "table",
        "create",
        "orders",
        "--location",
        "lake/orders",
        "--schema",
        "id long, day date",
        "--partition-by",
        "day",
    )
    return prompt


@pytest.fixture
def add() -> Callable[..., str]:
    """A line with an add; keyword arguments change its fields."""

    def line(**fields: object) -> str:
        return json.dumps({"add": {**ADD, **fields}}) + "\n"

    return line
