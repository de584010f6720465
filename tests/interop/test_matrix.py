"""Every reader opens every kind of table, by its commits, by its checkpoint, and by both, or meets a limit of its own.

``docs/reference/readers.md`` shows the same as a page. The default suite has delta-rs open what we write ourselves on
a disk, by a checkpoint and what follows, and the others some of it; ``make soak`` has all of the page.
"""

from collections.abc import Callable, Iterator
from functools import cache
from uuid import uuid4

import pytest

from deltamirror import Catalog
from tests.matrix.cells import WAYS, Copies, Published, problem, published
from tests.matrix.kinds import KINDS, Written, WrittenBySpark
from tests.matrix.page import PAGE, page
from tests.support.lakes.copies import Place
from tests.support.readers.reader import READERS, Reader
from tests.support.servers.seaweed_server import SeaweedServer

pytestmark = [pytest.mark.spark, *(pytest.mark.requirement(row) for row in ("R7", "R67", "R74"))]

TELLING = ("types", "nested", "odd partition values", "column mapping by id", "timestamp without zone")


def is_default(those: dict[str, str]) -> bool:
    """The cells of the default suite."""
    if those["store"] != "disk" or those["way"] != "checkpoint":
        return False
    by_us = isinstance(KINDS[those["kind"]].made, Written)
    return those["kind"] in TELLING or (by_us and those["name"] == "delta-rs")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog(f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'lake.db'}") as opened:
        opened.init()
        yield opened


@pytest.fixture(scope="module")
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Copies]:
    """Each made once, and copied to a store once, when it is first asked for."""
    folder = tmp_path_factory.mktemp("matrix")

    @cache
    def made(kind: str) -> Published:
        catalog: Catalog = request.getfixturevalue("catalog")
        by_spark = isinstance(KINDS[kind].made, WrittenBySpark)
        spark: Reader | None = request.getfixturevalue("delta_spark") if by_spark else None
        return published(kind, catalog, folder, spark=spark)

    @cache
    def above(store: str) -> Place:
        if store == "disk":
            return Place(str(tmp_path_factory.mktemp("copies")))
        server: SeaweedServer = request.getfixturevalue("seaweed_server")
        server.ensure_running()
        return Place(f"s3://{server.create_bucket()}/{uuid4()}", server.settings())

    return cache(lambda kind, store: made(kind).copies(above(store)))


@pytest.mark.default_when(parameters=is_default)
@pytest.mark.parametrize("store", ["disk", "s3"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_a_reader_opens_a_kind_of_table_or_meets_its_own_limit(
    tables: Callable[[str, str], Copies],
    request: pytest.FixtureRequest,
    name: str,
    kind: str,
    way: str,
    store: str,
) -> None:
    reader: Reader = request.getfixturevalue(READERS[name])
    assert problem(tables(kind, store), way, name, reader) == ""


def test_the_page_says_what_is_tested() -> None:
    assert PAGE.read_text() == page()
