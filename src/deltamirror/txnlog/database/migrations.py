"""Numbered migrations: an empty database, or one with an older schema of ours, becomes the current one.

An empty database gets the schema of this release at once. The statements of a migration are what they were when it was
released: they do not follow ``schema.py``.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from sqlalchemy import Connection, inspect, select, text, update
from sqlalchemy.schema import SetColumnComment, SetTableComment

from deltamirror.errors import CatalogMismatch, Internal
from deltamirror.txnlog.database.access import Database, Session
from deltamirror.txnlog.database.appends.in_postgresql import CREATE_APPEND_FUNCTION
from deltamirror.txnlog.database.schema import CREATE_FILE_INTERVALS, METADATA, catalog
from deltamirror.txnlog.database.schema_version import SCHEMA_KEY, SCHEMA_VERSION, newer_schema, require_schema

__all__ = ["SCHEMA_VERSION", "migrate", "require_current"]

_MARK_KEY = "application"
_MARK = "deltamirror"
_FACTS: Final = select(catalog.c.key, catalog.c.value)
_CURRENT: Final = {_MARK_KEY: _MARK, SCHEMA_KEY: str(SCHEMA_VERSION)}

_ERROR = "error_code TEXT, error_message TEXT, error_stage TEXT, error_key TEXT"


def _to_version_2(engine: str) -> Iterator[str]:
    binary = "BLOB" if engine == "sqlite" else "BYTEA"
    # SQLite and DuckDB add a column only if it may be null and has no constraint, and one at a time.
    for column in ("published_at BIGINT", "milliseconds INTEGER", *_ERROR.split(", "), "next_attempt_at BIGINT"):
        yield f"ALTER TABLE dl_mirror_status ADD COLUMN {column}"
    yield f"""CREATE TABLE dl_checkpoints (
        table_id BIGINT NOT NULL, version BIGINT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
        reason TEXT NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, next_attempt_at BIGINT,
        name TEXT, digest {binary}, num_rows BIGINT, num_files BIGINT, num_bytes BIGINT, milliseconds INTEGER,
        base_version BIGINT, {_ERROR},
        PRIMARY KEY (table_id, version), CHECK (state IN ('PENDING', 'SUCCESS', 'FAILED')))"""
    yield f"""CREATE TABLE dl_mirror_attempts (
        table_id BIGINT NOT NULL, version BIGINT NOT NULL, lane TEXT NOT NULL, epoch BIGINT NOT NULL,
        attempt INTEGER NOT NULL, owner TEXT NOT NULL, started_at BIGINT NOT NULL, ended_at BIGINT NOT NULL,
        outcome TEXT NOT NULL, {_ERROR},
        PRIMARY KEY (table_id, version, lane, epoch), CHECK (outcome IN ('SUCCESS', 'FAILED')))"""
    yield """CREATE TABLE dl_leases (
        table_id BIGINT NOT NULL, lane TEXT NOT NULL, owner TEXT NOT NULL, epoch BIGINT NOT NULL,
        claimed_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (table_id, lane))"""
    yield f"""CREATE TABLE dl_checksums (
        table_id BIGINT NOT NULL, version BIGINT NOT NULL, data {binary} NOT NULL, PRIMARY KEY (table_id))"""
    if engine != "duckdb":
        yield "CREATE INDEX dl_file_ends_by_commit ON dl_file_ends (commit_id)"


def _to_version_3(_: str) -> Iterator[str]:
    yield """CREATE TABLE dl_imports (
        table_id BIGINT NOT NULL, name TEXT NOT NULL, location TEXT NOT NULL, first_version BIGINT NOT NULL,
        base_name TEXT, next_version BIGINT NOT NULL, next_part INTEGER NOT NULL, owner TEXT NOT NULL,
        started_at BIGINT NOT NULL, touched_at BIGINT NOT NULL, PRIMARY KEY (table_id))"""


def _to_version_4(_: str) -> Iterator[str]:
    for column in ("quarantined_at BIGINT", "quarantine_reason TEXT"):
        yield f"ALTER TABLE dl_tables ADD COLUMN {column}"
    for column in ("expected_digest TEXT", "found_digest TEXT"):
        yield f"ALTER TABLE dl_mirror_attempts ADD COLUMN {column}"
    yield """CREATE TABLE dl_escalations (
        table_id BIGINT NOT NULL, version BIGINT NOT NULL, lane TEXT NOT NULL, opened_at BIGINT NOT NULL,
        error_code TEXT NOT NULL, error_message TEXT NOT NULL, closed_at BIGINT,
        PRIMARY KEY (table_id, version, lane))"""
    yield """CREATE TABLE dl_reconciliations (
        table_id BIGINT NOT NULL, cursor BIGINT NOT NULL, reconciled_at BIGINT, full_at BIGINT,
        PRIMARY KEY (table_id))"""
    yield """CREATE TABLE dl_breakers (
        store TEXT NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL, table_id BIGINT,
        successes INTEGER NOT NULL, changed_at BIGINT NOT NULL, retry_at BIGINT, prober TEXT, error_code TEXT,
        error_message TEXT, PRIMARY KEY (store), CHECK (state IN ('closed', 'open', 'half-open')))"""
    yield """CREATE TABLE dl_breaker_events (
        store TEXT NOT NULL, changed_at BIGINT NOT NULL, state TEXT NOT NULL, owner TEXT NOT NULL,
        reason TEXT NOT NULL, PRIMARY KEY (store, changed_at, state))"""


def _to_version_5(engine: str) -> Iterator[str]:
    binary = "BLOB" if engine == "sqlite" else "BYTEA"
    for column in ("lineage BIGINT", "diverged_version BIGINT"):
        yield f"ALTER TABLE dl_heads ADD COLUMN {column}"
    yield f"""CREATE TABLE dl_superseded (
        table_id BIGINT NOT NULL, version BIGINT NOT NULL, lineage BIGINT NOT NULL, commit_id BIGINT NOT NULL,
        committed_at BIGINT NOT NULL, txn_id TEXT NOT NULL, kind TEXT NOT NULL, operation TEXT,
        num_bytes BIGINT NOT NULL, num_chunks INTEGER NOT NULL, digest {binary} NOT NULL,
        superseded_at BIGINT NOT NULL, new_version BIGINT, reason TEXT, PRIMARY KEY (table_id, version, lineage))"""
    yield """CREATE TABLE dl_cleanups (
        table_id BIGINT NOT NULL, cleaned_at BIGINT NOT NULL, log_start BIGINT NOT NULL,
        num_objects BIGINT NOT NULL, num_bytes BIGINT NOT NULL, PRIMARY KEY (table_id))"""


def _to_version_6(engine: str) -> Iterator[str]:
    binary = "BLOB" if engine == "sqlite" else "BYTEA"
    yield f"""CREATE TABLE dl_access_tokens (
        token_id TEXT NOT NULL, name TEXT NOT NULL, digest {binary} NOT NULL, rights TEXT NOT NULL,
        tables TEXT NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT, revoked_at BIGINT, last_used_at BIGINT,
        PRIMARY KEY (token_id))"""
    for column in ("read_us", "serialise_us", "upload_us", "verify_us"):
        yield f"ALTER TABLE dl_mirror_status ADD COLUMN {column} BIGINT"
    yield """CREATE TABLE dl_alerts (
        rule TEXT NOT NULL, scope TEXT NOT NULL, subject TEXT NOT NULL, severity TEXT NOT NULL, state TEXT NOT NULL,
        since BIGINT NOT NULL, fired_at BIGINT, resolved_at BIGINT, notified_at BIGINT, announced BOOLEAN NOT NULL,
        version BIGINT, lag_ms BIGINT, reading TEXT NOT NULL, cause TEXT NOT NULL, action TEXT NOT NULL,
        PRIMARY KEY (rule, scope, subject), CHECK (state IN ('pending', 'firing', 'resolved')))"""
    yield """CREATE TABLE dl_alert_deliveries (
        rule TEXT NOT NULL, scope TEXT NOT NULL, subject TEXT NOT NULL, channel TEXT NOT NULL, event TEXT NOT NULL,
        state TEXT NOT NULL, attempts INTEGER NOT NULL, next_attempt_at BIGINT NOT NULL, claim TEXT,
        claimed_until BIGINT NOT NULL, delivered_at BIGINT, error TEXT,
        PRIMARY KEY (rule, scope, subject, channel), CHECK (event IN ('firing', 'resolved')),
        CHECK (state IN ('waiting', 'sent')))"""
    yield """CREATE TABLE dl_silences (
        silence_id TEXT NOT NULL, rule TEXT NOT NULL, subject TEXT NOT NULL, created_at BIGINT NOT NULL,
        ends_at BIGINT NOT NULL, reason TEXT NOT NULL, author TEXT NOT NULL, PRIMARY KEY (silence_id))"""
    yield "ALTER TABLE dl_metadata ADD COLUMN mirror_enabled BOOLEAN"
    # The name as it is spelt, the value in any case: LIKE ignores the case of both in SQLite, and of neither elsewhere.
    named = '"deltamirror.mirrorEnabled":"'
    begin = f"{'instr' if engine == 'sqlite' else 'strpos'}(line, '{named}')"
    for said, value in (("true", "true"), ("1", "true"), ("false", "false"), ("0", "false")):
        told = f"lower(substr(line, {begin} + {len(named)}, {len(said) + 1})) = '{said}\"'"
        yield f"UPDATE dl_metadata SET mirror_enabled = {value} WHERE {begin} > 0 AND {told}"  # noqa: S608 - our own text


def _to_version_7(_: str) -> Iterator[str]:
    yield "ALTER TABLE dl_tables ADD COLUMN history_start BIGINT"
    oldest = "SELECT min(v.version) FROM dl_table_versions v WHERE v.table_id = dl_tables.table_id"
    yield f"UPDATE dl_tables SET history_start = ({oldest})"  # noqa: S608 - our own text
    yield """CREATE TABLE dl_maintenance (
        table_id BIGINT NOT NULL, chore TEXT NOT NULL, done_at BIGINT, version BIGINT NOT NULL,
        num_files BIGINT NOT NULL, num_bytes BIGINT NOT NULL, attempts INTEGER NOT NULL, next_attempt_at BIGINT,
        error_code TEXT, error_message TEXT, PRIMARY KEY (table_id, chore),
        CHECK (chore IN ('optimize', 'vacuum')))"""


def _to_version_8(_: str) -> Iterator[str]:
    """The function of appends takes a token; it is made anew by every upgrade."""
    yield from ()


def _to_version_9(_: str) -> Iterator[str]:
    """A further chore. No engine but PostgreSQL changes a constraint, and a table that is renamed keeps its names."""
    yield "CREATE TABLE dl_maintenance_of_8 AS SELECT * FROM dl_maintenance"
    yield "DROP TABLE dl_maintenance"
    yield """CREATE TABLE dl_maintenance (
        table_id BIGINT NOT NULL, chore TEXT NOT NULL, done_at BIGINT, version BIGINT NOT NULL,
        num_files BIGINT NOT NULL, num_bytes BIGINT NOT NULL, attempts INTEGER NOT NULL, next_attempt_at BIGINT,
        error_code TEXT, error_message TEXT, PRIMARY KEY (table_id, chore),
        CHECK (chore IN ('optimize', 'vacuum', 'compact')))"""
    yield "INSERT INTO dl_maintenance SELECT * FROM dl_maintenance_of_8"
    yield "DROP TABLE dl_maintenance_of_8"


def _to_version_10(engine: str) -> Iterator[str]:
    """Indexes of what waits, among all that is done."""
    if engine != "duckdb":
        yield "CREATE INDEX dl_mirror_status_postponed ON dl_mirror_status (table_id) WHERE next_attempt_at IS NOT NULL"
        yield "CREATE INDEX dl_checkpoints_unwritten ON dl_checkpoints (table_id, version) WHERE state != 'SUCCESS'"


_MIGRATIONS: tuple[Callable[[str], Iterable[str]], ...] = (
    _to_version_2,
    _to_version_3,
    _to_version_4,
    _to_version_5,
    _to_version_6,
    _to_version_7,
    _to_version_8,
    _to_version_9,
    _to_version_10,
)
"""How each version becomes the next, from version 1 on: the statements for an engine. Count up SCHEMA_VERSION, too."""


def migrate(database: Database) -> int:
    """Bring the schema up to date and return its version; without effect where it is. Foreign tables are refused."""
    with database.write(creating=True) as session:
        session.lock_migrations()
        found = _stored_version(session.connection)
        if found > SCHEMA_VERSION:
            raise newer_schema(found)
        if found == 0:
            _create(session, database)
        elif found < SCHEMA_VERSION:
            _upgrade(session, database, found)
    return SCHEMA_VERSION


def require_current(database: Database) -> None:
    """Refuse a database that has no catalog, an older one, or a newer one."""
    if not _is_current(database):
        with database.read() as connection:
            found = _stored_version(connection)
        require_schema(str(found))


def _is_current(database: Database) -> bool:
    """Whether a glance shows that the catalog is one of this release; any other answer takes a closer look."""
    try:
        found = database.glance(_FACTS, {})
    except (CatalogMismatch, Internal):  # no such table, or no such column
        return False
    return dict(found) == _CURRENT


def _create(session: Session, database: Database) -> None:
    METADATA.create_all(session.connection)
    session.execute(text(CREATE_FILE_INTERVALS))
    if database.name == "postgresql":
        session.execute(text(CREATE_APPEND_FUNCTION))
    session.execute(catalog.insert(), [{"key": key, "value": value} for key, value in _CURRENT.items()])


def _upgrade(session: Session, database: Database, found: int) -> None:
    for migration in _MIGRATIONS[found - 1 :]:
        for statement in migration(database.name):
            session.execute(text(statement))
    if database.name == "postgresql":  # nothing depends on a function but who calls it: the one of this release
        session.execute(text("DROP FUNCTION dl_append"))
        session.execute(text(CREATE_APPEND_FUNCTION))
    if session.connection.dialect.supports_comments:
        _comment(session)
    session.execute(update(catalog).where(catalog.c.key == SCHEMA_KEY).values(value=str(SCHEMA_VERSION)))


def _comment(session: Session) -> None:
    for table in METADATA.sorted_tables:
        if table.comment is not None:
            session.execute(SetTableComment(table))
        for column in table.columns:
            if column.comment is not None:
                session.execute(SetColumnComment(column))


def _stored_version(connection: Connection) -> int:
    """The version of the schema that is there; 0 for none. Raises where our names belong to another application."""
    present = {name for name in inspect(connection).get_table_names() if name in METADATA.tables}
    if not present:
        return 0
    if catalog.name not in present:
        raise _foreign(present)
    columns = set(connection.execute(text(f"SELECT * FROM {catalog.name} LIMIT 0")).keys())  # noqa: S608 - our own name
    if columns != {"key", "value"}:
        raise _foreign({catalog.name})
    facts = {row.key: row.value for row in connection.execute(select(catalog))}
    if facts.get(_MARK_KEY) != _MARK or not str(facts.get(SCHEMA_KEY, "")).isdigit():
        raise _foreign({catalog.name})
    return int(facts[SCHEMA_KEY])


def _foreign(names: set[str]) -> CatalogMismatch:
    return CatalogMismatch(
        f"the database has tables of our names that are not ours: {', '.join(sorted(names))}",
        hint="give deltamirror a database or schema of its own",
    )
