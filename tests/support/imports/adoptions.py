"""Somebody else who writes to the logs of test tables, and whoever adopts what they wrote."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pyarrow as pa

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import Settings
from deltamirror.ops.adopt.adoption import Adoption, adopt
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from tests.support.lakes.lake import execute, row_counts
from tests.support.mirrors.local import local_settings, log_of
from tests.support.readers.reader import Reader

PLAIN = {"delta.enableInCommitTimestamps": "false"}
"""The properties of a table that delta-rs writes to."""


@contextmanager
def mirroring(catalog: Catalog, settings: Settings | None = None) -> Iterator[MirrorEngine]:
    """An engine on the catalog's own database."""
    with MirrorEngine(settings=local_settings(settings), database=catalog.database) as engine:
        yield engine


@contextmanager
def logs_of(engine: MirrorEngine) -> Iterator[Logs]:
    """The logs of its tables."""
    with Logs(engine, LocalInspector(engine.settings)) as logs:
        yield logs


def adopted(engine: MirrorEngine, table: str = "t", **options: bool) -> Adoption:
    """What came of adopting a table."""
    with logs_of(engine) as logs:
        return adopt(logs, table, **options)


def mirror(engine: MirrorEngine) -> None:
    """Publish everything; nothing may fail."""
    assert engine.run(once=True).failures == []


def delta_rs_appends(table: Table, *rows: int, storage: dict[str, str] | None = None) -> None:
    """A commit of delta-rs, with a file of these rows, straight to the log."""
    deltalake.write_deltalake(
        table.location.replace("s3a:", "s3:"), pa.table({"id": list(rows)}), mode="append", storage_options=storage
    )


def add_line(path: str, **fields: Any) -> dict[str, Any]:
    """An add, as somebody else writes it."""
    default = {"partitionValues": {}, "size": 7, "modificationTime": 1_700_000_000_000, "dataChange": True}
    return {"add": {"path": path, **default, "stats": '{"numRecords":1}', **fields}}


def their_commit(table: Table, version: int, *actions: dict[str, Any], **info: Any) -> bytes:
    """A commit that somebody else puts into the log as this version; its bytes."""
    told = {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE", "operationParameters": {}, **info}
    data = b"".join(msgspec.json.encode(each) + b"\n" for each in ({"commitInfo": told}, *actions))
    path = log_of(table) / f"{version:020}.json"
    assert not path.exists()
    path.write_bytes(data)
    return data


def assert_same(table: Table, reader: Reader) -> None:
    """What SQL has is what the reader finds in the log, at the newest version."""
    found = reader.snapshot(Path(table.location.removeprefix("file://")))
    snapshot = table.snapshot()
    assert found.paths == sorted(snapshot.files().column("path").to_pylist())
    assert found.version in (None, snapshot.version)  # DuckDB does not say


def dump(catalog: Catalog) -> dict[str, list[Any]]:
    """All rows of the catalog, but for those that only say who looks at a log."""
    names = [name for name in row_counts(catalog) if name not in ("dl_leases", "dl_reconciliations")]
    return {name: sorted(map(repr, execute(catalog, f"SELECT * FROM {name}"))) for name in names}
