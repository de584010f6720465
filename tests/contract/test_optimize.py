"""Optimize: fewer files with the same rows, beside other writers, or nothing at all."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.config import RowsSettings, Settings
from deltamirror.errors import Conflict, InvalidInput, NotFound, Refused, Unsupported
from deltamirror.rows.compaction import bins
from deltamirror.steps import Moment, Observer, Step, observed
from tests.support.lakes.lake import add
from tests.support.lakes.vacuums import contents, first_row_deleted
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader
from tests.support.rows.cases import CASES, statistics

pytestmark = pytest.mark.requirement("R89")

REFERENCE = Path(__file__).parents[1] / "reference/logs/delta-spark-4.4.0/df/_delta_log/00000000000000000008.json"
VECTORS = {"delta.enableDeletionVectors": True}


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    """A table with six files, three in each of its partitions."""
    made = lake.create_table(
        "t", location=tmp_path / "t", schema="id long, p string", partition_by=["p"], properties=VECTORS
    )
    for number in range(3):
        made.append(pa.table({"id": [2 * number, 2 * number + 1], "p": ["a", "b c"]}))
    return made


def ids(table: Table, version: int | None = None) -> list[int]:
    found: list[int] = table.to_arrow(["id"], version=version).column("id").to_pylist()
    return sorted(found)


def files(table: Table) -> list[Add]:
    return table.snapshot().adds()


def test_small_files_of_a_partition_become_one_and_no_row_changes(table: Table) -> None:
    assert table.optimize() is not None
    assert (len(files(table)), ids(table)) == (2, list(range(6)))
    assert {each.data_change for each in files(table)} == {False}
    assert (table.optimize(), table.info().head) == (None, 4)


def test_its_commit_is_that_of_delta_spark(table: Table) -> None:
    table.optimize("p = 'a'")
    ours = [json.loads(line) for line in table.commit_file(4).splitlines()]
    theirs = [json.loads(line) for line in REFERENCE.read_bytes().splitlines()]
    assert [*map(next, map(iter, ours))] == ["commitInfo", "add", "remove", "remove", "remove"]
    info, reference = ours[0]["commitInfo"], theirs[0]["commitInfo"]
    assert list(info) == list(reference)
    assert list(info["operationMetrics"]) == list(reference["operationMetrics"])
    assert list(info["operationParameters"]) == list(reference["operationParameters"])
    for name in ("isolationLevel", "isBlindAppend"):
        assert info[name] == reference[name]
    for number in (1, 2):
        [(kind, mine)], [(expected, model)] = ours[number].items(), theirs[number].items()
        assert (kind, list(mine), mine["dataChange"]) == (expected, list(model), model["dataChange"])
    assert json.loads(ours[2]["remove"]["stats"]) == {"numRecords": 1}
    metrics = {name: int(text) for name, text in info["operationMetrics"].items()}
    [size] = [each.size for each in files(table) if not each.data_change]
    assert (metrics["numRemovedFiles"], metrics["numAddedFiles"]) == (3, 1)
    assert {metrics[name] for name in ("numAddedBytes", "minFileSize", "p50FileSize", "maxFileSize")} == {size}


def test_rows_that_a_vector_deleted_are_left_out_also_of_a_single_file(
    table: Table, lake: Catalog, tmp_path: Path
) -> None:
    table.optimize()
    with lake.transaction() as tx:
        tx.stage("t", first_row_deleted(files(table)[0], tmp_path / "t", seed=7))
    before = ids(table)
    assert len(before) == 5
    table.optimize()
    assert ids(table) == before
    assert {each.deletion_vector for each in files(table)} == {None}
    assert table.history(1)[0].metrics["numDeletionVectorsRemoved"] == "1"


@pytest.mark.parametrize("case", CASES)
def test_rows_of_all_types_stay_what_they_were(lake: Catalog, tmp_path: Path, case: str) -> None:
    """Statistics, too: those of one file with the rows of both are those that an append of all of them has."""
    schema, partition_by, properties, rows = CASES[case]
    tables = [
        lake.create_table(
            name, location=tmp_path / name, schema=schema, partition_by=partition_by, properties=properties
        )
        for name in ("halves", "whole")
    ]
    from_rows = pa.Table.from_pylist
    known = tables[0].to_arrow().schema
    for half in (rows[::2], rows[1::2]):
        tables[0].append(from_rows(half, schema=known))
    tables[1].append(from_rows(rows[::2] + rows[1::2], schema=known))
    tables[0].optimize()
    halves, whole = (table.to_arrow() for table in tables)
    assert sorted(map(repr, halves.to_pylist())) == sorted(map(repr, whole.to_pylist()))
    assert statistics(tables[0]) == statistics(tables[1])


def test_column_mapping_is_kept(lake: Catalog, tmp_path: Path) -> None:
    properties = {"delta.columnMapping.mode": "name"}
    table = lake.create_table("m", location=tmp_path / "m", schema="id long, s struct<x: long>", properties=properties)
    for number in range(2):
        table.append(pa.table({"id": [number], "s": [{"x": number}]}))
    table.optimize()
    assert len(files(table)) == 1
    assert sorted(each["s"]["x"] for each in table.to_arrow().to_pylist()) == [0, 1]


def test_constraints_and_identities_ask_nothing_of_rows_that_are_there(lake: Catalog, tmp_path: Path) -> None:
    table = lake.create_table("c", location=tmp_path / "c", schema="id long not null")
    table.alter(constraints={"positive": "id > 0"})
    for number in (1, 2):
        with lake.transaction(rows_checked=True) as tx:
            tx.append("c", pa.table({"id": [number]}))
    table.optimize()
    assert (len(files(table)), ids(table)) == (1, [1, 2])


@pytest.mark.parametrize(
    ("where", "partitions"),
    [("p = 'a'", {"a"}), ("p > 'a'", {"b c"}), ("NOT p = 'a' OR p IS NULL", {"b c"}), ("p IN ('x')", set())],
)
def test_a_condition_picks_partitions(table: Table, where: str, partitions: set[str]) -> None:
    before = {each.path for each in files(table)}
    table.optimize(where)
    assert {each.partition_values["p"] for each in files(table) if each.path not in before} == partitions


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"where": "id = 1"}, "not partitioned by 'id'"),
        ({"where": "p ="}, "p ="),
        ({"where": "nothing = 1"}, "nothing"),
        ({"where": 5}, "where has to be a text"),
        ({"zorder_by": ["p"]}, "'p' is a partition column"),
        ({"zorder_by": ["id", "nope"]}, "cannot be ordered by 'nope'"),
        ({"zorder_by": ["id", "ID"]}, "by 'id' twice"),
        ({"zorder_by": ["id.x"]}, "cannot be ordered by 'id.x'"),
        ({"zorder_by": ""}, "does not name a column"),
        ({"zorder_by": 5}, "zorder_by has to be a list"),
        ({"target_size": 0}, "files of 0 bytes"),
        ({"target_size": 2**70}, "bytes cannot be written"),
        ({"runner": "cluster"}, "runner has to be"),
        ({"target_size": "1"}, "target_size has to be"),
    ],
)
def test_wrong_words_are_named_and_nothing_happens(table: Table, given: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        table.optimize(**given)  # type: ignore[arg-type]
    assert table.info().head == 3


def test_a_table_whose_rows_cannot_be_moved_is_refused(lake: Catalog, tmp_path: Path) -> None:
    tracked = {"delta.enableRowTracking": True}
    table = lake.create_table("x", location=tmp_path / "x", schema="id long", properties=tracked)
    for number in range(2):
        table.append(pa.table({"id": [number]}))
    with pytest.raises(Unsupported, match="rowTracking"):
        table.optimize()
    assert len(contents(tmp_path / "x")) == 2


def test_an_append_meanwhile_is_no_conflict(table: Table) -> None:
    with observed(once(lambda: table.append(pa.table({"id": [9], "p": ["a"]})))):
        table.optimize()
    assert (ids(table), len(files(table))) == ([*range(6), 9], 3)


def test_a_delete_of_one_of_its_files_meanwhile_is_one_and_its_files_go(table: Table, tmp_path: Path) -> None:
    gone = files(table)[0]
    before = contents(tmp_path / "t")
    with observed(once(lambda: table.remove([gone.path]))), pytest.raises(Conflict, match="was removed"):
        table.optimize()
    assert (len(ids(table)), contents(tmp_path / "t")) == (5, before)


def once(act: Callable[[], object]) -> Observer:
    """Do it when the first file is written."""
    done: list[Moment] = []

    def observe(moment: Moment, step: Step) -> None:
        if step is Step.PUT_ROWS and not done:
            done.append(moment)
            act()

    return observe


def test_a_file_that_is_missing_leaves_nothing_behind(table: Table, tmp_path: Path) -> None:
    """The partition ``a`` is written by then: its new file is deleted again."""
    [*_, last] = sorted(files(table), key=lambda each: str(each.partition_values))
    (tmp_path / "t" / last.path.replace("%20", " ")).unlink()
    before = contents(tmp_path / "t")
    with pytest.raises(NotFound):
        table.optimize()
    assert (contents(tmp_path / "t"), table.info().head) == (before, 3)


def test_bins_hold_no_more_than_the_wanted_size_and_are_of_one_partition() -> None:
    given = [add(f"{number}", size=size, partition_values={"p": p}) for number, (size, p) in enumerate(
        [(60, "a"), (10, "a"), (50, "a"), (30, "a"), (90, "a"), (10, "b"), (10, None), (10, None)]
    )]  # fmt: skip
    assert [[each.size for each in some] for some in bins(given, 100)] == [[10, 30, 50], [10, 10]]


def test_delta_rs_and_duckdb_read_an_optimized_table(
    table: Table, lake: Catalog, delta_rs: Reader, duckdb_delta: Reader, tmp_path: Path
) -> None:
    table.optimize()
    with mirror_of(lake) as engine:
        engine.mirror("t")
    for reader in (delta_rs, duckdb_delta):
        before, after = (reader.snapshot(tmp_path / "t", version, rows=True) for version in (3, 4))
        assert (after.row_count, after.row_digest) == (6, before.row_digest)


SIDE = 64
SQUARE = pa.table(
    {
        "x": [number // SIDE for number in range(SIDE**2)],
        "y": [number % SIDE for number in range(SIDE**2)],
        "s": [{"t": f"{number * 2_654_435_761 % SIDE**2:05d}"} for number in range(SIDE**2)],
    }
)
"""Points that are ordered by x alone, beside texts in no order."""


def square(lake: Catalog, folder: Path, **more: object) -> Table:
    """A table of all points, in eight files of some columns each."""
    schema = "x long, y long, s struct<t: string>"
    table = lake.create_table("square", location=folder / "square", schema=schema, **more)  # type: ignore[arg-type]
    for start in range(0, SQUARE.num_rows, SQUARE.num_rows // 8):
        table.append(SQUARE.slice(start, SQUARE.num_rows // 8))
    return table


def widths(table: Table, column: str) -> list[int]:
    """How much of a column each file spans."""
    bounds = [json.loads(each.stats or "") for each in files(table)]
    return [each["maxValues"][column] - each["minValues"][column] + 1 for each in bounds]


def infos(table: Table) -> dict[str, object]:
    found: dict[str, object] = json.loads(table.commit_file(table.info().head).splitlines()[0])["commitInfo"]
    return found


@pytest.fixture
def scarce(sqlite_lake: str) -> Iterator[Catalog]:
    """A catalog with so little memory that rows are ordered part by part, and files are closed early."""
    with Catalog(sqlite_lake, settings=Settings(rows=RowsSettings(memory=6_000))) as catalog:
        yield catalog


def test_rows_along_a_curve_make_files_that_are_narrow_in_every_column(scarce: Catalog, tmp_path: Path) -> None:
    table = square(scarce, tmp_path)
    assert max(widths(table, "x")) <= SIDE // 8
    assert min(widths(table, "y")) == SIDE
    assert table.optimize(zorder_by=["x", "Y"]) is not None
    for column in ("x", "y"):  # of which a reader of one value opens about half of the files, or less
        assert sum(widths(table, column)) < 0.6 * SIDE * len(files(table))
    assert sorted(map(str, table.to_arrow().to_pylist())) == sorted(map(str, SQUARE.to_pylist()))
    parameters = {"predicate": "[]", "zOrderBy": '["x","y"]', "clusterBy": "[]", "auto": False}
    assert (infos(table)["operation"], infos(table)["operationParameters"]) == ("OPTIMIZE", parameters)


def test_files_that_are_ordered_by_one_column_do_not_overlap(scarce: Catalog, tmp_path: Path) -> None:
    table = square(scarce, tmp_path)
    assert table.optimize(zorder_by="s.t") is not None
    stats = [json.loads(file.stats or "") for file in files(table)]
    bounds = sorted((each["minValues"]["s"]["t"], each["maxValues"]["s"]["t"]) for each in stats)
    assert len(bounds) >= 4
    assert all(one[1] < other[0] for one, other in pairwise(bounds))


def test_a_clustered_table_is_ordered_by_its_columns_and_files_that_are_stay(lake: Catalog, tmp_path: Path) -> None:
    table = square(lake, tmp_path, cluster_by=["x", "s.t"], properties={"delta.columnMapping.mode": "name"})
    with pytest.raises(Refused, match=r"clustering columns .x, s\.t.") as refused:
        table.optimize(zorder_by="y")
    assert refused.value.hint == "leave zorder_by out"
    assert table.optimize() is not None
    names = '["x","s.t"]'
    described = {"clusterBy": names, "predicate": "[]", "auto": False, "isFull": False, "zOrderBy": "[]"}
    assert infos(table)["operationParameters"] == described
    [first] = files(table)
    assert (first.clustering_provider, (first.tags or {})["ZCUBE_ZORDER_BY"]) == ("liquid", names)
    assert table.optimize() is None
    table.append(SQUARE.slice(0, 1))
    assert table.optimize() is not None
    [second] = files(table)
    assert (second.tags or {})["ZCUBE_ID"] != (first.tags or {})["ZCUBE_ID"]
    assert table.optimize(target_size=second.size // 16) is None  # the cube is full
    table.append(SQUARE.slice(0, 1))
    assert table.optimize(target_size=second.size // 16) is not None
    assert (second.path in {each.path for each in files(table)}, len(files(table))) == (True, 2)


def test_an_append_meanwhile_is_no_conflict_with_an_order(table: Table) -> None:
    with observed(once(lambda: table.append(pa.table({"id": [9], "p": ["a"]})))):
        table.optimize(zorder_by="id")
    assert (ids(table), len(files(table))) == ([*range(6), 9], 3)


def test_a_table_that_is_clustered_no_more_is_packed(lake: Catalog, tmp_path: Path) -> None:
    table = square(lake, tmp_path, cluster_by=["x"])
    table.overwrite(SQUARE, overwrite_schema=True)
    table.append(SQUARE)
    assert table.optimize() is not None
    assert files(table)[0].clustering_provider is None
