"""What others commit while a large commit is being staged: it ends up as if they had come first, or it is refused."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from deltamirror import Add, Catalog, DeletionVector, Table
from deltamirror.delta.actions import Action
from deltamirror.errors import Conflict, InvalidAction, NotFound, Unavailable
from deltamirror.txnlog.commit.request import Change, Request
from deltamirror.txnlog.commit.staging import StagedBody
from tests.support.lakes.lake import add, adds_of, create, execute, opened, paths, remove_of, row_counts

pytestmark = pytest.mark.default_on("sqlite", "postgresql")

OLD = [add(f"old{number}") for number in range(15)]
FRESH = [add(f"new{number}", size=7) for number in range(15)]


@pytest.fixture
def catalog(lake_url: str) -> Iterator[Catalog]:
    with opened(lake_url, stage_above=10, chunk_lines=4) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog)
    table.append(OLD)
    return table


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something after a large commit was staged, and before it is ratified."""

    def arrange(act: Callable[[], object]) -> None:
        fill = StagedBody.fill

        def fill_then_act(self: StagedBody, *rest: object) -> object:
            staged = fill(self, *rest)  # type: ignore[arg-type]
            monkeypatch.setattr(StagedBody, "fill", fill)
            act()
            return staged

        monkeypatch.setattr(StagedBody, "fill", fill_then_act)

    return arrange


Meanwhile = Callable[[Callable[[], object]], None]


def interrupted(files: list[Add], act: Callable[[], object]) -> Iterator[Add]:
    """A stream at whose end, while it is being staged, something else happens."""
    yield from files[:-1]
    act()
    yield files[-1]


def sizes(table: Table) -> dict[str, int]:
    return {path: file.size for (path, _), file in adds_of(table.snapshot().files()).items()}


def test_a_file_that_a_winner_added_is_replaced_by_the_staged_one(
    catalog: Catalog, table: Table, meanwhile: Meanwhile
) -> None:
    meanwhile(lambda: table.append([add("new3", size=1), add("other", size=1)]))
    assert table.append(FRESH).versions == {"t": 3}
    assert sizes(table) == {
        **dict.fromkeys((f.path for f in OLD), 100),
        **dict.fromkeys((f.path for f in FRESH), 7),
        "other": 1,
    }
    assert {path for path in paths(table, version=2) if path.startswith("new")} == {"new3"}


@pytest.mark.parametrize("had_files", [True, False])
def test_a_file_added_while_the_stream_is_read_is_replaced(catalog: Catalog, had_files: bool) -> None:
    table = create(catalog)
    if had_files:
        table.append([add("before")])
    table.append(interrupted(FRESH, lambda: table.append([add("new3", size=1)])))
    expected = {file.path: 7 for file in FRESH} | ({"before": 100} if had_files else {})
    assert sizes(table) == expected


def test_a_path_that_a_winner_added_with_another_deletion_vector_is_refused(
    catalog: Catalog, meanwhile: Meanwhile
) -> None:
    table = create(catalog, properties={"delta.enableDeletionVectors": "true"})
    vector = DeletionVector(
        storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=1, size_in_bytes=34, cardinality=2
    )
    meanwhile(lambda: table.append([add("new3", stats='{"numRecords":3}', deletion_vector=vector)]))
    with pytest.raises(InvalidAction) as caught:
        table.append(FRESH)
    assert (caught.value.rule, paths(table)) == ("add.path.live-twice", ["new3"])


def test_a_file_that_a_winner_replaced_is_replaced_once_more(
    catalog: Catalog, table: Table, meanwhile: Meanwhile
) -> None:
    meanwhile(lambda: table.append([add("old3", size=1)]))
    table.append([add(file.path, size=7) for file in OLD])
    assert sizes(table) == {file.path: 7 for file in OLD}
    assert len(paths(table, version=2)) == 15
    intervals = "SELECT added_version, removed_version FROM dl_file_intervals WHERE path = 'old3' ORDER BY 1"
    assert [tuple(row) for row in execute(catalog, intervals)] == [(1, 2), (2, 3), (3, None)]


