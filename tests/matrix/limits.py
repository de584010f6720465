"""What readers do not open, or get wrong, for any writer: by reader and kind, and how that shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a reader."""

    says: str
    """What it says, or a part of that; or what it shows."""
    why: str


_NO_FEATURE: Final = "Unsupported table features required"

LIMITS: Final[Mapping[tuple[str, str], Limit]] = {
    ("delta-rs", "type widening"): Limit(_NO_FEATURE, "delta-rs 1.6 knows no typeWidening"),
    ("delta-rs", "vacuum protocol check"): Limit(_NO_FEATURE, "delta-rs 1.6 knows no vacuumProtocolCheck"),
    ("duckdb", "variant"): Limit("Unsupported Arrow type VARIANT", "DuckDB 1.5.5 hands variants over as no Arrow data"),
    ("chdb", "types"): Limit("other rows", "ClickHouse shows bytes as text"),
    ("chdb", "variant"): Limit("Unsupported Variant data type", "ClickHouse 26.9 knows no variant"),
}
"""Each is shown to be still so."""
