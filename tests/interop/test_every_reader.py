"""Independent readers open what the mirror published, and see what SQL says, version by version.

Each through the commits alone, through a checkpoint alone, and through both; on a local disk. On S3 they open the logs
of some stories as they are: which objects a log has does not depend on the store. delta-rs opens every version. The
others cost more: they open the first, one in the middle, those around the checkpoints, and the newest; on S3, one that
a checkpoint serves and the newest. Delta Lake on Spark, which costs most, opens the newest.

delta-rs opens every story in all of these ways: what is wrong with a log, it shows. The default suite has the others
open some stories in each of these ways; ``make soak`` has the rest. Kinds of tables are in ``test_matrix``, for every
reader.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace as changed

from deltamirror import Catalog
from deltamirror.config import Settings, StorageSettings
from deltamirror.wiring import open_catalog, open_engine
from tests.support.faults.s3_proxy import S3Proxy
from tests.support.lakes.copies import (
    Place,
    Selection,
    both,
    checkpoint_alone,
    copy_table,
    json_alone,
    log_of,
    truncated,
)
from tests.support.lakes.lake import settings_for
from tests.support.lakes.stories import INTERVAL, NEWEST, STORIES, Life, SparkVectors, Story, spark_vectors
from tests.support.mirrors.local import local_settings
from tests.support.readers.reader import Reader, RequestFailed, SeenFile, SeenTable, assert_same_table
from tests.support.servers.s3_server import S3Server

pytestmark = [pytest.mark.spark, *(pytest.mark.requirement(row) for row in ("R7", "R15", "R67", "R89", "R90"))]

CHECKPOINTS = [INTERVAL, 2 * INTERVAL]
VERSIONS: Mapping[str, frozenset[int]] = {
    "delta-rs": frozenset(range(NEWEST + 1)),
    "duckdb": frozenset({0, 3, 4, 5, 6, 10, 11, NEWEST}),
    "chdb": frozenset({0, 3, 5, 6, 10, NEWEST}),
    "sail": frozenset({0, 3, 5, 7, 10, NEWEST}),
    "delta-spark": frozenset({NEWEST}),
}
ON_S3 = {"delta-spark": frozenset({NEWEST})}
EVERY_VERSION = bool(os.environ.get("EVERY_VERSION"))
"""Whether every reader opens every version, whatever that costs, as ``make scale`` has it."""

LIMITATIONS = {
    "mapped partitions": (
        "DuckDB",
        "delta_scan of DuckDB 1.5.5 reads null from a partition column that has a physical name",
    ),
    "earlier versions": (
        "Sail",
        "Sail 0.7.2 begins at the checkpoint that the pointer names, and misses commits for most versions before it;"
        " it is given logs that end with the version that it reads",
    ),
    "escaped keys": (
        "Sail",
        "Sail 0.7.2 finds nothing on S3 below a key with a space or letters beyond ASCII; it is given a copy elsewhere",
    ),
}
"""What readers get wrong, whoever wrote the table: who, and what. Each is shown to be still so."""


def limited(reader: Reader, what: str) -> bool:
    return reader.name.startswith(LIMITATIONS[what][0])


@dataclass(frozen=True)
class Published:
    """A mirrored table: its life in SQL, where its log is, and copies of it that lack a part of the log."""

    story: str
    life: Life
    place: Place
    copies: dict[str, Place] = field(default_factory=dict)

    def copy(self, name: str, selection: Selection) -> Place:
        """A copy of the table, made once."""
        if name not in self.copies:
            parent = self.place.location.rpartition("/")[0]
            self.copies[name] = copy_table(self.place, Place(f"{parent}/{name}", self.place.store), selection)
        return self.copies[name]


@pytest.fixture(scope="module")
def vectors(delta_spark: Reader, tmp_path_factory: pytest.TempPathFactory) -> SparkVectors:
    return spark_vectors(delta_spark, tmp_path_factory.mktemp("spark") / "vectors")


@pytest.fixture(scope="module", params=["disk", "s3"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Where tables and their copies lie."""
    if request.param == "disk":
        yield Place(str(tmp_path_factory.mktemp("lake")))
        return
    server: S3Server = request.getfixturevalue({"s3": "seaweed_server", "versitygw": "versity_server"}[request.param])
    server.ensure_running()
    bucket = server.create_bucket()
    yield Place(f"s3://{bucket}/{uuid4()}", server.settings())
    server.ensure_running()
    server.delete_bucket(bucket)


