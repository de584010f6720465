"""Thousands of random interleavings, on the product and on the model of Delta's conflict checker: ``INTERLEAVINGS``."""

import os
import random
from pathlib import Path

import pytest

from tests.property.interleavings import STAGE_ABOVE, run_interleaving
from tests.support.databases.catalogs import database_url
from tests.support.lakes.lake import opened

COUNT = int(os.environ.get("INTERLEAVINGS", "6000"))
SEED = int(os.environ.get("SOAK_SEED", str(random.SystemRandom().randrange(10**6))))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("engine", "share"), [("sqlite", 4), ("duckdb", 1), pytest.param("postgresql", 1, marks=pytest.mark.postgres)]
)
def test_thousands_of_interleavings_end_as_the_rules_say(
    engine: str, share: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with opened(database_url(engine, request, tmp_path), stage_above=STAGE_ABOVE) as catalog:
        catalog.init()
        for seed in range(SEED, SEED + max(1, COUNT * share // 6)):
            run_interleaving(catalog, seed)
