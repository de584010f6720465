"""The schema of version 2, as the release that had it created it on each engine. Never to be changed."""

from tests.support.databases import schema_v1

_ERROR = "error_code TEXT, error_message TEXT, error_stage TEXT, error_key TEXT"

_TABLES = """
DROP TABLE dl_mirror_status;
CREATE TABLE dl_mirror_status (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
    updated_at BIGINT NOT NULL, published_at BIGINT, milliseconds INTEGER, {error}, next_attempt_at BIGINT,
    PRIMARY KEY (table_id, version), CHECK (state IN ('PENDING', 'SUCCESS', 'FAILED')));
CREATE TABLE dl_checkpoints (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
    reason TEXT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, next_attempt_at BIGINT,
    name TEXT, digest {binary}, num_rows BIGINT, num_files BIGINT, num_bytes BIGINT, milliseconds INTEGER,
    base_version BIGINT, {error}, PRIMARY KEY (table_id, version),
    CHECK (state IN ('PENDING', 'SUCCESS', 'FAILED')));
CREATE TABLE dl_mirror_attempts (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, lane TEXT NOT NULL, epoch BIGINT NOT NULL,
    attempt INTEGER NOT NULL, owner TEXT NOT NULL, started_at BIGINT NOT NULL, ended_at BIGINT NOT NULL,
    outcome TEXT NOT NULL, {error}, PRIMARY KEY (table_id, version, lane, epoch),
    CHECK (outcome IN ('SUCCESS', 'FAILED')));
CREATE TABLE dl_leases (
    table_id BIGINT NOT NULL, lane TEXT NOT NULL, owner TEXT NOT NULL, epoch BIGINT NOT NULL,
    claimed_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (table_id, lane));
CREATE TABLE dl_checksums (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, data {binary} NOT NULL, PRIMARY KEY (table_id));
UPDATE dl_catalog SET value = '2' WHERE "key" = 'schema_version'
"""


def statements(engine: str) -> list[str]:
    """What created a catalog of version 2."""
    binary = "BLOB" if engine == "sqlite" else "BYTEA"
    made = _TABLES.format(binary=binary, error=_ERROR).strip().split(";\n")
    index = [] if engine == "duckdb" else ["CREATE INDEX dl_file_ends_by_commit ON dl_file_ends (commit_id)"]
    return [*schema_v1.statements(engine), *made, *index]


def rows() -> dict[str, list[dict[str, object]]]:
    """The table of version 1, mirrored by this release: a checkpoint is written, and a lease was given back."""
    checkpoint = {"table_id": 1, "version": 0, "state": "SUCCESS", "attempts": 1, "reason": "asked for"}
    times = {"created_at": 1_700_000_000_002, "updated_at": 1_700_000_000_003}
    lease = {"table_id": 1, "lane": "commits", "owner": "me", "epoch": 7, "claimed_at": 1, "expires_at": 0}
    return {
        **schema_v1.rows(),
        "dl_checkpoints": [{**checkpoint, **times, "name": "c.parquet", "digest": b"\x00\xff", "num_bytes": 17}],
        "dl_leases": [lease],
        "dl_checksums": [{"table_id": 1, "version": 0, "data": b"{}"}],
    }
