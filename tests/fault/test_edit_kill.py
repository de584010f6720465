"""kill -9 before any statement or put of an edit of rows: all of its tables change, or none."""

from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamirror import Catalog
from tests.support.crashes.commit_kills import EDIT, open_catalog, perform
from tests.support.suite.examples import at_some_moments
from tests.support.suite.worker import Worker

pytestmark = [pytest.mark.crash, pytest.mark.requirement("R89"), pytest.mark.default_on("sqlite")]

ROWS = 200
"""More than there are moments to be killed at: each step deletes one."""


@pytest.fixture(scope="module")
def committer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker("tests.support.crashes.commit_kills", tmp_path_factory.mktemp("committer"))
    yield worker
    worker.close()


@pytest.fixture
def prepared(catalog_url: str, tmp_path: Path) -> str:
    rows = {"updated": [0, 0], "deleted": range(ROWS), "merged": [-1]}
    with open_catalog(catalog_url) as catalog:
        catalog.init()
        for name, numbers in rows.items():
            table = catalog.create_table(name, location=tmp_path / name, schema="n long")
            table.append(pa.table({"n": pa.array(numbers, pa.int64())}))
    return catalog_url


def edits_in(catalog: Catalog) -> dict[str, int]:
    """How many edits each table shows."""
    found = {name: catalog.table(name).to_arrow().column("n").to_pylist() for name in ("updated", "deleted", "merged")}
    [updated] = set(found["updated"])
    return {"updated": updated, "deleted": ROWS - len(found["deleted"]), "merged": len(found["merged"]) - 1}


def edited(committer: Worker, url: str, step: int, kill_before: int = 0) -> dict[str, Any]:
    """What became of a process that makes one edit, and dies before one of its moments."""
    found: dict[str, Any] = committer.ask({"url": url, "scenario": EDIT, "step": step, "kill_before": kill_before})
    return found


@at_some_moments
def test_a_killed_edit_changes_all_tables_or_none(prepared: str, committer: Worker, every: int) -> None:
    moments = edited(committer, prepared, 0)["moments"]
    assert moments > 3 * 2  # each table's put is two of the moments
    outcomes: list[str] = []
    for step, moment in enumerate(chain(range(1, moments - 1, every), count(moments - 1)), start=1):
        killed = edited(committer, prepared, step, moment)["killed"]
        with open_catalog(prepared) as catalog:
            shown = edits_in(catalog)
            assert len(set(shown.values())) == 1, shown
            is_done = shown["merged"] == step + 1
            outcomes.append("nothing" if not is_done else "everything" if killed else "survived")
            assert perform(catalog, EDIT, step).already_applied is is_done
            assert set(edits_in(catalog).values()) == {step + 1}
        if outcomes[-1] == "survived":
            break
    assert outcomes[-3:] == ["nothing", "everything", "survived"]
    assert outcomes.count("everything") == 1
