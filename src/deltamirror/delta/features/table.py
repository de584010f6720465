"""Table features: what a client has to understand, and what we do about each of them.

We write the log and never see rows. That decides the support of a feature:

WRITE
    Its duties lie in the log, where we honour or check them, or in the data files, where breaking
    them is impossible for a file that the engine could write at all.
CARRY
    Its duty needs a look at the rows. Reads and verbatim commits pass. An authored commit that adds
    rows passes where the table does not use the feature, and where the caller asserts
    ``rows_checked=True``: the engine that wrote the files has done what ``row_duty`` says.
REFUSE
    We do not understand it. Reads are refused if it binds readers, commits are always refused.

A feature that is not in the table is unknown, which is the same as REFUSE.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from deltamirror.delta.properties import CONSTRAINT_PREFIX, ROW_TRACKING
from deltamirror.delta.schema.keys import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
    INVARIANTS,
    TYPE_CHANGES,
)

FENCE_FEATURE = "deltamirrorFence"
"""Our private writer-only feature: in a protocol, it makes every other writer refuse the table."""

READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7
"""The versions from which on a protocol lists its features."""


class Support(StrEnum):
    """What we do about a feature; the module's docstring says what each word means."""

    WRITE = "write"
    CARRY = "carry"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the table. ``reader`` features bind readers too; a legacy one is implied by version numbers.

    What makes a table need it: a property of the table that is switched on (or, ending in a point, any of
    that prefix), a key in the metadata of a column, a type. ``preview`` names an earlier edition of the
    feature that serves in its place.
    """

    name: str
    reader: bool = False
    legacy_reader: int | None = None
    legacy_writer: int | None = None
    support: Support = Support.WRITE
    requires: tuple[str, ...] = ()
    by_property: str = ""
    by_column: str = ""
    by_type: str = ""
    row_duty: str = ""
    preview: str = ""

    @property
    def versions(self) -> tuple[int, int]:
        """The least reader and writer versions that can express the feature."""
        if self.legacy_writer is not None:
            return self.legacy_reader or 1, self.legacy_writer
        return (READER_FEATURES_VERSION if self.reader else 1), WRITER_FEATURES_VERSION


_CARRY, _REFUSE = Support.CARRY, Support.REFUSE

# The order of the rows is the order in which Delta Lake 4.4 enumerates its features (a hash trie over the
# names in lower case); a protocol of up to four features lists them in this order.
_ROWS = (
    Feature(
        "identityColumns",
        legacy_writer=6,
        support=_CARRY,
        by_column=IDENTITY_START,
        row_duty="identity values are unique, and the same commit raises their high-water mark in metaData",
    ),
    Feature("deletionVectors", reader=True, by_property="delta.enableDeletionVectors"),
    Feature("v2Checkpoint", reader=True, by_property="delta.checkpointPolicy"),
    Feature("inCommitTimestamp", by_property="delta.enableInCommitTimestamps"),
    Feature("domainMetadata"),
    Feature("timestampNtz", reader=True, by_type="timestamp_ntz"),
    Feature("geospatial-dev", reader=True, support=_REFUSE),
    Feature(
        "generatedColumns",
        legacy_writer=4,
        support=_CARRY,
        by_column=GENERATION_EXPRESSION,
        row_duty="generated columns hold the values of their expressions",
    ),
    Feature(
        "icebergCompatV2",
        support=_CARRY,
        requires=("columnMapping",),
        by_property="delta.enableIcebergCompatV2",
        row_duty="data files hold the partition columns, field ids and 64-bit timestamps",
    ),
    Feature("variantShredding-preview", reader=True, requires=("variantType",)),
    Feature(
        "coordinatedCommits-preview",
        support=_REFUSE,
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
        by_property="delta.coordinatedCommits.commitCoordinator-preview",
    ),
    Feature(
        "checkConstraints",
        legacy_writer=3,
        support=_CARRY,
        by_property=CONSTRAINT_PREFIX,
        row_duty="every row meets the CHECK constraints",
    ),
    Feature("catalogManaged", reader=True, support=_REFUSE, requires=("inCommitTimestamp", "vacuumProtocolCheck")),
    Feature(
        "materializePartitionColumns",
        support=_CARRY,
        by_property="delta.enableMaterializePartitionColumnsFeature",
        row_duty="data files hold the partition columns",
    ),
    # NOT NULL is a property of the Parquet files, an expression in delta.invariants is one of the rows.
    Feature(
        "invariants",
        legacy_writer=2,
        by_column=INVARIANTS,
        row_duty="every row meets the expressions in delta.invariants",
    ),
    Feature("vacuumProtocolCheck", reader=True),
    # Any value is lawful in a column that has a default: it is used, or not, before rows become files.
    Feature("allowColumnDefaults", by_column=CURRENT_DEFAULT),
    Feature("typeWidening-preview", reader=True),
    Feature("rowTracking", requires=("domainMetadata",), by_property=ROW_TRACKING),
    Feature(
        "icebergCompatV3",
        support=_CARRY,
        requires=("columnMapping", "rowTracking"),
        by_property="delta.enableIcebergCompatV3",
        row_duty="data files hold the partition columns, field ids and 64-bit timestamps",
    ),
    Feature(
        "icebergCompatV1",
        support=_CARRY,
        requires=("columnMapping",),
        by_property="delta.enableIcebergCompatV1",
        row_duty="data files hold the partition columns, field ids and 64-bit timestamps",
    ),
    Feature(
        "variantShredding",
        reader=True,
        requires=("variantType",),
        by_property="delta.enableVariantShredding",
        preview="variantShredding-preview",
    ),
    Feature("variantType", reader=True, by_type="variant", preview="variantType-preview"),
    # Binds the cleanup of the log, not commits.
    Feature("checkpointProtection", support=_CARRY),
    Feature("variantType-preview", reader=True),
    Feature("geospatial", reader=True, support=_REFUSE),
    Feature("appendOnly", legacy_writer=2, by_property="delta.appendOnly"),
    Feature(
        "typeWidening",
        reader=True,
        by_property="delta.enableTypeWidening",
        by_column=TYPE_CHANGES,
        preview="typeWidening-preview",
    ),
    Feature("columnMapping", reader=True, legacy_reader=2, legacy_writer=5, by_property="delta.columnMapping.mode"),
    Feature("changeDataFeed", legacy_writer=4, by_property="delta.enableChangeDataFeed"),
    Feature("clustering", requires=("domainMetadata",)),
    # From here on: features that Delta Lake 4.4 does not enumerate.
    Feature("collations", support=_REFUSE, by_column="__COLLATIONS", preview="collations-preview"),
    Feature("collations-preview", support=_REFUSE),
    Feature("redirectReaderWriter-preview", reader=True, support=_REFUSE),
    Feature("redirectWriterOnly-preview", support=_REFUSE),
    Feature("adaptiveMetadata-preview", reader=True, support=_REFUSE),
    Feature(FENCE_FEATURE),
)

FEATURES: Mapping[str, Feature] = {row.name: row for row in _ROWS}
