"""Commits as a ``_delta_log/`` folder, for readers that know nothing but files."""

from collections.abc import Mapping
from pathlib import Path

__all__ = ["read_log", "write_log"]


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
