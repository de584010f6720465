"""The settings, section by section. Text, unit and reload behaviour beside each key feed the reference page."""

from typing import Annotated, Any, Final, Literal

import msgspec

from deltamirror.config.alerting import AlertSettings, SloSettings
from deltamirror.config.keys import COUNTING, NOT_NEGATIVE, POSITIVE, Reload, described
from deltamirror.config.maintenance import MaintenanceSettings
from deltamirror.config.mirroring import (
    BreakerSettings,
    CheckpointSettings,
    CleanupSettings,
    HealthSettings,
    HistorySettings,
    MirrorSettings,
    ReconcileSettings,
    SparkSettings,
)
from deltamirror.config.rows import RowsSettings
from deltamirror.config.serving import ServeSettings
from deltamirror.config.storage import StorageSettings

DEFAULT_URL: Final = "sqlite:///deltamirror.db"


class CatalogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the catalog is, and how its database is used."""

    url: Annotated[
        str,
        described(
            "The database that holds the catalog: `sqlite:///FILE`, `duckdb:///FILE` or `postgresql://USER@HOST/DB`. "
            "A relative file is taken from the working folder. In user, password and parameters, `@`, `/`, `?`, `#` "
            "and blanks are percent-encoded: `p@ss` is `p%40ss`.",
            reload=Reload.OPEN,
        ),
    ] = DEFAULT_URL
    busy_timeout: Annotated[
        float,
        POSITIVE,
        described(
            "How long a statement waits for a lock that another process holds, or for a DuckDB file that it has open.",
            unit="s",
            reload=Reload.OPEN,
        ),
    ] = 30.0
    transaction_timeout: Annotated[
        float,
        POSITIVE,
        described(
            "How long one transaction may take in the database before it is given up.", unit="s", reload=Reload.OPEN
        ),
    ] = 300.0
    stage_above: Annotated[
        int,
        NOT_NEGATIVE,
        described(
            "A commit of more lines than this is put into the database before its table is locked.",
            unit="lines",
            reload=Reload.LIVE,
        ),
    ] = 5_000
    chunk_lines: Annotated[
        int,
        COUNTING,
        described("How many lines of a large commit one stored chunk holds.", unit="lines", reload=Reload.LIVE),
    ] = 2_000
    stage_ttl: Annotated[
        float,
        POSITIVE,
        described(
            "How long after its last sign of life a large commit that was never finished is deleted.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 86_400.0


class WriterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a commit behaves when the database is busy or the mirror is behind."""

    retries: Annotated[
        int,
        NOT_NEGATIVE,
        described(
            "How often a commit is tried again after a transient failure (a deadlock, the lost reply of a COMMIT). "
            "A conflict is never tried again.",
            unit="attempts",
            reload=Reload.LIVE,
        ),
    ] = 3
    retry_base: Annotated[
        float,
        POSITIVE,
        described("The pause before the first retry; it doubles each time.", unit="s", reload=Reload.LIVE),
    ] = 0.1
    retry_max: Annotated[
        float,
        POSITIVE,
        described("The longest pause between two retries.", unit="s", reload=Reload.LIVE),
    ] = 5.0
    backlog_limit: Annotated[
        Annotated[int, COUNTING] | None,
        described(
            "Refuse commits to a table that has this many versions which are not published. Without a value there is "
            "no limit.",
            unit="versions",
            reload=Reload.LIVE,
        ),
    ] = None
    look_ahead: Annotated[
        bool,
        described(
            "Whether a process, before its first commit to a table, looks for versions in `_delta_log/` that the "
            "database lacks, as one that was restored from a backup does. A store that does not answer delays it by "
            "two seconds, and later commits by a twentieth of their time.",
            reload=Reload.LIVE,
        ),
    ] = True
    on_divergence: Annotated[
        Literal["refuse", "accept"],
        described(
            "What becomes of commits to a table whose log holds foreign commits: they are refused, or they wait in the "
            "database until the foreign commits are adopted.",
            reload=Reload.LIVE,
        ),
    ] = "refuse"


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process measures of itself and of its catalog."""

    tables: Annotated[
        int,
        NOT_NEGATIVE,
        described(
            "How many tables have a value of their own in the label `table`; all others share the value `other`.",
            unit="tables",
            reload=Reload.LIVE,
        ),
    ] = 100
    refresh: Annotated[
        float,
        NOT_NEGATIVE,
        described(
            "For how long scrapes share one reading of the state in the database. A state that takes long to read "
            "is read for at most a twentieth of the time.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 5.0


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process writes to standard error about itself."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        described("The least severe message that is written.", reload=Reload.LIVE),
    ] = "warning"
    format: Annotated[
        Literal["text", "json"],
        described("Lines for people, or one JSON object a line for collectors.", reload=Reload.LIVE),
    ] = "text"
    summary: Annotated[
        float,
        NOT_NEGATIVE,
        described(
            "How often a service says what it did: versions, checkpoints, failures, backlog and lag, in one line, "
            "whatever `level` is. While nothing changes it says so once. 0: never.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 60.0


class ConfigSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How changed settings reach a process that is running."""

    reload: Annotated[
        float,
        NOT_NEGATIVE,
        described(
            "How often a running service looks whether the settings file has changed. SIGHUP makes it look at once; "
            "0: only SIGHUP does.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 5.0


class TableBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One block ``[[tables]]`` of the file: other values for the tables whose names match."""

    match: str
    values: tuple[tuple[str, Any], ...]
    """By key path, such as ``checkpoint.interval``."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a process. The defaults need no file."""

    config: ConfigSettings = ConfigSettings()
    catalog: CatalogSettings = CatalogSettings()
    writer: WriterSettings = WriterSettings()
    mirror: MirrorSettings = MirrorSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    breaker: BreakerSettings = BreakerSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    cleanup: CleanupSettings = CleanupSettings()
    history: HistorySettings = HistorySettings()
    maintenance: MaintenanceSettings = MaintenanceSettings()
    health: HealthSettings = HealthSettings()
    spark: SparkSettings = SparkSettings()
    rows: RowsSettings = RowsSettings()
    storage: StorageSettings = StorageSettings()
    serve: ServeSettings = ServeSettings()
    metrics: MetricsSettings = MetricsSettings()
    slo: SloSettings = SloSettings()
    alerts: AlertSettings = AlertSettings()
    log: LogSettings = LogSettings()
    tables: tuple[TableBlock, ...] = ()
    """In the order of the file: of several that match a table, the last one wins."""
