"""What can be seen of a mirrored lake, from outside and in its records, in a form that can be compared and sent."""

import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from sqlalchemy import Connection, Table, func, select

from deltamirror import Catalog
from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.storage.calls import BoundedStore
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.object_store import ObjectStore
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.schema import (
    METADATA,
    alerts,
    checkpoints,
    checksums,
    deliveries,
    heads,
    leases,
    mirror_status,
    tables,
)

# Times and owners differ from run to run, and how often a checkpoint was begun: a lease may end on a slow machine.
_COMPARED = {
    mirror_status: ("table_id", "version", "state", "attempts", "error_code"),
    checkpoints: ("table_id", "version", "state", "name", "num_rows", "num_files", "base_version"),
    checksums: ("table_id", "version", "data"),
    tables: ("table_id", "name", "published_version", "log_start", "quarantine_reason"),
    alerts: ("rule", "scope", "subject", "state", "announced"),
    deliveries: ("rule", "scope", "subject", "channel", "event", "state", "claim", "claimed_until"),
}

_OF_SIDECARS = re.compile(r"(\d{20}\.checkpoint\.)[0-9a-f-]{36}(\.json)")
_OF_TIME = re.compile(r'"modificationTime":\d+|"checksum":"\w+"')


def seen(catalog: Catalog, storage: StorageSettings | None) -> dict[str, Any]:
    """All objects of all tables, what SQL says of the commits among them, and the mirror's records."""
    stores = stores_of(catalog, storage)
    with catalog.database.read() as connection:
        records: dict[str, Any] = {table.name: _told(connection, table, names) for table, names in _COMPARED.items()}
        in_force = select(func.count()).where(leases.c.expires_at > CLOCK)
        records["leases in force"] = connection.execute(in_force).scalar_one()
    return {
        "objects": {f"{name}/{key}": told for name, store in stores.items() for key, told in _objects(store)},
        "committed": {f"{name}/{key}": told for name in stores for key, told in _committed(catalog, name)},
        "records": records,
    }


def stores_of(catalog: Catalog, storage: StorageSettings | None) -> dict[str, Store]:
    """The store of each table, by the table's name."""
    return {info.name: store_at(info.location, storage or StorageSettings()) for info in catalog.tables()}


def tags(stores: Mapping[str, Store]) -> dict[str, str]:
    """The ETag of every object: on a disk it changes with every write, whatever is written."""
    return {f"{name}/{meta.key}": meta.etag for name, store in stores.items() for meta in store.list()}


def names_of_temporaries(stores: Mapping[str, Store]) -> list[str]:
    """The names of all that lies in the stores and is not listed."""
    return sorted(Path(key).name for store in stores.values() for key in _raw(store) - {m.key for m in store.list()})


def is_done(connection: Connection) -> bool:
    """Whether all versions are published, and all checkpoints that were asked for are written."""
    behind = select(tables.c.table_id).join(heads, heads.c.table_id == tables.c.table_id)
    behind = behind.where(heads.c.version > tables.c.published_version)
    unwritten = select(checkpoints.c.version).where(checkpoints.c.state != "SUCCESS")
    return not any(connection.execute(query).first() for query in (behind, unwritten))


def dump(connection: Connection) -> str:
    """A digest of every row of every table."""
    rows = {table.name: _rows(connection, table, table.columns.keys()) for table in METADATA.sorted_tables}
    return _digest(repr(rows).encode())


def _objects(store: Store) -> Iterator[tuple[str, str]]:
    for meta in store.list():
        found = store.read(meta.key)
        assert found is not None, meta.key
        yield _timeless(meta.key), _digest_of(meta.key, found.data)


def _digest_of(key: str, data: bytes) -> str:
    if key.endswith(".parquet"):
        return _digest_of_rows(data)
    if "checkpoint" in key and _OF_SIDECARS.search(key + data.decode()):
        data = _OF_TIME.sub("", _timeless(data.decode())).encode()
    return _digest(data)


def _timeless(text: str) -> str:
    """Without what the name of a file with sidecars has of the times that it holds, those of the sidecars."""
    return _OF_SIDECARS.sub(r"\1*\2", text)


def _committed(catalog: Catalog, name: str) -> Iterator[tuple[str, str]]:
    table = catalog.table(name)
    for version in range(table.info().head + 1):
        yield f"{LOG_DIRECTORY}/{commit_name(version)}", _digest(table.commit_file(version))


def _raw(store: Store) -> set[str]:
    store = store.inner if isinstance(store, BoundedStore) else store
    if isinstance(store, DiskStore):
        return {str(path.relative_to(store.root)) for path in store.root.rglob("*") if path.is_file()}
    assert isinstance(store, ObjectStore)
    return {meta.key for meta in store._listed("", None)}


def _rows(connection: Connection, table: Table, names: Any) -> list[list[Any]]:
    columns = [table.c[name] for name in names]
    found = connection.execute(select(*columns).order_by(*table.primary_key.columns))
    return [[_plain(value) for value in row] for row in found]


def _told(connection: Connection, table: Table, names: Any) -> list[list[Any]]:
    """Rows as they are in every run."""
    rows = _rows(connection, table, names)
    return [[_timeless(value) if isinstance(value, str) else value for value in row] for row in rows]


def _plain(value: Any) -> Any:
    return _digest(bytes(value)) if isinstance(value, bytes | memoryview) else value


def _digest_of_rows(data: bytes) -> str:
    table = pq.ParquetFile(io.BytesIO(data)).read()
    return _digest(repr((table.schema.to_string(), table.to_pylist())).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
