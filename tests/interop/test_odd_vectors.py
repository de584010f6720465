"""Inline deletion vectors that differ from a good one in a byte: those that are admitted are read."""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror import Add, Catalog, DeletionVector
from deltamirror.delta.validation.bitmaps import MalformedBitmap, decode_bitmap
from deltamirror.delta.validation.vectors import unread_vector_rule
from tests.admission.vectors import bitmap, bits_bitmap, described, run_bitmap
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.requirement("R119")]

ROWS = 5000
_EMPTY = struct.pack("<IqIII", 1681511377, 1, 0, 12346, 0)
BASES = [bitmap([]), _EMPTY, bitmap([0, 3, 4999]), run_bitmap([(0, 3), (7, 7)]), bits_bitmap(range(300, 4900))]
_TIME = 1_714_521_600_000


def vectors() -> Iterator[DeletionVector]:
    """The bases, and what is left of them after a byte of the first hundred, and of the bits, was changed."""
    random = Random(14)
    for base in BASES:
        for at in range(min(len(base), 100)):
            for changed in (base, base[:at] + bytes([random.randrange(256)]) + base[at + 1 :]):
                try:
                    found = decode_bitmap(changed)
                except MalformedBitmap:
                    continue
                vector = DeletionVector(**described(changed, found.cardinality))
                if unread_vector_rule(vector, ROWS) is None:
                    yield vector


def test_the_vectors_that_are_admitted_are_read(
    lake: Catalog, tmp_path: Path, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    folder = tmp_path / "lake"
    properties = {"delta.enableDeletionVectors": "true"}
    table = lake.create_table("t", location=str(folder), schema="id long", properties=properties)
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), tmp_path / "file.parquet")
    distinct = list({vector.path_or_inline_dv: vector for vector in vectors()}.values())
    assert len(distinct) > len(BASES)
    files = []
    for number, vector in enumerate(distinct):
        folder.mkdir(exist_ok=True)
        place = Path(shutil.copy(tmp_path / "file.parquet", folder / f"{number}.parquet"))
        files.append(
            Add(
                path=place.name,
                partition_values={},
                size=place.stat().st_size,
                modification_time=_TIME,
                data_change=True,
                stats=f'{{"numRecords":{ROWS}}}',
                deletion_vector=vector,
            )
        )
    table.append(files)
    with mirror_of(lake) as engine:
        engine.mirror("t")
    seen = [reader.snapshot(folder, rows=True) for reader in (delta_rs, duckdb_delta)]
    left = sum(ROWS - vector.cardinality for vector in distinct)
    assert [table.row_count for table in seen] == [left, left]
    assert len({table.row_digest for table in seen}) == 1
