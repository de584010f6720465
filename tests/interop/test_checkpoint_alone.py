"""Independent readers open a table through its checkpoint alone: all that lies before it in the log is deleted.

The forms that ``test_every_reader`` and ``test_matrix`` have too, the default suite leaves to the quick readers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.config import StorageSettings
from deltamirror.delta.paths import PartitionValue
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.storage.open import store_at
from deltamirror.work import CheckpointOutcome
from tests.support.lakes.copies import Place, checkpoint_alone, copy_table, log_of
from tests.support.logs.checkpoints import publish, unit_of
from tests.support.logs.folder import write_log
from tests.support.readers.reader import Reader, assert_same_table
from tests.support.rows.datafiles import data_file, seen_by_us

pytestmark = [pytest.mark.spark, pytest.mark.requirement("R9"), pytest.mark.requirement("R15")]

MOMENT = datetime(2024, 2, 29, 1, 2, 3, 456_000, tzinfo=UTC)
TYPED = (
    "id long, day date, name string, price decimal(10,2), total decimal(30,3), seen timestamp, ratio double, few byte"
)
SIDECARS = {"delta.checkpointPolicy": "v2"}
TABLES: dict[str, dict[str, object]] = {
    "classic": {"properties": {}},
    "sidecars": {"properties": SIDECARS},
    "both times": {"properties": {}, "schema": f"{TYPED}, local timestamp_ntz", "features": ["timestampNtz"]},
    "without struct": {"properties": {"delta.checkpoint.writeStatsAsStruct": "false"}},
    "without text": {"properties": {"delta.checkpoint.writeStatsAsJson": "false"}},
    "vectors": {"properties": {"delta.enableDeletionVectors": "true"}},
}


@dataclass(frozen=True)
class Written:
    """A table with real data files, whose log lies in a folder; the checkpoint is at the last version but one."""

    table: Table
    folder: Path

    @property
    def checkpointed(self) -> int:
        return self.table.info().head - 1

    def commits(self, version: int) -> list[bytes]:
        return [self.table.commit_file(each) for each in range(version + 1)]

    def checkpoint(self, folder: Path, *, compression: str) -> CheckpointOutcome:
        """Copy the log to another folder, and put the checkpoint there."""
        write_log(folder, dict(enumerate(self.commits(self.checkpointed + 1))))
        unit = unit_of(self.commits(self.checkpointed), compression=compression, sidecar_actions=2)
        return publish(unit, store_at(str(folder), StorageSettings()))


def _file(table: Table, folder: Path, number: int, day: PartitionValue, **more: object) -> Add:
    schema = table.snapshot().schema
    row = {
        "id": number,
        "name": f'n "{number}" ä',
        "price": Decimal(number) / 2,
        "total": Decimal(-number),
        "seen": MOMENT.replace(second=number),
        "ratio": number / 3,
        "few": number,
        **({"local": MOMENT.replace(tzinfo=None)} if schema.get("local") else {}),
        **more,
    }
    columns = [pa.array([value], to_arrow(schema).field(name).type) for name, value in row.items()]
    return data_file(folder, pa.table(columns, list(row)), schema=schema, partition={"day": day})


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog(f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'lake.db'}") as opened:
        opened.init()
        yield opened


def _written(catalog: Catalog, folder: Path, definition: dict[str, object]) -> Written:
    definition = {"schema": TYPED, "partition_by": ["day"], **definition}
    table = catalog.create_table(f"t_{uuid4().hex}", location=str(folder), **definition)  # type: ignore[arg-type]
    files = [_file(table, folder, n, date(2024, 2, 28 + n % 2)) for n in range(5)]
    files.append(_file(table, folder, 5, None, name=None, ratio=-0.0))
    table.append(files)
    table.remove([files[0].path, files[1].path])
    table.append(files[1:2])
    with catalog.transaction() as tx:
        tx.set_transaction(table.name, "loader", 7)
        tx.append(table.name, [_file(table, folder, 6, date(2024, 3, 1))])
    table.append([_file(table, folder, 7, date(2024, 3, 1))])
    return Written(table, folder)


@dataclass(frozen=True)
class Way:
    """One way to write the checkpoint, and to find it."""

    compression: str
    pointer: bool


USUAL, OTHER = Way("zstd", pointer=True), Way("snappy", pointer=False)


WAYS = [
    *(pytest.param(name, USUAL, id=f"{name}-zstd") for name in TABLES),
    *(pytest.param(name, OTHER, id=f"{name}-snappy-without pointer") for name in ("classic", "sidecars")),
]


@pytest.fixture(scope="module")
def alone(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Way], tuple[Written, Place]]:
    """A table, and a copy of it that lacks what lies before its checkpoint: made once for all readers."""

    @cache
    def made(name: str) -> Written:
        return _written(catalog, tmp_path_factory.mktemp("lake") / "table", TABLES[name])

    @cache
    def shortened(name: str, way: Way) -> tuple[Written, Place]:
        written, folder = made(name), tmp_path_factory.mktemp("copies")
        whole = copy_table(Place(str(written.folder)), Place(str(folder / "whole")))
        written.checkpoint(folder / "whole", compression=way.compression)
        kept = checkpoint_alone(written.checkpointed, pointer=way.pointer)
        return written, copy_table(whole, Place(str(folder / "alone")), kept)

    return shortened


@pytest.mark.requirement("R12")
@pytest.mark.default_when(
    parameters=lambda those: (
        those["reader"] in ("delta-rs", "duckdb")
        or those["name"] == "without text"
        or (those["name"], those["way"]) == ("classic", OTHER)
    )
)
@pytest.mark.parametrize(("name", "way"), WAYS)
def test_every_reader_opens_the_table_through_the_checkpoint_alone(
    alone: Callable[[str, Way], tuple[Written, Place]], name: str, way: Way, reader: Reader
) -> None:
    written, place = alone(name, way)
    left = log_of(place)
    assert sorted(left.versions("json").values()) == [written.checkpointed, written.checkpointed + 1]
    assert left.checkpoints == [written.checkpointed]
    ours = seen_by_us(written.table.snapshot(), written.folder)
    assert_same_table([ours, reader.snapshot(place.location, rows=True)])
    earlier = seen_by_us(written.table.snapshot(written.checkpointed), written.folder)
    assert_same_table([earlier, reader.snapshot(place.location, written.checkpointed)])
