"""What is no object in the place of one, and what is no folder in the place of a log's: named, and never opened."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import deltalake
import pytest

from deltamirror import Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.errors import DeltaMirrorError, InvalidLocation
from deltamirror.ops.diff.sides import location_state
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.ops.reconcile.reconciling import Reconciler, Strategy
from deltamirror.ops.reconcile.repair import repair
from deltamirror.pipeline.failures.policy import way_out
from deltamirror.storage.open import store_at
from deltamirror.txnlog.queue.expected_objects import kept_log
from tests.support.imports.adoptions import PLAIN, adopted, logs_of, mirror
from tests.support.imports.importers import imported
from tests.support.lakes.lake import add, paths
from tests.support.lakes.moved import lake_in, lake_of_test
from tests.support.mirrors.local import append, committed_files, log_of, make_table, published_files
from tests.support.mirrors.reconcilers import reconciled, reconciling

pytestmark = [pytest.mark.requirement("R39"), pytest.mark.requirement("R56")]

SIDECARS = "_sidecars"


@pytest.fixture
def engine(lake: Catalog) -> Iterator[MirrorEngine]:
    with reconciling(lake) as found:
        yield found


@pytest.fixture(scope="module")
def made_lake(made_catalogs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a catalog and a table at version 5 whose newest checkpoint, that of version 4, has sidecars."""
    folder = tmp_path_factory.mktemp("made")
    properties = {"delta.checkpointInterval": "2", "delta.checkpointPolicy": "v2", **PLAIN}
    with lake_in(folder, made_catalogs) as lake, reconciling(lake) as engine:
        append(make_table(lake, folder, properties=properties), 5)
        mirror(engine)
    return folder


