"""What a large commit meets among the files of its table: all of it, at a cost that does not grow with the table."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from deltamirror import Add, Catalog
from deltamirror.delta.validation import TableRules
from deltamirror.errors import InvalidAction
from deltamirror.txnlog.commit import staging
from deltamirror.txnlog.content import projection
from tests.support.lakes.lake import add, create, opened, remove_of

pytestmark = pytest.mark.requirement("R36")

FEW, MANY = 400, 8_000
STAGED = 40


class Steps:
    """How many hundreds of instructions SQLite carried out."""

    count = 0

    def see(self) -> None:
        self.count += 1


def counted(catalog: Catalog) -> Steps:
    steps = Steps()

    def watch(driver: Any, *_: object) -> None:
        driver.set_progress_handler(steps.see, 100)

    def unwatch(driver: Any, *_: object) -> None:
        driver.set_progress_handler(None, 0)

    event.listen(catalog.database.engine, "checkout", watch)
    event.listen(catalog.database.engine, "checkin", unwatch)
    return steps


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
            steps = counted(catalog)
            with catalog.transaction() as tx:
                tx.stage("t", files(count, STAGED) if changes == "adds" else map(remove_of, there[:STAGED]))
            taken[count] = steps.count
    assert 0 < taken[MANY] < 2 * taken[FEW]


def test_all_batches_of_a_stage_are_held_against_the_table(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_LINES_AT_ONCE", 6)
    monkeypatch.setattr(projection, "_MANY_HASHES_AT_ONCE", 5)
    with opened(lake_url, stage_above=4, chunk_lines=3) as catalog:
        create(catalog)
        there = files(0, STAGED)
        replaced, removed, staying = there[:12], there[12:24], there[24:]
        tagged = [add(f"tagged-{number}.parquet", tags={"a": "b"}) for number in range(12)]
        catalog.table("t").append([*there, *tagged])
        again = [add(file.path, size=99) for file in replaced]
        retagged = [add(file.path, size=77, tags={"a": "c"}) for file in tagged]
        with catalog.transaction() as tx:
            tx.stage("t", [*again, *map(remove_of, removed), *retagged])
        left = sorted((file.path, file.size) for file in catalog.table("t").snapshot().adds())
        assert left == sorted((file.path, file.size) for file in (*again, *staying, *retagged))


def statements(catalog: Catalog) -> list[str]:
    """The statements that are carried out from here on."""
    seen: list[str] = []
    event.listen(catalog.database.engine, "before_cursor_execute", lambda *a: seen.append(a[2]))
    return seen


def test_many_files_are_found_by_as_many_statements_as_few(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "_HASHES_AT_ONCE", 5)
    with opened(lake_url) as catalog:
        create(catalog)
        there = [file.path for file in files(0, 10 * STAGED)]
        catalog.table("t").append([add(path) for path in there])
        few, many = there[:6], there[6 : 5 * STAGED]
        seen = statements(catalog)
        taken = []
        for some in (few, many):
            seen.clear()
            catalog.table("t").remove(some)
            taken.append(sum("path_hash" in each and each.startswith("SELECT") for each in seen))
        assert taken[0] == taken[1] > 0
        assert sorted(file.path for file in catalog.table("t").snapshot().adds()) == sorted(there[5 * STAGED :])


def test_many_files_are_found_in_lists_of_bounded_length(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "_HASHES_AT_ONCE", 3)
    monkeypatch.setattr(projection, "_MANY_HASHES_AT_ONCE", 7)
    monkeypatch.setattr(projection, "_ROWS_AT_ONCE", 2)
    with opened(lake_url, stage_above=4, chunk_lines=3) as catalog:
        create(catalog)
        there = [file.path for file in files(0, STAGED)]
        catalog.table("t").append([add(path) for path in there])
        with pytest.raises(InvalidAction, match=r"not in table 't': gone\.parquet") as refused:
            catalog.table("t").remove([*there[:20], "gone.parquet"])
        assert refused.value.rule == "remove.path.not-in-table"
        catalog.table("t").remove(there[:20])
        assert sorted(file.path for file in catalog.table("t").snapshot().adds()) == sorted(there[20:])


def test_plain_removes_are_not_looked_at_one_by_one(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(lake_url, stage_above=STAGED // 2, chunk_lines=STAGED) as catalog:
        create(catalog)
        there = files(0, STAGED)
        catalog.table("t").append(there)
        looked_at: list[object] = []
        monkeypatch.setattr(TableRules, "_check_slowly", lambda _, action, __: looked_at.append(action))
        catalog.table("t").remove([file.path for file in there])
        assert looked_at == []
        assert catalog.table("t").snapshot().count_files() == 0
