"""Independent Delta readers, each in a process of its own that knows nothing but a table's location.

A reader that is not installed or does not start is an error of the tests that asked for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from deltamirror.config import StorageSettings
from tests.support.readers.azure_access import AzureAccess
from tests.support.readers.s3_access import S3Access
from tests.support.spark.commands import Command, asked, result_of
from tests.support.suite.inventory import record
from tests.support.suite.worker import RequestFailed, Worker

__all__ = ["READERS", "Reader", "RequestFailed", "SeenFile", "SeenTable", "assert_same_table"]

# The fixture of each reader, by the name that test ids show.
READERS = {
    "delta-rs": "delta_rs",
    "duckdb": "duckdb_delta",
    "delta-spark": "delta_spark",
    "chdb": "chdb_delta",
    "sail": "sail_delta",
}


@dataclass(frozen=True, slots=True, order=True)
class SeenFile:
    """A data file as a reader shows it: its path decoded and relative to the table; None is what the reader hides.

    A file without a deletion vector has the empty text for one.
    """

    path: str
    deletion_vector: str | None = None
    size: int | None = None
    partition_values: tuple[tuple[str, str | None], ...] | None = ()


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table at a version as a reader shows it; None is what the reader hides or was not asked for."""

    reader: str
    version: int | None
    protocol: Mapping[str, Any] | None
    metadata: Mapping[str, Any] | None
    files: tuple[SeenFile, ...] | None
    row_count: int | None
    row_digest: str | None
    schema: Mapping[str, Any] | None
    columns: tuple[str, ...]

    @property
    def paths(self) -> list[str] | None:
        """The paths of all files, sorted."""
        return None if self.files is None else [file.path for file in self.files]


class Reader:
    """One independent reader."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.name = worker.name

    def snapshot(
        self,
        location: str | Path,
        version: int | None = None,
        *,
        rows: bool = False,
        store: StorageSettings | None = None,
    ) -> SeenTable:
        """The table at a location, at its newest or a given version; ``rows`` also reads the data files.

        ``store`` says how to reach the server of a location that begins with ``s3://``, or, for delta-rs, ``az://``.
        """
        request = {"location": str(location), "version": version, "rows": rows, **_access(store)}
        return _seen_table(self.name, self._worker.ask(request))

    def states(self, location: Path, versions: Sequence[int]) -> dict[int, list[str]]:
        """The lines of the actions that make up each of these versions; only Delta Lake on Spark shows them."""
        answer: dict[str, list[str]] = self._worker.ask({"location": str(location), "versions": list(versions)})
        return {int(version): lines for version, lines in answer.items()}

    def rows_of(self, asked: Sequence[tuple[str, str | None]]) -> list[dict[str, Any]]:
        """For each table (a location, and a column that is not to be null) its ``rows`` as texts, or the ``error``.

        Of delta-rs, DuckDB and Delta Lake on Spark, which read many tables at once.
        """
        result: list[dict[str, Any]] = self._worker.ask({"rows_of": list(asked)})
        return result

    def append(self, location: Path) -> None:
        """Add a row whose id is 0, the table's only column; of DuckDB and of Sail, which also write."""
        self._worker.ask({"append": str(location)})

    def run(self, command: Command) -> Any:
        """What comes of a command for Spark; only Delta Lake on Spark runs them."""
        return result_of(self._worker.ask(asked(command)))

    def sql(self, statement: str) -> list[dict[str, Any]]:
        """The rows of a statement; only Delta Lake on Spark runs SQL."""
        result: list[dict[str, Any]] = self._worker.ask({"sql": statement})
        return result


def _access(store: StorageSettings | None) -> dict[str, object]:
    azure = None if store is None else AzureAccess.of(store)
    s3 = None if store is None or azure is not None else S3Access.of(store)
    return {"s3": s3 and asdict(s3), "azure": azure and asdict(azure)}


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


def _plain_type(kind: Any) -> Any:
    """A type of a schema, without the metadata of its fields."""
    if not isinstance(kind, Mapping):
        return kind
    inner = {name: _plain_type(value) for name, value in kind.items() if name != "metadata"}
    if "fields" in inner:
        inner["fields"] = [_plain_type(field) for field in inner["fields"]]
    return inner


def _of_files(table: SeenTable, fact: Callable[[SeenFile], object]) -> list[tuple[str, object]] | None:
    """A fact about each file; None where the reader hides it."""
    facts = [(file.path, fact(file)) for file in table.files or ()]
    return None if table.files is None or any(value is None for _, value in facts) else facts


_COMPARED: Mapping[str, Callable[[SeenTable], object]] = {
    "version": lambda table: table.version,
    "protocol": lambda table: table.protocol and _features(table.protocol),
    "metadata": lambda table: table.metadata and _shared_metadata(table.metadata),
    "columns": lambda table: table.columns,
    "types": lambda table: table.schema and _plain_type(table.schema),
    "files": lambda table: table.paths,
    "partition values": lambda table: _of_files(table, lambda file: file.partition_values),
    "deletion vectors": lambda table: _of_files(table, lambda file: file.deletion_vector),
    "sizes": lambda table: _of_files(table, lambda file: file.size),
    "row count": lambda table: table.row_count,
    "rows": lambda table: table.row_digest,
}


def _seen_table(reader: str, answer: dict[str, Any]) -> SeenTable:
    rows, files = answer["rows"] or {}, answer["files"]
    schema = answer["metadata"]["schema"] if answer["metadata"] else answer.get("schema")
    columns = [field["name"] for field in schema["fields"]] if schema else answer["columns"]
    return SeenTable(
        reader=reader,
        version=answer["version"],
        protocol=answer["protocol"],
        metadata=answer["metadata"],
        files=None if files is None else tuple(sorted(_seen_file(file) for file in files)),
        row_count=rows.get("count"),
        row_digest=rows.get("digest"),
        schema=schema,
        columns=tuple(columns),
    )


def _seen_file(file: dict[str, Any]) -> SeenFile:
    values = file["partition_values"]
    shown = None if values is None else tuple(sorted(values.items()))
    return SeenFile(file["path"], file.get("deletion_vector"), file.get("size"), shown)


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
    with _started("tests.support.readers.delta_rs", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(scope="session")
def duckdb_delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """DuckDB's delta_scan."""
    with _started("tests.support.readers.duckdb", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Delta Lake on Spark: one session for all tests, since it takes some ten seconds to start."""
    with _started("tests.support.readers.delta_spark", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(scope="session")
def chdb_delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """ClickHouse's deltaLake, in chdb."""
    with _started("tests.support.readers.chdb", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(scope="session")
def sail_delta(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Sail, a server with an implementation of Delta of its own."""
    with _started("tests.support.readers.sail", tmp_path_factory) as reader:
        yield reader


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.spark] if name == "delta-spark" else []) for name in READERS], ids=str
)
def reader(request: pytest.FixtureRequest) -> Reader:
    """Each independent reader in turn."""
    found: Reader = request.getfixturevalue(READERS[request.param])
    return found


@pytest.fixture
def all_readers(request: pytest.FixtureRequest) -> tuple[Reader, ...]:
    """All independent readers together."""
    return tuple(request.getfixturevalue(fixture) for fixture in READERS.values())
