"""Short commands as a user types them, from the start of the process to its end."""

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.adds import SCHEMA
from benchmarks.child import seconds_of
from benchmarks.lab import Lab, Place
from benchmarks.report import Result, Table
from deltamirror import Catalog

_TABLES: Final = 10
_OURS: Final = str(Path(sys.executable).with_name("deltamirror"))
_COMMANDS: Final = {
    "--help": (_OURS, "--help"),
    "bare --help": (sys.executable, "-c", "import click"),
    "status": (_OURS, "status"),
    "bare status": (sys.executable, "-c", "import click, msgspec; from sqlalchemy.dialects import sqlite"),
}


def run(lab: Lab) -> Result:
    """Seconds of each command, in turns, the median. The limit of each is Python that only imports the libraries."""
    times = int(lab.pick(full=9, quick=3))
    with lab.place("sqlite") as place:
        _fill(place)
        rounds = [[seconds_of(partial(_call, place), words) for words in _COMMANDS.values()] for _ in range(1 + times)]
    medians = map(statistics.median, zip(*rounds[1:], strict=True))
    figures = dict(zip(_COMMANDS, medians, strict=True))
    rows = [(name, f"{figures[name]:.2f}", f"{figures[f'bare {name}']:.2f}") for name in ("--help", "status")]
    title = f"Commands, a catalog of {_TABLES} tables on SQLite"
    return Result("commands", Table(title, ("deltamirror", "s", "bare imports, s"), rows), figures)


def _fill(place: Place) -> None:
    with Catalog(place.url) as catalog:
        for number in range(_TABLES):
            catalog.create_table(f"t{number}", location=f"{place.folder}/t{number}", schema=SCHEMA)


def _call(place: Place, words: Sequence[str]) -> None:
    environment = {**os.environ, "DELTAMIRROR_CATALOG__URL": place.url}
    subprocess.run(words, env=environment, cwd=place.folder, stdout=subprocess.DEVNULL, check=True)
