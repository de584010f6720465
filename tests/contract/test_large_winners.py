"""A commit is held against every file of large commits that came first, and keeps few of them in memory."""

import tracemalloc
from collections.abc import Iterable, Iterator

import pytest

from deltamirror import Catalog, Table
from deltamirror.delta import conflicts
from deltamirror.delta.actions import Action
from deltamirror.errors import Conflict
from deltamirror.txnlog.commit import staging
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, adds_of, create, opened, remove_of

pytestmark = pytest.mark.requirement("R36")

OURS = [add(f"our{number:02}", day="mon") for number in range(20)]
THEIRS = [add(f"their{number:02}", day="tue") for number in range(90)]
"""More chunks than are fetched at once, where one line is a chunk."""

MANY = [add(f"new{number:02}", day="wed") for number in range(15)]


@pytest.fixture
def catalog(lake_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """A catalog in which more than ten lines are many, and few files are looked at together."""
    monkeypatch.setattr(staging, "_PATHS_AT_ONCE", 7)
    monkeypatch.setattr(conflicts, "_AT_ONCE", 7)
    with opened(lake_url, stage_above=10, chunk_lines=1) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog, partition_by=["day"])
    table.append(OURS)
    return table


def commit_after(catalog: Catalog, winner: Iterable[Action], actions: Iterable[Action]) -> None:
    """Commit actions that follow from the files of one day, after others have committed."""
    tx = catalog.transaction()
    tx.read("t", partitions={"day": "mon"})
    tx.stage("t", actions)
    with catalog.transaction() as other:
        other.read("t", partitions={"day": "tue"})
        other.stage("t", winner)
    tx.commit()


@pytest.mark.default_on(*ENGINES)
@pytest.mark.parametrize("beside", [[], MANY], ids=["small", "staged"])
@pytest.mark.parametrize("last", [add("late", day="mon"), remove_of(OURS[1])], ids=["added", "removed"])
def test_the_last_file_of_a_large_commit_conflicts(
    catalog: Catalog, table: Table, beside: list[Action], last: Action
) -> None:
    with pytest.raises(Conflict) as caught:
        commit_after(catalog, [*THEIRS, last], [remove_of(OURS[0]), *beside])
    assert caught.value.reason == ("concurrent-delete-read" if last == remove_of(OURS[1]) else "concurrent-append")
    assert table.info().head == 2


@pytest.mark.default_on(*ENGINES)
@pytest.mark.parametrize("beside", [[], MANY], ids=["small", "staged"])
def test_a_file_that_both_remove_conflicts(catalog: Catalog, beside: list[Action]) -> None:
    """It is none of those that were read."""
    table = create(catalog, partition_by=["day"])
    table.append([*OURS, *(gone := [add(f"gone{number}", day="tue") for number in range(30)])])
    with pytest.raises(Conflict) as caught:
        commit_after(catalog, [*THEIRS, *map(remove_of, gone)], [*beside, *map(remove_of, gone[20:23])])
    assert caught.value.reason == "concurrent-delete-delete"
    assert "gone20, which the transaction writes" in str(caught.value)


@pytest.mark.default_on(*ENGINES)
@pytest.mark.parametrize("beside", [[], MANY], ids=["small", "staged"])
def test_files_all_over_a_large_commit_are_replaced(catalog: Catalog, table: Table, beside: list[Action]) -> None:
    again = [add(file.path, day="tue", size=7) for file in (THEIRS[0], THEIRS[50], THEIRS[-1])]
    commit_after(catalog, THEIRS, [*beside, *again])
    found = adds_of(table.snapshot().files())
    assert len(found) == len(OURS) + len(THEIRS) + len(beside)
    assert sorted(path for (path, _), file in found.items() if file.size == 7) == [file.path for file in again]


@pytest.mark.parametrize("beside", [[], MANY], ids=["small", "staged"])
def test_a_large_commit_is_met_in_little_memory(sqlite_lake: str, beside: list[Action]) -> None:
    peaks = {}
    with opened(sqlite_lake, stage_above=10, chunk_lines=20) as catalog:
        table = create(catalog, partition_by=["day"])
        for count in (1_500, 6_000):
            table.append(OURS)
            tx = catalog.transaction()
            tx.read("t", partitions={"day": "mon"})
            tx.stage("t", [*map(remove_of, OURS), *beside])
            table.append(add(f"{count}-{number}.parquet", day="tue") for number in range(count))
            tracemalloc.start()
            tx.commit()
            peaks[count] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    assert peaks[6_000] < 2 * peaks[1_500]
