"""Commits as a ``_delta_log/`` folder, for readers that know nothing but files."""

import re
from collections.abc import Mapping
from pathlib import Path

# What no two writers, and no two runs, have in common.
_OWN = re.compile(
    r'"(?:inCommitTimestamp|timestamp|createdTime)":\d+'
    r'|"delta.inCommitTimestampEnablementTimestamp":"\d+"'
    r'|"(?:engineInfo|txnId)":"[^"]*"'
    r'|"id":"[0-9a-f-]{36}"'
    r"|(?:col|_row-id-col|_row-commit-version-col)-[0-9a-f-]{36}"
)


def write_log(folder: Path, commits: Mapping[int, bytes]) -> Path:
    """Put each commit's bytes to ``_delta_log/<version>.json`` below the table's folder; return the log folder."""
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for version, data in commits.items():
        (log / f"{version:020d}.json").write_bytes(data)
    return log


def read_log(folder: Path) -> dict[int, bytes]:
    """The commits that lie below a table's folder, by version."""
    names = sorted((folder / "_delta_log").glob("[0-9]*.json"))
    return {int(path.stem): path.read_bytes() for path in names if path.stem.isdigit()}


def masked(data: bytes) -> list[str]:
    """The lines of a commit without ids, times and the engine's name."""
    return [_OWN.sub("…", line) for line in data.decode().splitlines()]
