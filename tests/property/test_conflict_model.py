"""Whatever transactions do at once, each is told what Delta's rules say: its versions, or the conflict."""

from pathlib import Path

import pytest

from tests.property.interleavings import STAGE_ABOVE, run_interleaving
from tests.support.databases.catalogs import database_url
from tests.support.lakes.lake import opened

pytestmark = pytest.mark.requirement("R36")


@pytest.mark.parametrize(
    ("engine", "seeds"),
    [("sqlite", 15), ("duckdb", 2), pytest.param("postgresql", 2, marks=pytest.mark.postgres)],
)
def test_every_transaction_is_told_what_the_rules_say(
    engine: str, seeds: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with opened(database_url(engine, request, tmp_path), stage_above=STAGE_ABOVE) as catalog:
        catalog.init()
        for seed in range(seeds):
            run_interleaving(catalog, seed)
