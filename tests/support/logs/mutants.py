"""Deliberate defects of what publishes: in lines, names, order, checkpoints, pointer and checksums."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror.delta.lastcheckpoint import LastCheckpoint

Body = dict[str, Any]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Mutant:
    """A function of the product, and a defective one in its place."""

    name: str
    target: str
    wrap: Wrap
    kind: str = "classic"

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the defect in place."""
        module, _, attribute = self.target.rpartition(".")
        holder = import_module(module)
        patch.setattr(holder, attribute, self.wrap(getattr(holder, attribute)))


def _lines(change: Callable[[list[Body]], object]) -> Wrap:
    """The lines of every commit, changed."""

    def wrap(encode: Callable[..., bytes]) -> Callable[..., bytes]:
        def defective(actions: Any) -> bytes:
            lines = [json.loads(line) for line in encode(actions).splitlines()]
            change(lines)
            return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()

        return defective

    return wrap


def _bytes(change: Callable[[bytes], bytes]) -> Wrap:
    return lambda encode: lambda actions: change(encode(actions))


def _each(action: str, change: Callable[[Body], object]) -> Wrap:
    def every(lines: list[Body]) -> None:
        for line in lines:
            if action in line:
                change(line[action])

    return _lines(every)


def _without(action: str, field: str) -> Wrap:
    return _each(action, lambda body: body.pop(field, None))


def _with(action: str, **fields: object) -> Wrap:
    return _each(action, lambda body: body.update(fields))


def _dropped(action: str) -> Wrap:
    def drop(lines: list[Body]) -> None:
        lines[:] = [line for line in lines if action not in line]

    return _lines(drop)


def _twice(action: str) -> Wrap:
    return _lines(lambda lines: lines.extend([line for line in lines if action in line]))


def _merged(lines: list[Body]) -> None:
    lines[:] = [{name: body for line in lines for name, body in line.items()}]


def _as_object(action: str, field: str) -> Wrap:
    return _each(action, lambda body: body.update({field: json.loads(body[field])} if field in body else {}))


def _name(change: Callable[..., str]) -> Wrap:
    return lambda name: lambda *args, **words: change(name(*args, **words))


def _shifted(name: Callable[[int], str]) -> Callable[[int], str]:
    return lambda version: name(version + 1)


