"""The project's own reference logs, which ``make reference-logs`` writes, and what is expected of them.

No number here depends on names, ids or times, which are others each time the logs are written.
"""

from pathlib import Path

from deltamirror.delta.lastcheckpoint import Trust
from deltamirror.errors import InvalidInput, Unsupported
from tests.support.reference_logs.sets import Collection, Floors, ReferenceSet, Refusal, Source

ROOT = Path(__file__).parents[2] / "reference" / "logs"
CURRENT, EARLIER = "delta-spark-4.4.0", "delta-spark-4.0.1"

WITHOUT_METADATA = frozenset({"handmade/without-metadata"})
WITHOUT_PROTOCOL = frozenset({"handmade/without-protocol"})
REFUSALS = {
    "handmade/without-metadata": Refusal(InvalidInput, "states no metaData"),
    "handmade/without-protocol": Refusal(InvalidInput, "states no protocol"),
    "handmade/gap": Refusal(InvalidInput, "lacks the commits of version 1"),
    "handmade/reader-99": Refusal(Unsupported, "has reader version 99"),
    "handmade/unsupported-feature": Refusal(Unsupported, "reader features futureFeature"),
    "handmade/unknown-action": Refusal(Unsupported, "unknown action 'futureAction'"),
    "handmade/no-log": Refusal(InvalidInput, "are files, but no Delta log"),
}
REFUSED_LOGS = {
    "handmade/without-metadata": r"states no metaData",
    "handmade/without-protocol": r"states no protocol",
    "handmade/checkpoint-without-metadata": r"0\.checkpoint.* states no metaData",
    "handmade/checkpoint-without-protocol": r"0\.checkpoint.* states no protocol",
    "handmade/gap": r"lacks the commits of version 1, and there is no checkpoint",
    "handmade/reader-99": r"reader version 99",
    "handmade/unsupported-feature": r"reader features futureFeature",
    "handmade/unknown-action": r"unknown action 'futureAction'",
    "handmade/no-log": r"no Delta log",
}
REFUSED_COMMITS = {
    "metaData.schema.missing": frozenset({"handmade/without-schema"}),
    "log.first": WITHOUT_METADATA | WITHOUT_PROTOCOL,
    "protocol.unsupported": frozenset({"handmade/unsupported-feature"}),
    "protocol.version": frozenset({"handmade/reader-99"}),
    "unsupported": frozenset({"handmade/unknown-action"}),
    "cdc.partition.unknown": frozenset({"handmade/change-data-elsewhere"}),
}
FINDINGS = {
    "handmade/change-data-elsewhere": frozenset({"cdc.partition.unknown"}),
    "handmade/checkpoint-without-metadata": frozenset({"checkpoint.metaData.once"}),
    "handmade/checkpoint-without-protocol": frozenset({"checkpoint.protocol.once"}),
    "handmade/emptied-pointer": frozenset({"pointer.json"}),
    "handmade/gap": frozenset({"log.versions.gap"}),
    "handmade/reader-99": frozenset({"protocol.version"}),
    "handmade/unknown-action": frozenset({"line.action.unknown"}),
    "handmade/unsupported-feature": frozenset({"protocol.unsupported"}),
    "handmade/without-metadata": frozenset({"log.metaData.missing"}),
    "handmade/without-protocol": frozenset({"log.protocol.missing"}),
    "handmade/without-schema": frozenset({"metaData.schema.missing"}),
}
SOURCES = (
    Source(f"{CURRENT}/deletion-vectors", 5),
    Source(f"{CURRENT}/mapping-id"),
    Source(f"{CURRENT}/repartitioned"),
    Source(f"{CURRENT}/v2-parquet", 6, with_commit=False),
    Source(f"{CURRENT}/feat", 2),
    Source(f"{CURRENT}/many-files"),
    Source("handmade/again"),
    Source("handmade/vector-keys"),
    Source("handmade/special-characters"),
)
OPENED_BY_SPARK = (
    *(
        f"{CURRENT}/{name}"
        for name in (
            "basic",
            "clone",
            "df",
            "drop-feature",
            "feat",
            "identity",
            "mapping-name",
            "multi-part",
            "partition-types",
            "repartitioned",
            "row-tracking-later",
            "typed-statistics",
            "v2-json",
            "v2-parquet",
            "variant",
        )
    ),
    "delta-rs/operations",
    "delta-rs/partitions",
    "duckdb/appends",
    "sail/operations",
    *(
        f"handmade/{name}"
        for name in (
            "again",
            "changing",
            "iso-partitions",
            "old-checkpoint",
            "special-characters",
            "spellings",
            "vector-keys",
            "without-schema",
        )
    ),
)
"""One of each kind; it takes Spark a while to open one. An absolute path it shows with a scheme, so none is here."""

COLLECTIONS = {
    CURRENT: Collection(
        lines=793,
        hashed=112,
        checksums=230,
        pointers={Trust.VERIFIED: 23},
        unchecked={f"{CURRENT}/{name}": 1 for name in ("clone", "converted", "deletion-vectors", "df")},
        is_current=True,
    ),
    EARLIER: Collection(
        lines=226,
        hashed=46,
        checksums=55,
        pointers={Trust.VERIFIED: 7},
        unchecked={f"{EARLIER}/{name}": 1 for name in ("deletion-vectors", "df")},
    ),
}


def own_logs() -> ReferenceSet:
    """The logs in ``tests/reference/logs``."""
    return ReferenceSet(
        root=ROOT,
        folders=(CURRENT, EARLIER, "delta-rs", "duckdb", "sail", "handmade"),
        collections=COLLECTIONS,
        num_logs=69,
        num_importable=61,
        without_metadata=WITHOUT_METADATA,
        without_protocol=WITHOUT_PROTOCOL,
        refusals=REFUSALS,
        refused_logs=REFUSED_LOGS,
        refused_commits=REFUSED_COMMITS,
        findings=FINDINGS,
        # Spark passes over actions that it does not know.
        no_table_to_spark=frozenset(REFUSALS.keys() - {"handmade/unknown-action"}),
        retyped=frozenset(
            f"{CURRENT}/{name}"
            for name in (
                "alter",
                "indexed-columns",
                "mapping-name",
                "drop-feature",
                "type-widening",
                "zone-los-angeles",
            )
        ),
        sources=SOURCES,
        respelled=f"{CURRENT}/basic",
        row_ids={f"{CURRENT}/feat": 5, f"{EARLIER}/feat": 5, f"{CURRENT}/row-tracking": 4},
        protocols=tuple(f"{CURRENT}/{name}" for name in ("basic", "df", "feat", "multi-part", "types")),
        spark_opens=OPENED_BY_SPARK,
        unchecked={
            f"{CURRENT}/clone": (0, (1, 2)),
            f"{CURRENT}/converted": (0, (1,)),
            f"{CURRENT}/deletion-vectors": (10, (11,)),
            f"{CURRENT}/df": (12, (13, 14)),
            # Too many files to list, and then few.
            f"{CURRENT}/many-files": (10, (11,)),
        },
        continued=193,
        floors=Floors(
            classic=34,
            current=27,
            sidecars=6,
            pointers_with_schema=19,
            with_checkpoint=36,
            with_tombstones=15,
            typed=27,
            rewritten=37,
            shortened=67,
            schemas=141,
            commits=350,
        ),
    )
