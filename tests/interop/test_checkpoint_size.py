"""Our checkpoint beside the one that Delta Lake on Spark writes of the same state."""

import random
import shutil
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from deltamirror import Add, Catalog
from deltamirror.config import StorageSettings
from deltamirror.storage.open import store_at
from tests.support.logs.checkpoints import publish, unit_of
from tests.support.logs.folder import read_log, write_log
from tests.support.readers.reader import Reader
from tests.support.stores.recording import RecordingStore

pytestmark = pytest.mark.spark

FILES = 1_000
CHECKPOINT = "00000000000000000002.checkpoint.parquet"


def adds() -> Iterator[Add]:
    """Files as a real table has them: random names, plausible statistics."""
    chance = random.Random(7)
    for _ in range(FILES):
        day = (date(2024, 1, 1) + timedelta(days=chance.randrange(366))).isoformat()
        rows, first = chance.randrange(10**3, 10**6), chance.randrange(10**9)
        low, high = (f"C{chance.randrange(10**6):06}" for _ in range(2))
        yield Add(
            path=f"day={day}/part-{chance.randrange(1000):05}-{UUID(int=chance.getrandbits(128))}.c000.snappy.parquet",
            partition_values={"day": day},
            size=chance.randrange(10**5, 10**8),
            modification_time=1_714_521_600_000 + chance.randrange(10**9),
            data_change=True,
            stats=f'{{"numRecords":{rows},"minValues":{{"id":{first},"customer":"{low}","price":{chance.random():.2f}}},'
            f'"maxValues":{{"id":{first + rows},"customer":"{high}","price":{chance.random() * 999:.2f}}},'
            f'"nullCount":{{"id":0,"customer":{chance.randrange(99)},"price":0}}}}',
        )


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory, delta_spark: Reader) -> Path:
    """A table of ours, to which Delta Lake on Spark appended a row, with a checkpoint of that version."""
    folder = tmp_path_factory.mktemp("theirs")
    with Catalog(f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'lake.db'}") as catalog:
        catalog.init()
        table = catalog.create_table(
            "t",
            location=str(folder),
            schema="id long, customer string, price double, day date",
            partition_by=["day"],
            properties={"delta.checkpointInterval": "2"},
        )
        table.append(list(adds()))
        write_log(folder, {version: table.commit_file(version) for version in range(2)})
    delta_spark.sql(f"INSERT INTO delta.`{folder}` VALUES (1, 'c', 0.5, DATE'2024-02-29')")
    assert (folder / "_delta_log" / CHECKPOINT).exists()
    return folder


def commits_of(folder: Path) -> list[bytes]:
    return list(read_log(folder).values())


@pytest.mark.requirement("R14")
@pytest.mark.parametrize("compression", ["snappy", "zstd"])
def test_our_checkpoint_is_not_larger_than_that_of_the_reference(
    theirs: Path, tmp_path: Path, compression: str
) -> None:
    commits = commits_of(theirs)
    write_log(tmp_path, dict(enumerate(commits)))
    unit = unit_of(commits, committed_at=int(time.time() * 1000), compression=compression)
    outcome = publish(unit, store_at(str(tmp_path), StorageSettings()))
    assert outcome.num_files == FILES + 1
    assert outcome.num_bytes <= 1.1 * (theirs / "_delta_log" / CHECKPOINT).stat().st_size


@pytest.mark.requirement("R9")
def test_a_checkpoint_that_spark_wrote_beside_us_is_kept(theirs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(theirs, copy)
    store = RecordingStore(store_at(str(copy), StorageSettings()))
    publish(unit_of(commits_of(copy), committed_at=int(time.time() * 1000)), store)
    assert [key for key in store.puts if "checkpoint.parquet" in key] == []
