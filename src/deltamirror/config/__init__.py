"""Settings: typed values from a TOML file and the environment, each with its origin."""

from deltamirror.config.keys import Key, Reload, keys
from deltamirror.config.load import DEFAULT_FILE, Loaded, examine, load
from deltamirror.config.mirroring import (
    BreakerSettings,
    CheckpointSettings,
    CleanupSettings,
    HealthSettings,
    MirrorSettings,
    ReconcileSettings,
    SparkSettings,
)
from deltamirror.config.secrets import FILE_SCHEMES, Secret, redact_text, redact_url, scrub, secret_pieces, unclear_url
from deltamirror.config.settings import CatalogSettings, LogSettings, MetricsSettings, Settings, WriterSettings
from deltamirror.config.sources import CONFIG_VARIABLE
from deltamirror.config.storage import StorageSettings

__all__ = [
    "CONFIG_VARIABLE",
    "DEFAULT_FILE",
    "FILE_SCHEMES",
    "BreakerSettings",
    "CatalogSettings",
    "CheckpointSettings",
    "CleanupSettings",
    "HealthSettings",
    "Key",
    "Loaded",
    "LogSettings",
    "MetricsSettings",
    "MirrorSettings",
    "ReconcileSettings",
    "Reload",
    "Secret",
    "Settings",
    "SparkSettings",
    "StorageSettings",
    "WriterSettings",
    "examine",
    "keys",
    "load",
    "redact_text",
    "redact_url",
    "scrub",
    "secret_pieces",
    "unclear_url",
]
