"""What SQL and the stores hold, read without any help of the code that wrote it."""

import io
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import pyarrow.parquet as pq

from deltamirror.delta.chunks import Chunk
from deltamirror.delta.lastcheckpoint import decode

_OBJECTS: Final = 256
"""More than one schedule writes of a kind: the same bytes are judged many times."""


@dataclass(frozen=True)
class State:
    """What the commits up to a version come to."""

    files: Mapping[str, int] = field(default_factory=dict)
    """Live files with their sizes."""
    tombstones: frozenset[str] = frozenset()
    apps: Mapping[str, int] = field(default_factory=dict)
    metadata: str = ""
    protocol: str = ""

    def after(self, lines: list[dict[str, Any]]) -> "State":
        """The state that a commit leads to."""
        files, tombs, apps = dict(self.files), set(self.tombstones), dict(self.apps)
        metadata, protocol = self.metadata, self.protocol
        for line in lines:
            match line:
                case {"add": add}:
                    files[add["path"]] = add["size"]
                    tombs.discard(add["path"])
                case {"remove": remove}:
                    files.pop(remove["path"], None)
                    tombs.add(remove["path"])
                case {"txn": txn}:
                    apps[txn["appId"]] = txn["version"]
                case {"metaData": found}:
                    metadata = _text(found["configuration"])
                case {"protocol": found}:
                    protocol = _text(sorted(found.get("writerFeatures") or ()))
        return State(files, frozenset(tombs), apps, metadata, protocol)


@dataclass(frozen=True)
class Version:
    """A version that SQL has."""

    commit_id: int
    committed_at: int
    txn_id: str
    digest: bytes
    read_version: int | None
    data: bytes
    added: frozenset[str]
    removed: frozenset[str]
    state: State


def load_version(connection: sqlite3.Connection, row: tuple[Any, ...], before: State) -> Version:
    """A version by its row (commit id, time, transaction, digest, version read), after the state before it."""
    commit_id, committed_at, txn_id, digest, read_version = row
    query = "SELECT codec, raw_bytes, digest, data FROM dl_commit_chunks WHERE commit_id = ? ORDER BY chunk"
    chunks = [
        Chunk(codec, size, bytes(d), bytes(data)) for codec, size, d, data in connection.execute(query, [commit_id])
    ]
    data = b"".join(chunk.decoded() for chunk in chunks)
    lines = [json.loads(line) for line in data.splitlines()]
    return Version(
        commit_id=commit_id,
        committed_at=committed_at,
        txn_id=txn_id,
        digest=bytes(digest),
        read_version=read_version,
        data=data,
        added=frozenset(line["add"]["path"] for line in lines if "add" in line),
        removed=frozenset(line["remove"]["path"] for line in lines if "remove" in line),
        state=before.after(lines),
    )


@lru_cache(_OBJECTS)
def checkpoint_state(data: bytes) -> State:
    """What a classic checkpoint says."""
    rows = pq.read_table(io.BytesIO(data)).to_pylist()
    lines = [{name: _plain(value) for name, value in row.items() if value is not None} for row in rows]
    return State().after(lines)


@lru_cache(_OBJECTS)
def pointed_version(data: bytes) -> int:
    """The version that a pointer names; -1 where none can be read."""
    pointed = decode(data).version
    return -1 if pointed is None else pointed


def _plain(action: dict[str, Any]) -> dict[str, Any]:
    """Maps come as lists of pairs."""
    pairs = action.get("configuration")
    return {**action, "configuration": dict(pairs)} if isinstance(pairs, list) else action


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
