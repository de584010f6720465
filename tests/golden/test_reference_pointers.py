"""Every ``_last_checkpoint`` that Delta Lake on Spark wrote verifies, and comes back byte for byte."""

from collections import Counter

import pytest

from deltamirror.delta.lastcheckpoint import Trust, decode, encode
from tests.support.reference_logs.golden import reference

pytestmark = [pytest.mark.requirement("R15"), pytest.mark.requirement("R66"), pytest.mark.reference]

REFERENCE = reference()
every_collection = pytest.mark.parametrize("collection", REFERENCE.collections)


def pointers(collection: str) -> dict[str, bytes]:
    found = [log / "_last_checkpoint" for log in REFERENCE.logs_in(collection)]
    return {REFERENCE.name_of(path.parent): path.read_bytes() for path in found if path.exists()}


@every_collection
def test_every_reference_pointer_with_a_checksum_verifies(collection: str) -> None:
    found = {table: decode(data) for table, data in pointers(collection).items()}
    assert Counter(reading.trust for reading in found.values()) == REFERENCE.pointer_counts(collection)
    assert {table for table, reading in found.items() if reading.version is None} <= REFERENCE.emptied_pointers


@every_collection
def test_every_reference_pointer_with_a_checksum_comes_back_byte_for_byte(collection: str) -> None:
    checked = 0
    for data in pointers(collection).values():
        reading = decode(data)
        if reading.trust is Trust.VERIFIED and reading.pointer is not None:
            assert encode(reading.pointer) == data
            checked += 1
    assert checked == REFERENCE.pointer_counts(collection)[Trust.VERIFIED]
