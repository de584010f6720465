"""A writer of the soak test: ``python -m tests.soak.writer NAME JOURNAL STOP TABLE…`` until the file STOP is there.

The journal has a line for each transaction before it is sent, and one for its answer. A writer that was killed begins
with the transaction whose answer it does not know.
"""

import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from deltamirror import Catalog
from deltamirror.config import load
from deltamirror.errors import Conflict, DeltaMirrorError, InvalidInput, Transient, Unavailable
from tests.support.lakes.lake import add


class Journal:
    """What a writer sent, and what it was told."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        self.sent: dict[int, dict[str, Any]] = {entry["number"]: entry for entry in entries if "files" in entry}
        self.told: dict[int, dict[str, int] | None] = {
            entry["number"]: entry["versions"] for entry in entries if "versions" in entry
        }

    @property
    def unknown(self) -> dict[str, Any] | None:
        """The transaction whose answer is not known."""
        return next((entry for number, entry in self.sent.items() if number not in self.told), None)

    def send(self, **what: Any) -> dict[str, Any]:
        """Write a transaction down before it is sent."""
        entry = {"number": len(self.sent), **what}
        self.sent[entry["number"]] = entry
        self._write(entry)
        return entry

    def tell(self, number: int, versions: dict[str, int] | None) -> None:
        """Write an answer down; None: it did not take place."""
        self.told[number] = versions
        self._write({"number": number, "versions": versions})

    def _write(self, entry: dict[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(f"{json.dumps(entry)}\n")


def main(arguments: Sequence[str]) -> None:
    """Commit until told to stop, and nothing is unknown."""
    name, path, stop, *tables = arguments
    journal, lots = Journal(Path(path)), random.Random(f"{name} {time.time()}")
    with Catalog(settings=load(environment=os.environ).settings) as catalog:
        while not Path(stop).exists() or journal.unknown is not None:
            entry = journal.unknown or journal.send(**_transaction(catalog, name, lots, tables, len(journal.sent)))
            _send(catalog, journal, entry)
            time.sleep(lots.uniform(0.05, 0.5))


def _transaction(
    catalog: Catalog, name: str, lots: random.Random, tables: Sequence[str], number: int
) -> dict[str, Any]:
    """An append to one table or to all, or a file in the place of another."""
    everywhere = lots.random() < 0.2
    chosen = list(tables) if everywhere else [lots.choice(tables)]
    files = [f"{'all-' if everywhere else ''}{name}-{number}-{each}.parquet" for each in range(lots.choice([1, 1, 5]))]
    removed = _one_file(catalog, chosen[0], lots) if lots.random() < 0.3 and not everywhere else None
    return {"files": files, "tables": chosen, "removed": removed}


def _one_file(catalog: Catalog, table: str, lots: random.Random) -> str | None:
    try:
        found = catalog.table(table).snapshot().files().column("path").to_pylist()
    except DeltaMirrorError:
        return None
    own = [path for path in found if not path.startswith("all-")]
    return lots.choice(own) if own else None


def _send(catalog: Catalog, journal: Journal, entry: dict[str, Any]) -> None:
    try:
        with catalog.transaction(token=entry["files"][0]) as transaction:
            for table in entry["tables"]:
                transaction.append(table, [add(file) for file in entry["files"]])
                if entry["removed"]:
                    transaction.remove(table, [entry["removed"]])
        journal.tell(entry["number"], dict(transaction.result.versions))
    except (Conflict, InvalidInput):
        journal.tell(entry["number"], None)
    except (Transient, Unavailable):
        time.sleep(0.2)


def journals(folder: Path) -> Iterator[Journal]:
    """Those of all writers."""
    return map(Journal, sorted(folder.glob("*.journal")))


if __name__ == "__main__":
    main(sys.argv[1:])
