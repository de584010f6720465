"""What a vacuum deletes, against a model over random histories: G9 for data files."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog
from tests.support.lakes.vacuums import History, contents
from tests.support.mirrors.local import mirror_of
from tests.support.readers.reader import Reader
from tests.support.suite.examples import long_examples

pytestmark = pytest.mark.requirement("R89")


@pytest.fixture
def history(request: pytest.FixtureRequest, sqlite_lake: str, tmp_path: Path) -> Iterator[History]:
    with Catalog(sqlite_lake) as catalog, mirror_of(catalog) as engine:
        lived = History(catalog, engine, tmp_path, random.Random(request.param))
        lived.live(12)
        yield lived


def seconds(days: int) -> float:
    """Half a day more than these: what is as many days old is younger, for certain."""
    return (days + 0.5) * 86_400


def rows(history: History, days: int) -> dict[int, list[tuple[object, ...]]]:
    found = {version: history.table.to_arrow(version=version) for version in history.retained(days)}
    return {v: sorted(map(tuple, map(dict.values, each.to_pylist())), key=str) for v, each in found.items()}


@pytest.mark.parametrize("history", range(long_examples(40)), indirect=True)
def test_a_vacuum_deletes_what_no_retained_version_names_and_nothing_else(history: History, tmp_path: Path) -> None:
    days = history.chance.choice((3, 7, 7, 12))
    before, outside, kept = contents(tmp_path / "t"), contents(tmp_path) - contents_below(tmp_path), rows(history, days)
    expected = history.expected(days)
    shown = history.table.vacuum(seconds(days), dry_run=True, retention_check=False)
    assert (set(shown.paths()), contents(tmp_path / "t")) == (expected, before)
    done = history.table.vacuum(seconds(days), retention_check=False)
    assert (done.num_deleted, contents(tmp_path / "t")) == (len(expected), before - expected)
    assert contents(tmp_path) - contents_below(tmp_path) == outside
    assert rows(history, days) == kept
    assert history.table.vacuum(seconds(days), retention_check=False).num_files == 0


def contents_below(folder: Path) -> set[str]:
    return {key for key in contents(folder) if key.startswith("t/") or "lake.db" in key}


@pytest.mark.parametrize("history", [100], indirect=True)
def test_delta_rs_reads_every_version_that_is_retained(history: History, delta_rs: Reader, tmp_path: Path) -> None:
    history.engine.mirror("t")
    history.published = history.table.info().head
    plain = [v for v in history.retained(7) if not is_special(history, v)]
    before = {v: delta_rs.snapshot(tmp_path / "t", v, rows=True) for v in plain}
    history.table.vacuum(seconds(7))
    history.engine.mirror("t")
    assert {v: delta_rs.snapshot(tmp_path / "t", v, rows=True) for v in plain} == before


def is_special(history: History, version: int) -> bool:
    """Whether it names files by whole paths, which delta-rs does not find, or has vectors."""
    adds = history.table.snapshot(version).adds()
    return any(each.path.startswith("file:") or each.deletion_vector is not None for each in adds)
