"""kill -9 between any two statements of a commit leaves no trace of it, or all of it (G2)."""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import select

from deltamirror import Add, Catalog
from deltamirror.delta import lines
from deltamirror.delta.replay import replay
from deltamirror.errors import CommitUnknown, Transient, Unavailable
from deltamirror.txnlog.database.schema import METADATA
from tests.support.crashes.commit_kills import SCENARIOS, open_catalog, path_of, perform
from tests.support.servers.postgres import prepared_server
from tests.support.suite.worker import Worker

pytestmark = [pytest.mark.crash, pytest.mark.requirement("R35")]

Dump = Mapping[str, list[tuple[Any, ...]]]
_EVERYTHING = -3600.0
_DEFAULT_ON = {"append": ("sqlite", "duckdb", "postgresql"), "large": ()}
"""Where the default suite has a scenario; the others on SQLite. What a transaction is, each database shows once;
between the transactions of a large commit, ``test_crash_matrix.py`` strikes."""


@pytest.fixture(scope="module")
def committer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("tests.support.crashes.commit_kills", tmp_path_factory.mktemp("committer"))
    yield worker
    worker.close()


@pytest.fixture
def prepared(catalog_url: str) -> str:
    with open_catalog(catalog_url) as catalog:
        catalog.init()
        for name in ("t", "u"):
            catalog.create_table(name, location=f"/lake/{name}", schema="id long")
        perform(catalog, "append", 0)
    return catalog_url


def dump(catalog: Catalog) -> Dump:
    """Every row of every table."""
    with catalog.database.read() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for table in METADATA.sorted_tables
        }


def heads(catalog: Catalog) -> dict[str, int]:
    return {info.name: info.head for info in catalog.tables()}


def assert_sound(catalog: Catalog) -> None:
    """The versions are contiguous, and every version's files are what its bytes say."""
    for name, head in heads(catalog).items():
        table = catalog.table(name)
        assert [entry.version for entry in table.history()] == list(range(head, -1, -1))
        commits = [lines.decode_commit(table.commit_file(version)) for version in range(head + 1)]
        listed = table.snapshot().files().column("path").to_pylist()
        assert sorted(listed) == sorted(path for path, _ in replay(commits).files)


@pytest.mark.requirement("R38")
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(each, marks=pytest.mark.default_on(*_DEFAULT_ON.get(each, ("sqlite",)))) for each in SCENARIOS],
)
def test_a_killed_commit_is_in_the_log_as_a_whole_or_not_at_all(
    prepared: str, committer: Worker, scenario: str
) -> None:
    with open_catalog(prepared) as catalog:
        before, versions = dump(catalog), heads(catalog)
    outcomes: list[str] = []
    while "survived" not in outcomes:
        step = len(outcomes) + 1
        asked = {"url": prepared, "scenario": scenario, "step": step, "kill_before": step}
        killed = committer.ask(asked)["killed"]
        with open_catalog(prepared) as catalog:
            catalog.writer.optimise(older_than=_EVERYTHING)
            nothing = dump(catalog) == before
            outcomes.append("nothing" if nothing else "everything" if killed else "survived")
            if not nothing:
                assert_sound(catalog)
            finished = _finish(catalog, scenario, step, repeat=nothing)
            # Whatever became of the killed process: in the end each step is one version of each of its tables.
            versions = {name: head + (name in finished) for name, head in versions.items()}
            assert finished.items() <= versions.items()
            assert heads(catalog) == versions
            before = dump(catalog)
    # Between the last statement and the reply there are two deaths: before COMMIT, and after it.
    assert outcomes[-3:] == ["nothing", "everything", "survived"]
    assert outcomes.count("everything") == 1


def _finish(catalog: Catalog, scenario: str, step: int, *, repeat: bool) -> dict[str, int]:
    """What a client does that had no answer: the same again, by its token; without one, if it sees that it has to."""
    if scenario.endswith("without a token") and not repeat:
        return {"t": heads(catalog)["t"]}
    again = perform(catalog, scenario, step)
    assert again.already_applied is not repeat
    return dict(again.versions)


@pytest.mark.default_on("sqlite")
def test_an_orphaned_stage_is_invisible_and_can_be_swept(prepared: str, committer: Worker) -> None:
    with open_catalog(prepared) as catalog:
        before = dump(catalog)
    step, orphaned = 0, 0
    while not orphaned:
        step += 1
        assert committer.ask({"url": prepared, "scenario": "large", "step": 1, "kill_before": step})["killed"]
        with open_catalog(prepared) as catalog:
            after = dump(catalog)
            orphaned = len(after["dl_commit_chunks"]) - len(before["dl_commit_chunks"])
            assert heads(catalog) == {"t": 1, "u": 0}
            assert catalog.table("t").snapshot().files().column("path").to_pylist() == [path_of(0)]
            assert catalog.writer.optimise(older_than=60.0) == 0
            assert catalog.writer.optimise(older_than=_EVERYTHING) == len(after["dl_stages"])
            assert dump(catalog) == before


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.requirement("R38")
def test_a_server_that_restarts_loses_no_commit_and_repeats_none() -> None:
    with prepared_server() as server:
        server.create_cluster()
        server.start()
        url = server.url(server.create_database())
        with Catalog(url) as catalog:
            catalog.init()
            catalog.create_table("t", location="/lake/t", schema="id long")
            writers = [_Stubborn(url, name) for name in "ab"]
            for end in (server.stop, server.crash):
                _wait_for_progress(writers)
                end()
                _wait_for_failures(writers)
                server.start()
            _wait_for_progress(writers)
            answered = {path: version for writer in writers for path, version in writer.finish().items()}
        with Catalog(url) as catalog:
            added = catalog.table("t").snapshot().files().select(["path", "added_version"]).to_pylist()
        assert {row["path"]: row["added_version"] for row in added} == answered
        assert sorted(answered.values()) == list(range(1, len(answered) + 1))


class _Stubborn(threading.Thread):
    """A client that repeats each commit, by its token, until it has an answer."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__()
        self.url, self.prefix = url, name
        self.answered: dict[str, int] = {}
        self.failures = 0
        self.problem: BaseException | None = None
        self._enough = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            with Catalog(self.url) as catalog:
                while not self._enough.is_set():
                    self._commit(catalog, f"{self.prefix}-{len(self.answered)}.parquet")
        except BaseException as error:  # noqa: BLE001  told to the test by finish()
            self.problem = error

    def finish(self) -> dict[str, int]:
        self._enough.set()
        self.join(60)
        assert not self.is_alive()
        assert self.problem is None, repr(self.problem)
        return self.answered

    def _commit(self, catalog: Catalog, path: str) -> None:
        add = Add(path=path, partition_values={}, size=1, modification_time=1, data_change=True)
        while True:
            try:
                self.answered[path] = catalog.table("t").append([add], token=path).versions["t"]
                return
            except (Unavailable, CommitUnknown, Transient):
                self.failures += 1
                time.sleep(0.02)


def _wait_for_failures(writers: list[_Stubborn]) -> None:
    """Until everybody has noticed that the server is away."""
    before = [(writer, writer.failures) for writer in writers]
    while any(writer.failures == count and writer.is_alive() for writer, count in before):
        time.sleep(0.01)


def _wait_for_progress(writers: list[_Stubborn]) -> None:
    goals = [(writer, len(writer.answered) + 15) for writer in writers]
    while any(len(writer.answered) < goal and writer.is_alive() for writer, goal in goals):
        time.sleep(0.01)