@pytest.fixture(scope="module")
def settings(root: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    found = settings_for(f"sqlite:///{tmp_path_factory.mktemp('catalog') / 'lake.db'}")
    storage = root.store or StorageSettings()
    with pytest.MonkeyPatch.context() as environment:
        # Keys do not travel with units of work: whoever runs one finds its own.
        if storage.access_key_id and storage.secret_access_key:
            environment.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", storage.access_key_id)
            environment.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", storage.secret_access_key.reveal())
        yield changed(local_settings(found, checkpoint_sidecar_actions=4), storage=storage)


@pytest.fixture(scope="module")
def catalog(settings: Settings) -> Iterator[Catalog]:
    with open_catalog(settings) as opened:
        opened.init()
        yield opened


@pytest.fixture(scope="module", params=[*STORIES, "vectors"])
def published(
    request: pytest.FixtureRequest,
    catalog: Catalog,
    settings: Settings,
    root: Place,
    tmp_path_factory: pytest.TempPathFactory,
) -> Published:
    story = request.getfixturevalue("vectors") if request.param == "vectors" else STORIES[request.param]
    place = Place(f"{root.location}/{request.param}/{getattr(story, 'folder', 'table')}", root.store)
    folder = Path(place.location) if root.store is None else tmp_path_factory.mktemp("data")
    life = story.begin(catalog, request.param, location=place.location, folder=folder)
    _mirror(story, life, settings)
    if root.store is not None:
        place.put(Place(str(folder)).objects())
    return Published(request.param, life, place)


def _mirror(story: Story | SparkVectors, life: Life, settings: Settings) -> None:
    """Mirror whenever a checkpoint is due: of a backlog, only the newest would be written."""
    with open_engine(settings) as engine:
        for _ in story.steps(life):
            if life.table.info().head % INTERVAL == 0:
                engine.mirror(life.table.name)
        engine.mirror(life.table.name)
    assert life.table.info().head == NEWEST


@pytest.mark.default_on("disk")
def test_the_mirror_published_every_version_and_the_checkpoints(published: Published) -> None:
    log = log_of(published.place)
    assert sorted(log.versions("json").values()) == list(range(NEWEST + 1))
    assert log.checkpoints == CHECKPOINTS
    assert log.pointer == CHECKPOINTS[-1]


def assert_seen(published: Published, reader: Reader, name: str, selection: Selection, versions: range) -> None:
    """A reader sees these versions as SQL does, through a copy of the log; as many of them as its cost allows."""
    wanted = _affordable(reader, published.place).intersection(versions)
    assert wanted, "nothing to read"
    for version in sorted(wanted):
        place = _place(published, reader, name, selection, version)
        asked = None if version == NEWEST and selection is both else version
        found = reader.snapshot(place.location, asked, rows=True, store=place.store)
        assert_same_table(_comparable(published, reader, [published.life.seen(version), found]))


def _affordable(reader: Reader, place: Place) -> frozenset[int]:
    name = _short(reader)
    if EVERY_VERSION:
        return frozenset(range(NEWEST + 1))
    return VERSIONS[name] if place.store is None else ON_S3.get(name, frozenset({INTERVAL, NEWEST}))


def _place(published: Published, reader: Reader, name: str, selection: Selection, version: int) -> Place:
    if limited(reader, "earlier versions") and version < CHECKPOINTS[-1]:
        return published.copy(f"{name}-up-to-{version}", truncated(version, selection))
    escaped = published.story == "special" and limited(reader, "escaped keys")
    return published.place if selection is both and not escaped else published.copy(name, selection)


def _short(reader: Reader) -> str:
    begins = {"delta-rs": "delta-rs", "DuckDB": "duckdb", "Delta Lake": "delta-spark", "ClickHouse": "chdb"}
    return next((name for start, name in begins.items() if reader.name.startswith(start)), "sail")


def _comparable(published: Published, reader: Reader, tables: list[SeenTable]) -> list[SeenTable]:
    if published.story != "mapped":
        return tables
    if limited(reader, "mapped partitions"):
        tables = [replace(table, row_digest=None) for table in tables]
    # Readers list partition values under physical names, logical ones, or not at all; the rows prove them.
    return [replace(table, files=_without_values(table)) for table in tables]


def _without_values(table: SeenTable) -> tuple[SeenFile, ...] | None:
    return table.files and tuple(replace(file, partition_values=None) for file in table.files)


def frugally(*stories: str) -> pytest.MarkDecorator:
    """Let the default suite have the readers besides delta-rs open these stories alone."""
    return pytest.mark.default_when(
        parameters=lambda those: those["reader"] == "delta-rs" or those["published"] in stories
    )


@pytest.mark.default_on("disk")
@frugally("mapped")
def test_the_commits_alone_are_enough(published: Published, reader: Reader) -> None:
    assert_seen(published, reader, "commits", json_alone, range(NEWEST + 1))


@pytest.mark.default_on("disk")
@pytest.mark.parametrize(
    "checkpoint",
    [
        pytest.param(CHECKPOINTS[0], marks=frugally()),
        *(pytest.param(each, marks=frugally("removed", "sidecars", "vectors")) for each in CHECKPOINTS[1:]),
    ],
)
def test_a_checkpoint_is_enough_for_it_and_what_follows(published: Published, reader: Reader, checkpoint: int) -> None:
    selection, versions = checkpoint_alone(checkpoint), range(checkpoint, NEWEST + 1)
    assert_seen(published, reader, f"from-{checkpoint}", selection, versions)
    kept = log_of(published.copy(f"from-{checkpoint}", selection)).versions("json")
    assert sorted(kept.values()) == list(versions)


@pytest.mark.default_on("disk")
@frugally("special")
def test_the_log_as_published_serves_every_version(published: Published, reader: Reader) -> None:
    assert_seen(published, reader, "all", both, range(NEWEST + 1))


@frugally("removed")
@pytest.mark.requirement("R41")
@pytest.mark.parametrize(
    ("root", "published"),
    [
        ("s3", "removed"),
        pytest.param("s3", "sidecars", marks=pytest.mark.elsewhere),
        ("s3", "special"),
        ("versitygw", "sidecars"),
    ],
    indirect=True,
)
def test_the_log_on_either_s3_server_serves_every_version(published: Published, reader: Reader) -> None:
    assert_seen(published, reader, "all", both, range(NEWEST + 1))


@pytest.mark.default_on("disk")
@pytest.mark.parametrize("published", ["mapped"], indirect=True)
def test_duckdb_still_reads_null_from_a_mapped_partition_column(published: Published, duckdb_delta: Reader) -> None:
    found = duckdb_delta.snapshot(published.place.location, NEWEST, rows=True, store=published.place.store)
    ours = published.life.seen(NEWEST)
    assert found.row_count == ours.row_count
    assert found.row_digest != ours.row_digest


@pytest.mark.default_on("disk")
@pytest.mark.parametrize("published", ["appended"], indirect=True)
def test_sail_still_finds_no_way_back_before_the_newest_checkpoint(published: Published, sail_delta: Reader) -> None:
    with pytest.raises(RequestFailed, match="Missing commit file"):
        sail_delta.snapshot(published.place.location, INTERVAL + 2, store=published.place.store)


@pytest.mark.parametrize("root", ["s3"], indirect=True)
@pytest.mark.parametrize("published", ["special"], indirect=True)
def test_sail_still_finds_no_key_that_a_url_escapes(published: Published, sail_delta: Reader) -> None:
    with pytest.raises(RequestFailed, match="No commit files found"):
        sail_delta.snapshot(published.place.location, store=published.place.store)


@frugally("sidecars")
@pytest.mark.parametrize("root", ["s3"], indirect=True)
@pytest.mark.parametrize("published", [pytest.param("removed", marks=pytest.mark.elsewhere), "sidecars"], indirect=True)
def test_a_reader_asks_for_no_commit_before_the_checkpoint(
    published: Published, reader: Reader, s3_proxy: S3Proxy
) -> None:
    place = _place(published, reader, "all", both, NEWEST)
    assert place.store is not None
    reader.snapshot(place.location, rows=True, store=s3_proxy.settings(place.store))
    names = [access.key.rpartition("/")[2] for access in s3_proxy.log if access.method == "GET"]
    commits = {int(name.removesuffix(".json")) for name in names if re.fullmatch(r"\d{20}\.json", name)}
    assert any(name.startswith(f"{CHECKPOINTS[-1]:020d}.checkpoint") for name in names)
    assert commits <= set(range(CHECKPOINTS[-1], NEWEST + 1))