@pytest.fixture
def table(lake: Catalog) -> Table:
    """A table at version 5 whose newest checkpoint, that of version 4, has sidecars."""
    return lake.table("t")


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a catalog, with that table in it if a test has it."""
    return lake_of_test(request, tmp_path, made="made_lake")


def assert_active_and_read(engine: MirrorEngine, table: Table) -> None:
    found = deltalake.DeltaTable(log_of(table).parent)
    seen = sorted(uri.rpartition("/")[2] for uri in found.file_uris())
    assert (found.version(), seen) == (table.info().head, paths(table))
    assert engine.status("t")[0].state == "active"


def repaired(engine: MirrorEngine, **options: bool) -> None:
    with logs_of(engine) as logs:
        repair(logs, "t", **options)


def first_of(log: Path, pattern: str) -> Path:
    return min(log.glob(pattern))


PLACES: dict[str, Callable[[Path], Path]] = {
    "a commit": lambda log: log / f"{4:020}.json",
    "the next commit": lambda log: log / f"{6:020}.json",
    "a checksum": lambda log: log / f"{5:020}.crc",
    "a checkpoint": lambda log: first_of(log, f"{4:020}.checkpoint.*"),
    "a sidecar": lambda log: first_of(log, f"{SIDECARS}/{4:020}.*"),
    "the pointer": lambda log: log / "_last_checkpoint",
}
KINDS: dict[str, Callable[[Path], None]] = {"folder": Path.mkdir, "pipe": os.mkfifo}


@pytest.mark.default_when(
    parameters=lambda those: those["kind"] == "folder" or those["place"] in ("a commit", "the pointer")
)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_stops_the_table_by_its_name_and_keeps_nothing_else_from_coming_back(
    engine: MirrorEngine, table: Table, place: str, kind: str
) -> None:
    log = log_of(table)
    lost, path = log / f"{2:020}.json", PLACES[place](log)
    before, name = lost.read_bytes(), f"{LOG_DIRECTORY}/{path.relative_to(log)}"
    path.unlink(missing_ok=True)
    KINDS[kind](path)
    lost.unlink()
    found, _ = reconciled(engine, Strategy.SMART)
    assert isinstance(found.error, InvalidLocation)
    assert lost.read_bytes() == before
    (status,) = engine.status("t")
    assert (status.state, f"{name} is a {kind}" in str(status.quarantine_reason)) == ("quarantined", True)
    assert way_out(status).startswith("move what is named there out of the log, ")
    for options in ({}, {"replace_altered": True}):
        with pytest.raises(InvalidLocation, match=f"{name} is a {kind}") as refused:
            repaired(engine, **options)
        assert refused.value.hint == way_out(status)
    path.rmdir() if kind == "folder" else path.unlink()
    repaired(engine)
    assert_active_and_read(engine, table)


def look(engine: MirrorEngine) -> None:
    """As a service does."""
    with logs_of(engine) as logs, engine.database.read() as connection:
        found = Reconciler(logs).look(kept_log(connection, "t"))
    if found.error is not None:
        raise found.error


def reconcile(engine: MirrorEngine, strategy: Strategy) -> None:
    error = reconciled(engine, strategy)[0].error
    if error is not None:
        raise error


def publish(engine: MirrorEngine) -> None:
    for failure in engine.run(once=True).failures:
        raise failure.error


ON_TABLES: dict[str, Callable[[MirrorEngine], object]] = {
    "mirror": publish,
    "look": look,
    "reconcile smart": lambda engine: reconcile(engine, Strategy.SMART),
    "reconcile full": lambda engine: reconcile(engine, Strategy.FULL),
    "repair": repaired,
    "repair everything": lambda engine: repaired(engine, replace_altered=True, begin_anew=True),
    "adopt": adopted,
    "checkpoint": lambda engine: engine.checkpoint("t"),
    "clean": lambda engine: engine.clean("t"),
}
ON_LOCATIONS: dict[str, Callable[[Catalog, str], object]] = {
    "import": lambda catalog, location: imported(catalog, store_at(location, StorageSettings())),
    "create": lambda catalog, location: catalog.create_table("u", location=location, schema="id long"),
    "rebuild": lambda catalog, location: rebuild(catalog.database, "own", to=store_at(location, StorageSettings())),
    "diff": lambda _, location: location_state(store_at(location, StorageSettings()), None),
}
WITHOUT_LOG = {"clean"}
"""What SQL alone answers: nothing is past its retention."""
ABOUT_SIDECARS = {"look", "reconcile smart", "reconcile full", "repair", "repair everything"}
"""What asks for sidecars, whether or not the newest checkpoint has to be read."""


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def linked(table: Table, name: str, elsewhere: Path) -> Path:
    """The folder of the log, or of its sidecars, is moved, and a link leads to it."""
    place = log_of(table).parent / name
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    return place


@pytest.mark.parametrize(
    ("name", "telling"),
    [
        (LOG_DIRECTORY, (ON_TABLES.keys() | ON_LOCATIONS.keys()) - WITHOUT_LOG),
        (f"{LOG_DIRECTORY}/{SIDECARS}", ABOUT_SIDECARS),
    ],
    ids=["log", "sidecars"],
)
def test_a_link_in_the_place_of_the_log_is_followed_by_no_operation(
    lake: Catalog, engine: MirrorEngine, table: Table, tmp_path: Path, name: str, telling: set[str]
) -> None:
    append(table)
    place, elsewhere = linked(table, name, tmp_path / "elsewhere"), tmp_path / "elsewhere"
    before, said = contents(elsewhere), dict[str, str]()
    with Catalog(f"sqlite:///{tmp_path}/second.db") as second:
        second.init()
        second.create_table("own", location=str(tmp_path / "u"), schema="id long")
        acts: dict[str, Callable[[], object]] = {each: partial(act, engine) for each, act in ON_TABLES.items()}
        acts |= {each: partial(act, second, table.location) for each, act in ON_LOCATIONS.items()}
        for each, act in acts.items():
            try:
                act()
                said[each] = ""
            except DeltaMirrorError as error:
                said[each] = str(error)
            assert contents(elsewhere) == before, each
    named = (f"{name} is a symbolic link", "it is quarantined")
    told = {each for each, text in said.items() if any(words in text for words in named)}
    assert telling <= told
    (status,) = engine.status("t")
    assert status.quarantine_reason == f"in the log of table 't', {name} is a symbolic link to {elsewhere}"
    place.unlink()
    elsewhere.rename(place)
    repaired(engine)
    assert_active_and_read(engine, table)


def test_a_log_whose_link_is_taken_away_is_written_again(engine: MirrorEngine, table: Table, tmp_path: Path) -> None:
    before, place = committed_files(table), linked(table, LOG_DIRECTORY, tmp_path / "elsewhere")
    assert isinstance(reconciled(engine, Strategy.SMART)[0].error, InvalidLocation)
    place.unlink()
    repaired(engine)
    assert {name: published_files(table)[name] for name in before} == before
    table.append([add("later")])
    mirror(engine)
    assert_active_and_read(engine, table)
