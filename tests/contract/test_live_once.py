"""A path is in a table once, whatever its deletion vector, on every road into the log and over every database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Add, Catalog, DeletionVector, Table
from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import Conflict, InvalidAction, InvalidInput
from tests.support.databases.catalogs import ENGINES
from tests.support.imports.adoptions import PLAIN, add_line, adopted, mirror, mirroring, their_commit
from tests.support.lakes.lake import add, as_adds, create, opened, paths, remove_of
from tests.support.mirrors.local import make_table

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.requirement("R119"), pytest.mark.default_on("sqlite")]

TWICE = "add.path.live-twice"
STATS = '{"numRecords":30}'


def vector(number: int) -> DeletionVector:
    return DeletionVector(
        storage_type="u",
        path_or_inline_dv=f"ab^-aqEH.-t@S}}K{{vb[*k{number}",
        offset=1,
        size_in_bytes=34,
        cardinality=6,
    )


WHOLE = add("f.parquet", stats=STATS)
DELETED, FURTHER = (add("f.parquet", stats=STATS, deletion_vector=vector(number)) for number in (1, 2))
OTHERS = [add(f"other-{number}.parquet", stats=STATS) for number in range(20)]


@pytest.fixture
def catalog(lake_url: str) -> Iterator[Catalog]:
    """A catalog in which more than ten lines are many."""
    with opened(lake_url, stage_above=10, chunk_lines=4) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """A table that has the file with a deletion vector."""
    made = create(catalog, properties={"delta.enableDeletionVectors": "true"})
    made.append([WHOLE])
    stage(catalog, remove_of(WHOLE), DELETED)
    return made


def stage(catalog: Catalog, *actions: object, **words: int) -> None:
    with catalog.transaction() as tx:
        tx.stage("t", actions, **words)  # type: ignore[arg-type]


def vectors(table: Table) -> list[DeletionVector | None]:
    """Those of the file, each time that it is there."""
    return [file.deletion_vector for file in as_adds(table.snapshot().files()) if file.path == WHOLE.path]


@pytest.mark.default_on(*ENGINES)
@pytest.mark.parametrize("beside", [[], OTHERS], ids=["small", "staged"])
def test_a_path_that_is_there_with_a_deletion_vector_is_not_added_beside_it(table: Table, beside: list[Add]) -> None:
    for file in (WHOLE, FURTHER):
        with pytest.raises(InvalidAction) as caught:
            table.append([*beside, file])
        assert (caught.value.rule, caught.value.table) == (TWICE, "t")
        assert "f.parquet is there with the deletion vector" in str(caught.value)
    assert vectors(table) == [DELETED.deletion_vector]
    assert table.info().head == 2


def test_a_deletion_vector_is_not_added_beside_the_whole_file(catalog: Catalog) -> None:
    table = create(catalog, properties={"delta.enableDeletionVectors": "true"})
    table.append([WHOLE])
    with pytest.raises(InvalidAction) as caught:
        table.append([DELETED])
    assert caught.value.rule == TWICE
    assert "f.parquet is there with no deletion vector" in str(caught.value)


@pytest.mark.parametrize("beside", [[], OTHERS], ids=["small", "staged"])
def test_a_deletion_vector_takes_the_place_of_the_one_that_is_removed(
    catalog: Catalog, table: Table, beside: list[Add]
) -> None:
    stage(catalog, *beside, remove_of(DELETED), FURTHER)
    assert vectors(table) == [FURTHER.deletion_vector]
    stage(catalog, *(remove_of(file) for file in beside), remove_of(FURTHER), WHOLE)
    assert vectors(table) == [None]


@pytest.mark.parametrize("beside", [[], OTHERS], ids=["small", "staged"])
def test_a_file_that_is_added_again_as_it_is_takes_its_own_place(table: Table, beside: list[Add]) -> None:
    again = add("f.parquet", stats=STATS, deletion_vector=DELETED.deletion_vector, tags={"a": "b"}, data_change=False)
    table.append([*beside, again])
    assert [file.tags for file in as_adds(table.snapshot().files()) if file.path == WHOLE.path] == [{"a": "b"}]


def test_lines_of_another_writer_are_held_to_it(catalog: Catalog, table: Table) -> None:
    told = CommitInfo(operation="WRITE", in_commit_timestamp=table.snapshot().timestamp + 1)
    with pytest.raises(InvalidAction) as caught, catalog.transaction() as tx:
        tx.stage_lines("t", encode_commit([told, WHOLE]), at_version=3)
    assert caught.value.rule == TWICE


@pytest.mark.default_on(*ENGINES)
@pytest.mark.parametrize("beside", [[], OTHERS], ids=["small", "staged"])
def test_of_two_that_add_one_path_at_once_the_second_is_refused(catalog: Catalog, beside: list[Add]) -> None:
    """The second has read its stream, and is staged where it is large, when the first one commits."""
    table = create(catalog, properties={"delta.enableDeletionVectors": "true"})

    def racing() -> Iterator[Add]:
        yield from [*beside, DELETED]
        table.append([WHOLE])

    with pytest.raises((InvalidAction, Conflict)) as caught:
        table.append(racing())
    assert getattr(caught.value, "rule", TWICE) == TWICE
    assert vectors(table) == [None]


def test_a_table_that_another_writer_left_with_a_path_twice_is_adopted_and_can_be_mended(
    lake: Catalog, tmp_path: Path
) -> None:
    table = make_table(lake, tmp_path, properties={**PLAIN, "delta.enableDeletionVectors": "true"})
    with mirroring(lake) as engine:
        table.append([DELETED])
        mirror(engine)
        their_commit(table, 2, add_line(WHOLE.path, stats=STATS))
        adopted(engine)
    assert len(vectors(table)) == 2
    with pytest.raises(InvalidInput, match="2 times, with the deletion vectors"):
        table.remove([WHOLE.path])
    table.remove([remove_of(WHOLE)])
    assert vectors(table) == [DELETED.deletion_vector]
    table.remove([WHOLE.path])
    assert paths(table) == []
