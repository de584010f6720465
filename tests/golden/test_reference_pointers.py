"""Every ``_last_checkpoint`` that Delta Lake on Spark wrote verifies, and comes back byte for byte."""

import os
from collections import Counter
from pathlib import Path

import pytest

from deltamirror.delta.lastcheckpoint import Trust, decode, encode

pytestmark = [pytest.mark.requirement("R15"), pytest.mark.requirement("R66")]

SHARED = Path(os.environ.get("DELTAMIRROR_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
POINTERS = {
    "fixtures/delta-4.4.0_spark-4.0.1": Counter({Trust.VERIFIED: 7}),
    "fixtures/delta-4.0.1_spark-4.0.1": Counter({Trust.VERIFIED: 4}),
    "golden": Counter({Trust.VERIFIED: 10, Trust.UNVERIFIED: 5, Trust.DAMAGED: 1}),
}
"""Pointers without a checksum are older than checksums; the damaged one was emptied on purpose."""

EMPTIED = "golden/corrupted-last-checkpoint-kernel"


def pointers(collection: str) -> dict[str, bytes]:
    found = sorted((SHARED / collection).glob("**/_last_checkpoint"))
    if not found:
        pytest.skip(f"no reference logs under {SHARED / collection}; set DELTAMIRROR_SHARED")
    return {path.parent.parent.relative_to(SHARED).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("collection", POINTERS)
def test_every_reference_pointer_with_a_checksum_verifies(collection: str) -> None:
    found = {table: decode(data) for table, data in pointers(collection).items()}
    assert Counter(reading.trust for reading in found.values()) == POINTERS[collection]
    assert {table for table, reading in found.items() if reading.version is None} <= {EMPTIED}


@pytest.mark.parametrize("collection", POINTERS)
def test_every_reference_pointer_with_a_checksum_comes_back_byte_for_byte(collection: str) -> None:
    checked = 0
    for data in pointers(collection).values():
        reading = decode(data)
        if reading.trust is Trust.VERIFIED and reading.pointer is not None:
            assert encode(reading.pointer) == data
            checked += 1
    assert checked == POINTERS[collection][Trust.VERIFIED]
