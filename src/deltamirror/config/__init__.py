"""Settings: typed values from a TOML file and the environment, each with its origin."""

from deltamirror.config.alerting import (
    LOG_CHANNEL,
    SEVERITIES,
    AlertChannel,
    AlertCondition,
    AlertRule,
    AlertSettings,
    Scope,
    Severity,
    SloSettings,
    scope_of,
)
from deltamirror.config.blocks import shown_blocks
from deltamirror.config.keys import Key, keys
from deltamirror.config.live import LiveSettings, ReloadState
from deltamirror.config.load import Loaded, examine, load
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
from deltamirror.config.overrides import Switch, configured_values, settings_for
from deltamirror.config.ready_rules import merged_rules
from deltamirror.config.rows import RowsSettings
from deltamirror.config.secrets import (
    FILE_SCHEMES,
    MASK,
    Secret,
    redact_text,
    redact_url,
    scrub,
    secret_pieces,
    unclear_url,
)
from deltamirror.config.serving import ServeSettings
from deltamirror.config.settings import (
    CatalogSettings,
    ConfigSettings,
    LogSettings,
    MetricsSettings,
    Settings,
    TableBlock,
    WriterSettings,
)
from deltamirror.config.sources import CONFIG_VARIABLE
from deltamirror.config.storage import StorageSettings

__all__ = [
    "CONFIG_VARIABLE",
    "FILE_SCHEMES",
    "LOG_CHANNEL",
    "MASK",
    "SEVERITIES",
    "AlertChannel",
    "AlertCondition",
    "AlertRule",
    "AlertSettings",
    "BreakerSettings",
    "CatalogSettings",
    "CheckpointSettings",
    "CleanupSettings",
    "ConfigSettings",
    "HealthSettings",
    "HistorySettings",
    "Key",
    "LiveSettings",
    "Loaded",
    "LogSettings",
    "MaintenanceSettings",
    "MetricsSettings",
    "MirrorSettings",
    "ReconcileSettings",
    "ReloadState",
    "RowsSettings",
    "Scope",
    "Secret",
    "ServeSettings",
    "Settings",
    "Severity",
    "SloSettings",
    "SparkSettings",
    "StorageSettings",
    "Switch",
    "TableBlock",
    "WriterSettings",
    "configured_values",
    "examine",
    "keys",
    "load",
    "merged_rules",
    "redact_text",
    "redact_url",
    "scope_of",
    "scrub",
    "secret_pieces",
    "settings_for",
    "shown_blocks",
    "unclear_url",
]
