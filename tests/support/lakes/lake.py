"""A catalog with tables in it: what the contract suite commits to, and how it looks underneath."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from sqlalchemy import func, select, text

from deltamirror import Add, Catalog, DeletionVector, Remove, Table
from deltamirror.config import CatalogSettings, Settings, WriterSettings
from deltamirror.delta.replay import reconciliation_key
from deltamirror.txnlog.database.schema import METADATA

SCHEMA = "id long, day string"


def settings_for(url: str, *, writer: WriterSettings | None = None, **catalog: Any) -> Settings:
    """Settings for one database; retries come quickly."""
    patient = WriterSettings(retry_base=0.01, retry_max=0.05) if writer is None else writer
    return Settings(catalog=CatalogSettings(url=url, **catalog), writer=patient)


@contextmanager
def opened(url: str, **catalog: Any) -> Iterator[Catalog]:
    """A catalog that exists, closed at the end."""
    with Catalog(settings=settings_for(url, **catalog)) as found:
        yield found


@pytest.fixture
def catalog(lake_url: str) -> Iterator[Catalog]:
    """An empty catalog, once for each engine."""
    with opened(lake_url) as found:
        yield found


@pytest.fixture
def lake(sqlite_lake: str) -> Iterator[Catalog]:
    """An empty catalog, for what concerns no database in particular."""
    with opened(sqlite_lake) as found:
        yield found


@pytest.fixture
def accepting(lake_url: str) -> Iterator[Catalog]:
    """An empty catalog, once for each engine, that commits whatever a log holds."""
    with opened(lake_url, writer=WriterSettings(on_divergence="accept")) as found:
        yield found


def create(catalog: Catalog, name: str = "t", *, schema: str = SCHEMA, **more: Any) -> Table:
    """A table in a place of its own, partitioned by nothing unless told so."""
    return catalog.create_table(name, location=f"/nowhere/lake/{name}", schema=schema, **more)


def add(path: str, *, day: str | None = "", **fields: Any) -> Add:
    """A data file; ``day`` is its partition, where the table has one (the empty text: none)."""
    defaults: dict[str, Any] = {
        "partition_values": {} if day == "" else {"day": day},
        "size": 100,
        "modification_time": 1_700_000_000_000,
        "data_change": True,
    }
    return Add(path=path, **{**defaults, **fields})


def remove_of(file: Add, **fields: Any) -> Remove:
    """The remove of a file, as a writer that knows the file makes it."""
    return Remove(
        path=file.path,
        **{
            "deletion_timestamp": 1_700_000_000_001,
            "data_change": True,
            "extended_file_metadata": True,
            "partition_values": file.partition_values,
            "size": file.size,
            "deletion_vector": file.deletion_vector,
            **fields,
        },
    )


def paths(table: Table, **when: Any) -> list[str]:
    """The paths of a table's files, sorted."""
    return sorted(table.snapshot(**when).files().column("path").to_pylist())


def info_of(table: Table, version: int) -> dict[str, Any]:
    """The commitInfo of a version, member by member, in the order of the line."""
    line = table.commit_file(version).partition(b"\n")[0]
    found: dict[str, Any] = msgspec.json.decode(line)["commitInfo"]
    return found


def body_of(table: Table, version: int) -> bytes:
    """The lines of a version after its commitInfo."""
    return table.commit_file(version).partition(b"\n")[2]


def as_adds(listing: pa.Table) -> list[Add]:
    """The rows of a file listing as actions."""
    return [_as_add(row) for row in listing.to_pylist()]


def adds_of(listing: pa.Table) -> dict[tuple[str, str | None], Add]:
    """The files of a listing by their key; no key may come twice."""
    found = as_adds(listing)
    by_key = {reconciliation_key(file): file for file in found}
    assert len(by_key) == len(found), "a file is listed twice"
    return by_key


def _as_add(row: Mapping[str, Any]) -> Add:
    fields = {name: value for name, value in row.items() if name != "added_version"}
    fields["partition_values"] = msgspec.json.decode(fields["partition_values"])
    if fields["tags"] is not None:
        fields["tags"] = msgspec.json.decode(fields["tags"])
    if fields["deletion_vector"] is not None:
        fields["deletion_vector"] = msgspec.json.decode(fields["deletion_vector"], type=DeletionVector)
    return Add(**fields)


def row_counts(catalog: Catalog, *, without: Iterable[str] = ()) -> dict[str, int]:
    """How many rows each of the catalog's tables has."""
    tables = [table for table in METADATA.sorted_tables if table.name not in without]
    with catalog.database.read() as connection:
        return {
            table.name: int(connection.execute(select(func.count()).select_from(table)).scalar_one())
            for table in tables
        }


def execute(catalog: Catalog, statement: str, **values: object) -> list[Any]:
    """Run SQL behind the catalog's back; the rows that it returns."""
    with catalog.database.write() as session:
        result = session.connection.execute(text(statement), values)
        return list(result.all()) if result.returns_rows else []
