import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

import deltamirror
from deltamirror.cli import cli
from tests.support.interfaces.command_lines import subcommands
from tests.support.interfaces.prompt import Prompt

COMMAND = [sys.executable, "-m", "deltamirror.cli"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(deltamirror.__file__).parent.parent)}


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(command, click.Group):
        return [leaf for name, below in subcommands(command).items() for leaf in leaves(below, (*path, name))]
    return [path]


@pytest.mark.parametrize("path", leaves(cli), ids=" ".join)
def test_every_command_explains_itself_and_takes_the_common_options(prompt: Prompt, path: tuple[str, ...]) -> None:
    text = prompt(*path, "--help").stdout
    assert text.startswith("Usage: deltamirror " + " ".join(path))
    for option in ("--json", "--config", "--catalog", "--debug"):
        assert option in text


@pytest.mark.parametrize(
    "args",
    [
        ["nope"],
        ["table", "lst"],
        ["table", "show"],
        ["table", "show", "a", "b"],
        ["table", "show", "a", "--nope"],
        ["table", "files", "a", "--version", "x"],
        ["table", "files", "a", "--version", "1", "--as-of", "2024-01-01"],
        ["table", "files", "a", "--as-of", "yesterday"],
        ["table", "files", "a", "--partition", "day"],
        ["table", "history", "a", "--limit", "0"],
        ["table", "create", "a", "--schema", "id long"],
        ["table", "create", "a", "--location", "a"],
        ["table", "create", "a", "--location", "a", "--schema", "id long", "--property", "=1"],
        ["table", "create", "a", "--location", "a", "--schema-file", "missing.json"],
        ["table", "alter", "a"],
        ["commit", "a", "missing.jsonl"],
        ["commit", "a", "-", "--at-version", "-1"],
        ["commit", "a", "-", "--at-version", "1", "--read-version", "1"],
        ["commit", "a", "-", "--verbatim"],
        ["commit", "a", "-", "--verbatim", "--at-version", "1", "--operation", "WRITE"],
    ],
    ids=" ".join,
)
def test_a_usage_error_exits_with_64_and_points_to_help(prompt: Prompt, args: list[str]) -> None:
    result = prompt(*args, exits=64)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 2
    assert "--help` shows how" in result.stderr
    error = prompt.error(*args, exits=64)
    assert error["code"] == "usage"


@pytest.mark.parametrize("args", [[], ["table"], ["config"]])
def test_a_group_without_a_command_shows_its_help(prompt: Prompt, args: list[str]) -> None:
    result = prompt(*args, exits=64)
    assert result.stderr.startswith("Usage: deltamirror")


def test_common_options_work_before_and_after_the_command(prompt: Prompt) -> None:
    before = prompt("--json", "--catalog", "sqlite:///x.db", "config", "show").stdout
    after = prompt("config", "show", "--json", "--catalog", "sqlite:///x.db").stdout
    assert json.loads(before) == json.loads(after)
    both = prompt("--catalog", "sqlite:///x.db", "config", "show", "--json", "--catalog", "sqlite:///y.db").stdout
    [url] = [each["value"] for each in json.loads(both)["settings"] if each["key"] == "catalog.url"]
    assert url == "sqlite:///y.db"


def test_the_version_is_shown(prompt: Prompt) -> None:
    assert prompt("--version").stdout.startswith("deltamirror ")


def run(*args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def test_a_typed_command_exits_with_the_status_of_its_error(tmp_path: Path) -> None:
    done = run("table", "nope", folder=tmp_path)
    assert (done.returncode, done.stdout) == (64, "")
    done = run("--catalog", "mysql://me:hunter2@db/x", "table", "list", folder=tmp_path)
    assert done.returncode == 10
    assert "hunter2" not in done.stderr


def test_a_traceback_is_shown_when_asked_for(tmp_path: Path) -> None:
    """Otherwise there is none: every test at a prompt looks for one."""
    debugged = run("table", "show", "x", "--debug", folder=tmp_path)
    assert "Traceback" in debugged.stderr
    assert "\nerror: " in debugged.stderr


def test_a_defect_is_one_line_and_exits_with_1(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError("division by zero at postgresql://me:hunter2@db/x")

    monkeypatch.setattr("deltamirror.cli.database.open_database", broken)
    result = prompt("table", "list", exits=1)
    assert result.stderr.startswith("error: ZeroDivisionError: division by zero at postgresql://me:***@db/x\nhint: ")
    assert prompt.error("table", "list", exits=1)["code"] == "internal"


def test_an_interrupt_exits_with_130(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("deltamirror.cli.database.open_database", interrupted)
    assert prompt("table", "list", exits=130).stderr.strip().startswith("error: interrupted")


def test_a_reader_that_closes_the_pipe_is_no_defect(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, "config", "show"],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_ctrl_c_at_a_waiting_commit_exits_with_130_and_without_a_traceback(orders: Prompt) -> None:
    waiting = subprocess.Popen(
        # A suite that was started in the background of a shell hands on that Ctrl-C is ignored.
        ["env", "--default-signal=INT", *COMMAND, "commit", "orders", "-", "--debug"],
        cwd=orders.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**ENVIRONMENT, "DELTAMIRROR_LOG__LEVEL": "info"},
    )
    assert waiting.stderr
    # The line that says the input is being read; from then on the command waits for more of it.
    assert b"reading standard input" in waiting.stderr.readline()
    waiting.send_signal(signal.SIGINT)
    _, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 130
    assert b"error: interrupted" in said
