"""The schema of version 1, as the release that had it created it on each engine. Never to be changed."""

import hashlib
import zlib

_TABLES = """
CREATE TABLE dl_catalog (
    "key" TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE dl_tables (
    table_id BIGINT NOT NULL, name TEXT, location TEXT, created_at BIGINT NOT NULL, dropped_at BIGINT,
    dropped_name TEXT, dropped_location TEXT, mirror_paused BOOLEAN NOT NULL, log_start BIGINT NOT NULL,
    published_version BIGINT NOT NULL, PRIMARY KEY (table_id), UNIQUE (name), UNIQUE (location));
CREATE TABLE dl_heads (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, committed_at BIGINT NOT NULL,
    metadata_version BIGINT NOT NULL, protocol_version BIGINT NOT NULL, PRIMARY KEY (table_id));
CREATE TABLE dl_table_versions (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, commit_id BIGINT NOT NULL, committed_at BIGINT NOT NULL,
    txn_id TEXT NOT NULL, kind TEXT NOT NULL, operation TEXT, read_version BIGINT,
    is_blind_append BOOLEAN NOT NULL, changes_metadata BOOLEAN NOT NULL, changes_protocol BOOLEAN NOT NULL,
    app_ids TEXT, domains TEXT, num_lines INTEGER NOT NULL, num_bytes BIGINT NOT NULL,
    num_added INTEGER NOT NULL, num_removed INTEGER NOT NULL, num_chunks INTEGER NOT NULL, digest {binary} NOT NULL,
    PRIMARY KEY (table_id, version), CHECK (kind IN ('authored', 'verbatim')), UNIQUE (commit_id));
CREATE TABLE dl_commit_chunks (
    commit_id BIGINT NOT NULL, chunk INTEGER NOT NULL, codec TEXT NOT NULL, raw_bytes INTEGER NOT NULL,
    digest {binary} NOT NULL, data {binary} NOT NULL, PRIMARY KEY (commit_id, chunk),
    CHECK (codec IN ('plain', 'zstd')));
CREATE TABLE dl_files (
    table_id BIGINT NOT NULL, path_hash BIGINT NOT NULL, commit_id BIGINT NOT NULL, ordinal INTEGER NOT NULL,
    path TEXT NOT NULL, dv_id TEXT, partition_values TEXT NOT NULL, size BIGINT NOT NULL,
    modification_time BIGINT NOT NULL, data_change BOOLEAN NOT NULL, stats TEXT, tags TEXT,
    deletion_vector TEXT, base_row_id BIGINT, default_row_commit_version BIGINT, clustering_provider TEXT);
CREATE TABLE dl_removes (
    table_id BIGINT NOT NULL, path_hash BIGINT NOT NULL, commit_id BIGINT NOT NULL, ordinal INTEGER NOT NULL,
    path TEXT NOT NULL, dv_id TEXT, deletion_timestamp BIGINT, data_change BOOLEAN NOT NULL,
    extended_file_metadata BOOLEAN, partition_values TEXT, size BIGINT, deletion_vector TEXT,
    base_row_id BIGINT, default_row_commit_version BIGINT);
CREATE TABLE dl_file_ends (
    table_id BIGINT NOT NULL, file_commit_id BIGINT NOT NULL, file_ordinal INTEGER NOT NULL,
    commit_id BIGINT NOT NULL, PRIMARY KEY (table_id, file_commit_id, file_ordinal, commit_id));
CREATE TABLE dl_metadata (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, line TEXT NOT NULL, PRIMARY KEY (table_id, version));
CREATE TABLE dl_protocols (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, line TEXT NOT NULL, PRIMARY KEY (table_id, version));
CREATE TABLE dl_app_transactions (
    table_id BIGINT NOT NULL, app_id TEXT NOT NULL, version BIGINT NOT NULL, app_version BIGINT NOT NULL,
    last_updated BIGINT, PRIMARY KEY (table_id, app_id, version));
CREATE TABLE dl_domain_metadata (
    table_id BIGINT NOT NULL, domain TEXT NOT NULL, version BIGINT NOT NULL, configuration TEXT NOT NULL,
    removed BOOLEAN NOT NULL, PRIMARY KEY (table_id, domain, version));
CREATE TABLE dl_commit_tokens (
    token TEXT NOT NULL, content {binary} NOT NULL, txn_id TEXT NOT NULL, committed_at BIGINT NOT NULL,
    versions TEXT NOT NULL, PRIMARY KEY (token));
CREATE TABLE dl_stages (
    commit_id BIGINT NOT NULL, table_id BIGINT NOT NULL, touched_at BIGINT NOT NULL, PRIMARY KEY (commit_id));
CREATE TABLE dl_mirror_status (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
    updated_at BIGINT NOT NULL, PRIMARY KEY (table_id, version),
    CHECK (state IN ('PENDING', 'SUCCESS', 'FAILED')))
"""

