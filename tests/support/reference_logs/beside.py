"""The tables beside the repository: golden tables of Delta Lake, and fixtures; what is expected of them."""

import os
from pathlib import Path

from deltamirror.delta.lastcheckpoint import Trust
from deltamirror.errors import InvalidInput, Unsupported
from tests.support.reference_logs.sets import Collection, Floors, ReferenceSet, Refusal, Source

WHERE = "GOLDEN_TABLES"
"""The variable that says where they are."""

CURRENT = "fixtures/delta-4.4.0_spark-4.0.1"
EARLIER = "fixtures/delta-4.0.1_spark-4.0.1"

WITHOUT_SCHEMA = frozenset(
    f"golden/{name}"
    for name in (
        "canonicalized-paths-normal-a",
        "canonicalized-paths-normal-b",
        "canonicalized-paths-special-a",
        "canonicalized-paths-special-b",
        "corrupted-last-checkpoint",
        "deltalog-commit-info",
        "deltalog-state-reconstruction-from-checkpoint-missing-metadata",
        "deltalog-state-reconstruction-from-checkpoint-missing-protocol",
        "update-deleted-directory",
        "versions-not-contiguous",
    )
)
BY_FILE_SYSTEM = frozenset(name for name in WITHOUT_SCHEMA if "canonicalized-paths" in name)
"""They add ``/path`` and remove ``file:/path``: one file to a Spark whose default file system is the disk."""
WITHOUT_METADATA = frozenset(
    {
        "golden/data-reader-absolute-paths-escaped-chars",
        "golden/deltalog-state-reconstruction-without-metadata",
    }
)
WITHOUT_PROTOCOL = frozenset({"golden/deltalog-state-reconstruction-without-protocol"})

_MISSING = "golden/deltalog-state-reconstruction-from-checkpoint-missing"
MISLEADING = {f"{_MISSING}-{what.lower()}": rf"10\.checkpoint.* states no {what}" for what in ("metaData", "protocol")}
"""Checkpoints that lack something, beside commits that do not: these are imported, and nothing else is read of them."""

