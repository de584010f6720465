"""Help is there at once, fits its lines, and has an example for every command."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import deltamirror
from deltamirror.cli import cli
from deltamirror.cli.main import COMMANDS
from tests.support.interfaces.command_lines import subcommands

HEAVY = ("duckdb", "obstore", "pyarrow", "pyspark", "sqlalchemy")
WIDTH = 80
Words = tuple[str, ...]
_PROGRAM = f"""
import atexit, sys
atexit.register(lambda: print("imported:", *(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr))
"""
_TYPED = "from deltamirror.cli import main; main()"


def commands(command: click.Command = cli, path: Words = ()) -> Iterator[tuple[Words, click.Command]]:
    """Every command and every group of commands, but for the root."""
    below = subcommands(command) if isinstance(command, click.Group) else {}
    for name, each in below.items():
        yield (*path, name), each
        yield from commands(each, (*path, name))


def shown(*path: str) -> list[str]:
    """The lines of a command's help at 80 columns."""
    found = CliRunner().invoke(cli, [*path, "--help"], prog_name="deltamirror", terminal_width=WIDTH)
    return found.stdout.splitlines()


def run(program: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = str(Path(deltamirror.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM + program, *args],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "args", "environment", "said"),
    [
        (_TYPED, ["--help"], {}, "Publish the commits of all tables"),
        (_TYPED, ["--version"], {}, "deltamirror "),
        (_TYPED, ["mirorr"], {}, "No such command 'mirorr'"),
        (
            _TYPED,
            [],
            {"_DELTAMIRROR_COMPLETE": "bash_complete", "COMP_WORDS": "deltamirror mir", "COMP_CWORD": "1"},
            "plain,mirror",
        ),
        ("import deltamirror; print(dir(deltamirror), deltamirror.errors.Conflict)", [], {}, "'Catalog'"),
    ],
    ids=["help", "version", "unknown command", "completion", "import deltamirror"],
)
def test_no_library_of_databases_or_stores_is_imported_for(
    program: str, args: list[str], environment: dict[str, str], said: str
) -> None:
    done = run(program, *args, **environment)
    assert said in done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "imported:"


def test_the_command_itself_imports_what_it_works_with() -> None:
    """So that the test above would notice."""
    assert "sqlalchemy" in run(_TYPED, "table", "list", "--help").stderr.splitlines()[-1]


def test_every_public_name_is_found_when_it_is_asked_for() -> None:
    assert all(getattr(deltamirror, name).__name__ == name for name in deltamirror.__all__)
    assert set(deltamirror.__all__) <= set(dir(deltamirror))
    with pytest.raises(AttributeError, match="no attribute 'Catalogue'"):
        _ = deltamirror.Catalogue


def test_the_list_of_commands_says_what_the_commands_say() -> None:
    assert list(COMMANDS) == sorted(COMMANDS)
    for name, listed in COMMANDS.items():
        command = listed.load()
        assert (command.name, command.get_short_help_str(limit=1_000)) == (name, listed.summary)


@pytest.mark.parametrize("group", [(), ("config",), ("table",), ("token",)], ids=lambda path: " ".join(path) or "root")
def test_every_summary_is_a_sentence_on_one_line_of_80_columns(group: Words) -> None:
    lines = shown(*group)
    for path, command in commands():
        if path[:-1] == group:
            summary = command.get_short_help_str(limit=1_000)
            assert summary.endswith(".")
            assert any(re.fullmatch(rf"  {path[-1]} +{re.escape(summary)}", line) for line in lines), path


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in commands()])
def test_every_command_has_an_example_that_can_be_typed(
    path: Words, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = next(line.strip() for line in shown(*path) if line.startswith("  Example: "))
    typed = shlex.split(example.removeprefix("Example: "))
    assert typed[: len(path) + 1] == ["deltamirror", *path]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "actions.jsonl").touch()
    with command.make_context(path[-1], typed[len(path) + 1 :]) as context:
        assert context.command is command
