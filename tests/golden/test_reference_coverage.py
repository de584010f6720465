"""What the project's own reference logs cover: every action, field, operation, feature, type and kind of checkpoint.

Whatever is in these lists has been seen in a log of another writer. A log that is written again and lacks one of them
fails here: the evidence cannot shrink unseen.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltamirror.delta import names
from tests.reference.__main__ import WRITERS
from tests.support.reference_logs.own import CURRENT, own_logs

pytestmark = [pytest.mark.requirement("R5"), pytest.mark.requirement("R66")]

LOGS = own_logs()
BIGGEST = 3_000_000
"""Bytes that a clone carries for it."""

FIELDS = {
    "add": (
        "path partitionValues size modificationTime dataChange stats tags deletionVector baseRowId"
        " defaultRowCommitVersion clusteringProvider"
    ),
    "remove": (
        "path deletionTimestamp dataChange extendedFileMetadata partitionValues size tags deletionVector baseRowId"
        " defaultRowCommitVersion stats"
    ),
    "metaData": "id name description format schemaString partitionColumns configuration createdTime",
    "protocol": "minReaderVersion minWriterVersion readerFeatures writerFeatures",
    "txn": "appId version lastUpdated",
    "cdc": "path partitionValues size dataChange",
    "domainMetadata": "domain configuration removed",
    "commitInfo": (
        "timestamp inCommitTimestamp operation operationParameters readVersion isolationLevel isBlindAppend"
        " operationMetrics userMetadata tags engineInfo txnId clientVersion kernelVersion"
    ),
    "checkpointMetadata": "version tags",
    "sidecar": "path sizeInBytes modificationTime",
}
OPERATIONS = {
    "ADD COLUMNS",
    "ADD CONSTRAINT",
    "CHANGE COLUMN",
    "CLONE",
    "CLUSTER BY",
    "CONVERT",
    "CREATE OR REPLACE TABLE",
    "CREATE TABLE",
    "DELETE",
    "DROP COLUMNS",
    "DROP CONSTRAINT",
    "DROP FEATURE",
    "MERGE",
    "OPTIMIZE",
    "RENAME COLUMN",
    "REORG",
    "REPLACE COLUMNS",
    "REPLACE TABLE AS SELECT",
    "RESTORE",
    "SET TBLPROPERTIES",
    "STREAMING UPDATE",
    "UNSET TBLPROPERTIES",
    "UPDATE",
    "VACUUM END",
    "VACUUM START",
    "WRITE",
}
FEATURES = {
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "checkpointProtection",
    "clustering",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "icebergCompatV2",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "rowTracking",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
}
TYPES = {
    "array",
    "binary",
    "boolean",
    "byte",
    "date",
    "decimal",
    "double",
    "float",
    "integer",
    "long",
    "map",
    "short",
    "string",
    "struct",
    "timestamp",
    "timestamp_ntz",
    "variant",
}
PARTITION_TYPES = TYPES - {"array", "map", "struct", "variant"}
COLUMN_METADATA = {
    "comment",
    "delta.columnMapping.id",
    "delta.columnMapping.physicalName",
    "delta.columnMapping.nested.ids",
    "delta.generationExpression",
    "delta.identity.allowExplicitInsert",
    "delta.identity.highWaterMark",
    "delta.identity.start",
    "delta.identity.step",
    "delta.typeChanges",
    "CURRENT_DEFAULT",
}
CHECKPOINTS = {"classic", "multi-part", "v2 json", "v2 parquet", "sidecar", "typed", "without text"}
VECTORS = {"u", "p", "i"}
CHECKSUM_FIELDS = (
    "txnId tableSizeBytes numDeletedRecordsOpt numDeletionVectorsOpt numFiles numMetadata numProtocol"
    " inCommitTimestampOpt setTransactions domainMetadata metadata protocol fileSizeHistogram"
    " deletedRecordCountsHistogramOpt allFiles"
)


def commits() -> Iterator[Path]:
    return (path for log in LOGS.logs for path in sorted(log.glob("*.json")))


@cache
def actions() -> dict[str, list[dict[str, Any]]]:
    """The bodies of all lines, by the name of their action."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in commits():
        for line in filter(bytes.strip, path.read_bytes().splitlines()):
            [(name, body)] = json.loads(line).items()
            found[name].append(body)
    return found


def schema_fields(kind: Any) -> Iterator[dict[str, Any]]:
    """All fields of a type, nested ones too; what has no name of its own has only a type."""
    if isinstance(kind, str):
        return
    for field in kind.get("fields", []):
        yield field
        yield from schema_fields(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        if part in kind:
            yield {"type": kind[part], "metadata": {}}
            yield from schema_fields(kind[part])


def schemas() -> Iterator[tuple[dict[str, Any], list[str]]]:
    for body in actions()["metaData"]:
        if "schemaString" in body:
            yield json.loads(body["schemaString"]), body["partitionColumns"]


def type_name(kind: Any) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind).partition("(")[0]


