"""Tables whose log is older than it is: times in the database are set back, which is all that retention goes by."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import CleanupSettings, Settings, StorageSettings
from deltamirror.deltalog.retention import DAY
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.lakes.lake import add, execute, settings_for
from tests.support.lakes.moved import lake_in
from tests.support.mirrors.local import local_settings
from tests.support.readers.reader import Reader, SeenTable
from tests.support.stores.any_store import place_of

INTERVAL = 5
HEAD = 23
START = 10
"""Where the log of a table that ``lived`` starts once it is cleaned after its versions up to 12 have grown old."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a table is made, and how to go there."""

    location: str
    storage: StorageSettings

    @property
    def store(self) -> Store:
        """The table's store."""
        return store_at(self.location, self.storage)

    def catalog(self, url: str) -> Catalog:
        """The catalog in a database, which can go there."""
        return Catalog(settings=replace(settings_for(url), storage=self.storage))

    def seen(self, reader: Reader, version: int | None = None, *, rows: bool = False) -> SeenTable:
        """What a reader finds there; ``rows`` also reads the data files."""
        if self.location.startswith("file://"):
            return reader.snapshot(self.location.removeprefix("file://"), version, rows=rows)
        return reader.snapshot(self.location, version, rows=rows, store=self.storage)


def spot_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Spot:
    """An empty spot in a store of one kind; its server is started when asked for."""
    place = place_of(kind, request, folder)
    return Spot(f"file://{place.location}" if kind == "disk" else place.location, place.settings)


@contextmanager
def cleaning(
    catalog: Catalog,
    storage: StorageSettings | None = None,
    *,
    interval: float = 3600.0,
    enabled: bool = False,
    **changed: Any,
) -> Iterator[MirrorEngine]:
    """An engine on the catalog's own database that writes a checkpoint every five versions; it cleans when asked to."""
    settings = local_settings(Settings(storage=storage or StorageSettings()), checkpoint_interval=INTERVAL, **changed)
    settings = replace(settings, cleanup=CleanupSettings(enabled=enabled, interval=interval))
    with MirrorEngine(settings=settings, database=catalog.database) as engine:
        yield engine


def lived(catalog: Catalog, engine: MirrorEngine, location: str, *, name: str = "t", **more: Any) -> Table:
    """A table with versions 0 to 23, published, that has checkpoints of 5, 10, 15 and 20. Files come and go."""
    table = catalog.create_table(name, location=location, schema="id long", **more)
    for version in range(1, HEAD + 1):
        if version % 4:
            table.append([add(f"f-{version}.parquet", stats='{"numRecords":1}')])
        else:
            table.remove([f"f-{version - 2}.parquet"])
        if version % INTERVAL == 0 or version == HEAD:
            engine.mirror(name)
    return table


@pytest.fixture(scope="session")
def lived_lake(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog, ``lake.db``, and the table ``t`` that lived."""
    folder = tmp_path_factory.mktemp("lived")
    with lake_in(folder, made_catalogs) as catalog, cleaning(catalog) as engine:
        lived(catalog, engine, str(folder / "t"))
    return folder


def age(catalog: Catalog, *, upto: int, days: float = 40, objects: bool = True, table_id: int = 1) -> None:
    """Set back the time of versions, and, unless told otherwise, the time at which their objects were put."""
    back = {"back": int(days * DAY), "upto": upto, "table_id": table_id}
    own = "WHERE table_id = :table_id AND version <= :upto"
    execute(catalog, f"UPDATE dl_table_versions SET committed_at = committed_at - :back {own}", **back)
    if objects:
        execute(catalog, f"UPDATE dl_mirror_status SET published_at = published_at - :back {own}", **back)


def log_names(store: Store) -> set[str]:
    """The names of all objects of a log."""
    return {meta.key.removeprefix("_delta_log/") for meta in store.list("_delta_log")}


def store_of(table: Table) -> Store:
    """The store of a table on disk."""
    return store_at(table.location, StorageSettings())


def expected_names(first: int) -> set[str]:
    """The names in the log of a table that lived, from a version on."""
    versions = range(first, HEAD + 1)
    files = {f"{version:020}.{suffix}" for version in versions for suffix in ("json", "crc")}
    checkpoints = {f"{version:020}.checkpoint.parquet" for version in versions if version and version % 5 == 0}
    return files | checkpoints | {"_last_checkpoint"}


def recorded(catalog: Catalog) -> tuple[int, int, int, bool]:
    """The start of the log; of its last cleaning the start, how many objects, and whether it ended."""
    [row] = execute(
        catalog,
        "SELECT t.log_start, c.log_start AS swept, c.num_objects, c.cleaned_at FROM dl_tables t "
        "JOIN dl_cleanups c ON c.table_id = t.table_id",
    )
    return row.log_start, row.swept, row.num_objects, row.cleaned_at > 0
