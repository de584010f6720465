"""Data files as a real table has them: random names, plausible statistics, one date partition.

Data that repeats itself compresses ten times better than real paths and statistics do. Such data is here, too
(``numbered_adds``): the aims for checkpoints were set with it.
"""

import random
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pyarrow as pa

from deltamirror.delta import lines
from deltamirror.delta.actions import Add

SCHEMA = "id long, customer string, price double, day date"
PARTITION_COLUMN = "day"
NUMBERED_SCHEMA = "id long"

_BATCH = 50_000
_EPOCH_MS = 1_714_521_600_000
_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("partition_values", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modification_time", pa.int64()),
        ("data_change", pa.bool_()),
        ("stats", pa.string()),
    ]
)


def adds(*, seed: int) -> Iterator[Add]:
    """Files without end; the same for the same seed, and others for another."""
    chance = random.Random(seed)
    while True:
        yield _add(chance)


def numbered_adds(*, first: int) -> Iterator[Add]:
    """Files without end that differ by their numbers only: no partitions, statistics of one column."""
    for number in count(first):
        bounds = f'"minValues":{{"id":{number}}},"maxValues":{{"id":{number + 999}}}'
        yield Add(
            path=f"part-{number:08}-{'0' * 36}.c000.snappy.parquet",
            partition_values={},
            size=100_000 + number,
            modification_time=1_700_000_000_000,
            data_change=True,
            stats=f'{{"numRecords":1000,{bounds},"nullCount":{{"id":0}}}}',
        )


def _add(chance: random.Random) -> Add:
    day = f"2024-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
    name = f"part-{chance.randrange(1000):05}-{_uuid(chance)}.c000.snappy.parquet"
    return Add(
        path=f"{PARTITION_COLUMN}={day}/{name}",
        partition_values={PARTITION_COLUMN: day},
        size=chance.randrange(10**5, 10**8),
        modification_time=_EPOCH_MS + chance.randrange(10**9),
        data_change=True,
        stats=_stats(chance),
    )


def _uuid(chance: random.Random) -> str:
    digits = f"{chance.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _stats(chance: random.Random) -> str:
    rows, first = chance.randrange(10**3, 10**6), chance.randrange(10**9)
    return (
        f'{{"numRecords":{rows},'
        f'"minValues":{{"id":{first},"customer":"C{chance.randrange(10**6):06}","price":{chance.random() * 9:.2f}}},'
        f'"maxValues":{{"id":{first + rows},"customer":"C{chance.randrange(10**6):06}",'
        f'"price":{chance.random() * 999:.2f}}},'
        f'"nullCount":{{"id":0,"customer":{chance.randrange(99)},"price":0}}}}'
    )


def write_ndjson(path: Path, files: Iterator[Add]) -> None:
    """Write files as the lines of a commit."""
    with path.open("wb") as out:
        while batch := list(islice(files, _BATCH)):
            out.write(lines.encode_commit(batch))


def write_arrow(path: Path, files: Iterator[Add]) -> None:
    """Write files as Arrow record batches."""
    with pa.ipc.new_stream(path, _ARROW) as out:
        while batch := list(islice(files, _BATCH)):
            out.write_batch(pa.record_batch([_column(batch, name) for name in _ARROW.names], schema=_ARROW))


def _column(batch: list[Add], name: str) -> pa.Array:
    values = [getattr(add, name) for add in batch]
    if name == "partition_values":
        values = [list(value.items()) for value in values]
    return pa.array(values, _ARROW.field(name).type)


def read_adds(path: Path) -> Iterator[Add]:
    """The files of a commit that ``write_ndjson`` wrote."""
    with path.open("rb") as stream:
        for action in lines.read_ndjson(stream, source=path.name):
            assert isinstance(action, Add)
            yield action
