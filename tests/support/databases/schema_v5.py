"""The schema of version 5, as the release that had it created it on each engine. Never to be changed."""

from tests.support.databases import schema_v4

_COLUMNS = {"dl_heads": ("lineage BIGINT", "diverged_version BIGINT")}

_SUPERSEDED = """CREATE TABLE dl_superseded (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, lineage BIGINT NOT NULL, commit_id BIGINT NOT NULL,
    committed_at BIGINT NOT NULL, txn_id TEXT NOT NULL, kind TEXT NOT NULL, operation TEXT,
    num_bytes BIGINT NOT NULL, num_chunks INTEGER NOT NULL, digest {binary} NOT NULL,
    superseded_at BIGINT NOT NULL, new_version BIGINT, reason TEXT, PRIMARY KEY (table_id, version, lineage))"""

_CLEANUPS = """CREATE TABLE dl_cleanups (
    table_id BIGINT NOT NULL, cleaned_at BIGINT NOT NULL, log_start BIGINT NOT NULL,
    num_objects BIGINT NOT NULL, num_bytes BIGINT NOT NULL, PRIMARY KEY (table_id))"""


def statements(engine: str) -> list[str]:
    """What created a catalog of version 5."""
    added = [f"ALTER TABLE {table} ADD COLUMN {column}" for table, some in _COLUMNS.items() for column in some]
    superseded = _SUPERSEDED.format(binary="BLOB" if engine == "sqlite" else "BYTEA")
    version = "UPDATE dl_catalog SET value = '5' WHERE \"key\" = 'schema_version'"
    return [*schema_v4.statements(engine), *added, superseded, _CLEANUPS, version]


def rows() -> dict[str, list[dict[str, object]]]:
    """The table of version 4 after its log was cleaned."""
    cleaned: dict[str, object] = {
        "table_id": 1,
        "cleaned_at": 1_700_000_000_009,
        "log_start": 0,
        "num_objects": 0,
        "num_bytes": 0,
    }
    return {**schema_v4.rows(), "dl_cleanups": [cleaned]}
