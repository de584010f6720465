"""What Delta Lake on Spark makes of the names in a log: a model of its patterns, which stands in for Spark."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_COMMIT: Final = re.compile(r"([0-9]+)\.json")
_CHECKPOINT: Final = re.compile(r"([0-9]+)\.checkpoint((\.[0-9]+\.[0-9]+)?\.parquet|\.[^.]+\.(json|parquet))")
_CHECKSUM: Final = re.compile(r"([0-9]+)\.crc")
_COMPACTION: Final = re.compile(r"([0-9]+).([0-9]+).compacted.json")
_DIGITS: Final = 20


def broken_names(log: Path, *, first: int) -> Iterator[str]:
    """Why Spark fails at a log that starts at a version, or reads it otherwise than other readers."""
    listed = sorted(path.name for path in log.iterdir() if path.name >= f"{first:020}.")
    for name in listed:
        found = next(
            filter(None, (each.fullmatch(name) for each in (_COMMIT, _CHECKPOINT, _CHECKSUM, _COMPACTION))), None
        )
        if found is not None and any(len(number) != _DIGITS for number in _versions(found)):
            yield f"takes {name} for a file of the log"
    commits = [int(found[1]) for found in map(_COMMIT.fullmatch, listed) if found]
    if commits != list(range(min(commits, default=0), max(commits, default=-1) + 1)):
        yield f"versions are not contiguous: {commits}"


def _versions(found: re.Match[str]) -> list[str]:
    return [found[1], found[2]] if found.re is _COMPACTION else [found[1]]
