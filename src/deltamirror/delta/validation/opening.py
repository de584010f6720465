"""The properties that Delta Lake on Spark reads whenever it opens a table: a value that is none keeps it out.

It reads the others when it needs them, or never: a table of another writer may have anything there. Which it reads was
tried out with Delta Lake 4.4.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from deltamirror.delta.actions import Metadata, Protocol
from deltamirror.delta.features.table import WRITER_FEATURES_VERSION
from deltamirror.delta.properties import COLUMN_MAPPING_MODE, PROPERTIES, ROW_TRACKING

_INTERVAL: Final = re.compile(
    r"\s*(?:interval\s+)?(?:[+-]?\s*\d+(?:\.\d*)?\s+(?:week|day|hour|minute|second|millisecond|microsecond)s?\s*)+",
    re.IGNORECASE | re.ASCII,
)
_INTEGER: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)


class BarredValue(NamedTuple):
    """A property that cannot be read."""

    key: str
    expects: str
    found: str


def barred_values(metadata: Metadata, protocol: Protocol | None) -> Iterator[BarredValue]:
    """The values that keep Delta Lake on Spark from opening a table."""
    has_features = protocol is not None and protocol.min_writer_version >= WRITER_FEATURES_VERSION
    read = {**_READ, **_READ_FOR_FEATURES} if has_features else _READ
    for key, accepts in read.items():
        value = metadata.configuration.get(key)
        if value is not None and not accepts(value):
            yield BarredValue(key, PROPERTIES[key].expects, value)


def _is_boolean(text: str) -> bool:
    return text.lower() in ("true", "false")


def _is_interval(text: str) -> bool:
    return _INTERVAL.fullmatch(text) is not None


def _is_integer(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None and -(2**31) <= int(text) < 2**31


_READ: Final[Mapping[str, Callable[[str], bool]]] = {
    "delta.deletedFileRetentionDuration": _is_interval,
    "delta.setTransactionRetentionDuration": _is_interval,
    "delta.dataSkippingNumIndexedCols": _is_integer,
    COLUMN_MAPPING_MODE: lambda text: text.lower() in ("none", "name", "id"),
    ROW_TRACKING: _is_boolean,
}
_READ_FOR_FEATURES: Final[Mapping[str, Callable[[str], bool]]] = {
    "delta.checkpointPolicy": lambda text: text in ("classic", "v2"),
    "delta.appendOnly": _is_boolean,
    "delta.enableChangeDataFeed": _is_boolean,
    "delta.enableDeletionVectors": _is_boolean,
    "delta.enableTypeWidening": _is_boolean,
    "delta.enableInCommitTimestamps": _is_boolean,
    "delta.enableVariantShredding": _is_boolean,
    "delta.enableIcebergCompatV1": _is_boolean,
    "delta.enableIcebergCompatV2": _is_boolean,
    "delta.enableIcebergCompatV3": _is_boolean,
    "delta.enableMaterializePartitionColumnsFeature": _is_boolean,
}
"""With table features, it looks for those that the properties ask for."""
