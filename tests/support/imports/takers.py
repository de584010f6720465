"""Processes that take folders in at the same time, each by its own path.

As a program: ``python -m tests.support.imports.takers URL ROOT NAME FOLDER…`` waits for a line, then creates or imports
a table in each of the folders below a root, in order, and prints what became of each, as JSON.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from deltamirror import Catalog
from deltamirror.config import Settings
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.wiring import open_importer
from tests.support.interfaces.commands import environment

IMPORTED = "imported"
"""What the names of folders with a log begin with: these are imported, others created."""

_ROOT = Path(__file__).parents[3]


def taken_at_once(url: str, roots: Sequence[str], folders: Sequence[str]) -> list[list[str]]:
    """The answers to one process for each root: for each folder, ``taken``, or the code of the error."""
    takers = [_started(url, root, f"by{number}", *folders) for number, root in enumerate(roots)]
    for taker in takers:
        assert taker.stdout is not None
        assert taker.stdout.readline() == "ready\n"
    for taker in takers:
        assert taker.stdin is not None
        taker.stdin.write("go\n")
        taker.stdin.flush()
    return [json.loads(taker.communicate()[0]) for taker in takers]


def _started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.imports.takers", *arguments]
    return subprocess.Popen(
        command, cwd=_ROOT, env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _take(catalog: Catalog, root: str, name: str, folder: str) -> str:
    location = f"{root}/{folder}"
    try:
        if folder.startswith(IMPORTED):
            with open_importer(catalog, Settings(), runner="local") as importer:
                importer.run(ImportOrder(location=location, name=f"{name}.{folder}"))
        else:
            catalog.create_table(f"{name}.{folder}", location=location, schema="id long")
    except DeltaMirrorError as error:
        return error.code
    return "taken"


def _main(url: str, root: str, name: str, *folders: str) -> None:
    with Catalog(url) as catalog:
        catalog.tables()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        sys.stdout.write(json.dumps([_take(catalog, root, name, folder) for folder in folders]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
