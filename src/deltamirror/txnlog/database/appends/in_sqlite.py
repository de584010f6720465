"""A small append on SQLite: one look that finds whatever the general path would have to decide, then the inserts."""

import msgspec
from sqlalchemy import bindparam, literal_column, select, text

from deltamirror.delta.chunks import plain_chunk
from deltamirror.delta.timestamps import next_timestamp
from deltamirror.txnlog.database.access import Session
from deltamirror.txnlog.database.appends.small_append import Answer, SmallAppend
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import files, heads
from deltamirror.txnlog.database.schema_version import SCHEMA_VERSION, STORED_SCHEMA
from deltamirror.txnlog.database.statements import (
    INSERT_CHUNK,
    INSERT_STATUS,
    INSERT_TOKEN,
    INSERT_VERSION,
    LINEAGE,
    MOVE_HEAD,
)
from deltamirror.work import Status

_HASH_COLUMN = files.columns.keys().index("path_hash")

_HEAD_AS_SEEN = select(heads.c.version, heads.c.committed_at, CLOCK).where(
    heads.c.table_id == bindparam("table_id"),
    heads.c.metadata_version == bindparam("metadata_version"),
    heads.c.protocol_version == bindparam("protocol_version"),
    bindparam("lineage") == LINEAGE,
    heads.c.diverged_version.is_(None),
    text("(:at_version IS NULL OR version = :at_version - 1)"),
    STORED_SCHEMA.element == literal_column(f"'{SCHEMA_VERSION}'"),
    text(
        "NOT EXISTS (SELECT 1 FROM dl_files f WHERE f.table_id = dl_heads.table_id"
        " AND f.path_hash IN (SELECT value FROM json_each(:hashes)))"
    ),
    text("NOT EXISTS (SELECT 1 FROM dl_commit_tokens t WHERE t.token IN (:token, :adopted))"),
)
"""The head and the time, unless the table, one of the files or the token is not as a small append needs it."""


def append_small(session: Session, append: SmallAppend) -> Answer:
    """Write the next version of a table, inside of a transaction that alone may write."""
    found = session.rows(_HEAD_AS_SEEN, _asked(append))
    if not found:
        return None
    head, committed_at, clock = found[0]
    version, time = head + 1, next_timestamp(clock, committed_at)
    chunk = plain_chunk(append.opening(time) + append.rest)
    where = {"table_id": append.table_id, "version": version}
    stored = {"commit_id": append.commit_id, "codec": chunk.codec, "raw_bytes": chunk.raw_bytes, "digest": chunk.digest}
    session.run(INSERT_CHUNK, {**stored, "chunk": 0, "data": chunk.data})
    session.run(
        INSERT_VERSION,
        {
            **where,
            "commit_id": append.commit_id,
            "committed_at": time,
            "txn_id": append.txn_id,
            "kind": "authored",
            "operation": append.operation,
            "read_version": append.read_version,
            "is_blind_append": True,
            "changes_metadata": False,
            "changes_protocol": False,
            "app_ids": None,
            "domains": None,
            "num_lines": append.num_lines,
            "num_bytes": chunk.raw_bytes,
            "num_added": len(append.files),
            "num_removed": 0,
            "num_chunks": 1,
            "digest": chunk.digest,
        },
    )
    session.insert_many(files, append.files)
    session.run(INSERT_STATUS, {**where, "state": Status.PENDING, "attempts": 0, "updated_at": time})
    moved = {"new_version": version, "new_time": time}
    kept = {"new_metadata": append.metadata_version, "new_protocol": append.protocol_version}
    session.run(MOVE_HEAD, {"head_of": append.table_id, **moved, **kept})
    if append.token is not None:
        session.run(INSERT_TOKEN, _token_row(append, version, time))
    return version, time


def _asked(append: SmallAppend) -> dict[str, object]:
    return {
        "table_id": append.table_id,
        "metadata_version": append.metadata_version,
        "protocol_version": append.protocol_version,
        "lineage": append.lineage,
        "at_version": append.at_version,
        "hashes": msgspec.json.encode([row[_HASH_COLUMN] for row in append.files]).decode(),
        "token": append.token,
        "adopted": append.adopted,
    }


def _token_row(append: SmallAppend, version: int, time: int) -> dict[str, object]:
    return {
        "token": append.token,
        "content": append.content,
        "txn_id": append.txn_id,
        "committed_at": time,
        "versions": f"{{{append.name}:{version}}}",
    }
