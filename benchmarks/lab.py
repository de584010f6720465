"""Where measurements take place: a folder, a PostgreSQL server, and an empty database for each of them."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from benchmarks.adds import PARTITION_COLUMN, SCHEMA
from deltamirror import Catalog
from tests.support.servers.postgres_server import PostgresServer, prepared_server

ENGINES = ("sqlite", "postgresql", "duckdb")
TABLE = "bench"
_MB = 1e6


@dataclass(frozen=True, slots=True)
class Place:
    """A database, or for delta-rs a table folder, that one measurement has for itself."""

    engine: str
    url: str
    folder: str

    def json(self) -> dict[str, str]:
        """As an argument of a child process."""
        return asdict(self)

    def create_catalog(self, *, schema: str, partition_by: list[str]) -> None:
        """Make the database a catalog with one empty table."""
        with Catalog(self.url) as catalog:
            catalog.init()
            location = f"{self.folder}/table"
            catalog.create_table(TABLE, location=location, schema=schema, partition_by=partition_by)

    def megabytes(self) -> float:
        """The size of the database."""
        if self.engine == "postgresql":
            with psycopg.connect(self.url) as connection:
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            return int(row[0]) / _MB if row else 0.0
        return sum(path.stat().st_size for path in Path(self.folder).rglob("*") if path.is_file()) / _MB


@dataclass(slots=True)
class Lab:
    """Hands out places, and clears them away."""

    folder: Path
    server: PostgresServer
    quick: bool
    _numbers: Iterator[int] = field(default_factory=count)

    def pick(self, *, full: float, quick: float) -> float:
        """The effort of a measurement."""
        return quick if self.quick else full

    @contextmanager
    def place(
        self,
        engine: str,
        *,
        catalog: bool = True,
        schema: str = SCHEMA,
        partition_by: Sequence[str] = (PARTITION_COLUMN,),
    ) -> Iterator[Place]:
        """An empty place, with a catalog in it if its engine is a database; gone at the end."""
        folder = self.folder / f"place-{next(self._numbers)}"
        folder.mkdir()
        database = self.server.create_database() if engine == "postgresql" else ""
        place = Place(engine, self._url(engine, folder, database), str(folder))
        if catalog and engine in ENGINES:
            place.create_catalog(schema=schema, partition_by=list(partition_by))
        try:
            yield place
        finally:
            shutil.rmtree(folder)
            if database:
                self.server.drop_database(database)

    def _url(self, engine: str, folder: Path, database: str) -> str:
        return self.server.url(database) if database else f"{engine}:///{folder / 'lake.db'}"


@contextmanager
def open_lab(*, quick: bool) -> Iterator[Lab]:
    """A laboratory with its server running."""
    folder = Path(tempfile.mkdtemp(prefix="deltamirror-bench-"))
    try:
        with prepared_server() as server:
            server.create_cluster()
            server.start()
            yield Lab(folder, server, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
