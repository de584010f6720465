"""Independent Delta readers, each in a process of its own that knows nothing but a table's location.

A reader that is not installed or does not start is an error of the tests that asked for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.inventory import record
from tests.support.worker import RequestFailed, Worker

__all__ = ["READERS", "Reader", "RequestFailed", "SeenFile", "SeenTable", "assert_same_table"]

# The fixture of each reader, by the name that test ids show.
READERS = {"delta-rs": "delta_rs", "duckdb": "duckdb_delta", "delta-spark": "delta_spark"}


@dataclass(frozen=True, slots=True, order=True)
class SeenFile:
    """A data file as a reader shows it: its path decoded and relative to the table; None is what the reader hides."""

    path: str
    deletion_vector: str | None = None
    size: int | None = None
    partition_values: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table at a version as a reader shows it; None is what the reader hides or was not asked for."""

    reader: str
    version: int | None
    protocol: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    files: tuple[SeenFile, ...]
    row_count: int | None
    row_digest: str | None

    @property
    def paths(self) -> list[str]:
        """The paths of all files, sorted."""
        return [file.path for file in self.files]


class Reader:
    """One independent reader."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.name = worker.name

    def snapshot(self, location: str | Path, version: int | None = None, *, rows: bool = False) -> SeenTable:
        """The table at a location, at its newest or a given version; ``rows`` also reads the data files."""
        request = {"location": str(location), "version": version, "rows": rows}
        return _seen_table(self.name, self._worker.ask(request))

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """The rows of a statement; only Delta Lake on Spark runs SQL."""
        result: list[dict[str, Any]] = self._worker.ask({"sql": statement})
        return result


def assert_same_table(tables: Sequence[SeenTable]) -> None:
    """All readers agree on everything that they show."""
    for name, value in _COMPARED.items():
        shown = {table.reader: value(table) for table in tables if value(table) is not None}
        distinct = [item for n, item in enumerate(shown.values()) if item not in list(shown.values())[:n]]
        assert len(distinct) <= 1, f"readers disagree on {name}: {shown}"


def _features(protocol: Mapping[str, Any]) -> dict[str, object]:
    lists = {name: sorted(protocol.get(name) or []) for name in ("readerFeatures", "writerFeatures")}
    return {"reader": protocol["minReaderVersion"], "writer": protocol["minWriterVersion"], **lists}


def _shared_metadata(metadata: Mapping[str, Any]) -> dict[str, object]:
    optional = {name: metadata.get(name) for name in ("name", "description", "createdTime")}
    return {**optional, **{name: metadata[name] for name in ("id", "partitionColumns", "configuration", "schema")}}


def _sizes(table: SeenTable) -> list[tuple[str, int | None]] | None:
    sizes = [(file.path, file.size) for file in table.files]
    return None if any(size is None for _, size in sizes) else sizes


_COMPARED: Mapping[str, Callable[[SeenTable], object]] = {
    "version": lambda table: table.version,
    "protocol": lambda table: table.protocol and _features(table.protocol),
    "metadata": lambda table: table.metadata and _shared_metadata(table.metadata),
    "files": lambda table: [(file.path, file.partition_values) for file in table.files],
    "sizes": _sizes,
    "row count": lambda table: table.row_count,
    "rows": lambda table: table.row_digest,
}


def _seen_table(reader: str, answer: dict[str, Any]) -> SeenTable:
    rows = answer["rows"] or {}
    return SeenTable(
        reader=reader,
        version=answer["version"],
        protocol=answer["protocol"],
        metadata=answer["metadata"],
        files=tuple(sorted(_seen_file(file) for file in answer["files"])),
        row_count=rows.get("count"),
        row_digest=rows.get("digest"),
    )


def _seen_file(file: dict[str, Any]) -> SeenFile:
    values = tuple(sorted(file["partition_values"].items()))
    return SeenFile(file["path"], file.get("deletion_vector"), file.get("size"), values)


@contextmanager
def _started(module: str, folders: pytest.TempPathFactory) -> Iterator[Reader]:
    worker = Worker(module, folders.mktemp("reader"))
    record("reader", worker.name)
    try:
        yield Reader(worker)
    finally:
        worker.close()


@pytest.fixture(scope="session")
def delta_rs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The delta-rs reader."""
    with _started("tests.support.reader_delta_rs", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(scope="session")
def duckdb_delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """DuckDB's delta_scan."""
    with _started("tests.support.reader_duckdb", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Delta Lake on Spark: one session for all tests, since it takes some ten seconds to start."""
    with _started("tests.support.reader_delta_spark", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.spark] if name == "delta-spark" else []) for name in READERS], ids=str
)
def reader(request: pytest.FixtureRequest) -> Reader:
    """Each independent reader in turn."""
    found: Reader = request.getfixturevalue(READERS[request.param])
    return found


@pytest.fixture
def all_readers(delta_rs: Reader, duckdb_delta: Reader, delta_spark: Reader) -> tuple[Reader, ...]:
    """All independent readers together."""
    return (delta_rs, duckdb_delta, delta_spark)
