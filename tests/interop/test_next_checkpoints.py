"""Independent readers open a checkpoint that has row groups or sidecars of earlier ones: whole, and in parts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import deltalake
import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.config import StorageSettings
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.storage.open import store_at
from tests.support.lakes.copies import Place, checkpoint_alone, copy_table, log_of
from tests.support.logs.aside import in_small_groups
from tests.support.logs.checkpoint_chains import row_groups_of
from tests.support.logs.checkpoints import base_of, publish, unit_of
from tests.support.logs.folder import write_log
from tests.support.readers.reader import Reader, SeenTable, assert_same_table
from tests.support.rows.datafiles import data_file, seen_by_us

pytestmark = [pytest.mark.spark, pytest.mark.requirement("R9"), pytest.mark.requirement("R15")]

DAYS = 6


def day(number: int) -> date:
    return date(2024, 1, 1 + number % DAYS)


@dataclass
class Growing:
    """A table with real data files of a row each."""

    table: Table
    folder: Path
    live: dict[int, str] = field(default_factory=dict)
    """The paths of the files, by the ids of their rows."""
    made: int = 0

    def append(self, count: int) -> None:
        self.table.append([self._file() for _ in range(count)])
        write_log(self.folder, dict(enumerate(self.commits())))

    def remove(self) -> None:
        self.table.remove([self.live.pop(min(self.live))])

    def commits(self) -> list[bytes]:
        return [self.table.commit_file(version) for version in range(self.table.info().head + 1)]

    def checkpoints(self, count: int) -> list[bytes]:
        """Several, each from the one before, in small row groups and sidecars; a file goes and two come in between."""
        base, written = None, list[bytes]()
        for _ in range(count):
            self.remove()
            self.append(2)
            unit = unit_of(self.commits(), base=base, row_group_bytes=1, sidecar_actions=4, compression="zstd")
            with in_small_groups():
                outcome = publish(unit, store_at(str(self.folder), StorageSettings()))
            base = base_of(outcome)
            written.append((self.folder / "_delta_log" / outcome.name).read_bytes())
        return written

    def _file(self) -> Add:
        self.made += 1
        schema = self.table.snapshot().schema
        rows = pa.table({"id": pa.array([self.made], to_arrow(schema).field("id").type), "name": [f"n{self.made}"]})
        add = data_file(self.folder, rows, schema=schema, partition={"day": day(self.made)})
        self.live[self.made] = add.path
        return add


@dataclass(frozen=True)
class Alone:
    """A copy of a table whose log begins with the last of several checkpoints."""

    location: str
    seen: SeenTable
    ids: Sequence[int]


def parts_of(data: bytes) -> set[bytes]:
    """The row groups of a checkpoint, or what names its sidecars."""
    if data.startswith(b"PAR1"):
        return set(row_groups_of(data))
    return {line for line in data.splitlines() if line.startswith(b'{"sidecar"')}


@pytest.fixture(scope="module", params=["classic", "v2"])
def alone(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Alone:
    folder, copy = tmp_path_factory.mktemp("lake") / "table", tmp_path_factory.mktemp("alone") / "table"
    with Catalog(f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'lake.db'}") as catalog:
        catalog.init()
        table = catalog.create_table(
            "t",
            location=str(folder),
            schema="id long, name string, day date",
            partition_by=["day"],
            properties={"delta.checkpointPolicy": request.param},
        )
        growing = Growing(table, folder)
        growing.append(40)
        parts = [parts_of(data) for data in growing.checkpoints(4)]
        assert len(parts[0] & parts[-1]) > 3
        version = table.info().head
        growing.append(1)
        left = copy_table(Place(str(folder)), Place(str(copy)), checkpoint_alone(version, pointer=True))
        assert log_of(left).checkpoints == [version]
        return Alone(str(copy), seen_by_us(table.snapshot(), folder), sorted(growing.live))


def test_every_reader_opens_it(alone: Alone, reader: Reader) -> None:
    assert_same_table([alone.seen, reader.snapshot(alone.location, rows=True)])


PARTS = {
    "one partition": ("day = DATE '2024-01-03'", lambda number: day(number) == date(2024, 1, 3)),
    "few ids": ("id >= 38 AND id < 43", lambda number: 38 <= number < 43),
    "both": ("id > 20 AND day <= DATE '2024-01-02'", lambda number: number > 20 and day(number) <= date(2024, 1, 2)),
    "none": ("id > 1000", lambda number: number > 1000),
}


@pytest.mark.parametrize("part", PARTS)
def test_delta_spark_reads_a_part(alone: Alone, part: str, delta_spark: Reader) -> None:
    condition, is_in = PARTS[part]
    rows = delta_spark.sql(f"SELECT id FROM delta.`{alone.location}` WHERE {condition}")
    assert sorted(row["id"] for row in rows) == list(filter(is_in, alone.ids))


@pytest.mark.parametrize("part", PARTS)
def test_duckdb_reads_a_part(alone: Alone, part: str) -> None:
    condition, is_in = PARTS[part]
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        folder = Path(duckdb_extension_delta.__file__).parent / "extensions" / f"v{duckdb.__version__}"
        connection.load_extension(str(folder / "delta.duckdb_extension"))
        rows = connection.execute(f"SELECT id FROM delta_scan(?) WHERE {condition}", [alone.location]).fetchall()
    assert sorted(number for (number,) in rows) == list(filter(is_in, alone.ids))


@pytest.mark.parametrize("part", PARTS)
def test_delta_rs_reads_a_part(alone: Alone, part: str) -> None:
    condition, is_in = PARTS[part]
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(alone.location))
    rows = pa.table(builder.execute(f"SELECT id FROM t WHERE {condition}").read_all())
    assert sorted(rows.column("id").to_pylist()) == list(filter(is_in, alone.ids))


def test_delta_rs_lists_the_files_of_a_partition(alone: Alone) -> None:
    files = deltalake.DeltaTable(alone.location).file_uris(file_pruning_predicate=[("day", "=", "2024-01-03")])
    assert len(files) == len([number for number in alone.ids if day(number) == date(2024, 1, 3)])
