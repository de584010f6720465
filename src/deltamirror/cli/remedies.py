"""What an operator does about each class of failure that keeps the mirror from publishing."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["REMEDIES", "remedy"]

REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "diverged": "somebody else wrote to this log: stop them, save the object, move it away, then run "
        "`deltamirror mirror --once`",
        "not-found": "create the bucket, or drop the table and create it at the right location",
        "permission-denied": "correct the keys or the rights; `deltamirror mirror --once` then tries at once",
        "invalid-location": "move away what is in the place of the table's folder",
        "invalid-settings": "correct the settings: `deltamirror config check`",
        "capacity-exceeded": "make room; `deltamirror mirror --once` then tries at once",
        "unsupported": "the store cannot publish safely: move the table to one with conditional writes",
        "unavailable": "nothing, if the store comes back: the mirror tries again by itself",
        "throttled": "nothing: the mirror tries again by itself, and slower",
        "transient": "nothing: the mirror tries again by itself",
        "lease-lost": "nothing: another service has the table",
        "invalid-action": "the stored commit cannot be read by others: report it",
        "invalid-input": "what the log holds is damaged; the mirror writes it again by itself",
        "internal": "this is a defect: report it with the message",
    }
)


def remedy(code: str) -> str:
    """What to do about a failure of this class."""
    return REMEDIES.get(code, REMEDIES["internal"])
