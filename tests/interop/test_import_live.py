"""Tables of Delta Lake on Spark and of delta-rs come under SQL, and are written and mirrored on where they lie.

delta-rs and DuckDB open every version that the log still has, those of the first writer and ours; readers that cost
more, the last. The default suite has them open the tables on disk: that they open ours on S3 is in
``test_every_reader``. It has the readers that cost more open the table of Delta Lake on Spark alone, whose log has more
kinds of actions; and a rebuilt log, which has the same bytes, is opened by the others.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from msgspec.structs import replace as changed

from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.ops.imports.importing import Imported, ImportOrder
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.storage.open import store_at
from deltamirror.wiring import open_catalog, open_engine, open_importer
from tests.support.imports.origins import Origin, Rows, by_delta_rs, by_spark, continued
from tests.support.lakes.copies import Place, copy_table, log_of, truncated
from tests.support.lakes.lake import settings_for
from tests.support.lakes.stories import Life
from tests.support.logs.folder import read_log
from tests.support.mirrors.local import local_settings
from tests.support.readers.reader import Reader, SeenTable, assert_same_table
from tests.support.readers.rows import fingerprint
from tests.support.rows.datafiles import seen_by_us
from tests.support.servers.seaweed_server import SeaweedServer

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    *(pytest.mark.requirement(row) for row in ("R66", "R67", "R89", "R90")),
]

NAME = "t"
FRUGAL = ("delta-rs", "duckdb")


@dataclass(frozen=True)
class Continued:
    """A table that another writer began, imported, written through us and mirrored on."""

    origin: Origin
    imported: Imported
    life: Life
    place: Place
    rows: Mapping[int, Rows]
    copies: dict[int, Place] = field(default_factory=dict)

    def seen(self, version: int) -> SeenTable:
        """What SQL says of a version, with the rows that it has to have."""
        snapshot = self.life.table.snapshot(version)
        ours = seen_by_us(snapshot, self.life.folder)
        rows = fingerprint(pa.Table.from_pylist(self.rows[version], to_arrow(snapshot.schema)))
        assert ours.row_digest in (None, rows["digest"])
        return replace(ours, row_count=int(str(rows["count"])), row_digest=str(rows["digest"]))

    def until(self, version: int) -> Place:
        """A copy as the table was when a version was its newest."""
        if version not in self.copies:
            target = Place(f"{self.place.location}-until-{version}", self.place.store)
            self.copies[version] = copy_table(self.place, target, truncated(version))
        return self.copies[version]


@pytest.fixture(scope="module")
def bucket(seaweed_server: SeaweedServer) -> Iterator[str]:
    seaweed_server.ensure_running()
    name = seaweed_server.create_bucket()
    yield name
    seaweed_server.ensure_running()
    seaweed_server.delete_bucket(name)


@pytest.fixture(scope="module", params=["spark-disk", "delta-rs-disk", "delta-rs-s3"])
def table(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, delta_spark: Reader
) -> Iterator[Continued]:
    writer, _, kind = request.param.rpartition("-")
    source, home = (tmp_path_factory.mktemp(name) / "table" for name in ("origin", "home"))
    origin = by_spark(delta_spark, source) if writer == "spark" else by_delta_rs(source)
    place = Place(str(home))
    if kind == "s3":
        server: SeaweedServer = request.getfixturevalue("seaweed_server")
        place = Place(f"s3://{request.getfixturevalue('bucket')}/{uuid4()}/table", server.settings())
    copy_table(Place(str(source)), place)
    with pytest.MonkeyPatch.context() as environment:
        settings = settings_of(place, tmp_path_factory.mktemp("catalog"), environment)
        with open_catalog(settings) as catalog:
            catalog.init()
            with open_importer(catalog, settings, runner="local") as importer:
                imported = importer.run(ImportOrder(location=place.location, name=NAME))
            if kind == "s3":
                shutil.copytree(source, home, ignore=shutil.ignore_patterns(LOG_DIRECTORY))
            life = Life(catalog, catalog.table(NAME), home)
            yield Continued(origin, imported, life, place, lived_on(life, origin, place, settings))


def settings_of(place: Place, folder: Path, environment: pytest.MonkeyPatch) -> Settings:
    storage = place.store or StorageSettings()
    if storage.access_key_id and storage.secret_access_key:
        # Keys do not travel with units of work: whoever runs one finds its own.
        environment.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", storage.access_key_id)
        environment.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", storage.secret_access_key.reveal())
    return changed(local_settings(settings_for(f"sqlite:///{folder / 'lake.db'}")), storage=storage)


def lived_on(life: Life, origin: Origin, place: Place, settings: Settings) -> dict[int, Rows]:
    """Write and mirror commit by commit; the rows of every version, old and ours."""
    rows = dict(origin.rows)
    with open_engine(settings) as engine:
        for found in continued(life, rows[max(rows)], leaving=origin.leaving):
            rows[life.table.info().head] = found
            engine.mirror(NAME)
    if place.store is not None:
        place.put(Place(str(life.folder)).objects())
    return rows


def test_every_version_that_is_there_is_imported(table: Continued) -> None:
    assert (table.imported.first, table.imported.last) == (min(table.origin.rows), max(table.origin.rows))
    assert (table.imported.base is None) == (table.imported.first == 0)
    assert table.life.table.info().published == max(table.rows) == table.imported.last + 9


@pytest.mark.parametrize("table", ["spark-disk"], indirect=True)
def test_there_was_a_deletion_vector_and_we_removed_its_file(table: Continued) -> None:
    files = {version: table.seen(version).files or () for version in table.rows}
    [deleted] = [file for file in files[table.imported.last] if file.deletion_vector]
    assert deleted in files[table.imported.last + 1]
    assert deleted not in files[table.imported.last + 2]


def test_what_was_in_the_log_is_untouched_and_ours_follows(table: Continued) -> None:
    before, after = dict(Place(str(table.origin.folder)).objects()), dict(table.place.objects())
    kept = {key for key in before if "_last_checkpoint" not in key}
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    log = log_of(table.place)
    assert sorted(log.versions("json").values()) == sorted(table.rows)
    assert log.checkpoints[-1] == log.pointer
    assert log.pointer is not None
    assert log.pointer > table.imported.last


def test_the_log_is_rebuilt_byte_for_byte(table: Continued, tmp_path: Path) -> None:
    for last in (table.imported.last, max(table.rows)):
        again, versions = tmp_path / str(last), range(table.imported.first, last + 1)
        database = table.life.catalog.database
        rebuild(database, NAME, to=store_at(str(again), StorageSettings()), versions=versions, checkpoints=True)
        published = {key: data for key, data in table.place.objects() if key.startswith(LOG_DIRECTORY)}
        found = {f"{LOG_DIRECTORY}/{version:020d}.json": data for version, data in read_log(again).items()}
        assert len(found) == len(versions)
        assert found == {key: published[key] for key in found}
    assert read_log(tmp_path / str(table.imported.last)) == read_log(table.origin.folder)


@pytest.mark.default_on("disk")
@pytest.mark.default_when(parameters=lambda those: those["reader"] == "delta-rs")
def test_a_reader_opens_a_rebuilt_log_over_the_data(table: Continued, reader: Reader, tmp_path: Path) -> None:
    home = Path(shutil.copytree(table.life.folder, tmp_path / "table", ignore=shutil.ignore_patterns(LOG_DIRECTORY)))
    rebuild(table.life.catalog.database, NAME, to=store_at(str(home), StorageSettings()), checkpoints=True)
    assert_same_table([table.seen(max(table.rows)), reader.snapshot(home, rows=True)])


@pytest.mark.default_on("disk")
@pytest.mark.default_when(parameters=lambda those: those["reader"] in FRUGAL or those["table"].startswith("spark"))
def test_a_reader_opens_every_version_old_and_ours(table: Continued, reader: Reader) -> None:
    is_frugal = reader.name.startswith(("delta-rs", "DuckDB"))
    for version in sorted(table.rows) if is_frugal else [max(table.rows)]:
        place = place_for(table, reader, version)
        found = reader.snapshot(place.location, version, rows=True, store=place.store)
        assert_same_table([table.seen(version), found])


def place_for(table: Continued, reader: Reader, version: int) -> Place:
    """Sail finds no version before the newest checkpoint: it is given logs that end with the version that it reads."""
    pointer = log_of(table.place).pointer
    assert pointer is not None
    return table.until(version) if reader.name.startswith("Sail") and version < pointer else table.place
