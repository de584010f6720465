"""The reference tables beside the project, and which of them deserve no import."""

from collections.abc import Mapping
from dataclasses import dataclass

from deltamirror.errors import DeltaMirrorError, InvalidAction, InvalidInput, Unsupported
from tests.support.reference import LOGS, SHARED, WITHOUT_METADATA, WITHOUT_PROTOCOL, WITHOUT_SCHEMA, name_of

__all__ = ["IMPORTABLE", "REFUSALS", "TABLES", "Refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error that refuses a table, and words of its message."""

    error: type[DeltaMirrorError]
    phrase: str


_NO_SCHEMA = Refusal(InvalidAction, "metaData.schemaString is missing")
_NO_LOG = Refusal(InvalidInput, "are files, but no Delta log")

REFUSALS: Mapping[str, Refusal] = {
    **dict.fromkeys(sorted(WITHOUT_SCHEMA), _NO_SCHEMA),
    **dict.fromkeys(sorted(WITHOUT_METADATA), Refusal(InvalidInput, "states no metaData")),
    **dict.fromkeys(sorted(WITHOUT_PROTOCOL), Refusal(InvalidInput, "states no protocol")),
    "golden/versions-not-contiguous": Refusal(InvalidInput, "lacks the commits of version 1"),
    "golden/deltalog-invalid-protocol-version": Refusal(Unsupported, "has reader version 99"),
    "golden/log-store-listFrom": _NO_LOG,
    "golden/log-store-read": _NO_LOG,
}
"""Which reference tables are not imported, and why.

Those without schemaString, metaData or protocol were made by tests of Delta through its internal API: the protocol
requires all three. The files of the last two are not even in a log.
"""

_WITHOUT_LOG = [
    str(folder.relative_to(SHARED))
    for folder in sorted((SHARED / "golden").glob("*"))
    if folder.is_dir() and not any(folder in log.parents for log in LOGS)
]
TABLES = [*map(name_of, LOGS), *_WITHOUT_LOG]
IMPORTABLE = [name for name in TABLES if name not in REFUSALS]
