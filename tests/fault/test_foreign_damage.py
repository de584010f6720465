"""Logs that somebody else damaged, by a seed: readers see what SQL says, or the table stops and names an object.

``python -m tests.damage --seed N`` runs one case again; ``make soak`` runs two thousand.
"""

from pathlib import Path

import pytest

from tests.damage.cases import drawn, run
from tests.damage.lake import KINDS, Lake, prepared
from tests.support.readers.duckdb import DuckDB

SEEDS = 10


@pytest.fixture(scope="module")
def duckdb() -> DuckDB:
    """A reader in this process."""
    return DuckDB()


@pytest.fixture(scope="module", params=KINDS)
def damaged_lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of each kind, which each case begins with."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    return prepared(folder, request.param)


@pytest.mark.requirement("R39")
@pytest.mark.requirement("R56")
@pytest.mark.requirement("R57")
def test_readers_see_what_sql_says_or_the_table_stops_and_names_an_object(damaged_lake: Lake, duckdb: DuckDB) -> None:
    cases = [case for case in map(drawn, range(SEEDS)) if case.kind == damaged_lake.kind]
    assert cases
    findings = {case: run(case, damaged_lake, duckdb) for case in cases}
    assert {case: (done, wrong) for case, (done, wrong) in findings.items() if wrong} == {}
