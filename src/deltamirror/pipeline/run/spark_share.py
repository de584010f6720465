"""Which work goes to Spark by itself: what takes longer than a start of Spark, which is 5 to 30 s.

Where a runner is named, that one works, whatever the size. A service whose Spark runs already does not ask.
"""

from typing import Final

_LOG_BYTES: Final = 64 * 1024 * 1024
_LOG_OBJECTS: Final = 5_000
_DATA_BYTES: Final = 4 * 1024 * 1024 * 1024


def is_large_log(*, num_bytes: int, num_objects: int) -> bool:
    """Whether so many objects of a log, with so many bytes in all, are read on Spark."""
    return num_bytes >= _LOG_BYTES or num_objects >= _LOG_OBJECTS


def is_large_data(*, num_bytes: int) -> bool:
    """Whether data files of so many bytes are written on Spark."""
    return num_bytes >= _DATA_BYTES
