"""Comparing checkpoints of different writers: by fields and by rows, without the order that shuffles give them."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def reference(path: Path) -> pq.ParquetFile:
    """A checkpoint whose times are read as they were written."""
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")


def fields(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Every field with its path and its type, in order; INT96 does not tell whether a time has a zone."""
    for each in schema:
        if pa.types.is_struct(each.type):
            yield each.name, "struct"
            yield from ((f"{each.name}.{path}", kind) for path, kind in fields(pa.schema(list(each.type))))
        elif pa.types.is_map(each.type):
            yield each.name, f"map<{each.type.key_type}, {each.type.item_type}>"
        elif pa.types.is_list(each.type):
            yield each.name, f"list<{each.type.value_type}>"
        else:
            yield each.name, str(each.type).replace(", tz=UTC", "")


def multiset(table: pa.Table, only: set[str]) -> Counter[str]:
    """The rows, each as a text of those fields that are in ``only``; maps in the order of their keys."""
    return Counter(
        json.dumps(_plain(row, "", only), sort_keys=True) for row in table.to_pylist(maps_as_pydicts="strict")
    )


def _plain(value: Any, path: str, only: set[str]) -> Any:
    if isinstance(value, dict) and (path == "" or any(each.startswith(f"{path}.") for each in only)):
        inside = ((f"{path}.{name}" if path else name, name, part) for name, part in value.items())
        return {name: _plain(part, below, only) for below, name, part in inside if below in only}
    if isinstance(value, datetime):
        return repr(value.replace(tzinfo=None))
    return value if isinstance(value, dict | list | str | int | None) else repr(value)


def assert_same_rows(ours: pa.Table, theirs: pa.Table) -> None:
    """The same rows, of the fields that both have."""
    common = {path for path, _ in fields(ours.schema)} & {path for path, _ in fields(theirs.schema)}
    assert multiset(ours, common) == multiset(theirs, common)