_NO_LOG = Refusal(InvalidInput, "are files, but no Delta log")
REFUSALS = {
    **dict.fromkeys(sorted(WITHOUT_METADATA), Refusal(InvalidInput, "states no metaData")),
    **dict.fromkeys(sorted(WITHOUT_PROTOCOL), Refusal(InvalidInput, "states no protocol")),
    "golden/versions-not-contiguous": Refusal(InvalidInput, "lacks the commits of version 1"),
    "golden/deltalog-invalid-protocol-version": Refusal(Unsupported, "has reader version 99"),
    "golden/log-store-listFrom": _NO_LOG,
    "golden/log-store-read": _NO_LOG,
}
REFUSED_LOGS = {
    **dict.fromkeys(WITHOUT_METADATA, r"states no metaData"),
    **dict.fromkeys(WITHOUT_PROTOCOL, r"states no protocol"),
    **MISLEADING,
    "golden/versions-not-contiguous": r"lacks the commits of version 1, and there is no checkpoint",
    "golden/deltalog-invalid-protocol-version": r"reader version 99",
    "golden/log-store-listFrom": r"no Delta log",
    "golden/log-store-read": r"no Delta log",
}
REFUSED_COMMITS = {
    "metaData.schema.missing": WITHOUT_SCHEMA,
    # No table: the log states no metaData, or no protocol.
    "log.first": WITHOUT_METADATA | WITHOUT_PROTOCOL,
    "protocol.unsupported": frozenset({"golden/collations-preview-table", "golden/collations-table"}),
    "protocol.version": frozenset({"golden/deltalog-invalid-protocol-version"}),
    # Change data with values of partitions that the table does not have.
    "cdc.partition.unknown": frozenset({"golden/deltalog-getChanges"}),
}
_SCHEMA = frozenset({"metaData.schema.missing"})
FINDINGS = {
    **dict.fromkeys(sorted(WITHOUT_SCHEMA), _SCHEMA),
    **dict.fromkeys(sorted(WITHOUT_METADATA), frozenset({"log.metaData.missing"})),
    **dict.fromkeys(sorted(WITHOUT_PROTOCOL), frozenset({"log.protocol.missing"})),
    # Their pointers count the rows that were taken out of the checkpoints.
    f"{_MISSING}-metadata": _SCHEMA | {"checkpoint.metaData.once", "pointer.size"},
    f"{_MISSING}-protocol": _SCHEMA | {"checkpoint.protocol.once", "pointer.size"},
    "golden/versions-not-contiguous": _SCHEMA | {"log.versions.gap"},
    "golden/collations-preview-table": frozenset({"protocol.unsupported"}),
    "golden/collations-table": frozenset({"protocol.unsupported"}),
    "golden/corrupted-last-checkpoint-kernel": frozenset({"pointer.json"}),
    "golden/deltalog-getChanges": frozenset({"cdc.partition.unknown"}),
    "golden/deltalog-invalid-protocol-version": frozenset({"protocol.version"}),
}
SOURCES = (
    Source("golden/dv-with-columnmapping"),
    Source("golden/dv-partitioned-with-checkpoint", 10),
    Source("golden/delete-re-add-same-file-different-transactions"),
    Source("golden/log-replay-dv-key-cases"),
    Source("golden/log-replay-special-characters"),
    Source("golden/snapshot-repartitioned"),
    Source("golden/v2-checkpoint-parquet", 2, with_commit=False),
    Source(f"{CURRENT}/feat", 2),
    Source(f"{CURRENT}/more/many-files-txns"),
)
COLLECTIONS = {
    CURRENT: Collection(
        lines=278,
        hashed=29,
        checksums=57,
        pointers={Trust.VERIFIED: 7},
        unchecked={f"{CURRENT}/df": 1},
        is_current=True,
    ),
    EARLIER: Collection(
        lines=132, hashed=26, checksums=27, pointers={Trust.VERIFIED: 4}, unchecked={f"{EARLIER}/df": 1}
    ),
    # Pointers without a checksum are older than checksums; the damaged one was emptied on purpose.
    "golden": Collection(
        lines=1052,
        checksums=6,
        pointers={Trust.VERIFIED: 10, Trust.UNVERIFIED: 5, Trust.DAMAGED: 1},
        differing={
            # Delta Lake 4.2 and 4.3 name the histogram histogramOpt.
            "golden/collations-preview-table": 1,
            "golden/collations-table": 1,
            # Scala 2.12 lists files in another order.
            "golden/commit-info-containing-arbitrary-operationParams-types": 1,
            "golden/kernel-timestamp-partition-col-ISO8601": 1,
        },
    ),
}


def beside_the_repository() -> ReferenceSet:
    """The tables at ``DELTAMIRROR_SHARED``, or in the folder ``shared`` beside the repository."""
    root = os.environ.get(WHERE) or Path(__file__).resolve().parents[3].parent / "shared"
    return ReferenceSet(
        root=Path(root).resolve(),
        folders=("fixtures", "golden"),
        collections=COLLECTIONS,
        num_logs=110,
        num_importable=103,
        without_metadata=WITHOUT_METADATA,
        without_protocol=WITHOUT_PROTOCOL,
        refusals=REFUSALS,
        refused_logs=REFUSED_LOGS,
        refused_commits=REFUSED_COMMITS,
        findings=FINDINGS,
        no_table_to_spark=frozenset({*REFUSALS, *MISLEADING}),
        by_file_system=BY_FILE_SYSTEM,
        emptied_pointers=frozenset({"golden/corrupted-last-checkpoint-kernel"}),
        sources=SOURCES,
        respelled="golden/basic-with-inserts-deletes-checkpoint",
        row_ids={f"{CURRENT}/feat": 4, f"{EARLIER}/feat": 4},
        protocols=tuple(f"{CURRENT}/{name}" for name in ("df", "feat", "multi", "ptypes", "types")),
        unchecked={f"{CURRENT}/df": (10, (11,))},
        continued=42,
        is_large=True,
        floors=Floors(
            classic=31,
            current=15,
            sidecars=3,
            pointers_with_schema=5,
            with_checkpoint=21,
            with_tombstones=6,
            typed=16,
            rewritten=11,
            shortened=40,
            schemas=101,
            commits=201,
        ),
    )
