"""What no database can hold is refused as wrong input: no exception of a driver, or of Python, reaches the caller."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import DeltaMirrorError, InvalidInput, NotFound
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, create, row_counts

pytestmark = pytest.mark.default_on("sqlite")

NO_TEXT = "\ud800"
HUGE = 2**70


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog, features=["domainMetadata"])
    table.append([add("a")])
    return table


def files(**columns: object) -> pa.Table:
    return pa.table({"path": ["b"], "size": [1], "modification_time": [1], **{k: [v] for k, v in columns.items()}})


WRITES: dict[str, Callable[[Catalog, Table], object]] = {
    "token": lambda catalog, table: table.append([add("b")], token=NO_TEXT),
    "remove": lambda catalog, table: table.remove([NO_TEXT]),
    "size": lambda catalog, table: table.append([add("b", size=HUGE)]),
    "no mapping": lambda catalog, table: table.append([5]),
    "no json": lambda catalog, table: table.append(files(partition_values="{")),
    "no map": lambda catalog, table: table.append(files(tags=5)),
    "no vector": lambda catalog, table: table.append(files(deletion_vector="{}")),
    "no vector either": lambda catalog, table: table.append(files(deletion_vector={"wrong": 1})),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_it_is_not_written(catalog: Catalog, table: Table, write: Callable[[Catalog, Table], object]) -> None:
    before = row_counts(catalog)
    with pytest.raises(InvalidInput):
        write(catalog, table)
    assert row_counts(catalog) == before


@pytest.mark.default_on(*ENGINES)
@pytest.mark.parametrize("name", ["app", "domain"])
def test_a_name_without_utf_8_is_not_written(catalog: Catalog, table: Table, name: str) -> None:
    tx = catalog.transaction()
    if name == "app":
        tx.set_transaction("t", NO_TEXT, 1)
    else:
        tx.set_domain("t", NO_TEXT, "x")
    with pytest.raises(InvalidInput):
        tx.commit()
    assert table.info().head == 1


READS: dict[str, Callable[[Catalog, Table], object]] = {
    "name": lambda catalog, table: catalog.table(NO_TEXT),
    "version": lambda catalog, table: table.snapshot(HUGE),
    "commit": lambda catalog, table: table.commit_file(HUGE),
    "limit": lambda catalog, table: table.history(-1),
    "huge limit": lambda catalog, table: table.history(HUGE),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_it_is_not_found(catalog: Catalog, table: Table, read: Callable[[Catalog, Table], object]) -> None:
    with pytest.raises(DeltaMirrorError) as caught:
        read(catalog, table)
    assert isinstance(caught.value, InvalidInput | NotFound)


@pytest.mark.parametrize("token", ["", " "])
def test_an_empty_token_is_refused(catalog: Catalog, token: str) -> None:
    create(catalog)
    with pytest.raises(InvalidInput, match="token is empty"):
        catalog.table("t").append([add("a")], token=token)


def test_a_partition_value_that_no_file_can_have_is_refused_not_simply_never_found(catalog: Catalog) -> None:
    create(catalog, schema="id long, day date", partition_by=["day"])
    with pytest.raises(InvalidInput, match="'2024-13-1' is no value of the partition column 'day'"):
        catalog.table("t").snapshot().files({"day": "2024-13-1"})
    with pytest.raises(InvalidInput, match="'2024-13-1' is no value"):
        catalog.transaction().read("t", partitions={"day": ["2024-01-01", "2024-13-1"]})
