"""The schema of version 6, as the release that had it created it on each engine. Never to be changed."""

from tests.support.databases import schema_v5

_STAGES = ("read_us", "serialise_us", "upload_us", "verify_us")

_TABLES = (
    """CREATE TABLE dl_access_tokens (
    token_id TEXT NOT NULL, name TEXT NOT NULL, digest {binary} NOT NULL, rights TEXT NOT NULL, tables TEXT NOT NULL,
    created_at BIGINT NOT NULL, expires_at BIGINT, revoked_at BIGINT, last_used_at BIGINT, PRIMARY KEY (token_id))""",
    """CREATE TABLE dl_alerts (
    rule TEXT NOT NULL, scope TEXT NOT NULL, subject TEXT NOT NULL, severity TEXT NOT NULL, state TEXT NOT NULL,
    since BIGINT NOT NULL, fired_at BIGINT, resolved_at BIGINT, notified_at BIGINT, announced BOOLEAN NOT NULL,
    version BIGINT, lag_ms BIGINT, reading TEXT NOT NULL, cause TEXT NOT NULL, action TEXT NOT NULL,
    PRIMARY KEY (rule, scope, subject), CHECK (state IN ('pending', 'firing', 'resolved')))""",
    """CREATE TABLE dl_alert_deliveries (
    rule TEXT NOT NULL, scope TEXT NOT NULL, subject TEXT NOT NULL, channel TEXT NOT NULL, event TEXT NOT NULL,
    state TEXT NOT NULL, attempts INTEGER NOT NULL, next_attempt_at BIGINT NOT NULL, claim TEXT,
    claimed_until BIGINT NOT NULL, delivered_at BIGINT, error TEXT, PRIMARY KEY (rule, scope, subject, channel),
    CHECK (event IN ('firing', 'resolved')), CHECK (state IN ('waiting', 'sent')))""",
    """CREATE TABLE dl_silences (
    silence_id TEXT NOT NULL, rule TEXT NOT NULL, subject TEXT NOT NULL, created_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL, reason TEXT NOT NULL, author TEXT NOT NULL, PRIMARY KEY (silence_id))""",
)


def statements(engine: str) -> list[str]:
    """What created a catalog of version 6."""
    binary = "BLOB" if engine == "sqlite" else "BYTEA"
    columns = [f"ALTER TABLE dl_mirror_status ADD COLUMN {stage} BIGINT" for stage in _STAGES]
    columns.append("ALTER TABLE dl_metadata ADD COLUMN mirror_enabled BOOLEAN")
    created = [table.format(binary=binary) for table in _TABLES]
    version = "UPDATE dl_catalog SET value = '6' WHERE \"key\" = 'schema_version'"
    return [*schema_v5.statements(engine), *columns, *created, version]


def rows() -> dict[str, list[dict[str, object]]]:
    """The table of version 5, with an alert that is silent."""
    silence: dict[str, object] = {
        "silence_id": "s1",
        "rule": "lag",
        "subject": "*",
        "created_at": 1_700_000_000_010,
        "ends_at": 1_700_000_000_020,
        "reason": "upgrade",
        "author": "me",
    }
    return {**schema_v5.rows(), "dl_silences": [silence]}
