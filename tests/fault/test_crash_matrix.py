"""kill -9 before and after every step, on every database and store, and a restart: the state of a run without it.

What a disk is left with does not depend on the database: on DuckDB and a disk, processes are struck at COMMITs alone.
The default suite has every scene on SQLite and a disk; on PostgreSQL and S3 those with steps that S3 or PostgreSQL
takes otherwise. What a transaction is on each database, DuckDB too, ``test_commit_kill.py`` shows: it strikes between
the statements of a commit.
Between two steps nothing changes, so that after one of them is before the next: the default suite strikes after each
step, ``make soak`` before it, too.

This is G6 of the README.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deltamirror.config import StorageSettings
from deltamirror.steps import Moment
from tests.support.crashes.scenes import SCENES
from tests.support.crashes.strikes import BY_THE_CLOCK, STRIKES, Strike
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.small_lakes import Part, prepared
from tests.support.readers.s3_access import S3Access
from tests.support.servers.postgres_server import PostgresServer
from tests.support.servers.seaweed_server import SeaweedServer
from tests.support.suite.worker import Worker

pytestmark = [
    pytest.mark.default_on("sqlite-disk", "postgresql-s3"),
    pytest.mark.crash,
    pytest.mark.slow,
]

AT_ONCE = 3


def strikes_of(scene: str, engine: str, store: str) -> list[Strike]:
    """At what a process is struck there."""
    strikes = [strike for strike in STRIKES if strike.scene == scene and store in strike.stores]
    commits_only = (engine, store) == ("duckdb", "disk")
    return [strike for strike in strikes if strike.is_commit or not commits_only]


DEFAULT_SCENES = {"duckdb": (), "postgresql": ("append", "mirror", "clean")}


def _marks(engine: str, store: str, scene: str, moment: Moment) -> list[pytest.MarkDecorator]:
    if scene not in DEFAULT_SCENES.get(engine, SCENES) or moment is Moment.BEFORE:
        return [pytest.mark.elsewhere]
    return [pytest.mark.postgres] if engine == "postgresql" else []


ON_LAKES = [
    pytest.param(
        place,
        scene,
        moment,
        id="-".join((*place, scene, moment)),
        marks=_marks(*place, scene, moment),
    )
    for place in product(ENGINES, ("disk", "s3"))
    for scene in SCENES
    if place[0] in SCENES[scene].databases and strikes_of(scene, *place)
    for moment in Moment
]


@dataclass(frozen=True)
class Lake:
    """A lake in parts on one database and one store, and databases for copies of it."""

    parts: dict[str, Part]
    urls: list[str]
    root: str
    folder: Path
    storage: StorageSettings | None

    def jobs(self, scene: str, moment: Moment) -> list[dict[str, Any]]:
        """A run that is left alone, and one for each point of the scene at this moment."""
        strikes = strikes_of(scene, self.urls[0].partition(":")[0], "disk" if self.storage is None else "s3")
        told = [{"point": f"{moment} {each.step}", "turn": each.turn} for each in strikes]
        names = [f"{scene}-{moment}-{number}".replace(" ", "-") for number in range(len(told) + 1)]
        return [self._job(scene, name, point) for name, point in zip(names, [{}, *told], strict=True)]

    def _job(self, scene: str, name: str, point: dict[str, Any]) -> dict[str, Any]:
        return {
            "scene": scene,
            "part": asdict(self.parts[SCENES[scene].part]),
            "folder": str(self.folder / name),
            "root": f"{self.root}/{name}",
            "s3": None if self.storage is None else asdict(S3Access.of(self.storage)),
            **point,
        }


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("tests.support.crashes.matrix", tmp_path_factory.mktemp("crashes"))
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def lakes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], Lake]]:
    """One for each database and store, made when it is first asked for."""
    with ExitStack() as stack:
        yield cache(lambda engine, kind: _lake(engine, kind, request, tmp_path_factory.mktemp("lake"), stack))


def _lake(engine: str, kind: str, request: pytest.FixtureRequest, folder: Path, stack: ExitStack) -> Lake:
    database = _Databases(engine, request, folder)
    if kind == "disk":
        parts = prepared(database.url, f"{folder}/lake")
        return Lake(parts, database.copies(), f"{folder}/copies", folder / "jobs", None)
    server: SeaweedServer = request.getfixturevalue("seaweed_server")
    server.ensure_running()
    bucket, storage = server.create_bucket(), server.settings()
    stack.callback(server.delete_bucket, bucket)
    parts = prepared(database.url, f"s3://{bucket}/lake", storage)
    return Lake(parts, database.copies(), f"s3://{bucket}/copies", folder / "jobs", storage)


class _Databases:
    """An empty database, and others for copies of what was made in it."""

    def __init__(self, engine: str, request: pytest.FixtureRequest, folder: Path) -> None:
        self._prefix = f"{engine}:///{folder}"
        self._suffix = {"sqlite": "db", "duckdb": "duckdb"}.get(engine, "")
        self._server: PostgresServer | None = None
        self.url = f"{self._prefix}/lake.{self._suffix}"
        if engine == "postgresql":
            self._server = request.getfixturevalue("postgres_server")
            self._server.ensure_running()
            self._name = self._server.create_database()
            self.url = self._server.url(self._name)

    def copies(self) -> list[str]:
        """Files that are not there, or databases with the same tables; they go with the server."""
        if self._server is None:
            return [f"{self._prefix}/copy-{number}.{self._suffix}" for number in range(AT_ONCE)]
        names = [f"{self._name}_{number}" for number in range(AT_ONCE)]
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            for name in names:
                connection.execute(f"CREATE DATABASE {name} TEMPLATE {self._name}")
        return [self._server.url(name) for name in names]


@pytest.mark.requirement("R29")
@pytest.mark.requirement("R92")
@pytest.mark.requirement("R93")
@pytest.mark.parametrize(("place", "scene", "moment"), ON_LAKES)
def test_killed_before_and_after_every_step_a_restart_ends_where_a_run_without_it_ends(
    lakes: Callable[[str, str], Lake], crashes: Worker, place: tuple[str, str], scene: str, moment: Moment
) -> None:
    lake = lakes(*place)
    clean, *struck = crashes.ask({"urls": lake.urls, "jobs": lake.jobs(scene, moment)})
    assert not clean["struck"]
    assert clean["left"] == []
    assert struck
    for report in struck:
        point = report["point"]
        assert report["struck"], f"nobody comes to the point {point}"
        assert differences(report["state"], clean["state"]) == {}, point
        assert report["harm"] == [], point
        assert report["left"] == [], point
    expected = {f"{moment} {step}" for moment in Moment for step in {*BY_THE_CLOCK, *(each.step for each in STRIKES)}}
    assert set(clean["points"]) <= expected, "a step has no strike"


def differences(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """What is not the same: kept short, since most is."""
    different: dict[str, Any] = {}
    for part in ("objects", "committed"):
        ours, theirs = found[part].items(), expected[part].items()
        different |= {f"{part} {key}": "" for key, _ in ours ^ theirs}
    for table, rows in comparable(expected["records"]).items():
        if (seen := comparable(found["records"])[table]) != rows:
            different[table] = (seen, rows)
    return different


def comparable(records: dict[str, Any]) -> dict[str, Any]:
    """Without how often something was tried: a crash may take one more."""
    rows = records["dl_mirror_status"]
    return {**records, "dl_mirror_status": [[table, version, state, code] for table, version, state, _, code in rows]}
