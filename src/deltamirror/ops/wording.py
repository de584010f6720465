"""Times, lengths of time and numbers as people read them, on a terminal and on a page."""

from datetime import UTC, datetime
from typing import Final


def moment(milliseconds: int | None) -> str:
    """A time of the log as people read it, in UTC."""
    if milliseconds is None:
        return ""
    whole = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{whole}.{milliseconds % 1000:03}Z"


def duration(milliseconds: int) -> str:
    """A length of time as people say it, in its two largest units: ``2 h 5 min``."""
    seconds = milliseconds / 1000
    if seconds < _UNITS[-1][1]:
        return f"{seconds:.1f} s"
    index = next(index for index, (_, size) in enumerate(_UNITS) if seconds >= size)
    (unit, size), (below, step) = (*_UNITS, ("s", 1))[index : index + 2]
    count, rest = divmod(int(seconds), size)
    return f"{count} {unit} {rest // step} {below}"


_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


def counted(number: int, noun: str) -> str:
    """``1 version``, ``2 versions``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
