"""A small lake in parts, and copies of it: each part is a state of a catalog.

In the first part nothing is published, and a checkpoint without a base falls due. In the second one the first is
published, and a checkpoint falls due that has a base. In the last one, ``mirrored``, nothing is left to do. All copies
of a part have the same commits, to the byte.
"""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
from msgspec.structs import replace

from deltamirror import Catalog, DeletionVector, MirrorEngine
from deltamirror.config import Settings, StorageSettings
from deltamirror.txnlog.database.schema import METADATA
from tests.support.lakes.copies import Place, copy_table
from tests.support.lakes.lake import add, remove_of
from tests.support.mirrors.local import local_settings

TABLES = ("t", "u")
PARTS = ("first", "second")
INTERVAL = 5
_STATS = '{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
_INLINE = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0rr91"
_VECTOR = DeletionVector(storage_type="i", path_or_inline_dv=_INLINE, size_in_bytes=34, cardinality=1)


@dataclass(frozen=True, slots=True)
class Part:
    """One state of the lake: where its rows are kept, and the root of its tables."""

    rows: str
    """A file, or a schema that each PostgreSQL copy of the database has."""
    root: str


def settings_of(storage: StorageSettings | None = None) -> Settings:
    """Settings of a mirror that writes a checkpoint every few versions, in small sidecars where it has some."""
    settings = local_settings(checkpoint_interval=INTERVAL, checkpoint_sidecar_actions=3)
    return replace(settings, storage=storage or StorageSettings())


def prepared(url: str, root: str, storage: StorageSettings | None = None) -> dict[str, Part]:
    """All parts of a lake, which is made in an empty database and below an empty root."""
    with Catalog(url, settings=settings_of(storage)) as catalog:
        catalog.init()
        _commit_first(catalog, root)
        first = _kept(catalog, url, "first", f"{root}/nothing")
        _mirror(catalog, storage)
        _commit_second(catalog)
        second = _kept(catalog, url, "second", _copied_objects(root, f"{root}/second", storage))
        _mirror(catalog, storage)
        mirrored = _kept(catalog, url, "mirrored", root)
    return {"first": first, "second": second, "mirrored": mirrored}


def _mirror(catalog: Catalog, storage: StorageSettings | None) -> None:
    with MirrorEngine(settings=settings_of(storage), database=catalog.database) as engine:
        engine.run(once=True)


def _copied_objects(source: str, target: str, storage: StorageSettings | None) -> str:
    for name in TABLES:
        copy_table(Place(f"{source}/{name}", storage), Place(f"{target}/{name}", storage))
    return target


def _commit_first(catalog: Catalog, root: str) -> None:
    vectors = {"delta.enableDeletionVectors": "true"}
    for name in TABLES:
        catalog.create_table(name, location=f"{root}/{name}", schema="id long", properties=vectors)
    t = catalog.table("t")
    t.append([_file("a"), _file("b")])
    t.append([_file("c")])
    t.remove(["b"])
    with catalog.transaction() as tx:
        tx.stage("t", [remove_of(_file("a")), _file("a", deletion_vector=_VECTOR)], read_version=t.info().head)
    with catalog.transaction() as tx:
        tx.append("t", [_file("d")])
        tx.set_transaction("t", "app", 1)
        tx.append("u", [_file("a")])


def _commit_second(catalog: Catalog) -> None:
    t = catalog.table("t")
    t.append([_file("e")])
    t.remove(["c"])
    with catalog.transaction() as tx:
        tx.set_transaction("t", "app", 2)
        tx.append("t", [_file("f")])
        tx.remove("u", ["a"])
    t.append([_file("g")])
    t.append([_file("h")])


def _file(name: str, **fields: Any) -> Any:
    return add(name, stats=_STATS, **fields)


def _kept(catalog: Catalog, url: str, part: str, root: str) -> Part:
    """Keep the rows that the database has at this moment."""
    if (file := _file_of(url)) is not None:
        catalog.database.let_go()
        kept = file.with_name(f"{part}{file.suffix}")
        _copy_file(file, kept)
        return Part(str(kept), root)
    copies = [f"CREATE TABLE {part}.{table} AS TABLE public.{table}" for table in METADATA.tables]
    with psycopg.connect(url) as connection:
        connection.execute("; ".join([f"CREATE SCHEMA {part}", *copies]))
    return Part(part, root)


def copied(part: Part, url: str, root: str, storage: StorageSettings | None = None) -> None:
    """Make a copy of a part of the lake: its rows in a database, its objects below another root."""
    _copied_objects(part.root, root, storage)
    location = f"file://{root}" if storage is None else root
    move = f"UPDATE dl_tables SET location = '{location}/' || name"
    if (file := _file_of(url)) is not None:
        for left in file.parent.glob(f"{file.name}*"):
            left.unlink()
        shutil.copy(part.rows, file)
        with closing(_opened(file)) as connection:
            connection.execute(move)
            connection.commit()
        return
    rows = [f"DELETE FROM {name}; INSERT INTO {name} SELECT * FROM {part.rows}.{name}" for name in METADATA.tables]
    with psycopg.connect(url) as connection:
        connection.execute("; ".join([*rows, move]))


def _file_of(url: str) -> Path | None:
    """The file that a database is, if it is one."""
    scheme, _, path = url.partition(":///")
    return Path(path) if scheme in ("sqlite", "duckdb") else None


def _copy_file(file: Path, kept: Path) -> None:
    if file.suffix == ".duckdb":
        shutil.copy(file, kept)
        return
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(kept)) as target:
        source.backup(target)


def _opened(file: Path) -> Any:
    return duckdb.connect(file) if file.suffix == ".duckdb" else sqlite3.connect(file)
