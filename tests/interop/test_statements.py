"""Random statements of stock Delta Spark through the LogStore, beside a table that it writes without us.

``python -m tests.statements --seed 17 --steps 50`` takes the steps of one seed, and says which; ``make soak`` takes 200
of them on disk and on S3.
"""

from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.config import Settings
from tests.statements.life import Lake, live
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.requirement("R90")]

SEED, STEPS = 1, 4


@pytest.mark.elsewhere  # where 200 steps are taken, too; test_stock_jobs has most kinds of statements once
def test_random_statements_leave_rows_history_and_log_as_without_us(
    lake: Catalog, tmp_path: Path, delta_spark: Reader
) -> None:
    live(SEED, STEPS, Lake(lake, delta_spark, str(tmp_path), tmp_path, Settings(), {}))
