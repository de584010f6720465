"""Rows of a table in a form that does not depend on the reader: a count, and a digest that no order changes."""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["fingerprint"]


def fingerprint(table: pa.Table) -> dict[str, object]:
    """The number of rows, and a digest of their values by column name."""
    texts = sorted(json.dumps(_plain(row), sort_keys=True) for row in table.to_pylist())
    return {"count": len(texts), "digest": hashlib.sha256("\n".join(texts).encode()).hexdigest()}


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case Decimal() | date() if not isinstance(value, datetime):
            return str(value)
        case datetime():
            return (value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)).isoformat()
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
