"""Logs that others wrote are taken in verbatim, and at every version the projections say what replay says."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.replay import State
from deltamirror.errors import InvalidAction, Unsupported
from tests.support.lakes.lake import adds_of, opened
from tests.support.reference_logs.files import begin_table, commit_files, committed_verbatim
from tests.support.reference_logs.golden import reference

pytestmark = [
    pytest.mark.requirement("R37"),
    pytest.mark.requirement("R40"),
    pytest.mark.reference,
]

REFERENCE = reference()

ON_EVERY_ENGINE = 2
"""How many logs go into the engines besides SQLite."""


def replayable() -> Iterator[tuple[Path, list[bytes]]]:
    for log in REFERENCE.logs:
        if files := list(commit_files(log)):
            yield log, files


def take_in(catalog: Catalog, name: str, files: list[bytes]) -> None:
    """Commit every file verbatim, and compare each version with what replay makes of the same files."""
    begin_table(catalog, name, files[0])
    assert len(list(committed_verbatim(catalog, name, dict(enumerate(files))))) == len(files) - 1
    table, state = catalog.table(name), State()
    for version, data in enumerate(files):
        state.apply(decode_commit(data))
        assert table.commit_file(version) == data
        found = table.snapshot(version)
        assert (found.protocol, found.metadata) == (state.protocol, state.metadata)
        assert adds_of(found.files()) == state.files
        assert found.transactions() == state.txns
        assert found.domain_metadata() == state.domains


def refused(catalog: Catalog, logs: list[tuple[Path, list[bytes]]]) -> dict[str, set[str]]:
    """The logs that are refused, by the reason."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for number, (log, files) in enumerate(logs):
        try:
            take_in(catalog, f"t{number}", files)
        except InvalidAction as error:
            found[error.rule].add(REFERENCE.name_of(log))
        except Unsupported as error:
            found[error.code].add(REFERENCE.name_of(log))
    return dict(found)


def test_every_reference_log_is_taken_in_but_for_those_named_here(sqlite_lake: str) -> None:
    logs = list(replayable())
    with opened(sqlite_lake) as catalog:
        found = refused(catalog, logs)
    assert found == REFERENCE.refused_commits
    assert len(logs) == REFERENCE.num_logs


@pytest.mark.default_on("duckdb", "postgresql")  # on SQLite all logs are, above
def test_every_engine_takes_in_the_same_logs(lake_url: str) -> None:
    logs = sorted(replayable(), key=lambda log: -len(log[1]))[2 : 2 + ON_EVERY_ENGINE]
    with opened(lake_url) as catalog:
        assert refused(catalog, logs) == {}


def test_a_large_reference_commit_is_staged_verbatim(lake_url: str) -> None:
    """However a commit is stored, its bytes and its state are the same."""
    logs = sorted(replayable(), key=lambda log: -max(file.count(b"\n") for file in log[1]))[:2]
    with opened(lake_url, stage_above=3, chunk_lines=2) as catalog:
        assert refused(catalog, logs) == {}
        assert max(entry.num_lines for entry in catalog.table("t0").history()) >= REFERENCE.large
