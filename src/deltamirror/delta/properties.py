"""Table properties that Delta defines: their spelling, their values, their defaults.

Keys are matched without regard to case and stored in their canonical spelling. Keys outside
``delta.`` belong to the user and are stored as they are.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from deltamirror.delta.actions import Metadata
from deltamirror.errors import InvalidInput

COLUMN_MAPPING_MODE = "delta.columnMapping.mode"
CONSTRAINT_PREFIX = "delta.constraints."
FEATURE_PREFIX = "delta.feature."
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
ROW_TRACKING = "delta.enableRowTracking"
TARGET_FILE_SIZE = "delta.targetFileSize"
LOWER_CASE = ("delta.checkpointPolicy", COLUMN_MAPPING_MODE)
"""Where a reader knows the words in lower case only: DuckDB the mode, Delta Spark the policy."""
PROTOCOL_PROPERTIES = ("delta.minReaderVersion", "delta.minWriterVersion", "delta.ignoreProtocolDefaults")
"""Words of the user about the protocol; they never reach ``configuration``."""

_UNIVERSAL_FORMAT_PREFIX = "delta.universalformat.config."
_UNITS_MS = {
    "week": 604_800_000,
    "day": 86_400_000,
    "hour": 3_600_000,
    "minute": 60_000,
    "second": 1_000,
    "millisecond": 1,
}
_BYTE_UNITS = ("", "k", "m", "g", "t")
_BYTE_COUNT = re.compile(r"(\d{1,15})\s*([kmgt]?)(?:i?b)?")
_INTERVAL_PART = re.compile(r"([+-]?\d+)\s+([a-z]+?)s?(?:\s+|$)")


@dataclass(frozen=True, slots=True)
class Property:
    """A property that Delta defines. ``internal`` ones are written by writers, never set by users."""

    key: str
    default: str | None
    expects: str
    accepts: Callable[[str], bool]
    internal: bool = False
    is_wish: bool = False
    """Whether writers may ignore it: where another one has set it to anything, it is as if it were absent."""


def interval_ms(text: str) -> int:
    """The milliseconds of a calendar interval such as ``interval 30 days``; months and years have no length.

    >>> interval_ms("interval 1 week")
    604800000
    >>> interval_ms("2 days 12 hours")
    216000000
    """
    rest = text.strip().lower().removeprefix("interval ").strip()
    parts = _INTERVAL_PART.findall(rest)
    if not rest or _INTERVAL_PART.sub("", rest) or any(unit not in _UNITS_MS for _, unit in parts):
        raise InvalidInput(
            f"{text!r} is not an interval of weeks, days, hours, minutes, seconds or milliseconds",
            hint="write it like 'interval 30 days'; months and years are not accepted, say 365 days for a year",
        )
    return sum(int(count) * _UNITS_MS[unit] for count, unit in parts)


def byte_count(text: str) -> int | None:
    """The bytes of a size such as ``134217728``, ``128mb`` or ``1g``; None of another text.

    >>> byte_count("128MB"), byte_count("many")
    (134217728, None)
    """
    found = _BYTE_COUNT.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        return None
    return int(found[1]) << 10 * _BYTE_UNITS.index(found[2])


def _is_byte_count(text: str) -> bool:
    return byte_count(text) is not None


def _is_boolean(text: str) -> bool:
    return text.lower() in ("true", "false")


def _is_integer(least: int) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(r"-?\d{1,18}", text) is not None and int(text) >= least


def _is_interval(text: str) -> bool:
    try:
        return interval_ms(text) >= 0
    except InvalidInput:
        return False


def _is_one_of(*words: str) -> Callable[[str], bool]:
    return lambda text: text.lower() in words


def _is_any(text: str) -> bool:
    return bool(text)


def _boolean(key: str, default: str = "false") -> Property:
    return Property(key, default, "true or false", _is_boolean)


def _integer(key: str, default: str | None, least: int) -> Property:
    return Property(key, default, f"an integer of at least {least}", _is_integer(least))


def _interval(key: str, default: str | None) -> Property:
    return Property(key, default, "an interval such as 'interval 30 days', without months and years", _is_interval)


def _internal(key: str) -> Property:
    return Property(key, None, "a value that only the writer sets", _is_any, internal=True)


def _free(key: str) -> Property:
    return Property(key, None, "a text", _is_any)


_DEFINED = (
    _integer("delta.checkpointInterval", "10", 1),
    Property("delta.checkpointPolicy", "classic", "classic or v2", _is_one_of("classic", "v2")),
    _boolean("delta.checkpoint.writeStatsAsJson", "true"),
    _boolean("delta.checkpoint.writeStatsAsStruct", "true"),
    _interval("delta.checkpointRetentionDuration", "interval 2 days"),
    _interval("delta.logRetentionDuration", "interval 30 days"),
    _interval("delta.deletedFileRetentionDuration", "interval 1 week"),
    _interval("delta.sampleRetentionDuration", "interval 7 days"),
    _interval("delta.setTransactionRetentionDuration", None),
    _interval("delta.dropFeatureTruncateHistory.retentionDuration", "interval 24 hours"),
    _boolean("delta.enableExpiredLogCleanup", "true"),
    _boolean("delta.enableFullRetentionRollback", "true"),
    _boolean("delta.appendOnly"),
    Property("delta.isolationLevel", "Serializable", "Serializable", _is_one_of("serializable")),
    _boolean("delta.randomizeFilePrefixes"),
    _integer("delta.randomPrefixLength", "2", 1),
    _integer("delta.dataSkippingNumIndexedCols", "32", -1),
    _integer("delta.dataSkippingStringPrefixLength", None, 0),
    _free("delta.dataSkippingStatsColumns"),
    Property(COLUMN_MAPPING_MODE, "none", "none, name or id", _is_one_of("none", "name", "id")),
    _internal(MAX_COLUMN_ID),
    _boolean("delta.enableChangeDataFeed"),
    _boolean("delta.enableDeletionVectors"),
    _boolean(ROW_TRACKING),
    _boolean("delta.rowTrackingSuspended"),
    _boolean("delta.enableTypeWidening"),
    _boolean("delta.enableInCommitTimestamps"),
    _boolean("delta.enableVariantShredding"),
    _boolean("delta.enableIcebergCompatV1"),
    _boolean("delta.enableIcebergCompatV2"),
    _boolean("delta.enableIcebergCompatV3"),
    _boolean("delta.enableMaterializePartitionColumnsFeature"),
    _boolean("delta.writePartitionColumnsToParquet"),
    _internal("delta.inCommitTimestampEnablementVersion"),
    _internal("delta.inCommitTimestampEnablementTimestamp"),
    _internal("delta.rowTracking.materializedRowIdColumnName"),
    _internal("delta.rowTracking.materializedRowCommitVersionColumnName"),
    _internal("delta.requireCheckpointProtectionBeforeVersion"),
    _free("delta.autoOptimize"),
    _free("delta.autoOptimize.autoCompact"),
    _free("delta.autoOptimize.optimizeWrite"),
    _free("delta.tuneFileSizesForRewrites"),
    Property(TARGET_FILE_SIZE, None, "a number of bytes, such as 134217728 or 128mb", _is_byte_count, is_wish=True),
    _free("delta.parquet.compression.codec"),
    _free("delta.parquet.format.version"),
    _free("delta.universalFormat.enabledFormats"),
    _boolean("delta.compatibility.symlinkFormatManifest.enabled"),
)

PROPERTIES: Mapping[str, Property] = {each.key: each for each in _DEFINED}
_BY_LOWER_KEY: Mapping[str, Property] = {each.key.lower(): each for each in _DEFINED}


def canonical_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """What a user wants to set, in canonical spelling and order of entry; InvalidInput names the key that is wrong.

    The protocol's own words (``delta.feature.…`` and the like) have to be taken out beforehand.
    """
    canonical: dict[str, str] = {}
    for key, value in properties.items():
        spelled = _canonical_key(key)
        if spelled in canonical:
            raise InvalidInput(f"property {spelled} is given twice", hint="keys differ by more than case")
        _check_value(spelled, value)
        canonical[spelled] = value.lower() if spelled in LOWER_CASE else value
    return canonical


def _canonical_key(key: str) -> str:
    lower = key.lower()
    if not lower.startswith("delta."):
        return key
    if lower.startswith(CONSTRAINT_PREFIX):
        return CONSTRAINT_PREFIX + key[len(CONSTRAINT_PREFIX) :]
    if lower.startswith(_UNIVERSAL_FORMAT_PREFIX):
        return lower
    known = _BY_LOWER_KEY.get(lower)
    if known is None:
        raise InvalidInput(f"Delta defines no property {key}", hint="choose a key outside 'delta.' for your own use")
    if known.internal:
        raise InvalidInput(f"property {known.key} is written by writers, and cannot be set", hint="leave it out")
    return known.key


def _check_value(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidInput(f"property {key} has to be a text, not {value!r}", hint="texts like '10' and 'true'")
    known = PROPERTIES.get(key)
    if known is not None and not known.accepts(value):
        hint = f"leave it out to have {known.default}" if known.default else "leave it out"
        raise InvalidInput(f"property {key} has to be {known.expects}, not {value!r}", hint=hint)


def find_invalid(configuration: Mapping[str, str]) -> Iterator[tuple[Property, str]]:
    """The properties in force whose values Delta cannot read, with these values."""
    for key, value in configuration.items():
        known = PROPERTIES.get(key)
        if known is not None and not known.is_wish and not known.accepts(value):
            yield known, value


def _value(metadata: Metadata, key: str) -> str | None:
    """The value in force. Another writer may have left one that is not valid: InvalidInput."""
    value = metadata.configuration.get(key)
    if value is None:
        return PROPERTIES[key].default
    _check_value(key, value)
    return value


def is_enabled(metadata: Metadata, key: str) -> bool:
    """Whether the boolean property is true, by its value or by its default."""
    return metadata.configuration.get(key, PROPERTIES[key].default or "").lower() == "true"


def append_only(metadata: Metadata) -> bool:
    """Whether rows may only be added."""
    return is_enabled(metadata, "delta.appendOnly")


def change_data_feed(metadata: Metadata) -> bool:
    """Whether writers have to leave change data for changes that are not plain inserts or deletes."""
    return is_enabled(metadata, "delta.enableChangeDataFeed")


def deletion_vectors(metadata: Metadata) -> bool:
    """Whether writers may make further deletion vectors."""
    return is_enabled(metadata, "delta.enableDeletionVectors")


def in_commit_timestamps(metadata: Metadata) -> bool:
    """Whether every commit carries its own time."""
    return is_enabled(metadata, "delta.enableInCommitTimestamps")


def expired_log_cleanup(metadata: Metadata) -> bool:
    """Whether log entries past their retention are deleted."""
    return is_enabled(metadata, "delta.enableExpiredLogCleanup")


def write_stats_as_json(metadata: Metadata) -> bool:
    """Whether checkpoints hold statistics as JSON text."""
    return is_enabled(metadata, "delta.checkpoint.writeStatsAsJson")


def write_stats_as_struct(metadata: Metadata) -> bool:
    """Whether checkpoints hold statistics and partition values as typed columns."""
    return is_enabled(metadata, "delta.checkpoint.writeStatsAsStruct")


def checkpoint_interval(metadata: Metadata) -> int:
    """After how many commits a checkpoint is due."""
    return int(_value(metadata, "delta.checkpointInterval") or "10")


def checkpoint_policy(metadata: Metadata) -> str:
    """``classic`` or ``v2``."""
    return (_value(metadata, "delta.checkpointPolicy") or "classic").lower()


def column_mapping_mode(metadata: Metadata) -> str:
    """``none``, ``name`` or ``id``."""
    return (_value(metadata, COLUMN_MAPPING_MODE) or "none").lower()


def max_column_id(metadata: Metadata) -> int | None:
    """The largest id that a column of this table ever had."""
    text = metadata.configuration.get(MAX_COLUMN_ID)
    return int(text) if text is not None and _is_integer(0)(text) else None


def log_retention_ms(metadata: Metadata) -> int:
    """How long log entries are kept."""
    return interval_ms(_value(metadata, "delta.logRetentionDuration") or "interval 30 days")


def deleted_file_retention_ms(metadata: Metadata) -> int:
    """How long tombstones of removed files are kept."""
    return interval_ms(_value(metadata, "delta.deletedFileRetentionDuration") or "interval 1 week")


def transaction_retention_ms(metadata: Metadata) -> int | None:
    """How long application transactions are kept; ``None`` is for ever."""
    text = _value(metadata, "delta.setTransactionRetentionDuration")
    return None if text is None else interval_ms(text)
