"""A mirror on a disk of its own that becomes full, and read-only: a program for a mount namespace of its own.

``unshare --user --map-root-user --mount python -m tests.support.stores.small_disk FOLDER`` makes a disk of some
kilobytes at ``FOLDER/disk``, lets it run full in the middle of a checkpoint, makes it read-only, and prints what was
recorded each time, and what the log held after there was room again.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltamirror import Catalog, Table
from tests.support.lakes.lake import add
from tests.support.mirrors.local import committed_files, log_of, make_table, mirror_of, published_files

COMMAND = ("unshare", "--user", "--map-root-user", "--mount")
_SIZE = 512 * 1024
_PAGE = 4096


def _mount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk], check=True)


def _fill(disk: Path, *, leaving: int) -> Path:
    """Take what is free, but for some bytes."""
    filler, free = disk / "filler", os.statvfs(disk)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - leaving)
    return filler


@contextmanager
def _full(disk: Path, *, leaving: int) -> Iterator[None]:
    filler = _fill(disk, leaving=leaving)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _read_only(disk: Path) -> Iterator[None]:
    _mount(disk, "remount,ro")
    try:
        yield
    finally:
        _mount(disk, "remount,rw")


def _tried(catalog: Catalog, table: Table) -> dict[str, object]:
    """What comes of a run, and whether the log is whole after it."""
    with mirror_of(catalog, retry_base=3600.0, retry_max=3600.0) as engine:
        failures = engine.run(once=True).failures
    found, expected = published_files(table), committed_files(table)
    return {
        "failures": [(failure.error.code, failure.stage.value) for failure in failures],
        "in order": list(found.items()) == list(expected.items())[: len(found)],
        "published": len(found),
        "temporaries": sorted(path.name for path in log_of(table).glob(".*")),
    }


def _append(table: Table, files: int) -> None:
    head = table.info().head
    table.append([add(f"{head}-{number}.parquet", stats='{"numRecords":1}') for number in range(files)])


def main(folder: Path) -> None:
    """Print a report as JSON."""
    disk = folder / "disk"
    disk.mkdir()
    _mount(disk, f"size={_SIZE}")
    report: dict[str, object] = {}
    with Catalog(f"sqlite:///{folder / 'lake.db'}") as catalog:
        catalog.init()
        table = make_table(catalog, disk, properties={"delta.checkpointInterval": "1"})
        _append(table, 50)
        report["room"] = _tried(catalog, table)
        _append(table, 1)
        with _full(disk, leaving=0):
            report["full"] = _tried(catalog, table)
        with _full(disk, leaving=3 * _PAGE):
            report["full at a checkpoint"] = _tried(catalog, table)
        report["room again"] = _tried(catalog, table)
        _append(table, 1)
        with _read_only(disk):
            report["read-only"] = _tried(catalog, table)
        report["writable again"] = _tried(catalog, table)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
