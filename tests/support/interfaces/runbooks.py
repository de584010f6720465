"""Runbooks, and the guide to troubles, to be followed: their commands in order, each with its exit status."""

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from deltamirror.cli import cli

_DOCS = Path(__file__).parents[3] / "docs"
RUNBOOKS = _DOCS / "runbooks.md"
TROUBLESHOOTING = _DOCS / "guides" / "troubleshooting.md"
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"^### (.+?)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_SYMPTOM = re.compile(r"\A\s*^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and how it ends."""

    command: str
    exits: int


def procedures(page: Path) -> dict[str, dict[str, list[Step]]]:
    """The commands of a page by the title of their section, and by part: Check, Act, Verify."""
    return {
        title: {
            part: [_step(line) for block in _BLOCK.findall(text) for line in block.splitlines()]
            for part, text in _PART.findall(body)
        }
        for title, body in _sections(page)
    }


def symptoms(page: Path) -> dict[str, str]:
    """What is shown at the beginning of each section: a message, in which … stands for anything."""
    return {title: found[1].strip() for title, body in _sections(page) if (found := _SYMPTOM.search(body))}


def _sections(page: Path) -> list[tuple[str, str]]:
    return _SECTION.findall(page.read_text(encoding="utf-8"))


def _step(line: str) -> Step:
    command, _, comment = line.partition(" #")
    told = re.search(r"exit status (\d+)", comment)
    return Step(command.strip(), int(told[1]) if told else 0)


def follow(steps: list[Step]) -> str:
    """Do what a part of a page says, in the working folder; all that was said."""
    assert steps
    return "".join(map(_said, steps))


def _said(step: Step) -> str:
    name, *arguments = shlex.split(os.path.expandvars(step.command))
    if name != "deltamirror":
        subprocess.run([name, *arguments], check=True)
        return ""
    result = CliRunner().invoke(cli, arguments, prog_name="deltamirror")
    assert result.exit_code == step.exits, f"{step}: exit {result.exit_code}\n{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stderr
    return result.output
