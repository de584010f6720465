"""kill -9 before any statement or COMMIT of an import, and the same command again, end as if nothing had happened."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from deltamirror import Catalog
from deltamirror.config import StorageSettings
from deltamirror.steps import Moment, Step
from deltamirror.storage.open import store_at
from deltamirror.txnlog.database.schema import METADATA, catalog, imports, tables, versions
from tests.support.imports.foreign_logs import HISTORY, put_classic, put_log, state_after
from tests.support.imports.importers import assert_as_in
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import commit, file
from tests.support.suite.worker import Worker

pytestmark = [pytest.mark.crash]

Dump = dict[str, list[tuple[Any, ...]]]
_EACH_TIME_ANOTHER = {tables.c.created_at, versions.c.txn_id}
STEPS = (Step.BEGIN_IMPORT, Step.STORE_PARTS, Step.FORGET_ENDS, Step.STORE_ENDS, Step.COMPLETE_IMPORT)
LAST = 6


@pytest.fixture(scope="module")
def importers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("tests.support.crashes.import_kills", tmp_path_factory.mktemp("importers"))
    yield worker
    worker.close()


class Scene:
    """An empty catalog, and a table of somebody else: a checkpoint in several pieces, its commit, and further ones."""

    def __init__(self, worker: Worker, url: str, folder: Path, *, commits_only: bool) -> None:
        self._commits_only = commits_only
        self.store = store_at(str(folder / "lake" / "t"), StorageSettings())
        self._worker, self._url = worker, url
        self._words = {name: str(folder / name) for name in ("said", "passed")}
        put_classic(self.store, 2, rows(state_after(HISTORY[:3])), row_group_size=3)
        put_log(self.store, {2: HISTORY[2], 3: HISTORY[3]})
        put_log(self.store, {version: commit(file(f"more-{version}")) for version in range(4, LAST + 1)})

    def type(self, *, kill_before: int = 0) -> dict[str, Any]:
        """Let a process import the table."""
        request = {"url": self._url, "location": self.store.location, "kill_before": kill_before, **self._words}
        request["commits_only"] = self._commits_only
        found: dict[str, Any] = self._worker.ask(request)
        return found

    def dump(self) -> Dump:
        """Every row of every table, but for what differs each time."""
        with Catalog(self._url) as lake, lake.database.read() as connection:
            return {
                table.name: sorted(
                    (tuple(row) for row in connection.execute(select(*_lasting(table)))),
                    key=repr,
                )
                for table in METADATA.sorted_tables
            }

    def progress(self) -> tuple[int, int] | None:
        """How far an import is that is under way."""
        with Catalog(self._url) as lake, lake.database.read() as connection:
            found = connection.execute(select(imports.c.next_version, imports.c.next_part)).one_or_none()
            return None if found is None else (found.next_version, found.next_part)

    def names(self) -> list[str]:
        """The tables that anybody can see."""
        with Catalog(self._url) as lake:
            return [info.name for info in lake.tables()]

    def empty(self) -> None:
        """Begin again."""
        with Catalog(self._url) as lake, lake.database.write() as session:
            for table in METADATA.sorted_tables:
                if table is not catalog:
                    session.execute(delete(table))


def _lasting(table: Any) -> list[Any]:
    return [column for column in table.columns if column not in _EACH_TIME_ANOTHER]


@pytest.mark.slow
@pytest.mark.default_on("sqlite")
@pytest.mark.requirement("R33")
@pytest.mark.requirement("R43")
@pytest.mark.parametrize(
    "commits_only", [True, pytest.param(False, marks=pytest.mark.elsewhere)], ids=["at a COMMIT", "at a statement"]
)
def test_an_import_killed_before_any_step_goes_on_at_once_to_the_same_end(
    importers: Worker, lake_url: str, tmp_path: Path, commits_only: bool
) -> None:
    scene = Scene(importers, lake_url, tmp_path, commits_only=commits_only)
    clean = scene.type()
    assert clean["exits"] == 0
    assert set(clean["passed"]) == {f"{moment} {step}" for moment in Moment for step in STEPS}
    expected = scene.dump()
    with Catalog(lake_url) as lake:
        assert_as_in(scene.store, lake, first=2, last=LAST)
    places: set[tuple[int, int] | None] = set()
    deaths = Counter[str]()
    killed_at_the_end, step = 0, 0
    while True:
        scene.empty()
        step += 1
        first = scene.type(kill_before=step)
        if not first["killed"]:
            break
        deaths.update(first["passed"][-1:])
        visible = scene.names()
        if visible:
            # All of it, or nothing.
            assert scene.dump() == expected, step
            killed_at_the_end += 1
        else:
            places.add(scene.progress())
        again = scene.type()
        assert again["exits"] == (12 if visible else 0), (step, again["said"])
        assert scene.dump() == expected, step
    assert first["exits"] == 0, first["said"]
    # Deaths of all kinds happened: before the first row, in the base, between versions, and after the last COMMIT.
    assert killed_at_the_end >= 1
    # At each step: before its COMMIT, and after it.
    assert all(deaths[f"{Moment.BEFORE} {each}"] >= 2 for each in STEPS)
    assert {None, (2, 0), (3, 0), (LAST + 1, 0)} <= places
    assert any(place is not None and place[0] == 2 and place[1] > 0 for place in places)
    assert step > (15 if commits_only else 30)