def test_a_file_that_a_winner_removed_does_not_rise_from_the_dead(
    catalog: Catalog, table: Table, meanwhile: Meanwhile
) -> None:
    meanwhile(lambda: table.remove(["old3"]))
    before = row_counts(catalog)
    with pytest.raises(Conflict) as caught:
        table.append([add(file.path, size=7) for file in OLD])
    assert (caught.value.table, caught.value.actual_version) == ("t", 2)
    assert "old3" not in paths(table)
    assert row_counts(catalog)["dl_stages"] == 0
    assert row_counts(catalog)["dl_files"] == before["dl_files"]


def staged_removes(catalog: Catalog, **more: object) -> int:
    actions: list[Action] = [remove_of(file) for file in OLD]
    change = Change(table="t", actions=actions, **more)  # type: ignore[arg-type]
    return catalog.writer.commit(Request(changes=(change,))).versions["t"]


def test_two_removes_of_one_file_conflict(catalog: Catalog, table: Table, meanwhile: Meanwhile) -> None:
    meanwhile(lambda: table.remove(["old3"]))
    with pytest.raises(Conflict) as caught:
        staged_removes(catalog)
    assert (caught.value.read_version, caught.value.actual_version) == (1, 2)
    assert len(paths(table)) == 14


def test_a_large_remove_conflicts_with_an_append_that_it_should_have_read(
    catalog: Catalog, table: Table, meanwhile: Meanwhile
) -> None:
    meanwhile(lambda: table.append([add("late")]))
    with pytest.raises(Conflict) as caught:
        staged_removes(catalog)
    assert caught.value.reason == "concurrent-append"
    assert len(paths(table)) == 16


def test_an_exact_version_is_lost_to_whoever_came_first(catalog: Catalog, table: Table, meanwhile: Meanwhile) -> None:
    meanwhile(lambda: table.append([add("late")]))
    with pytest.raises(Conflict) as caught:
        staged_removes(catalog, at_version=2)
    assert caught.value.reason == "version-taken"


def test_an_exact_version_ahead_of_the_head_is_not_even_staged(catalog: Catalog, table: Table) -> None:
    """Which of its files the table has would be decided by a version that is not there yet."""
    stream = iter([remove_of(file) for file in OLD])
    with pytest.raises(Conflict) as caught:
        catalog.writer.commit_at("t", 3, stream)
    assert caught.value.reason == "version-ahead"
    assert next(stream, None) is not None


@pytest.mark.parametrize("change", ["partitioning", "append only"])
def test_what_was_checked_against_other_metadata_is_not_committed(
    catalog: Catalog, table: Table, meanwhile: Meanwhile, change: str
) -> None:
    def alter() -> None:
        metadata = table.snapshot().metadata
        if change == "append only":
            table.alter(properties={"delta.appendOnly": "true"})
        else:
            with catalog.transaction() as tx:
                repartitioned = replace(metadata, partition_columns=["day"])
                tx.stage("t", [repartitioned, *map(remove_of, OLD)], read_version=1)

    meanwhile(alter)
    with pytest.raises(Conflict) as caught:
        table.append(FRESH)
    assert caught.value.reason == "metadata-changed"
    assert row_counts(catalog)["dl_stages"] == 0


def test_a_table_that_was_dropped_while_staging_takes_nothing(
    catalog: Catalog, table: Table, meanwhile: Meanwhile
) -> None:
    def replace_table() -> None:
        catalog.drop_table("t", unpublished=True)
        create(catalog)

    meanwhile(replace_table)
    with pytest.raises(Conflict):
        table.append(FRESH)
    assert paths(table) == []
    assert row_counts(catalog)["dl_stages"] == 0


def test_a_table_that_is_dropped_while_the_stream_is_read_is_not_found(catalog: Catalog, table: Table) -> None:
    before = row_counts(catalog, without=["dl_heads"])
    with pytest.raises(NotFound):
        table.append(interrupted(FRESH, lambda: catalog.drop_table("t", unpublished=True)))
    assert row_counts(catalog, without=["dl_heads"]) == before


def test_a_commit_that_is_swept_while_its_stream_is_read_leaves_nothing(catalog: Catalog, table: Table) -> None:
    before = row_counts(catalog)
    with pytest.raises(Unavailable, match="swept"):
        table.append(interrupted(FRESH, lambda: catalog.writer.optimise(older_than=-60)))
    assert row_counts(catalog) == before
