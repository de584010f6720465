"""The statements of the commit path, compiled once and run on the driver's own cursor."""

from sqlalchemy import bindparam, insert, select, update

from deltamirror.txnlog.schema import chunks, heads, mirror_status, tokens, versions

__all__ = [
    "COMMITTED_BY",
    "HEAD",
    "INSERT_CHUNK",
    "INSERT_STATUS",
    "INSERT_TOKEN",
    "INSERT_VERSION",
    "MOVE_HEAD",
    "TOKEN",
]

HEAD = select(heads.c.version, heads.c.committed_at, heads.c.metadata_version, heads.c.protocol_version).where(
    heads.c.table_id == bindparam("table_id")
)

TOKEN = select(tokens.c.content, tokens.c.committed_at, tokens.c.versions).where(tokens.c.token == bindparam("token"))

COMMITTED_BY = select(versions.c.version, versions.c.committed_at).where(
    versions.c.table_id == bindparam("table_id"),
    versions.c.version > bindparam("after"),
    versions.c.txn_id == bindparam("txn_id"),
)

INSERT_CHUNK = insert(chunks)
INSERT_VERSION = insert(versions)
INSERT_STATUS = insert(mirror_status).values(
    {name: bindparam(name) for name in ("table_id", "version", "state", "attempts", "updated_at")}
)
INSERT_TOKEN = insert(tokens)

MOVE_HEAD = (
    update(heads)
    .where(heads.c.table_id == bindparam("head_of"))
    .values(
        version=bindparam("new_version"),
        committed_at=bindparam("new_time"),
        metadata_version=bindparam("new_metadata"),
        protocol_version=bindparam("new_protocol"),
    )
)
