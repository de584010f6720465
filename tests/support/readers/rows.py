"""Rows of a table in a form that does not depend on the reader: a count, and a digest that no order changes."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def fingerprint(table: pa.Table) -> dict[str, object]:
    """The number of rows, and a digest of their values by column name."""
    return fingerprint_of(table.to_pylist())


def fingerprint_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, object]:
    """The same of rows that are there as values of Python."""
    texts = row_texts(rows)
    return {"count": len(texts), "digest": hashlib.sha256("\n".join(texts).encode()).hexdigest()}


def row_texts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Each row as text, in an order that depends on nothing else."""
    return sorted(json.dumps(_plain(row), sort_keys=True) for row in rows)


def rows_or_error(read: Callable[[str, str | None], pa.Table], location: str, column: str | None) -> dict[str, object]:
    """The rows of a table, as a worker reads them, or what it says instead; ``column`` is not to be null."""
    try:
        return {"rows": row_texts(read(location, column).to_pylist())}
    except BaseException as error:  # noqa: BLE001  a panic of Rust is no Exception, and only of this table
        return {"error": f"{type(error).__name__}: {error}"[:2_000]}


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
