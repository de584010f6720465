"""What a large commit costs to hold against the files of its table grows with the commit, not with the table."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from deltamirror import Add, Catalog
from tests.support.lakes.lake import add, create, opened, remove_of

pytestmark = pytest.mark.requirement("R36")

FEW, MANY = 400, 8_000
STAGED = 40


class Steps:
    """How many hundreds of instructions SQLite carried out."""

    count = 0

    def see(self) -> None:
        self.count += 1


@contextmanager
def counted(catalog: Catalog) -> Iterator[Steps]:
    steps = Steps()

    def watch(driver: Any, *_: object) -> None:
        driver.set_progress_handler(steps.see, 100)

    def unwatch(driver: Any, *_: object) -> None:
        driver.set_progress_handler(None, 0)

    event.listen(catalog.database.engine, "checkout", watch)
    event.listen(catalog.database.engine, "checkin", unwatch)
    yield steps


def files(first: int, count: int) -> list[Add]:
    return [add(f"part-{number}.parquet") for number in range(first, first + count)]


@pytest.mark.parametrize("changes", ["adds", "removes"])
def test_a_staged_commit_costs_the_same_on_a_larger_table(tmp_path: Path, changes: str) -> None:
    taken = {}
    for count in (FEW, MANY):
        with opened(f"sqlite:///{tmp_path}/{count}.db", stage_above=STAGED // 2, chunk_lines=STAGED) as catalog:
            catalog.init()
            create(catalog)
            there = files(0, count)
            catalog.table("t").append(there)
            with counted(catalog) as steps, catalog.transaction() as tx:
                some = files(count, STAGED) if changes == "adds" else map(remove_of, there[:STAGED])
                tx.stage("t", some)
            taken[count] = steps.count
    assert 0 < taken[MANY] < 2 * taken[FEW]
