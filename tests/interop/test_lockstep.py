"""Random operations in lock-step with Delta Lake on Spark: rows are equal after each, and read by all at every version.

``python -m tests.lockstep --seed 17`` takes the steps of one seed, and says which.
"""

from pathlib import Path

import pytest

from deltamirror import Catalog
from tests.lockstep.life import Readers, live
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.requirement("R89"), pytest.mark.requirement("R90")]

SEED, STEPS = 1, 4


@pytest.mark.elsewhere  # where 200 steps are taken, too; test_row_edits takes each kind of step once
def test_random_operations_leave_the_rows_that_delta_spark_has(
    sqlite_lake: str, tmp_path: Path, delta_spark: Reader, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    with Catalog(sqlite_lake) as catalog:
        live(SEED, STEPS, catalog, Readers(delta_spark, delta_rs, duckdb_delta), tmp_path / "pair")
