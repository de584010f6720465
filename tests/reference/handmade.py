"""Logs that no writer makes on request: wrong ones, old ones, and other spellings. Ids and times are fixed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.reference.history import Histories

HANDMADE: Histories[None] = Histories()
add_history = HANDMADE.add

TIME = 1_700_000_000_000
COLUMNS = ["id", "p"]
FIELDS = ",".join(f'{{"name":"{name}","type":"string","nullable":true,"metadata":{{}}}}' for name in COLUMNS)
SCHEMA = f'{{"type":"struct","fields":[{FIELDS}]}}'
Line = Mapping[str, object] | bytes

PROTOCOL: Line = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
VECTORS: Line = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors", "invariants", "appendOnly"],
    }
}


def metadata(number: int = 0, *, partitioned: bool = True, schema: str | None = SCHEMA) -> Line:
    """A metaData; without a schema, as Delta Live Tables write it."""
    body: dict[str, object] = {"id": f"00000000-0000-4000-8000-{number:012}"}
    body["format"] = {"provider": "parquet", "options": {}}
    if schema is not None:
        body["schemaString"] = schema
    body |= {"partitionColumns": ["p"] if partitioned and schema else [], "configuration": {}, "createdTime": TIME}
    return {"metaData": body}


def add(path: str, *, p: str | None = "1", **others: object) -> Line:
    """A file; what else is said of it comes after what is always said."""
    body = {"path": path, "partitionValues": {"p": p}, "size": 10, "modificationTime": TIME, "dataChange": True}
    return {"add": {**body, **others}}


def plain(path: str) -> Line:
    """A file of a table without partitions."""
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": TIME, "dataChange": True}}


def remove(path: str, *, p: str | None = None, **others: object) -> Line:
    """A tombstone, short unless its partition is given."""
    body: dict[str, object] = {"path": path, "deletionTimestamp": TIME, "dataChange": True}
    if p is not None:
        body |= {"extendedFileMetadata": True, "partitionValues": {"p": p}, "size": 10}
    return {"remove": {**body, **others}}


def info(version: int, operation: str = "Manual Update", **others: object) -> Line:
    """A commitInfo; of version n it says that it came n seconds later."""
    body: dict[str, object] = {"timestamp": TIME + 1000 * version, "operation": operation}
    return {"commitInfo": {**body, "operationParameters": {}, "isBlindAppend": True, **others}}


def vector(kind: str, text: str, offset: int | None) -> dict[str, object]:
    """A deletion vector."""
    place = {} if offset is None else {"offset": offset}
    size = 38 if kind == "i" else 40
    return {"storageType": kind, "pathOrInlineDv": text, **place, "sizeInBytes": size, "cardinality": 3}


def text_of(lines: list[Line], end: bytes = b"\n") -> bytes:
    """The bytes of a commit."""
    texts = (
        line if isinstance(line, bytes) else json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()
        for line in lines
    )
    return b"".join(text + end for text in texts)


def write(table: str, *commits: list[Line] | bytes | None) -> Path:
    """A log of these commits from version 0 on; None leaves one out."""
    log = Path(table) / "_delta_log"
    log.mkdir(parents=True)
    for version, commit in enumerate(commits):
        if commit is not None:
            data = commit if isinstance(commit, bytes) else text_of(commit)
            (log / f"{version:020}.json").write_bytes(data)
    return log


def first(*lines: Line, protocol: Line = PROTOCOL, partitioned: bool = True) -> list[Line]:
    """The commit that makes a table."""
    return [info(0, "CREATE TABLE"), metadata(partitioned=partitioned), protocol, *lines]


@add_history("without-schema")
def without_schema(_: None, table: str) -> None:
    write(table, [info(0), PROTOCOL, metadata(schema=None), plain("a")], [info(1), plain("b")])


@add_history("without-metadata")
def without_metadata(_: None, table: str) -> None:
    write(table, [info(0), PROTOCOL, plain("a")])


@add_history("without-protocol")
def without_protocol(_: None, table: str) -> None:
    write(table, [info(0), metadata(partitioned=False), plain("a")])


@add_history("gap")
def gap(_: None, table: str) -> None:
    write(table, first(), None, [info(2), add("p=1/c")])


@add_history("reader-99")
def reader_99(_: None, table: str) -> None:
    versions = {"minReaderVersion": 99, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}
    write(table, first(protocol={"protocol": versions}))


@add_history("unsupported-feature")
def unsupported_feature(_: None, table: str) -> None:
    features = {"readerFeatures": ["futureFeature"], "writerFeatures": ["futureFeature", "domainMetadata"]}
    write(table, first(protocol={"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}))


@add_history("change-data-elsewhere")
def change_data_elsewhere(_: None, table: str) -> None:
    cdc: Line = {"cdc": {"path": "_change_data/c", "partitionValues": {"other": "1"}, "size": 1, "dataChange": False}}
    write(table, first(), [info(1), add("p=1/a"), cdc])


CHECKPOINT_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", pa.map_(pa.string(), pa.string())),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                ]
            ),
        ),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    (
                        "format",
                        pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))]),
                    ),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", pa.map_(pa.string(), pa.string())),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
    ]
)
"""As the first releases wrote it: neither tombstones nor domains."""


def checkpoint(log: Path, version: int, *lines: Line) -> Path:
    """A checkpoint in one file."""
    rows = [{name: _as_arrow(body) for name, body in line.items()} for line in lines if isinstance(line, Mapping)]
    path = log / f"{version:020}.checkpoint.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=CHECKPOINT_SCHEMA), path)
    return path


def _as_arrow(value: object) -> object:
    if isinstance(value, dict):
        maps = {"partitionValues", "options", "configuration"}
        return {
            name: list(each.items()) if name in maps and isinstance(each, dict) else _as_arrow(each)
            for name, each in value.items()
        }
    return value


FILE: Line = {
    "add": {"path": "p=1/a", "partitionValues": {"p": "1"}, "size": 10, "modificationTime": TIME, "dataChange": False}
}


@add_history("checkpoint-without-metadata")
def checkpoint_without_metadata(_: None, table: str) -> None:
    checkpoint(write(table, first(add("p=1/a")), [info(1), add("p=1/b")]), 0, PROTOCOL, FILE)


@add_history("checkpoint-without-protocol")
def checkpoint_without_protocol(_: None, table: str) -> None:
    checkpoint(write(table, first(add("p=1/a")), [info(1), add("p=1/b")]), 0, metadata(), FILE)


@add_history("old-checkpoint")
def old_checkpoint(_: None, table: str) -> None:
    """A checkpoint and a pointer of the first releases: few fields, no checksum."""
    txn: Line = {"txn": {"appId": "old", "version": 3, "lastUpdated": None}}
    log = write(table, first(add("p=1/a"), {"txn": {"appId": "old", "version": 3}}), [info(1), add("p=1/b")])
    checkpoint(log, 0, PROTOCOL, metadata(), txn, FILE)
    (log / "_last_checkpoint").write_bytes(b'{"version":0,"size":4}')


@add_history("emptied-pointer")
def emptied_pointer(_: None, table: str) -> None:
    log = write(table, first(add("p=1/a")), [info(1), add("p=1/b")])
    checkpoint(log, 0, PROTOCOL, metadata(), FILE)
    (log / "_last_checkpoint").write_bytes(b"")


@add_history("vector-keys")
def vector_keys(_: None, table: str) -> None:
    """One path with different deletion vectors, one after the other; vectors of every kind."""
    u1, u2 = vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4), vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 99)
    p = vector("p", "s3://bucket/dv%20folder/deletion_vector_x.bin", None)
    i = vector("i", "^Bg9^0rr910000000000iXQKl0rr91000625c8Xg000310SSi2", None)
    steps: list[dict[str, object] | None] = [None, u1, u2, p, i, None]
    commits: list[list[Line]] = [first(protocol=VECTORS)]
    for version, (before, after) in enumerate(zip([None, *steps], steps, strict=False), 1):
        ended: dict[str, Any] = {"deletionVector": before} if before else {}
        begun: dict[str, Any] = {"stats": '{"numRecords":10}', "deletionVector": after} if after else {}
        old = [] if version == 1 else [remove("p=1/a", p="1", **ended)]
        new = add("p=1/a", **begun)
        commits.append([info(version), *old, new])
    write(table, *commits)


@add_history("absolute-paths")
def absolute_paths(_: None, table: str) -> None:
    """Paths with and without scheme, escaped in one way and in another, ended in the spelling that added them."""
    paths = ["file:///lake/p=1/a%20b", "/lake/p=1/c", "s3://bucket/%25/d%252F", "p=1/%E6%BC%A2", "hdfs://n:8020/x"]
    write(
        table,
        first(*(add(path) for path in paths)),
        [info(1), *(remove(path, p="1") for path in paths[::2])],
        [info(2), add(paths[0]), remove("file:/lake/p=1/e")],
    )


@add_history("special-characters")
def special_characters(_: None, table: str) -> None:
    names = ["p=1/%23%3F", "p=1/a+b", "p=1/a%2520b", "p=1/'%22", "p=1/%F0%9F%98%80", "p=1/b%2Bc&d=e"]
    write(table, first(), [info(1), *map(add, names)], [info(2), *(remove(name, p="1") for name in names)])


@add_history("again")
def added_again(_: None, table: str) -> None:
    """A file that comes, goes, and comes back, also within a commit as an update of what is said about it."""
    write(
        table,
        first(add("p=1/a", tags={"k": "v", "n": ""})),
        [info(1), remove("p=1/a", p="1", tags={"k": "v"}, stats="{}")],
        [info(2), add("p=1/a")],
        [info(3), add("p=1/a", stats='{"numRecords":1}')],
        [info(4), remove("p=1/a")],
    )


@add_history("changing")
def changing(_: None, table: str) -> None:
    """Protocols, metadata, transactions and domains that replace each other; commits without commitInfo."""
    domains = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["domainMetadata"]}
    domain = {"domain": "app", "configuration": '{"k":"ü"}', "removed": False}
    write(
        table,
        [PROTOCOL, metadata(1)],
        [metadata(2), {"txn": {"appId": "a", "version": 1}}],
        [{"protocol": domains}, {"domainMetadata": domain}],
        [{"txn": {"appId": "a", "version": 2, "lastUpdated": TIME}}, {"txn": {"appId": "b", "version": 0}}],
        [{"domainMetadata": {**domain, "removed": True}}],
        [{"domainMetadata": {**domain, "configuration": ""}}],
    )


@add_history("spellings")
def spellings(_: None, table: str) -> None:
    """Fields of a later time, explicit nulls, other orders of keys, blank lines, no newline at the end."""
    nulls = add(
        "p=1/a", p=None, stats=None, tags=None, baseRowId=None, clusteringProvider=None, futureField={"a": 1.50}
    )
    swapped: Line = (
        b'{ "add" : {"dataChange":true,"size":1,"modificationTime":1,"path":"p=1/b","partitionValues":{"p":"1"}} }'
    )
    parameters = {"flag": True, "number": 1.0, "list": ["a", 1], "none": None, "nested": {"k": "v"}}
    write(
        table,
        first(nulls),
        text_of([info(1, operationParameters=parameters, clientVersion="x", tags={"a": "b"}), swapped], end=b"\r\n"),
        b"\n \n" + text_of([info(2), add("p=1/c")], end=b"\n\n"),
        text_of([info(3, userMetadata="no newline at the end"), add("p=1/d")]).rstrip(b"\n"),
    )


@add_history("unknown-action")
def unknown_action(_: None, table: str) -> None:
    write(table, first(add("p=1/a"), {"futureAction": {"x": [1, {"y": None}]}}))


@add_history("iso-partitions")
def iso_partitions(_: None, table: str) -> None:
    """Times of partitions as the kernel spells them."""
    field = '{"name":"p","type":"timestamp","nullable":true,"metadata":{}}'
    schema = f'{{"type":"struct","fields":[{FIELDS.partition("},{")[0]}}},{field}]}}'
    values = ["2024-07-01T07:00:00.123456Z", "2024-07-01 07:00:00", "1969-12-31T23:59:59.999000Z", None]
    files = [add(f"p={number}/x", p=value) for number, value in enumerate(values)]
    write(table, [info(0), metadata(schema=schema), PROTOCOL], [info(1), *files])


@add_history("no-log")
def no_log(_: None, table: str) -> None:
    """Files beside each other, and no log among them."""
    Path(table).mkdir(parents=True)
    (Path(table) / "0.json").write_bytes(b"a\nb\n")
