"""Which combinations of a test are in the default suite."""

import pytest

from tests.support.combinations import is_default

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
