"""The runbooks, as something that can be followed: their commands, in order, each with the exit status that it has."""

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from deltamirror.cli import cli

__all__ = ["PAGE", "Step", "follow", "runbooks"]

PAGE = Path(__file__).parents[3] / "docs" / "runbooks.md"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"^### (.+?)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and how it ends."""

    command: str
    exits: int


def runbooks() -> dict[str, dict[str, list[Step]]]:
    """By title, and by part: Check, Act, Verify."""
    return {
        title: {
            part: [_step(line) for block in _BLOCK.findall(text) for line in block.splitlines()]
            for part, text in _PART.findall(body)
        }
        for title, body in _SECTION.findall(PAGE.read_text(encoding="utf-8"))
    }


def _step(line: str) -> Step:
    command, _, comment = line.partition(" #")
    told = re.search(r"exit status (\d+)", comment)
    return Step(command.strip(), int(told[1]) if told else 0)


def follow(steps: list[Step]) -> str:
    """Do what a part of a runbook says, in the working folder; all that was said to standard output."""
    assert steps
    return "".join(map(_said, steps))


def _said(step: Step) -> str:
    name, *arguments = shlex.split(os.path.expandvars(step.command))
    if name != "deltamirror":
        subprocess.run([name, *arguments], check=True)
        return ""
    result = CliRunner().invoke(cli, arguments, prog_name="deltamirror")
    assert result.exit_code == step.exits, f"{step}: exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
    return result.stdout
