"""Which combinations of a test are in the default suite."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.suite.combinations import is_default, is_left_out

EVERY_PAIR = ["sqlite-disk", "sqlite-s3", "duckdb-disk", "duckdb-s3", "postgresql-disk", "postgresql-s3"]


def default(combinations: list[str], tests: list[str]) -> list[str]:
    return [test for test in tests if is_default(frozenset(filter(None, test.split("-"))), combinations)]


@pytest.mark.parametrize(
    ("combinations", "tests", "kept"),
    [
        (["sqlite"], ["sqlite", "duckdb", "postgresql"], ["sqlite"]),
        (["sqlite"], EVERY_PAIR, ["sqlite-disk", "sqlite-s3"]),
        (["sqlite"], ["memory", "s3", ""], ["memory", "s3", ""]),
        (["memory", "s3"], ["memory", "disk", "s3", "versitygw", "azure"], ["memory", "s3"]),
        (["sqlite-disk", "postgresql-s3"], EVERY_PAIR, ["sqlite-disk", "postgresql-s3"]),
        (["sqlite-disk", "postgresql-s3"], ["sqlite", "duckdb", "disk"], ["sqlite", "disk"]),
    ],
)
def test_a_mark_limits_the_kinds_of_places_that_it_names(
    combinations: list[str], tests: list[str], kept: list[str]
) -> None:
    assert default(combinations, tests) == kept


def item(parameters: dict[str, str], mark: pytest.MarkDecorator) -> Any:
    marks = {mark.name: mark.mark}
    callspec = SimpleNamespace(id="-".join(parameters.values()), params=parameters)
    return SimpleNamespace(callspec=callspec, get_closest_marker=marks.get)


def test_a_condition_limits_the_parameters_of_a_test() -> None:
    by_any_but_spark = pytest.mark.default_when(parameters=lambda those: those["reader"] != "spark")
    left_out = {reader: is_left_out(item({"reader": reader}, by_any_but_spark)) for reader in ("rust", "spark")}
    assert left_out == {"rust": False, "spark": True}
