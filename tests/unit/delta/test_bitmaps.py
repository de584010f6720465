"""The bitmap of an inline deletion vector is decoded before it is admitted."""

import struct
import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

from deltamirror import DeletionVector
from deltamirror.delta.validation import check_actions
from deltamirror.delta.validation.bitmaps import Bitmap, MalformedBitmap, decode_bitmap
from deltamirror.delta.validation.vectors import unread_vector_rule
from deltamirror.errors import InvalidAction
from tests.admission.vectors import bitmap, bits_bitmap, described, inline_vector, run_bitmap
from tests.support.lakes.validation import ADD, EXTENDED, REMOVE, changed, metadata_of

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.requirement("R119")]

GOOD = {
    "none": (bitmap([]), Bitmap(0, -1)),
    "an array": (bitmap([0, 3, 65_535]), Bitmap(3, 65_535)),
    "runs": (run_bitmap([(0, 3), (5, 5)]), Bitmap(5, 5)),
    "runs with offsets": (run_bitmap([(0, 3), (9, 65_535)], containers=5), Bitmap(5 * 65_531, 4 * 65_536 + 65_535)),
    "bits": (bits_bitmap(range(1, 5000)), Bitmap(4999, 4999)),
    "an empty bitmap": (struct.pack("<IqIII", 1681511377, 1, 0, 12346, 0), Bitmap(0, -1)),
    "two keys": (
        bitmap([1])[:4] + struct.pack("<q", 2) + bitmap([1])[12:] + b"\1\0\0\0" + bitmap([2])[16:],
        Bitmap(2, 2**32 + 2),
    ),
}
ARRAY = bitmap([1, 2])


@pytest.mark.parametrize(("data", "expected"), GOOD.values(), ids=GOOD)
def test_every_form_of_a_bitmap_is_decoded(data: bytes, expected: Bitmap) -> None:
    assert decode_bitmap(data) == expected


BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "ends too early"),
    "magic alone": (ARRAY[:4], "ends too early"),
    "another magic": (b"\0" + ARRAY[1:], "does not begin with"),
    "many bitmaps": (ARRAY[:4] + struct.pack("<Q", 2**40) + ARRAY[12:], "states 1099511627776 bitmaps"),
    "a large key": (ARRAY[:12] + struct.pack("<I", 256) + ARRAY[16:], "key 256"),
    "a key twice": (ARRAY[:4] + struct.pack("<q", 2) + ARRAY[12:] * 2, "key 0 follows 0"),
    "another cookie": (ARRAY[:16] + struct.pack("<I", 7) + ARRAY[20:], "unknown cookie 7"),
    "many containers": (ARRAY[:20] + struct.pack("<I", 2**31) + ARRAY[24:], "states 2147483648 containers"),
    "another offset": (ARRAY[:28] + struct.pack("<I", 17) + ARRAY[32:], "not where it is said to be"),
    "cut": (ARRAY[:-1], "ends too early"),
    "more": (ARRAY + b"\0", "bytes behind it"),
    "out of order": (ARRAY[:-4] + struct.pack("<HH", 2, 1), "its numbers do not ascend"),
    "twice": (ARRAY[:-4] + struct.pack("<HH", 2, 2), "its numbers do not ascend"),
    "runs that touch": (run_bitmap([(0, 1), (2, 3)]), "out of order, or touch"),
    "a run beyond the end": (run_bitmap([(65_535, 65_536)]), "its runs have 2"),
    "bits that are too few": (bits_bitmap(range(5000))[:-8192] + bytes(8192), "states 5000 numbers and has 0"),
}


@pytest.mark.parametrize(("data", "problem"), BAD.values(), ids=BAD)
def test_what_a_reader_fails_at_is_refused_with_the_reason(data: bytes, problem: str) -> None:
    with pytest.raises(MalformedBitmap, match=problem):
        decode_bitmap(data)


def test_a_count_without_bytes_costs_no_memory() -> None:
    data = ARRAY[:16] + struct.pack("<I", 0xFFFF << 16 | 12347) + bytes(8192)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedBitmap):
            decode_bitmap(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def _changed(data: bytes, at: int, byte: int) -> bytes:
    return data[:at] + bytes([byte]) + data[at + 1 :]


def _cut(data: bytes, at: int, _: int) -> bytes:
    return data[:at]


@pytest.mark.parametrize("mutated", [_changed, _cut])
def test_whatever_the_bytes_are_the_answer_is_a_bitmap_or_a_refusal(
    mutated: Callable[[bytes, int, int], bytes],
) -> None:
    random = Random(7)
    for data, _ in GOOD.values():
        for at in range(min(len(data), 80)):
            try:
                decode_bitmap(mutated(data, at, random.randrange(256)))
            except MalformedBitmap:
                continue


def test_a_row_that_the_file_does_not_have_is_refused() -> None:
    vector = DeletionVector(**inline_vector([3]))
    assert unread_vector_rule(vector, 4) is None
    broken = unread_vector_rule(vector, 3)
    assert broken is not None
    assert (broken.rule, broken.found) == ("exceeds-records", "row 3 of 3")


def test_a_file_whose_vector_no_reader_decodes_can_be_removed() -> None:
    broken = DeletionVector(**described(ARRAY + b"\0\0\0\0", 2))
    check_actions([changed(REMOVE, deletion_vector=broken)], protocol=EXTENDED, metadata=metadata_of())
    with pytest.raises(InvalidAction, match="bytes behind it"):
        check_actions([changed(ADD, deletion_vector=broken)], protocol=EXTENDED, metadata=metadata_of())
