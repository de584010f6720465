"""What Delta Lake asks of every log store, asked of ours: for its tables, and for locations that are not its own.

A file that was written is read and listed at once, in order; none is overwritten; of writers at once, one wins.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.config import Settings, StorageSettings
from deltamirror.delta.names import commit_name
from deltamirror.txnlog.access.tokens import Right
from tests.support.interfaces.commit_clients import UNTIMED, commit_lines
from tests.support.interfaces.status_pages import served
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.readers.s3_access import S3Access
from tests.support.spark.stock_jobs import (
    LogStoreListing,
    LogStoreRace,
    LogStoreRead,
    LogStoreWrite,
    job_settings,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.requirement("R90")]

ALREADY = "java.nio.file.FileAlreadyExistsException"


@dataclass(frozen=True, slots=True)
class Log:
    """The folder of a log whose version 0 is there, by a LogStore."""

    spark: Reader
    settings: dict[str, str]
    folder: str

    def write(self, name: str, *lines: str, overwrites: bool = False) -> str:
        answer: str = self.spark.run(LogStoreWrite(self.settings, f"{self.folder}/{name}", lines, overwrites))
        return answer

    def commit(self, version: int, path: str) -> str:
        return self.write(commit_name(version), *commit_lines(path).decode().splitlines())

    def read(self, name: str) -> list[str]:
        found: list[str] = self.spark.run(LogStoreRead(self.settings, f"{self.folder}/{name}"))
        return found

    def names(self, first: str) -> list[str]:
        """The files from this one on, without what the store keeps for itself."""
        found = self.spark.run(LogStoreListing(self.settings, f"{self.folder}/{first}"))
        return [name for name in found if not name.startswith(".")]


@pytest.fixture(params=["ours on disk", "ours on S3", "a stranger's on disk"])
def log(request: pytest.FixtureRequest, delta_spark: Reader, sqlite_lake: str, tmp_path: Path) -> Iterator[Log]:
    settings, hadoop, location, root = Settings(), dict[str, str](), f"file://{tmp_path}/t", f"file:{tmp_path}"
    if request.param == "ours on S3":
        bucket, store = request.getfixturevalue("s3_bucket"), request.getfixturevalue("s3_settings")
        settings, location, root = Settings(storage=store), f"s3://{bucket}/t", f"s3a://{bucket}"
        hadoop = _hadoop(store, bucket)
    with Catalog(sqlite_lake, settings=settings) as catalog:
        catalog.create_table("t", location=location, schema="id long", properties=UNTIMED)
        with mirror_of(catalog, settings=settings) as engine:
            engine.mirror("t")
        with served(catalog, settings=settings) as page:
            job = job_settings(page.url, page.token("job", Right.WRITE), f"{root}/")
            folder = f"{root}/{'other' if request.param.startswith('a') else 't'}/_delta_log"
            found = Log(delta_spark, {**hadoop, **job}, folder)
            if request.param.startswith("a"):
                (tmp_path / "other" / "_delta_log").mkdir(parents=True)
                assert found.commit(0, "first") == ""
            yield found


def _hadoop(store: StorageSettings, bucket: str) -> dict[str, str]:
    return S3Access.of(store).hadoop(bucket)


def test_a_commit_is_read_and_listed_at_once_in_the_order_of_versions(log: Log) -> None:
    for version in range(1, 5):
        assert log.commit(version, f"{version}") == ""
        assert log.names(commit_name(version)) == [commit_name(version)]
    assert log.read(commit_name(4)) == commit_lines("4").decode().splitlines()
    assert log.names(commit_name(0)) == [commit_name(version) for version in range(5)]
    assert log.names(commit_name(3)) == [commit_name(version) for version in range(3, 5)]
    assert log.names(commit_name(5)) == []


def test_a_commit_is_never_overwritten(log: Log) -> None:
    assert log.commit(1, "first") == ""
    for _ in range(2):
        assert log.commit(1, "second").startswith(ALREADY)
    assert log.read(commit_name(1)) == commit_lines("first").decode().splitlines()
    assert log.names(commit_name(0)) == [commit_name(0), commit_name(1)]


def test_a_file_that_is_no_commit_is_replaced_when_that_is_asked_for(log: Log) -> None:
    for text in ("one", "two"):
        assert log.write("_last_checkpoint", text, overwrites=True) == ""
        assert log.read("_last_checkpoint") == [text]


@pytest.mark.default_when(parameters=lambda those: those["log"] == "ours on S3")  # on disk: test_stock_jobs
def test_of_writers_at_once_each_gets_a_version_of_its_own(log: Log) -> None:
    info, *_ = commit_lines().decode().splitlines()
    commits = [[info.replace("WRITE", f"WRITE {driver}.{n}") for n in range(4)] for driver in range(3)]
    won = log.spark.run(LogStoreRace(log.settings, log.folder, commits))
    assert sorted(version for versions in won for version in versions) == list(range(1, 13))
    for versions, lines in zip(won, commits, strict=True):
        assert versions == sorted(versions)
        assert [log.read(commit_name(version)) for version in versions] == [[line] for line in lines]


def test_a_folder_that_is_not_there_is_not_found(log: Log) -> None:
    with pytest.raises(RequestFailed, match="FileNotFoundException"):
        log.spark.run(LogStoreListing(log.settings, f"{log.folder}/no/_delta_log/{commit_name(0)}"))