_INDEXES = """
CREATE INDEX dl_files_by_path ON dl_files (table_id, path_hash);
CREATE INDEX dl_removes_by_path ON dl_removes (table_id, path_hash)
"""

_VIEW = """
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

_APPEND = """
CREATE FUNCTION dl_append(
    p_table bigint, p_commit bigint, p_metadata bigint, p_protocol bigint, p_at bigint, p_timestamped boolean,
    p_rest bytea, p_txn text, p_operation text, p_read bigint, p_lines integer, p_files text,
    OUT outcome text, OUT at_version bigint, OUT at_time bigint
) LANGUAGE plpgsql AS $$
DECLARE
    head dl_heads%ROWTYPE;
    added json := p_files::json;
    file bytea;
    digest bytea;
BEGIN
    outcome := 'stale';
    SELECT * INTO head FROM dl_heads h WHERE h.table_id = p_table FOR UPDATE;
    IF NOT FOUND OR head.metadata_version <> p_metadata OR head.protocol_version <> p_protocol
        OR (p_at >= 0 AND head.version <> p_at - 1) THEN
        RETURN;
    END IF;
    -- A statement that was delayed past its broken connection finds that its writer has committed without it.
    PERFORM 1 FROM dl_table_versions v
        WHERE v.table_id = p_table AND v.version > p_read AND v.txn_id = p_txn;
    IF FOUND THEN
        RETURN;
    END IF;
    -- An array, not a join: it makes the planner use the index, whatever it thinks of the sizes.
    PERFORM 1 FROM dl_files f WHERE f.table_id = p_table AND f.path_hash = ANY (
        ARRAY(SELECT a.path_hash FROM json_to_recordset(added) AS a(path_hash bigint)));
    IF FOUND THEN
        RETURN;
    END IF;
    at_version := head.version + 1;
    at_time := greatest((extract(epoch FROM clock_timestamp()) * 1000)::bigint, head.committed_at + 1);
    file := convert_to(
        '{"commitInfo":{' || CASE WHEN p_timestamped THEN '"inCommitTimestamp":' || at_time || ',' ELSE '' END
        || '"timestamp":' || at_time, 'UTF8') || p_rest;
    digest := sha256(file);
    INSERT INTO dl_commit_chunks (commit_id, chunk, codec, raw_bytes, digest, data)
        VALUES (p_commit, 0, 'plain', length(file), digest, file);
    INSERT INTO dl_table_versions (table_id, version, commit_id, committed_at, txn_id, kind, operation, read_version,
            is_blind_append, changes_metadata, changes_protocol, num_lines, num_bytes, num_added, num_removed,
            num_chunks, digest)
        VALUES (p_table, at_version, p_commit, at_time, p_txn, 'authored', p_operation, p_read,
            true, false, false, p_lines, length(file), p_lines - 1, 0, 1, digest);
    INSERT INTO dl_files (table_id, path_hash, commit_id, ordinal, path, dv_id, partition_values, size,
            modification_time, data_change, stats, tags, deletion_vector, base_row_id, default_row_commit_version,
            clustering_provider)
        SELECT p_table, a.path_hash, p_commit, a.ordinal, a.path, a.dv_id, a.partition_values, a.size,
            a.modification_time, a.data_change, a.stats, a.tags, a.deletion_vector, a.base_row_id,
            a.default_row_commit_version, a.clustering_provider
        FROM json_to_recordset(added) AS a(path_hash bigint, ordinal integer, path text, dv_id text,
            partition_values text, size bigint, modification_time bigint, data_change boolean, stats text, tags text,
            deletion_vector text, base_row_id bigint, default_row_commit_version bigint, clustering_provider text);
    INSERT INTO dl_mirror_status (table_id, version, state, attempts, updated_at)
        VALUES (p_table, at_version, 'PENDING', 0, at_time);
    UPDATE dl_heads h SET version = at_version, committed_at = at_time WHERE h.table_id = p_table;
    outcome := 'committed';
