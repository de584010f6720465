"""Table features: the table of those that we know, protocols made of them, and what a table's metadata demands."""

from deltamirror.delta.features.demands import features_for, missing_features, row_duties, row_tracking
from deltamirror.delta.features.protocols import (
    protocol_for,
    reader_features_of,
    require_readable,
    require_writable,
    table_features_from_properties,
    upgrade,
    without_fence,
    writer_features_of,
)
from deltamirror.delta.features.table import FEATURES, FENCE_FEATURE, Support
from deltamirror.delta.properties import in_commit_timestamps, is_enabled

__all__ = [
    "FEATURES",
    "FENCE_FEATURE",
    "Support",
    "features_for",
    "in_commit_timestamps",
    "is_enabled",
    "missing_features",
    "protocol_for",
    "reader_features_of",
    "require_readable",
    "require_writable",
    "row_duties",
    "row_tracking",
    "table_features_from_properties",
    "upgrade",
    "without_fence",
    "writer_features_of",
]
