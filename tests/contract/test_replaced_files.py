"""A database file that is replaced under a running process is noticed: no commit to the old one is acknowledged."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.errors import CatalogMismatch
from deltamirror.steps import Moment, Step, observed
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.lake import add, create, opened, paths

pytestmark = [pytest.mark.requirement("R92"), pytest.mark.default_on("sqlite", "postgresql")]


@pytest.fixture(params=["sqlite", "duckdb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return lake_url_of(request.param, request, tmp_path)


@pytest.fixture
def file(url: str) -> Path:
    return Path(url.partition(":///")[2])


@pytest.fixture
def backup(url: str, file: Path) -> Path:
    """A backup of the catalog with one table and one file in it."""
    with opened(url) as catalog:
        create(catalog).append([add("kept")])
    return Path(shutil.copy(file, file.with_name("backup")))


def restored(backup: Path, file: Path) -> None:
    """As `mv` or `rsync` do it; the copy has an inode of its own."""
    Path(shutil.copy(backup, backup.with_name("copy"))).replace(file)


def removed_and_copied(backup: Path, file: Path) -> None:
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()
    shutil.copy(backup, file)


@pytest.mark.parametrize("restore", [restored, removed_and_copied])
def test_a_replaced_file_is_not_written_to_nor_read(
    url: str, file: Path, backup: Path, restore: Callable[[Path, Path], None]
) -> None:
    with opened(url) as catalog:
        table = catalog.table("t")
        table.append([add("before")])
        restore(backup, file)
        for act in (lambda: table.append([add("lost")]), table.info, lambda: table.append([add("lost")])):
            with pytest.raises(CatalogMismatch, match="was replaced or removed") as caught:
                act()
        assert "open the catalog again" in caught.value.hint
    with opened(url) as catalog:
        assert "lost" not in paths(catalog.table("t"))


@pytest.mark.parametrize("is_small", [True, False])
def test_a_file_that_is_replaced_in_the_middle_of_a_commit_takes_none(
    url: str, file: Path, backup: Path, is_small: bool
) -> None:
    def replaced_before_commit(moment: Moment, step: Step) -> None:
        if moment is Moment.BEFORE and step in (Step.APPEND, Step.RATIFY):
            removed_and_copied(backup, file)

    with opened(url) as catalog, observed(replaced_before_commit):
        tx = catalog.transaction()
        tx.append("t", [add("lost")])
        if not is_small:
            tx.set_transaction("t", "loader", 1)
        with pytest.raises(CatalogMismatch, match="was replaced or removed"):
            tx.commit()
    with opened(url) as catalog:
        assert paths(catalog.table("t")) == ["kept"]


def test_a_file_that_is_replaced_while_a_large_commit_is_staged_takes_none(url: str, file: Path, backup: Path) -> None:
    def stream() -> Iterator[Add]:
        yield from (add(f"lost{number}") for number in range(8))
        removed_and_copied(backup, file)
        yield add("last")

    with opened(url, stage_above=2, chunk_lines=2) as catalog, pytest.raises(CatalogMismatch):
        catalog.table("t").append(stream())
    with opened(url) as catalog:
        assert paths(catalog.table("t")) == ["kept"]


def test_a_write_ahead_log_that_is_removed_takes_no_commit(sqlite_lake: str) -> None:
    with opened(sqlite_lake) as catalog:
        table: Table = create(catalog)
        table.append([add("before")])
        Path(sqlite_lake.partition(":///")[2] + "-wal").unlink()
        with pytest.raises(CatalogMismatch, match="-wal was replaced or removed"):
            table.append([add("lost")])


def test_another_process_that_opens_and_closes_the_file_replaces_nothing(url: str) -> None:
    with opened(url) as first:
        table = create(first)
        for number in range(3):
            with Catalog(url) as other:
                other.table("t").append([add(f"other{number}")])
            table.append([add(f"first{number}")])
        assert len(paths(table)) == 6
