"""A folder with catalogs in files of SQLite and the tables beside them: made once, copied for each test."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from deltamirror import Catalog
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.lake import opened


def lake_of_test(request: pytest.FixtureRequest, folder: Path, *, made: str) -> str:
    """The address of an SQLite catalog: what the fixture ``made`` made if a test has ``table``, an empty one if not."""
    if "table" not in request.fixturenames:
        return lake_url_of("sqlite", request, folder)
    moved(request.getfixturevalue(made), folder)
    return f"sqlite:///{folder / 'lake.db'}"


@contextmanager
def lake_in(folder: Path, made_catalogs: Path) -> Iterator[Catalog]:
    """A catalog in a folder, ``lake.db``, that has no table."""
    shutil.copy(made_catalogs / "lake.db", folder)
    with opened(f"sqlite:///{folder / 'lake.db'}") as catalog:
        yield catalog


def moved(made: Path, folder: Path) -> None:
    """Copy what is in a folder to another one; tables that lie in the one have their locations in the other."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    for file in made.glob("*.db"):
        with closing(sqlite3.connect(folder / file.name)) as connection, connection:
            places = (f"file://{made}/", f"file://{folder}/")
            connection.execute("UPDATE dl_tables SET location = replace(location, ?, ?)", places)
