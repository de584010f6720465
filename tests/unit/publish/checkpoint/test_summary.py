"""What the pointer says of a checkpoint that was written."""

import msgspec
import pytest

from deltamirror.delta.lastcheckpoint import LastCheckpoint, V2Checkpoint
from deltamirror.publish.checkpoint.summary import Written

pytestmark = pytest.mark.requirement("R15")

V2 = V2Checkpoint(path="n", size_in_bytes=5, modification_time=6)


def test_the_pointer_has_the_counts_of_the_checkpoint() -> None:
    written = Written(version=1, name="n", digest=b"d", num_rows=2, num_files=3, num_bytes=4)
    assert written.pointer == LastCheckpoint(version=1, size=2, num_of_add_files=3, size_in_bytes=4)


def test_the_pointer_has_the_schema_and_the_v2_files_where_they_are_known() -> None:
    written = Written(version=1, name="n", digest=None, num_rows=2, num_files=3, num_bytes=4, schema="{}", v2=V2)
    pointer = written.pointer
    assert (pointer.checkpoint_schema, pointer.v2_checkpoint) == (msgspec.Raw(b"{}"), V2)
