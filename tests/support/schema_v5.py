"""The schema of version 5, as the release that had it created it on each engine. Never to be changed."""

from tests.support import schema_v4

__all__ = ["rows", "statements"]

_COLUMNS = ("lineage BIGINT", "diverged_version BIGINT")


def statements(engine: str) -> list[str]:
    """What created a catalog of version 5."""
    binary = "BLOB" if engine == "sqlite" else "BYTEA"
    added = [f"ALTER TABLE dl_heads ADD COLUMN {column}" for column in _COLUMNS]
    superseded = f"""CREATE TABLE dl_superseded (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, lineage BIGINT NOT NULL, commit_id BIGINT NOT NULL,
    committed_at BIGINT NOT NULL, txn_id TEXT NOT NULL, kind TEXT NOT NULL, operation TEXT,
    num_bytes BIGINT NOT NULL, num_chunks INTEGER NOT NULL, digest {binary} NOT NULL,
    superseded_at BIGINT NOT NULL, new_version BIGINT, reason TEXT, PRIMARY KEY (table_id, version, lineage))"""
    cleanups = """CREATE TABLE dl_cleanups (
    table_id BIGINT NOT NULL, cleaned_at BIGINT NOT NULL, log_start BIGINT NOT NULL,
    num_objects BIGINT NOT NULL, num_bytes BIGINT NOT NULL, PRIMARY KEY (table_id))"""
    version = "UPDATE dl_catalog SET value = '5' WHERE \"key\" = 'schema_version'"
    return [*schema_v4.statements(engine), *added, superseded, cleanups, version]


def rows() -> dict[str, list[dict[str, object]]]:
    """The table of version 4 after its log was cleaned."""
    cleaned: dict[str, object] = {"table_id": 1, "cleaned_at": 1_700_000_000_011, "log_start": 0, "num_objects": 0}
    return {**schema_v4.rows(), "dl_cleanups": [{**cleaned, "num_bytes": 0}]}
