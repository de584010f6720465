"""The tables of the catalog, one definition for PostgreSQL, SQLite and DuckDB.

A commit *is* its bytes: ``dl_commit_chunks``. Everything else about it is a projection
that can be rebuilt from them.

Rows that a large commit brings in bulk (chunks, files, removes, ends) carry a ``commit_id`` that the
writer chose before it took any lock. They mean nothing until a row of ``dl_table_versions`` names
that id: ratifying a version is one small insert, whatever the size of the commit. All of them are
append-only; a file that leaves the table gets a row in ``dl_file_ends`` instead of an update.

All times are milliseconds since the epoch, UTC. JSON is kept as text: a JSON type of the database
would reorder keys and rewrite numbers.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
)

METADATA = MetaData()


def _key(name: str) -> Column[int]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _error_columns() -> tuple[Column[str], ...]:
    return (
        Column("error_code", Text),
        Column("error_message", Text),
        Column("error_stage", Text),
        Column("error_key", Text),
    )


catalog = Table(
    "dl_catalog",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    comment="facts about the catalog itself, the version of this schema among them",
)

tables = Table(
    "dl_tables",
    METADATA,
    _key("table_id"),
    Column("name", Text, comment="null once dropped, so that the name is free again"),
    Column("location", Text, comment="canonical; null once dropped"),
    Column("created_at", BigInteger, nullable=False),
    Column("dropped_at", BigInteger),
    Column("dropped_name", Text),
    Column("dropped_location", Text),
    Column("mirror_paused", Boolean, nullable=False),
    Column("log_start", BigInteger, nullable=False, comment="oldest version that the log has to hold"),
    Column("published_version", BigInteger, nullable=False, comment="-1 while nothing is published"),
    Column("quarantined_at", BigInteger, comment="since when the table is not published, until it is repaired"),
    Column("quarantine_reason", Text),
    Column("history_start", BigInteger, comment="oldest version that the catalog has"),
    UniqueConstraint("name"),
    UniqueConstraint("location"),
)

heads = Table(
    "dl_heads",
    METADATA,
    _key("table_id"),
    Column("version", BigInteger, nullable=False),
    Column("committed_at", BigInteger, nullable=False),
    Column("metadata_version", BigInteger, nullable=False, comment="newest version that changed the metadata"),
    Column("protocol_version", BigInteger, nullable=False, comment="newest version that changed the protocol"),
    Column("lineage", BigInteger, comment="how often versions of the log were adopted, or the table renamed"),
    Column("diverged_version", BigInteger, comment="the first foreign commit in the log; null: none"),
    comment="the one row that a commit locks; gone once the table is dropped",
)

versions = Table(
    "dl_table_versions",
    METADATA,
    _key("table_id"),
    _key("version"),
    Column("commit_id", BigInteger, nullable=False),
    Column("committed_at", BigInteger, nullable=False),
    Column("txn_id", Text, nullable=False, comment="the same for all tables of one transaction"),
    Column("kind", Text, nullable=False),
    Column("operation", Text),
    Column("read_version", BigInteger),
    Column("is_blind_append", Boolean, nullable=False),
    Column("changes_metadata", Boolean, nullable=False),
    Column("changes_protocol", Boolean, nullable=False),
    Column("app_ids", Text, comment="JSON array; null when the commit has no txn"),
    Column("domains", Text, comment="JSON array; null when the commit has no domainMetadata"),
    Column("num_lines", Integer, nullable=False),
    Column("num_bytes", BigInteger, nullable=False),
    Column("num_added", Integer, nullable=False),
    Column("num_removed", Integer, nullable=False),
    Column("num_chunks", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False, comment="sha256 of the file; of its chunks' digests when several"),
    CheckConstraint("kind IN ('authored', 'verbatim')"),
    UniqueConstraint("commit_id"),
)

superseded = Table(
    "dl_superseded",
    METADATA,
    _key("table_id"),
    _key("version"),
    _key("lineage"),
    Column("commit_id", BigInteger, nullable=False, comment="its chunks are kept"),
    Column("committed_at", BigInteger, nullable=False),
    Column("txn_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("operation", Text),
    Column("num_bytes", BigInteger, nullable=False),
    Column("num_chunks", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("superseded_at", BigInteger, nullable=False),
    Column("new_version", BigInteger, comment="the version that it was rebased to; null: it was dropped"),
    Column("reason", Text, comment="why it was dropped"),
    comment="versions that an adoption took out of the history of a log; the lineage is the one that they were part of",
)

chunks = Table(
    "dl_commit_chunks",
    METADATA,
    _key("commit_id"),
    Column("chunk", Integer, primary_key=True, autoincrement=False),
    Column("codec", Text, nullable=False),
    Column("raw_bytes", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False, comment="sha256 of the decoded bytes"),
    Column("data", LargeBinary, nullable=False),
    CheckConstraint("codec IN ('plain', 'zstd')"),
)

files = Table(
    "dl_files",
    METADATA,
    Column("table_id", BigInteger, nullable=False),
    Column("path_hash", BigInteger, nullable=False, comment="crc32 of the path's identity"),
    Column("commit_id", BigInteger, nullable=False),
    Column("ordinal", Integer, nullable=False, comment="tells the adds of a commit apart; no line number"),
    Column("path", Text, nullable=False),
    Column("dv_id", Text),
    Column("partition_values", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("modification_time", BigInteger, nullable=False),
    Column("data_change", Boolean, nullable=False),
    Column("stats", Text),
    Column("tags", Text),
    Column("deletion_vector", Text),
    Column("base_row_id", BigInteger),
    Column("default_row_commit_version", BigInteger),
    Column("clustering_provider", Text),
    comment="every add; with dl_table_versions and dl_file_ends, the validity interval of every file",
)

removes = Table(
    "dl_removes",
    METADATA,
    Column("table_id", BigInteger, nullable=False),
    Column("path_hash", BigInteger, nullable=False),
    Column("commit_id", BigInteger, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("path", Text, nullable=False),
    Column("dv_id", Text),
    Column("deletion_timestamp", BigInteger),
    Column("data_change", Boolean, nullable=False),
    Column("extended_file_metadata", Boolean),
    Column("partition_values", Text),
    Column("size", BigInteger),
    Column("deletion_vector", Text),
    Column("base_row_id", BigInteger),
    Column("default_row_commit_version", BigInteger),
    comment="every remove: the tombstones that checkpoints hold until they expire",
)


# The rows of one commit are inserted in the order of this index, which makes it nearly free:
# a bulk load in path order costs twice as much (docs/decisions/0002-file-rows.md).
# DuckDB scans the column instead; an index there slows the load and is not used for a prefix.
def _unless_duckdb(*_: object, dialect: object, **__: object) -> bool:
    return getattr(dialect, "name", "") != "duckdb"


Index("dl_files_by_path", files.c.table_id, files.c.path_hash).ddl_if(callable_=_unless_duckdb)
Index("dl_removes_by_path", removes.c.table_id, removes.c.path_hash).ddl_if(callable_=_unless_duckdb)


file_ends = Table(
    "dl_file_ends",
    METADATA,
    _key("table_id"),
    Column("file_commit_id", BigInteger, primary_key=True, autoincrement=False),
    Column("file_ordinal", Integer, primary_key=True, autoincrement=False),
    Column("commit_id", BigInteger, primary_key=True, autoincrement=False, comment="the commit that ended the file"),
    comment="which file rows stopped being part of the table, and by which commit",
)

# Counting the files after a commit asks which files it ended.
Index("dl_file_ends_by_commit", file_ends.c.commit_id).ddl_if(callable_=_unless_duckdb)

metadata = Table(
    "dl_metadata",
    METADATA,
    _key("table_id"),
    _key("version"),
    Column("line", Text, nullable=False, comment="the metaData action, canonical"),
    Column("mirror_enabled", Boolean, comment="what its property deltamirror.mirrorEnabled says; null: nothing"),
)

protocols = Table(
    "dl_protocols",
    METADATA,
    _key("table_id"),
    _key("version"),
    Column("line", Text, nullable=False, comment="the protocol action, canonical"),
)

app_transactions = Table(
    "dl_app_transactions",
    METADATA,
    _key("table_id"),
    Column("app_id", Text, primary_key=True),
    _key("version"),
    Column("app_version", BigInteger, nullable=False),
    Column("last_updated", BigInteger),
)

domains = Table(
    "dl_domain_metadata",
    METADATA,
    _key("table_id"),
    Column("domain", Text, primary_key=True),
    _key("version"),
    Column("configuration", Text, nullable=False),
    Column("removed", Boolean, nullable=False),
)

tokens = Table(
    "dl_commit_tokens",
    METADATA,
    Column("token", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False, comment="sha256 of what the transaction asked for"),
    Column("txn_id", Text, nullable=False),
    Column("committed_at", BigInteger, nullable=False),
    Column("versions", Text, nullable=False, comment="JSON object: table name to version"),
)

stages = Table(
    "dl_stages",
    METADATA,
    _key("commit_id"),
    Column("table_id", BigInteger, nullable=False),
    Column("touched_at", BigInteger, nullable=False, comment="a stage that was not touched for long is swept"),
)

mirror_status = Table(
    "dl_mirror_status",
    METADATA,
    _key("table_id"),
    _key("version"),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("published_at", BigInteger),
    Column("milliseconds", Integer, comment="how long publishing took"),
    *_error_columns(),
    Column("next_attempt_at", BigInteger, comment="when a version that failed is tried again; null: at once"),
    Column("read_us", BigInteger, comment="microseconds in the database; versions of one unit have equal shares"),
    Column("serialise_us", BigInteger, comment="microseconds from chunks to the bytes of the commit"),
    Column("upload_us", BigInteger, comment="microseconds until the store has taken them"),
    Column("verify_us", BigInteger, comment="microseconds of reading what is in the log"),
    CheckConstraint("state IN ('PENDING', 'SUCCESS', 'FAILED')"),
)

# Few rows of a long history. No condition on the state: PostgreSQL would write to the index, and to all other ones,
# whenever a version is published.
_POSTPONED = mirror_status.c.next_attempt_at.is_not(None)
Index(
    "dl_mirror_status_postponed",
    mirror_status.c.table_id,
    sqlite_where=_POSTPONED,
    postgresql_where=_POSTPONED,
).ddl_if(callable_=_unless_duckdb)

checkpoints = Table(
    "dl_checkpoints",
    METADATA,
    _key("table_id"),
    _key("version"),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("reason", Text, nullable=False, comment="why it was asked for"),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("next_attempt_at", BigInteger, comment="when one that failed is tried again; null: at once"),
    Column("name", Text, comment="of the object in the log"),
    Column("digest", LargeBinary, comment="sha256 of the object; null where no other checkpoint may build on it"),
    Column("num_rows", BigInteger),
    Column("num_files", BigInteger),
    Column("num_bytes", BigInteger),
    Column("milliseconds", Integer),
    Column("base_version", BigInteger, comment="the checkpoint that it was built on"),
    *_error_columns(),
    CheckConstraint("state IN ('PENDING', 'SUCCESS', 'FAILED')"),
    comment="checkpoints that were asked for; one that is not written is given up once a newer one is",
)

# A literal: a planner that does not know the state cannot choose the index of it.
WRITTEN = literal_column("'SUCCESS'", Text)
UNWRITTEN = checkpoints.c.state != WRITTEN
"""Which checkpoints are not written: few of all that were, which are found by an index of their own."""
Index(
    "dl_checkpoints_unwritten",
    checkpoints.c.table_id,
    checkpoints.c.version,
    sqlite_where=UNWRITTEN,
    postgresql_where=UNWRITTEN,
).ddl_if(callable_=_unless_duckdb)

attempts = Table(
    "dl_mirror_attempts",
    METADATA,
    _key("table_id"),
    _key("version"),
    Column("lane", Text, primary_key=True, comment="commits or checkpoints"),
    _key("epoch"),
    Column("attempt", Integer, nullable=False, comment="counted from 1"),
    Column("owner", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False, comment="when the table was claimed"),
    Column("ended_at", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    *_error_columns(),
    Column("expected_digest", Text, comment="sha256 of the object as it should be, where it has other bytes"),
    Column("found_digest", Text),
    CheckConstraint("outcome IN ('SUCCESS', 'FAILED')"),
    comment="attempts that failed, and the one that succeeded after them",
)

escalations = Table(
    "dl_escalations",
    METADATA,
    _key("table_id"),
    _key("version"),
    Column("lane", Text, primary_key=True, comment="commits or checkpoints"),
    Column("opened_at", BigInteger, nullable=False),
    Column("error_code", Text, nullable=False),
    Column("error_message", Text, nullable=False),
    Column("closed_at", BigInteger, comment="when it succeeded after all; null: an operator has to look"),
    comment="versions and checkpoints that failed more often than is normal, each told of once",
)

reconciliations = Table(
    "dl_reconciliations",
    METADATA,
    _key("table_id"),
    Column("cursor", BigInteger, nullable=False, comment="the version that the next sample begins with"),
    Column("reconciled_at", BigInteger, comment="when a process last took the table's turn"),
    Column("full_at", BigInteger, comment="when every object of the log was last compared"),
    comment="when the log of a table was last held against its records, and how far",
)

breakers = Table(
    "dl_breakers",
    METADATA,
    Column("store", Text, primary_key=True, comment="scheme, bucket and endpoint; the local disk is one store"),
    Column("state", Text, nullable=False),
    Column("failures", Integer, nullable=False, comment="in a row"),
    Column("table_id", BigInteger, comment="the one table that failed; null: several did, or none"),
    Column("successes", Integer, nullable=False, comment="in a row, while half-open"),
    Column("changed_at", BigInteger, nullable=False),
    Column("retry_at", BigInteger, comment="when one request may try whether the store is back"),
    Column("prober", Text, comment="the service that tries"),
    Column("error_code", Text),
    Column("error_message", Text),
    CheckConstraint("state IN ('closed', 'open', 'half-open')"),
    comment="whether requests are made to a store",
)

breaker_events = Table(
    "dl_breaker_events",
    METADATA,
    Column("store", Text, primary_key=True),
    _key("changed_at"),
    Column("state", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("reason", Text, nullable=False),
    comment="every change of a breaker",
)

leases = Table(
    "dl_leases",
    METADATA,
    _key("table_id"),
    Column("lane", Text, primary_key=True, comment="commits, checkpoints, reconciliation or maintenance"),
    Column("owner", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False, comment="one more with each claim"),
    Column("claimed_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, comment="0: given back"),
    comment="who mirrors a table, and until when",
)

checksums = Table(
    "dl_checksums",
    METADATA,
    _key("table_id"),
    Column("version", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    comment="the newest .crc of a table, from which the next one is computed",
)

cleanups = Table(
    "dl_cleanups",
    METADATA,
    _key("table_id"),
    Column("cleaned_at", BigInteger, nullable=False),
    Column("log_start", BigInteger, nullable=False, comment="the oldest version that was kept"),
    Column("num_objects", BigInteger, nullable=False, comment="how many were deleted"),
    Column("num_bytes", BigInteger, nullable=False),
    comment="what the last cleaning of a log did",
)

maintenance = Table(
    "dl_maintenance",
    METADATA,
    _key("table_id"),
    Column("chore", Text, primary_key=True),
    Column("done_at", BigInteger, comment="null: never"),
    Column("version", BigInteger, nullable=False, comment="after which nothing was left to do; -1: none"),
    Column("num_files", BigInteger, nullable=False, comment="how many were replaced, deleted or written"),
    Column("num_bytes", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False, comment="how often it failed since"),
    Column("next_attempt_at", BigInteger, comment="when one that failed is tried again"),
    Column("error_code", Text),
    Column("error_message", Text),
    CheckConstraint("chore IN ('optimize', 'vacuum', 'compact')"),
    comment="what the last maintenance of a table's files did, by services",
)

imports = Table(
    "dl_imports",
    METADATA,
    _key("table_id"),
    Column("name", Text, nullable=False),
    Column("location", Text, nullable=False, comment="canonical"),
    Column("first_version", BigInteger, nullable=False),
    Column("base_name", Text, comment="the checkpoint that the first version comes from; null where lines tell it"),
    Column("next_version", BigInteger, nullable=False, comment="the first that is not wholly stored"),
    Column("next_part", Integer, nullable=False, comment="how many parts of it are stored"),
    Column("owner", Text, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("touched_at", BigInteger, nullable=False, comment="one that was not touched for long may be taken over"),
    comment="imports under way: their rows have their table_id, and are seen once that is in dl_tables",
)

access_tokens = Table(
    "dl_access_tokens",
    METADATA,
    Column("token_id", Text, primary_key=True, comment="public: the token begins with it"),
    Column("name", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False, comment="sha256 of the secret"),
    Column("rights", Text, nullable=False, comment="read, operate, write, with commas between"),
    Column("tables", Text, nullable=False, comment="a pattern of names: * stands for any text"),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, comment="null: it lasts until it is revoked"),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger, comment="by the minute or so"),
    comment="who may read, operate and write over HTTP",
)

alerts = Table(
    "dl_alerts",
    METADATA,
    Column("rule", Text, primary_key=True),
    Column("scope", Text, primary_key=True, comment="table, store, channel or catalog"),
    Column("subject", Text, primary_key=True, comment="its name; empty for the catalog"),
    Column("severity", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("since", BigInteger, nullable=False, comment="since when its conditions hold, or held"),
    Column("fired_at", BigInteger),
    Column("resolved_at", BigInteger),
    Column("notified_at", BigInteger, comment="when a notification was last ordered, for the cooldown"),
    Column("announced", Boolean, nullable=False, comment="whether a notification says that it fires"),
    Column("version", BigInteger),
    Column("lag_ms", BigInteger),
    Column("reading", Text, nullable=False, comment="the values that its conditions were true for"),
    Column("cause", Text, nullable=False),
    Column("action", Text, nullable=False, comment="what to do, with the command"),
    CheckConstraint("state IN ('pending', 'firing', 'resolved')"),
    comment="alerts by rule and subject, shared by all services that evaluate rules",
)

deliveries = Table(
    "dl_alert_deliveries",
    METADATA,
    Column("rule", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("channel", Text, primary_key=True),
    Column("event", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False, comment="that failed in a row"),
    Column("next_attempt_at", BigInteger, nullable=False),
    Column("claim", Text, comment="of the sender that has it"),
    Column("claimed_until", BigInteger, nullable=False, comment="0: free"),
    Column("delivered_at", BigInteger),
    Column("error", Text),
    CheckConstraint("event IN ('firing', 'resolved')"),
    CheckConstraint("state IN ('waiting', 'sent')"),
    comment="what each channel is to be told of an alert, ordered in the transaction that changes the alert",
)

silences = Table(
    "dl_silences",
    METADATA,
    Column("silence_id", Text, primary_key=True),
    Column("rule", Text, nullable=False, comment="a pattern"),
    Column("subject", Text, nullable=False, comment="a pattern"),
    Column("created_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("author", Text, nullable=False),
    comment="alerts of which no notification is sent, until a time",
)

CREATE_FILE_INTERVALS = """
CREATE VIEW dl_file_intervals AS
SELECT t.name AS table_name, f.table_id, f.path, f.dv_id, v.version AS added_version,
    (SELECT min(ender.version) FROM dl_file_ends e JOIN dl_table_versions ender ON ender.commit_id = e.commit_id
     WHERE e.table_id = f.table_id AND e.file_commit_id = f.commit_id AND e.file_ordinal = f.ordinal)
        AS removed_version,
    f.partition_values, f.size, f.modification_time, f.stats, f.tags, f.deletion_vector, f.base_row_id,
    f.default_row_commit_version, f.clustering_provider
FROM dl_files f
JOIN dl_table_versions v ON v.commit_id = f.commit_id
JOIN dl_tables t ON t.table_id = f.table_id
"""
"""For people who ask in SQL: the files of version V are those with ``added_version <= V < removed_version``."""
