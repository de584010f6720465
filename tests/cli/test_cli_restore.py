"""``deltamirror restore`` as it is typed."""

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

pytestmark = pytest.mark.requirement("R89")


def test_a_version_comes_back_and_the_answer_says_where(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    assert "Restored orders: it is at version 2." in orders("restore", "orders", "--version", "0").stdout
    assert orders.json("table", "files", "orders")["files"] == []
    again = orders.json("restore", "orders", "--as-of", "2100-01-01")
    assert (again["changed"], again["version"]) == (False, 2)
    error = orders.error("restore", "orders", "--version", "1", exits=11)
    assert (error["code"], "1 of 1 files are gone: a.parquet" in error["message"]) == ("not-found", True)


def test_wrong_words_are_named(orders: Prompt) -> None:
    assert "give --version or --as-of" in orders("restore", "orders", exits=64).stderr
    both = ("--version", "0", "--as-of", "2024-01-01")
    assert "give --version or --as-of" in orders("restore", "orders", *both, exits=64).stderr
    assert "-1 is not a number" in orders("restore", "orders", "--version", "-1", exits=64).stderr
    assert "has no version 7" in orders("restore", "orders", "--version", "7", exits=11).stderr
