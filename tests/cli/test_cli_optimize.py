"""``deltamirror optimize`` as it is typed."""

from datetime import date

import pyarrow as pa
import pytest

from deltamirror import Catalog
from tests.support.interfaces.prompt import Prompt

pytestmark = pytest.mark.requirement("R89")


@pytest.fixture
def scattered(orders: Prompt) -> Prompt:
    """A prompt with the table ``orders``, which has three files of one row each, two of them of one day."""
    with Catalog(f"sqlite:///{orders.folder}/deltamirror.db") as catalog:
        for number, day in enumerate((1, 1, 2)):
            catalog.table("orders").append(pa.table({"id": [number], "day": [date(2024, 1, day)]}))
    return orders


def test_small_files_become_one_and_the_answer_says_so(scattered: Prompt) -> None:
    none = scattered("optimize", "orders", "--where", "day > '2024-01-01'").stdout
    assert none.startswith("orders has no files to be put together; version 3 is still its head.")
    assert scattered("optimize", "orders").stdout.startswith("Optimized orders: 2 files became 1; it is at version 4.")
    again = scattered.json("optimize", "orders")
    assert (again["changed"], again["version"], again["metrics"]) == (False, 4, {})


def test_rows_are_ordered_by_columns(scattered: Prompt) -> None:
    done = scattered("optimize", "orders", "--zorder-by", "id").stdout
    assert done.startswith("Optimized orders: 3 files became 2; it is at version 4.")
    assert "'day' is a partition column" in scattered("optimize", "orders", "--zorder-by", "day", exits=10).stderr


def test_wrong_words_are_named(scattered: Prompt) -> None:
    assert "not partitioned by 'id'" in scattered("optimize", "orders", "--where", "id = 1", exits=10).stderr
    assert "it is empty" in scattered("optimize", "orders", "--where", "", exits=64).stderr
    assert "0 is not a number from 1" in scattered("optimize", "orders", "--target-size", "0", exits=64).stderr
