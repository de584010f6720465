"""The schema of version 4, as the release that had it created it on each engine. Never to be changed."""

from tests.support.databases import schema_v3

_COLUMNS = {
    "dl_tables": ("quarantined_at BIGINT", "quarantine_reason TEXT"),
    "dl_mirror_attempts": ("expected_digest TEXT", "found_digest TEXT"),
}

_TABLES = (
    """CREATE TABLE dl_escalations (
    table_id BIGINT NOT NULL, version BIGINT NOT NULL, lane TEXT NOT NULL, opened_at BIGINT NOT NULL,
    error_code TEXT NOT NULL, error_message TEXT NOT NULL, closed_at BIGINT,
    PRIMARY KEY (table_id, version, lane))""",
    """CREATE TABLE dl_reconciliations (
    table_id BIGINT NOT NULL, cursor BIGINT NOT NULL, reconciled_at BIGINT, full_at BIGINT,
    PRIMARY KEY (table_id))""",
    """CREATE TABLE dl_breakers (
    store TEXT NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL, table_id BIGINT,
    successes INTEGER NOT NULL, changed_at BIGINT NOT NULL, retry_at BIGINT, prober TEXT, error_code TEXT,
    error_message TEXT, PRIMARY KEY (store), CHECK (state IN ('closed', 'open', 'half-open')))""",
    """CREATE TABLE dl_breaker_events (
    store TEXT NOT NULL, changed_at BIGINT NOT NULL, state TEXT NOT NULL, owner TEXT NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (store, changed_at, state))""",
)


def statements(engine: str) -> list[str]:
    """What created a catalog of version 4."""
    added = [f"ALTER TABLE {table} ADD COLUMN {column}" for table, some in _COLUMNS.items() for column in some]
    version = "UPDATE dl_catalog SET value = '4' WHERE \"key\" = 'schema_version'"
    return [*schema_v3.statements(engine), *added, *_TABLES, version]


def rows() -> dict[str, list[dict[str, object]]]:
    """The table of version 3 after its failure was escalated, on a store that is left alone."""
    escalated = {"table_id": 1, "version": 1, "lane": "commits", "opened_at": 1_700_000_000_008}
    error = {"error_code": "diverged", "error_message": "no"}
    compared: dict[str, object] = {"table_id": 1, "cursor": 1, "reconciled_at": 1_700_000_000_009, "full_at": None}
    breaker = {"store": "disk", "state": "open", "failures": 5, "table_id": None, "successes": 0}
    until = {"changed_at": 1_700_000_000_010, "retry_at": 1_700_000_060_010, "prober": None}
    event = {"store": "disk", "changed_at": 1_700_000_000_010, "state": "open", "owner": "me", "reason": "no"}
    return {
        **schema_v3.rows(),
        "dl_escalations": [{**escalated, **error, "closed_at": None}],
        "dl_reconciliations": [compared],
        "dl_breakers": [{**breaker, **until, **error}],
        "dl_breaker_events": [event],
    }
