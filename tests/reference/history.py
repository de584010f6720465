"""Histories: named lists of what a writer does to one table. Each is written as a folder with a log."""

import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

LOG = "_delta_log"

S = TypeVar("S")
Step = Callable[[S, str], None]


@dataclass(frozen=True)
class Histories(Generic[S]):
    """The histories of one kind of writer, by name; each gets the writer's session and the folder of its table."""

    steps: dict[str, Step[S]] = field(default_factory=dict)
    since: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, *, since: str = "0") -> Callable[[Step[S]], Step[S]]:
        """Note a history, and the first release of the writer that can do it."""

        def noted(step: Step[S]) -> Step[S]:
            self.steps[name], self.since[name] = step, since
            return step

        return noted

    def run(self, session: S, *, folder: Path, logs: Path, release: str = "999") -> list[str]:
        """Do all that the release can, and keep the logs only; the names of those that failed."""
        failed = []
        for name, step in self.steps.items():
            if _number(self.since[name]) <= _number(release):
                print(f"  {name}", flush=True)  # noqa: T201  (a program of some minutes says where it is)
                try:
                    step(session, str(folder / name))
                    keep_log(folder / name, logs / name)
                except Exception:  # noqa: BLE001  (the others are made, and this one is told)
                    traceback.print_exc(limit=-3)
                    failed.append(name)
        return failed


def keep_log(table: Path, to: Path) -> None:
    """Copy the log of a table, without the checksums that Hadoop keeps of local files; all of what has no log."""
    part = LOG if (table / LOG).is_dir() else "."
    shutil.copytree(table / part, to / part, ignore=shutil.ignore_patterns(".*"))


def _number(release: str) -> list[int]:
    return [int(part) for part in release.split(".")]
