"""The table as an independent reader sees it: delta-rs, where ``deltalake`` is installed, otherwise our own scan."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from deltamirror.config import Secret, StorageSettings, redact_text
from deltamirror.delta.paths import is_absolute
from deltamirror.errors import DeltaMirrorError, Unsupported
from deltamirror.rows.layout import Layout
from deltamirror.rows.scanning import TableFiles, scan_of
from deltamirror.storage.location import local_path
from deltamirror.txnlog.tables.reading import Snapshot

__all__ = ["DELTA_RS", "OWN_SCAN", "ReaderAnswer", "read_table"]

DELTA_RS: Final = "delta-rs"
OWN_SCAN: Final = "deltamirror"
_UNSUPPORTED: Final = re.compile(r"unsupported|not supported|not yet supported", re.IGNORECASE)
"""In the messages of delta-rs about tables that it does not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAnswer:
    """What a reader found at a version; where it failed, why."""

    reader: str
    files: Mapping[str, int] | None = None
    """Sizes by decoded path; None where the reader does not go by the log."""
    num_rows: int = 0
    failure: str = ""


def read_table(taken: Snapshot, location: str, storage: StorageSettings) -> ReaderAnswer | None:
    """Read all rows of a version, and count them; None where neither reader knows the features of the table."""
    try:
        library = import_module("deltalake")
    except ModuleNotFoundError:
        return _by_own_scan(taken, location, storage)
    if any(map(is_absolute, taken.files().column("path").to_pylist())):  # delta-rs looks for them below the table
        return _by_own_scan(taken, location, storage)
    found = _by_delta_rs(library, taken.version, location, storage)
    return _by_own_scan(taken, location, storage) if _UNSUPPORTED.search(found.failure) else found


def _by_delta_rs(library: ModuleType, version: int, location: str, storage: StorageSettings) -> ReaderAnswer:
    place, options = local_path(location) or location, _options(storage)
    try:
        table = library.DeltaTable(place, version=version, storage_options=options)
        actions = pa.table(table.get_add_actions())
        rows = _count(library.QueryBuilder().register("t", table).execute("SELECT * FROM t"))
    except Exception as error:  # noqa: BLE001 - a library of others: whatever it raises, it did not read the table
        return ReaderAnswer(reader=DELTA_RS, failure=redact_text(f"{type(error).__name__}: {error}"))
    paths = [unquote(path) for path in actions.column("path").to_pylist()]
    files = dict(zip(paths, actions.column("size_bytes").to_pylist(), strict=True))
    return ReaderAnswer(reader=DELTA_RS, files=files, num_rows=rows)


def _by_own_scan(taken: Snapshot, location: str, storage: StorageSettings) -> ReaderAnswer | None:
    try:
        layout = Layout.of(taken.table, taken.metadata, taken.protocol)
        scan = scan_of(layout, TableFiles(location, storage), taken.files(), columns=None, condition=None)
        return ReaderAnswer(reader=OWN_SCAN, num_rows=_count(scan.reader()))
    except Unsupported:
        return None
    except DeltaMirrorError as error:
        return ReaderAnswer(reader=OWN_SCAN, failure=redact_text(error.message))


def _count(batches: Iterable[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def _options(storage: StorageSettings) -> dict[str, str]:
    """The settings of a store by the names that the Rust libraries have for them."""
    named: dict[str, str | Secret | None] = {
        "AWS_ACCESS_KEY_ID": storage.access_key_id,
        "AWS_SECRET_ACCESS_KEY": storage.secret_access_key,
        "AWS_SESSION_TOKEN": storage.session_token,
        "AWS_REGION": storage.region,
        "AWS_ENDPOINT_URL": storage.endpoint,
        "AZURE_STORAGE_ACCOUNT_NAME": storage.azure_account,
        "AZURE_STORAGE_ACCOUNT_KEY": storage.azure_key,
        "GOOGLE_APPLICATION_CREDENTIALS": storage.google_credentials,
        "ALLOW_HTTP": "true" if storage.allow_http else None,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": None if storage.path_style else "true",
    }
    shown = {name: each.reveal() if isinstance(each, Secret) else each for name, each in named.items()}
    return {name: value for name, value in shown.items() if value is not None}
