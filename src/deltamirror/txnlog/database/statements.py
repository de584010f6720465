"""The statements of the commit path, compiled once and run on the driver's own cursor."""

from sqlalchemy import bindparam, func, insert, literal_column, select, update

from deltamirror.txnlog.database.schema import chunks, heads, mirror_status, superseded, tokens, versions

LINEAGE = func.coalesce(heads.c.lineage, literal_column("0"))
"""How often versions of the log were adopted, or the table was renamed: writers forget what they remember of it."""

HEAD = select(
    heads.c.version,
    heads.c.committed_at,
    heads.c.metadata_version,
    heads.c.protocol_version,
    LINEAGE.label("lineage"),
    heads.c.diverged_version,
).where(heads.c.table_id == bindparam("table_id"))

COMMITTED_BY = select(versions.c.version, versions.c.committed_at).where(
    versions.c.table_id == bindparam("table_id"),
    versions.c.version > bindparam("after"),
    versions.c.txn_id == bindparam("txn_id"),
)

SUPERSEDED_BY = (
    select(superseded.c.new_version, versions.c.committed_at)
    .join(versions, (versions.c.table_id == superseded.c.table_id) & (versions.c.version == superseded.c.new_version))
    .where(superseded.c.table_id == bindparam("table_id"), superseded.c.txn_id == bindparam("txn_id"))
    .where(versions.c.txn_id == bindparam("txn_id"))
)
"""The versions that the commits of a transaction were moved to."""

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