def _batches(change: Callable[[list[Body]], object]) -> Wrap:
    """The rows of a checkpoint in one file, changed."""

    def wrap(rows: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
        def defective(state: Any) -> Iterator[pa.RecordBatch]:
            batches = list(rows(state))
            bodies = [row for batch in batches for row in batch.to_pylist()]
            change(bodies)
            yield pa.RecordBatch.from_pylist(bodies, schema=batches[0].schema)

        return defective

    return wrap


def _no_row(action: str) -> Wrap:
    def change(rows: list[Body]) -> None:
        rows[:] = [row for row in rows if not row[action]]

    return _batches(change)


def _row_twice(action: str) -> Wrap:
    return _batches(lambda rows: rows.append(next(row for row in rows if row[action])))


def _in_rows(action: str, **fields: object) -> Wrap:
    return _batches(lambda rows: [row[action].update(fields) for row in rows if row[action]])


def _sidecar(**fields: object) -> Wrap:
    return lambda put: lambda *args: replace(put(*args), **fields)


def _pointer(change: Callable[[LastCheckpoint], LastCheckpoint]) -> Wrap:
    return lambda encode: lambda pointer: encode(change(pointer))


def _set_pointer(**fields: Any) -> Wrap:
    return _pointer(lambda pointer: replace(pointer, **fields))


def _checksum(**fields: Any) -> Wrap:
    return lambda encode: lambda checksum: encode(replace(checksum, **fields))


_ENCODE = "deltamirror.delta.lines.encode_commit"
_ROWS = "deltamirror.deltalog.checkpoint.content.row_batches"
_PUT = "deltamirror.publish.checkpoint.sidecars._put_sidecar"
_POINTER = "deltamirror.deltalog.pointer.encode"
_CHECKSUM = "deltamirror.publish.checksums.encode"
_NAMES = "deltamirror.delta.names"

_OF_LINES = (
    *(Mutant(f"add without {field}", _ENCODE, _without("add", field)) for field in ("path", "size", "dataChange")),
    Mutant("add without partitionValues", _ENCODE, _without("add", "partitionValues")),
    Mutant("size as text", _ENCODE, _with("add", size="100")),
    Mutant("time as text", _ENCODE, _with("add", modificationTime="2024-01-31")),
    Mutant("time before 1970", _ENCODE, _with("add", modificationTime=-1)),
    Mutant("absolute Windows path", _ENCODE, _with("add", path="C:\\a.parquet")),
    Mutant("path with a blank", _ENCODE, _with("add", path="a b.parquet")),
    Mutant("partition that is none", _ENCODE, _with("add", partitionValues={"day": "1"})),
    Mutant("stats as an object", _ENCODE, _as_object("add", "stats")),
    Mutant("schema as an object", _ENCODE, _as_object("metaData", "schemaString")),
    *(Mutant(f"metaData without {field}", _ENCODE, _without("metaData", field)) for field in ("id", "format")),
    Mutant("metaData without a schema", _ENCODE, _without("metaData", "schemaString")),
    Mutant("metaData without partitionColumns", _ENCODE, _without("metaData", "partitionColumns")),
    Mutant("protocol without writerFeatures", _ENCODE, _without("protocol", "writerFeatures")),
    Mutant("protocol of an unknown version", _ENCODE, _with("protocol", minReaderVersion=4)),
    *(Mutant(f"no {action}", _ENCODE, _dropped(action)) for action in ("protocol", "metaData", "commitInfo")),
    Mutant("txn without a version", _ENCODE, _without("txn", "version")),
    Mutant("domain without removed", _ENCODE, _without("domainMetadata", "removed")),
    Mutant("no in-commit timestamp", _ENCODE, _without("commitInfo", "inCommitTimestamp")),
    Mutant("one in-commit timestamp for all", _ENCODE, _with("commitInfo", inCommitTimestamp=1_700_000_000_000)),
    *(
        Mutant(f"{action} twice", _ENCODE, _twice(action))
        for action in ("add", "remove", "protocol", "metaData", "txn")
    ),
    Mutant("commitInfo last", _ENCODE, _lines(lambda lines: lines.reverse())),
    Mutant("all actions on one line", _ENCODE, _lines(_merged)),
    Mutant("a JSON array", _ENCODE, _bytes(lambda data: b"[" + data.rstrip().replace(b"\n", b",\n") + b"]\n")),
    Mutant("no line ends", _ENCODE, _bytes(lambda data: data.replace(b"\n", b""))),
    Mutant("a byte order mark", _ENCODE, _bytes(lambda data: b"\xef\xbb\xbf" + data)),
    Mutant("UTF-16", _ENCODE, _bytes(lambda data: data.decode().encode("utf-16"))),
    Mutant("half of a commit", _ENCODE, _bytes(lambda data: data[: len(data) // 2])),
    Mutant("snake case", _ENCODE, _bytes(lambda data: data.replace(b"dataChange", b"data_change"))),
)
_OF_NAMES = (
    Mutant("19 digits", f"{_NAMES}.commit_name", _name(lambda name: name[1:])),
    Mutant("21 digits", f"{_NAMES}.commit_name", _name(lambda name: f"0{name}")),
    Mutant("versions from 1 on", f"{_NAMES}.commit_name", _shifted),
    Mutant("a checkpoint of the next version", f"{_NAMES}.checkpoint_name", _shifted),
    Mutant("a checkpoint without digits", f"{_NAMES}.checkpoint_name", _name(lambda name: name.lstrip("0"))),
    Mutant("a checksum of the next version", f"{_NAMES}.checksum_name", _shifted),
)
_OF_CHECKPOINTS = (
    *(Mutant(f"no rows of {each}", _ROWS, _no_row(each)) for each in ("add", "remove", "txn", "domainMetadata")),
    *(Mutant(f"no row of {each}", _ROWS, _no_row(each)) for each in ("protocol", "metaData")),
    *(Mutant(f"a row of {each} twice", _ROWS, _row_twice(each)) for each in ("add", "txn", "protocol")),
    Mutant("other sizes", _ROWS, _in_rows("add", size=7)),
    Mutant("no stats", _ROWS, _in_rows("add", stats=None, stats_parsed=None)),
    Mutant("another protocol", _ROWS, _in_rows("protocol", writerFeatures=["appendOnly"])),
    Mutant("another id", _ROWS, _in_rows("metaData", id="other")),
    Mutant("an empty row", _ROWS, _batches(lambda rows: rows.append(dict.fromkeys(rows[0])))),
    Mutant("sidecar of another size", _PUT, _sidecar(size_in_bytes=1), kind="v2"),
    Mutant("sidecar of another name", _PUT, _sidecar(path="other.parquet"), kind="v2"),
)
_OF_POINTERS = (
    Mutant("pointer to the next version", _POINTER, _pointer(lambda each: replace(each, version=each.version + 1))),
    Mutant("pointer with another size", _POINTER, _set_pointer(size=1)),
    Mutant("pointer with other bytes", _POINTER, _set_pointer(size_in_bytes=1)),
    Mutant("pointer with other adds", _POINTER, _set_pointer(num_of_add_files=1)),
    Mutant("pointer with parts", _POINTER, _set_pointer(parts=2)),
    Mutant("pointer cut off", _POINTER, lambda encode: lambda pointer: encode(pointer)[:-5]),
)
_OF_CHECKSUMS = (
    *(Mutant(f"checksum: {name}", _CHECKSUM, _checksum(**{name: 1})) for name in ("table_size_bytes", "num_files")),
    Mutant("checksum: two protocols", _CHECKSUM, _checksum(num_protocol=2)),
    Mutant("checksum: no files", _CHECKSUM, _checksum(all_files=())),
    Mutant("checksum: another time", _CHECKSUM, _checksum(in_commit_timestamp=1)),
    Mutant("checksum: no transactions", _CHECKSUM, _checksum(set_transactions=())),
    Mutant("checksum: no domains", _CHECKSUM, _checksum(domain_metadata=())),
)

MUTANTS = (*_OF_LINES, *_OF_NAMES, *_OF_CHECKPOINTS, *_OF_POINTERS, *_OF_CHECKSUMS)
"""None of them gets past validation."""
