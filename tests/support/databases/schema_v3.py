"""The schema of version 3, as the release that had it created it on each engine. Never to be changed."""

from tests.support.databases import schema_v2

_IMPORTS = """CREATE TABLE dl_imports (
    table_id BIGINT NOT NULL, name TEXT NOT NULL, location TEXT NOT NULL, first_version BIGINT NOT NULL,
    base_name TEXT, next_version BIGINT NOT NULL, next_part INTEGER NOT NULL, owner TEXT NOT NULL,
    started_at BIGINT NOT NULL, touched_at BIGINT NOT NULL, PRIMARY KEY (table_id))"""


def statements(engine: str) -> list[str]:
    """What created a catalog of version 3."""
    version = "UPDATE dl_catalog SET value = '3' WHERE \"key\" = 'schema_version'"
    return [*schema_v2.statements(engine), _IMPORTS, version]


def rows() -> dict[str, list[dict[str, object]]]:
    """The table of version 2 after an attempt that failed, and an import under way."""
    attempt = {"table_id": 1, "version": 1, "lane": "commits", "epoch": 7, "attempt": 1, "owner": "me"}
    times = {"started_at": 1_700_000_000_004, "ended_at": 1_700_000_000_005}
    error = {"error_code": "diverged", "error_message": "no", "error_stage": "put", "error_key": "_delta_log/1.json"}
    began = {"table_id": 2, "name": "u", "location": "file:///nowhere/lake/u", "first_version": 0, "base_name": None}
    so_far = {"next_version": 3, "next_part": 0, "owner": "me", "started_at": 1_700_000_000_006}
    return {
        **schema_v2.rows(),
        "dl_mirror_attempts": [{**attempt, **times, "outcome": "FAILED", **error}],
        "dl_imports": [{**began, **so_far, "touched_at": 1_700_000_000_007}],
    }
