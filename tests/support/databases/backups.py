"""Backups of catalogs, and databases restored from them, as an operator makes them while nobody writes."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql


@dataclass(frozen=True, slots=True)
class Backup:
    """A database as it was: a folder with its files, or a database beside it."""

    url: str
    kept: str

    def restore(self) -> None:
        """Put the database back to what it was."""
        if (file := _file(self.url)) is None:
            _copy(self.url, self.kept, _name(self.url))
            return
        for path in _files(file):
            path.unlink()
        for path in Path(self.kept).iterdir():
            shutil.copy(path, file.parent)


def backed_up(url: str) -> Backup:
    """A backup of a database that nobody has open."""
    if (file := _file(url)) is None:
        name = f"{_name(url)}_{uuid4().hex[:8]}"
        _copy(url, _name(url), name)
        return Backup(url, name)
    folder = file.parent / f"backup-{uuid4()}"
    folder.mkdir()
    for path in _files(file):
        shutil.copy(path, folder)
    return Backup(url, str(folder))


def _file(url: str) -> Path | None:
    scheme, _, path = url.partition(":///")
    return Path(path) if scheme in ("sqlite", "duckdb") else None


def _files(file: Path) -> list[Path]:
    return [path for path in file.parent.glob(f"{file.name}*") if path.is_file()]


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _copy(url: str, source: str, target: str) -> None:
    """One database of the server becomes a copy of another one."""
    with psycopg.connect(f"{url.rpartition('/')[0]}/postgres", autocommit=True) as connection:
        names = {"source": sql.Identifier(source), "target": sql.Identifier(target)}
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {target} WITH (FORCE)").format(**names))
        connection.execute(sql.SQL("CREATE DATABASE {target} TEMPLATE {source} STRATEGY FILE_COPY").format(**names))
