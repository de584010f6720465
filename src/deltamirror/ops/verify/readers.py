"""The table as an independent reader sees it: delta-rs, where ``deltalake`` is installed, otherwise our own scan."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from deltamirror.config import StorageSettings, redact_text
from deltamirror.delta.paths import is_absolute
from deltamirror.deltalog.delta_rs import (
    DELTA_RS,
    add_actions,
    count_rows,
    is_installed,
    knows_too_little,
    open_table,
)
from deltamirror.errors import DeltaMirrorError, Unsupported
from deltamirror.rows.layout import Layout
from deltamirror.rows.scanning import TableFiles, scan_of
from deltamirror.storage.clients import Credentials
from deltamirror.txnlog.tables.reading import Snapshot

OWN_SCAN: Final = "deltamirror"


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
    if not is_installed():
        return _by_own_scan(taken, location, storage)
    if any(map(is_absolute, taken.files().column("path").to_pylist())):  # delta-rs looks for them below the table
        return _by_own_scan(taken, location, storage)
    found = _by_delta_rs(taken.version, location, storage)
    return _by_own_scan(taken, location, storage) if knows_too_little(found.failure) else found


def _by_delta_rs(version: int, location: str, storage: StorageSettings) -> ReaderAnswer:
    try:
        table = open_table(location, version, storage, Credentials.of(storage))
        actions, rows = add_actions(table), count_rows(table)
    except Exception as error:  # noqa: BLE001 - a library of others: whatever it raises, it did not read the table
        return ReaderAnswer(reader=DELTA_RS, failure=redact_text(f"{type(error).__name__}: {error}"))
    paths = [unquote(path) for path in actions.column("path").to_pylist()]
    files = dict(zip(paths, actions.column("size_bytes").to_pylist(), strict=True))
    return ReaderAnswer(reader=DELTA_RS, files=files, num_rows=rows)


def _by_own_scan(taken: Snapshot, location: str, storage: StorageSettings) -> ReaderAnswer | None:
    try:
        layout = Layout.of(taken.table, taken.metadata, taken.protocol)
        scan = scan_of(layout, TableFiles(location, storage), taken.files_among, columns=None, condition=None)
        return ReaderAnswer(reader=OWN_SCAN, num_rows=sum(batch.num_rows for batch in scan.reader()))
    except Unsupported:
        return None
    except DeltaMirrorError as error:
        return ReaderAnswer(reader=OWN_SCAN, failure=redact_text(error.message))
