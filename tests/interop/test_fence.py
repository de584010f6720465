"""A fence shuts out every writer of Delta tables but us, and no reader; once it is gone, they write.

The tables have no other feature, so that it is the fence that a writer refuses.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltamirror import Catalog, MirrorEngine
from deltamirror.delta.names import LOG_DIRECTORY
from tests.support.lakes.stories import Life
from tests.support.mirrors.local import local_settings
from tests.support.readers.reader import Reader, RequestFailed, assert_same_table

pytestmark = [pytest.mark.spark, pytest.mark.requirement("R39")]

REFUSALS = (deltalake.exceptions.DeltaError, deltalake.exceptions.CommitFailedError, RequestFailed)
LEGACY = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2", "delta.checkpointInterval": "4"}


@dataclass(frozen=True)
class Lake:
    """A table with two files, mirrored as it is committed."""

    life: Life
    engine: MirrorEngine

    @property
    def folder(self) -> Path:
        return self.life.folder

    def publish(self) -> None:
        self.engine.mirror(self.life.table.name)

    def append(self, number: int) -> None:
        self.life.table.append([self.life.file({"id": [number]})])
        self.publish()

    def log(self) -> dict[str, bytes]:
        """The commits that are in the log."""
        found = sorted((self.folder / LOG_DIRECTORY).glob("*.json"))
        return {path.name: path.read_bytes() for path in found}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    url, folder = f"sqlite:///{tmp_path / 'lake.db'}", tmp_path / "t"
    with Catalog(url) as catalog, MirrorEngine(settings=local_settings(), database=catalog.database) as engine:
        catalog.init()
        table = catalog.create_table("t", location=str(folder), schema="id long", properties=LEGACY)
        made = Lake(Life(catalog, table, folder), engine)
        made.append(1)
        made.append(2)
        yield made


def spark(statement: str) -> Callable[[Reader, Path], None]:
    def write(reader: Reader, folder: Path) -> None:
        try:
            reader.sql(statement.format(table=f"delta.`{folder}`"))
        except RequestFailed as error:
            # What OPTIMIZE returns, Spark does not get into Arrow, though it has done its work.
            if "viewed as non-nullable" not in str(error):
                raise

    return write


def by_delta_rs(change: Callable[[Path], object]) -> Callable[[Reader, Path], None]:
    return lambda _, folder: (change(folder), None)[1]


ROW = pa.table({"id": pa.array([0], pa.int64())})
WRITERS: Mapping[str, tuple[str, Callable[[Reader, Path], None]]] = {
    "delta-rs append": (
        "delta_rs",
        by_delta_rs(lambda folder: deltalake.write_deltalake(folder, ROW, mode="append")),
    ),
    "delta-rs overwrite": (
        "delta_rs",
        by_delta_rs(lambda folder: deltalake.write_deltalake(folder, ROW, mode="overwrite")),
    ),
    "delta-rs delete": ("delta_rs", by_delta_rs(lambda folder: deltalake.DeltaTable(folder).delete("id = 1"))),
    "delta-rs optimize": ("delta_rs", by_delta_rs(lambda folder: deltalake.DeltaTable(folder).optimize.compact())),
    "duckdb append": ("duckdb_delta", lambda reader, folder: reader.append(folder)),
    "sail append": ("sail_delta", lambda reader, folder: reader.append(folder)),
    "spark append": ("delta_spark", spark("INSERT INTO {table} VALUES (0)")),
    "spark delete": ("delta_spark", spark("DELETE FROM {table} WHERE id = 1")),
    "spark optimize": ("delta_spark", spark("OPTIMIZE {table}")),
    "spark vacuum": ("delta_spark", spark("VACUUM {table}")),
}
"""By name: the fixture of a writer, and what it does to a table."""


SELDOM = ("spark delete", "spark optimize", "spark vacuum")
"""What comes to the same check of the protocol as an append of Delta Spark: left to ``make soak``."""


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], None]]:
    """Each writer in turn."""
    fixture, change = WRITERS[request.param]
    found: Reader = request.getfixturevalue(fixture)
    if fixture == "delta_spark":
        # On a local disk VACUUM does not commit what it does, unless it is told to.
        found.sql("SET spark.databricks.delta.vacuum.logging.enabled = true")
    yield lambda folder: change(found, folder)
    if fixture == "delta_spark":
        found.sql("RESET spark.databricks.delta.vacuum.logging.enabled")


@pytest.mark.default_when(parameters=lambda those: those["write"] not in SELDOM)
def test_a_fence_shuts_every_other_writer_out_until_it_is_taken_away(lake: Lake, write: Callable[[Path], None]) -> None:
    lake.life.table.fence()
    lake.publish()
    before = lake.log()
    with pytest.raises(REFUSALS, match=r"(?i)feature"):
        write(lake.folder)
    assert lake.log() == before

    lake.append(3)
    lake.life.table.unfence()
    lake.publish()
    before = lake.log()
    write(lake.folder)
    assert set(before) < set(lake.log())


def test_every_reader_reads_a_fenced_table(lake: Lake, all_readers: tuple[Reader, ...], delta_rs: Reader) -> None:
    lake.life.table.fence()
    lake.publish()
    assert_all_see(lake, 3, (delta_rs,))
    for number in range(3, 7):
        lake.append(number)
    assert list((lake.folder / LOG_DIRECTORY).glob("*.checkpoint.parquet"))
    assert_all_see(lake, 7, all_readers)
    lake.life.table.unfence()
    lake.publish()
    assert_all_see(lake, 8, (delta_rs,))


def assert_all_see(lake: Lake, newest: int, readers: tuple[Reader, ...]) -> None:
    """All read the newest version, and see what SQL has."""
    seen = [reader.snapshot(lake.folder, rows=True) for reader in readers]
    assert_same_table([lake.life.seen(newest), *seen])
    assert [table.row_count for table in seen] == [len(lake.life.table.snapshot().files())] * len(readers)