@pytest.mark.parametrize("action", FIELDS)
def test_every_field_of_an_action_is_there(action: str) -> None:
    assert set(FIELDS[action].split()) <= set(chain.from_iterable(actions()[action]))


def test_every_operation_is_there() -> None:
    assert {body.get("operation") for body in actions()["commitInfo"]} >= OPERATIONS


def test_every_feature_is_there() -> None:
    listed = (body.get(name) or [] for body in actions()["protocol"] for name in ("readerFeatures", "writerFeatures"))
    assert set(chain.from_iterable(listed)) >= FEATURES
    versions = {(body["minReaderVersion"], body["minWriterVersion"]) for body in actions()["protocol"]}
    assert versions >= {(1, 2), (1, 7), (2, 7), (3, 7)}


def test_every_type_is_there_as_a_column_and_as_a_partition() -> None:
    fields = [field for schema, _ in schemas() for field in schema_fields(schema)]
    assert {type_name(field["type"]) for field in fields} == TYPES
    assert set(chain.from_iterable(field["metadata"] for field in fields)) >= COLUMN_METADATA
    partitions = {
        type_name(field["type"])
        for schema, columns in schemas()
        for field in schema["fields"]
        if field["name"] in columns
    }
    assert partitions == PARTITION_TYPES


def test_statistics_are_there_in_every_shape() -> None:
    found = [json.loads(body["stats"]) for body in actions()["add"] if body.get("stats")]
    assert any(body.get("stats") is None for body in actions()["add"])
    assert {"numRecords", "minValues", "maxValues", "nullCount", "tightBounds"} <= set(chain.from_iterable(found))
    assert any(isinstance(value, dict) for stats in found for value in stats.get("minValues", {}).values())
    assert any(stats.get("tightBounds", True) is False for stats in found)


def test_odd_values_are_there() -> None:
    values = [value for body in actions()["add"] for value in body["partitionValues"].values()]
    assert None in values
    assert {"a/b", "a%b", "ü ß 漢 😀"} <= set(values)
    paths = [body["path"] for body in actions()["add"]]
    assert any("%25" in path for path in paths)
    assert any(path.startswith("file:/") for path in paths)
    assert any(path.startswith("/") for path in paths)
    assert {vector["storageType"] for body in actions()["add"] if (vector := body.get("deletionVector"))} == VECTORS


def kinds_of_checkpoint() -> Iterator[str]:
    for log in LOGS.logs:
        for path in log.iterdir():
            match names.parse(path.name):
                case names.Checkpoint():
                    yield "classic"
                    yield from kinds_of_statistics(path)
                case names.CheckpointPart():
                    yield "multi-part"
                case names.UuidCheckpoint():
                    yield f"v2 {path.suffix[1:]}"
        if any(log.glob("_sidecars/*.parquet")):
            yield "sidecar"


def kinds_of_statistics(path: Path) -> Iterator[str]:
    add = pq.read_schema(path).field("add").type
    if add.get_field_index("stats_parsed") >= 0:
        yield "typed"
        if add.get_field_index("stats") < 0:
            yield "without text"


def test_every_kind_of_checkpoint_is_there() -> None:
    assert set(kinds_of_checkpoint()) == CHECKPOINTS


def test_checksums_are_there_with_every_field() -> None:
    found = [json.loads(path.read_bytes()) for log in LOGS.logs_in(CURRENT) for path in log.glob("[0-9]*.crc")]
    assert set(chain.from_iterable(found)) == set(CHECKSUM_FIELDS.split())
    assert any("allFiles" not in each for each in found)


def test_every_writer_is_there_with_its_release() -> None:
    assert {path.parent.name for path in LOGS.root.glob("*/writer.json")} == WRITERS.keys() == {*LOGS.folders}
    for name in LOGS.folders:
        assert json.loads((LOGS.root / name / "writer.json").read_text())["writer"]


def test_nothing_is_there_that_a_log_does_not_need_and_all_of_it_is_small() -> None:
    files = [path for path in LOGS.root.rglob("*") if path.is_file()]
    beside = {path.relative_to(LOGS.root).as_posix() for path in files if "_delta_log" not in path.parts}
    assert beside == {*(f"{name}/writer.json" for name in LOGS.folders), "handmade/no-log/0.json"}
    assert not [path for path in files if path.name.startswith(".")]
    assert sum(path.stat().st_size for path in files) < BIGGEST
