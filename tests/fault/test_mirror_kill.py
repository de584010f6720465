"""kill -9 at any step of the mirror, and a restart, end in the state that a run without the crash reaches (G6).

The crash matrix kills at every named step; here mirrors are killed before any statement, in ``make soak``, and stopped
at any put for longer than their leases.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deltamirror.config import StorageSettings
from tests.support.crashes.commit_kills import open_catalog, perform
from tests.support.lakes.small_lakes import PARTS, Part, prepared
from tests.support.mirrors.local import committed_files, make_table, mirror_of, published_files
from tests.support.readers.s3_access import S3Access
from tests.support.servers.postgres_server import PostgresServer
from tests.support.suite.examples import at_some_moments
from tests.support.suite.worker import Worker

pytestmark = [pytest.mark.crash]

Report = dict[str, Any]
_AT_ONCE = 12


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("tests.support.crashes.mirror_kills", tmp_path_factory.mktemp("mirrors"))
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def committers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("tests.support.crashes.commit_kills", tmp_path_factory.mktemp("committers"))
    yield worker
    worker.close()


@dataclass(frozen=True)
class Lake:
    """A lake in parts, and databases for copies of it."""

    parts: dict[str, Part]
    urls: list[str]
    root: str
    folder: Path
    storage: StorageSettings | None = None

    def jobs(self, part: str, strike: str, steps: Sequence[int]) -> list[dict[str, object]]:
        s3 = None if self.storage is None else asdict(S3Access.of(self.storage))
        return [
            {
                "part": asdict(self.parts[part]),
                "folder": str(self.folder / f"{part}-{strike}-{step}"),
                "root": f"{self.root}/{part}-{strike}-{step}",
                "s3": s3,
                "strike": strike,
                "at": step,
            }
            for step in steps
        ]

    def reports(self, worker: Worker, part: str, strike: str, steps: Sequence[int]) -> list[Report]:
        """What became of the mirrors that were struck before each of these steps."""
        found: list[Report] = worker.ask({"urls": self.urls, "jobs": self.jobs(part, strike, steps)})
        return found

    def every_step(self, worker: Worker, part: str, strike: str, every: int = 1) -> tuple[Report, list[Report]]:
        """A mirror that was left alone, and those that were struck before each step, up to one that survives.

        Or before ``every`` so many steps.
        """
        (clean,) = self.reports(worker, part, strike, [0])
        struck = self.reports(worker, part, strike, range(1, clean["steps"] + 1 + every, every))
        while struck[-1]["struck"]:
            struck += self.reports(worker, part, strike, [struck[-1]["at"] + 1])
        return clean, struck


@pytest.fixture
def disk_lake(tmp_path: Path) -> Lake:
    parts = prepared(f"sqlite:///{tmp_path / 'lake.db'}", f"{tmp_path}/lake")
    urls = [f"sqlite:///{tmp_path / f'copy-{number}.db'}" for number in range(_AT_ONCE)]
    return Lake(parts, urls, f"{tmp_path}/copies", tmp_path / "jobs")


@pytest.fixture
def s3_lake(
    postgres_server: PostgresServer,
    postgres_database: str,
    s3_bucket: str,
    s3_settings: StorageSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Lake:
    for name, value in S3Access.of(s3_settings).environment().items():
        monkeypatch.setenv(name, value)
    root = f"s3://{s3_bucket}"
    parts = prepared(postgres_server.url(postgres_database), f"{root}/lake", s3_settings)
    # They go with the server: dropping one takes longer than making all.
    names = [f"{postgres_database}_{number}" for number in range(_AT_ONCE)]
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {postgres_database}")
    urls = [postgres_server.url(name) for name in names]
    return Lake(parts, urls, f"{root}/copies", tmp_path / "jobs", s3_settings)


@pytest.fixture(params=["sqlite-disk", pytest.param("postgresql-s3", marks=[pytest.mark.postgres])])
def lake(request: pytest.FixtureRequest) -> Lake:
    found: Lake = request.getfixturevalue({"sqlite-disk": "disk_lake", "postgresql-s3": "s3_lake"}[request.param])
    return found


@pytest.mark.elsewhere
@pytest.mark.slow
@pytest.mark.requirement("R29")
@pytest.mark.requirement("R43")
@pytest.mark.parametrize(
    ("lake", "part"),
    [
        ("sqlite-disk", PARTS[0]),
        ("sqlite-disk", PARTS[-1]),
        pytest.param("postgresql-s3", PARTS[-1], marks=[pytest.mark.postgres]),
    ],
    indirect=["lake"],
)
def test_a_mirror_killed_before_any_step_converges_to_what_one_left_alone_writes(
    mirrors: Worker, lake: Lake, part: str
) -> None:
    clean, struck = lake.every_step(mirrors, part, "kill")
    assert_complete(clean, part)
    for report in struck:
        assert_same_end(report, clean)
        assert_written_once(report)
    assert not clean["struck"]
    assert [report["at"] for report in struck] == list(range(1, len(struck) + 1))
    assert_struck(struck)
    # Deaths of all kinds happened: before the first object, between two, and after the last.
    lefts = {len(report["left"]) for report in struck}
    first, last = len(struck[0]["left"]), len(clean["left"])
    assert (min(lefts), max(lefts)) == (first, last)
    assert len(lefts) > (last - first) / 2 > 5


@pytest.mark.slow
@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R29")
@at_some_moments
def test_a_mirror_that_sleeps_past_its_lease_at_any_put_wakes_to_do_no_harm(
    mirrors: Worker, lake: Lake, every: int
) -> None:
    """Stopped before or after any put, while another one does all of the work; then it goes on."""
    part = "first" if lake.storage is None else "second"
    clean, struck = lake.every_step(mirrors, part, "stop", every)
    for report in struck:
        assert report["woke harmlessly"], report["at"]
        assert_same_end(report, clean)
        assert_written_once(report)
    assert_struck(struck)
    assert len(struck) * every > 2 * len(created(clean))


@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R25")
def test_what_a_writer_committed_before_it_was_killed_is_mirrored(
    catalog_url: str, tmp_path: Path, committers: Worker
) -> None:
    with open_catalog(catalog_url) as catalog:
        catalog.init()
        make_table(catalog, tmp_path)
        perform(catalog, "append", 0)
    killed_after_commit, step, killed = 0, 0, True
    while killed:
        step += 1
        asked = {"url": catalog_url, "scenario": "append", "step": step, "kill_before": step}
        killed = committers.ask(asked)["killed"]
        with open_catalog(catalog_url) as catalog, mirror_of(catalog) as engine:
            table, (status,) = catalog.table("t"), engine.status()
            killed_after_commit += killed and step > 1 and status.pending > 0
            assert engine.run(once=True).failures == []
            assert published_files(table) == committed_files(table)
            assert table.info().published == table.info().head
            # A client that had no answer asks again, so that the next step has something to build on.
            perform(catalog, "append", step)
            engine.run(once=True)
    assert killed_after_commit == 1


def assert_struck(reports: Sequence[Report]) -> None:
    """Whoever came to its step was struck there. How many steps there are, the clock says, too: leases are renewed."""
    assert not reports[-1]["struck"]
    assert all(report["struck"] or report["steps"] < report["at"] for report in reports)


def created(report: Report) -> list[str]:
    """The objects of logs that came into being."""
    made = [key for operation, key, happened in report["written"] if operation == "create" and happened == "True"]
    return [key for key in made if "/_delta_log/" in key]


def assert_complete(clean: Report, part: str) -> None:
    """The run that the others are compared with did all that there was to do, in one go."""
    bases = {row[1]: row[-1] for row in clean["seen"]["records"]["dl_checkpoints"]}
    assert bases == {"first": {5: None}, "second": {5: None, 10: 5}}[part]
    published = {row[1]: row[2] for row in clean["seen"]["records"]["dl_tables"]}
    assert published == {"first": {"t": 5, "u": 1}, "second": {"t": 10, "u": 2}}[part]


def assert_same_end(report: Report, clean: Report) -> None:
    found, expected = report["seen"], clean["seen"]
    assert found["committed"] == expected["committed"]
    assert found["committed"].items() <= found["objects"].items(), report["at"]
    assert report["troubles"] == [], report["at"]
    assert found["objects"] == expected["objects"], report["at"]
    assert found["records"] == expected["records"], report["at"]
    assert all(name.startswith(".") for name in report["temporaries"])


def assert_written_once(report: Report) -> None:
    """No object was written again that was there after the death; only the pointer moves. No commit was put twice."""
    for key, tag in report["left"].items():
        assert report["tags"][key] == tag or key.endswith("_last_checkpoint"), (report["at"], key)
    writes = Counter(
        key for operation, key, happened in report["written"] if happened == "True" and key.endswith(".json")
    )
    assert all(operation == "create" for operation, key, _ in report["written"] if key.endswith(".json"))
    assert all(count == 1 for count in writes.values()), report["at"]
