"""A user at a prompt, who types commands of the command line in a folder; they run in the process of the test."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from click.testing import CliRunner, Result

from deltamirror.cli import cli

AddLine: TypeAlias = Callable[..., str]
"""Makes a line with an add; keyword arguments change its fields."""


class Prompt:
    """Runs commands in a folder; an unexpected exit status fails the test with all that was said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        *args: str,
        stdin: str | bytes = "",
        exits: int | None = 0,
        settings: Mapping[str, str] | None = None,
    ) -> Result:
        """What a command says; ``settings`` are variables of its environment."""
        result = CliRunner().invoke(cli, args, input=stdin, env=settings, prog_name="deltamirror")
        assert exits in (None, result.exit_code), f"{args}: exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
        assert "Traceback" not in result.stderr
        return result

    def json(self, *args: str, stdin: str | bytes = "") -> Any:
        """The JSON document that a command answers."""
        return json.loads(self(*args, "--json", stdin=stdin).stdout)

    def error(
        self, *args: str, stdin: str | bytes = "", exits: int, settings: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The JSON object of a failure; standard output has to be empty."""
        result = self(*args, "--json", stdin=stdin, exits=exits, settings=settings)
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