END
$$
"""


def statements(engine: str) -> list[str]:
    """What created a catalog of version 1."""
    binary = "BLOB" if engine == "sqlite" else "BYTEA"
    created = _TABLES.format(binary=binary).strip().split(";\n")
    indexes = [] if engine == "duckdb" else _INDEXES.strip().split(";\n")
    marks = [
        "INSERT INTO dl_catalog VALUES ('application', 'deltamirror')",
        "INSERT INTO dl_catalog VALUES ('schema_version', '1')",
    ]
    return [*created, *indexes, _VIEW, *([_APPEND] if engine == "postgresql" else []), *marks]


def rows() -> dict[str, list[dict[str, object]]]:
    """A table with two versions, of which the first is published, as that release left it."""
    opening = _FIRST_COMMIT, _SECOND_COMMIT
    stored: dict[str, list[dict[str, object]]] = {
        "dl_commit_chunks": [],
        "dl_table_versions": [],
        "dl_mirror_status": [],
    }
    for version, data in enumerate(opening):
        digest = hashlib.sha256(data).digest()
        chunk = {"commit_id": 100 + version, "chunk": 0, "codec": "plain", "raw_bytes": len(data)}
        stored["dl_commit_chunks"].append({**chunk, "digest": digest, "data": data})
        stored["dl_table_versions"].append(
            {
                "table_id": 1, "version": version, "commit_id": 100 + version, "committed_at": _TIME + version,
                "txn_id": f"txn-{version}", "kind": "authored", "operation": ("CREATE TABLE", "WRITE")[version],
                "read_version": None if version == 0 else 0, "is_blind_append": True,
                "changes_metadata": version == 0, "changes_protocol": version == 0, "app_ids": None, "domains": None,
                "num_lines": data.count(b"\n"), "num_bytes": len(data), "num_added": version, "num_removed": 0,
                "num_chunks": 1, "digest": digest,
            }
        )  # fmt: skip
        state = ("SUCCESS", "PENDING")[version]
        status = {"table_id": 1, "version": version, "state": state, "attempts": 1 - version}
        stored["dl_mirror_status"].append({**status, "updated_at": _TIME + version})
    _, metadata, protocol = (line.decode() for line in _FIRST_COMMIT.splitlines())
    table = {"table_id": 1, "name": "t", "location": "file:///nowhere/lake/t", "created_at": _TIME}
    file = {"table_id": 1, "path_hash": zlib.crc32(b"a"), "commit_id": 101, "ordinal": 0, "path": "a"}
    return {
        "dl_tables": [{**table, "mirror_paused": False, "log_start": 0, "published_version": 0}],
        "dl_heads": [
            {"table_id": 1, "version": 1, "committed_at": _TIME + 1, "metadata_version": 0, "protocol_version": 0}
        ],
        "dl_metadata": [{"table_id": 1, "version": 0, "line": metadata}],
        "dl_protocols": [{"table_id": 1, "version": 0, "line": protocol}],
        "dl_files": [{**file, "partition_values": "{}", "size": 100, "modification_time": 1, "data_change": True}],
        "dl_commit_tokens": [
            {"token": "T", "content": b"\x00\xff", "txn_id": "txn-1", "committed_at": _TIME + 1, "versions": '{"t":1}'}
        ],
        **stored,
    }


_TIME = 1_700_000_000_000
_FIRST_COMMIT = b"""\
{"commitInfo":{"timestamp":1700000000000,"operation":"CREATE TABLE"}}
{"metaData":{"id":"11111111-2222-3333-4444-555555555555","format":{"provider":"parquet","options":{}},\
"schemaString":"{\\"type\\":\\"struct\\",\\"fields\\":[{\\"name\\":\\"id\\",\\"type\\":\\"long\\",\\"nullable\\":true,\
\\"metadata\\":{}}]}","partitionColumns":[],"configuration":{},"createdTime":1700000000000}}
{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
"""
_SECOND_COMMIT = b"""\
{"commitInfo":{"timestamp":1700000000001,"operation":"WRITE"}}
{"add":{"path":"a","partitionValues":{},"size":100,"modificationTime":1,"dataChange":true}}
"""
