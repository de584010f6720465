"""The hot statement on PostgreSQL: small blind appends, whole, in one round trip.

A function, because each statement inside it sees what was committed when *it* began: statements
after the lock read the present. (A single statement with CTEs reads everything but the locked row as of
before it waited.) It answers ``stale`` whenever the general path has to decide.
"""

from collections.abc import Sequence

import msgspec
from sqlalchemy import bindparam, text

from deltamirror.txnlog.database.appends.small_append import SmallAppend
from deltamirror.txnlog.database.schema import files
from deltamirror.txnlog.database.schema_version import SCHEMA_KEY, SCHEMA_VERSION

CREATE_APPEND_FUNCTION = """
CREATE FUNCTION dl_append(
    p_table bigint, p_commit bigint, p_metadata bigint, p_protocol bigint, p_at bigint, p_timestamped boolean,
    p_lineage bigint, p_rest bytea, p_txn text, p_operation text, p_read bigint, p_lines integer, p_files text,
    p_name text, p_token text, p_adopted text, p_content bytea,
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
        OR coalesce(head.lineage, 0) <> p_lineage OR head.diverged_version IS NOT NULL
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
    -- The token first: where it has an answer already, nothing else was written yet.
    IF p_token IS NOT NULL THEN
        PERFORM 1 FROM dl_commit_tokens t WHERE t.token = p_adopted;
        IF FOUND THEN
            RETURN;
        END IF;
        INSERT INTO dl_commit_tokens (token, content, txn_id, committed_at, versions)
            VALUES (p_token, p_content, p_txn, at_time, '{' || p_name || ':' || at_version || '}')
            ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
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

# One document for all appends of a group: a statement that is prepared once, and one round trip. The function is called
# for a row of the catalog that has our schema version: for none, where a later release upgraded it. That an argument
# depends on the row keeps the planner from calling it first.
APPEND = text(
    f"""
    SELECT p.commit_id, a.outcome, a.at_version, a.at_time
    FROM dl_catalog c
    CROSS JOIN json_to_recordset(CAST(:appends AS json)) AS p(
        table_id bigint, commit_id bigint, metadata_version bigint, protocol_version bigint, at_version bigint,
        timestamped boolean, lineage bigint, rest text, txn_id text, operation text, read_version bigint,
        num_lines integer, files text, name text, token text, adopted text, content text)
    CROSS JOIN LATERAL dl_append(
        p.table_id, p.commit_id, p.metadata_version, p.protocol_version, coalesce(p.at_version, -1), p.timestamped,
        p.lineage, convert_to(p.rest, 'UTF8'), p.txn_id, p.operation || left(c.value, 0), p.read_version,
        p.num_lines, p.files, p.name, p.token, p.adopted, decode(p.content, 'hex')) a
    WHERE c.key = '{SCHEMA_KEY}' AND c.value = '{SCHEMA_VERSION}'
    """  # noqa: S608 - constants
).bindparams(bindparam("appends"))

_FILE_COLUMNS = tuple(column.name for column in files.columns)


def document(appends: Sequence[SmallAppend]) -> str:
    """What ``APPEND`` takes."""
    return msgspec.json.encode([_fields(append) for append in appends]).decode()


def _fields(append: SmallAppend) -> dict[str, object]:
    return {
        "table_id": append.table_id,
        "commit_id": append.commit_id,
        "metadata_version": append.metadata_version,
        "protocol_version": append.protocol_version,
        "at_version": append.at_version,
        "timestamped": append.timestamped,
        "lineage": append.lineage,
        "rest": append.rest.decode(),
        "txn_id": append.txn_id,
        "operation": append.operation,
        "read_version": append.read_version,
        "num_lines": append.num_lines,
        "files": [dict(zip(_FILE_COLUMNS, row, strict=True)) for row in append.files],
        "name": append.name,
        "token": append.token,
        "adopted": append.adopted,
        "content": None if append.content is None else append.content.hex(),
    }
