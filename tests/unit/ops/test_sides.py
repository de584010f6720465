"""How the sides of a comparison are written."""

import pytest

from deltamirror.errors import InvalidInput
from deltamirror.ops.diff.sides import Side, parse_side


@pytest.mark.parametrize(
    ("text", "place", "version"),
    [
        ("orders", "orders", None),
        ("sales.orders@0", "sales.orders", 0),
        ("orders@12", "orders", 12),
    ],
)
def test_a_name_without_a_slash_is_a_table(text: str, place: str, version: int | None) -> None:
    assert parse_side(text) == Side(place=place, is_location=False, version=version)


@pytest.mark.parametrize(
    ("text", "place", "version"),
    [
        ("./orders", "./orders", None),
        ("lake/orders@3", "lake/orders", 3),
        ("s3://lake/orders@12", "s3://lake/orders", 12),
        ("file:/lake/orders", "file:/lake/orders", None),
        ("memory:x", "memory:x", None),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t", None),
        ("abfss://c@account.dfs.core.windows.net/t@4", "abfss://c@account.dfs.core.windows.net/t", 4),
        ("/lake/orders@7/", "/lake/orders@7/", None),
        ("/lake/orders@x", "/lake/orders@x", None),
        ("/lake/a@1@2", "/lake/a@1", 2),
    ],
)
def test_a_slash_or_a_scheme_makes_a_location(text: str, place: str, version: int | None) -> None:
    assert parse_side(text) == Side(place=place, is_location=True, version=version)


@pytest.mark.parametrize("text", ["orders@", "orders@x", "orders@-1", "orders@1.0", "orders@٣", f"orders@{10**18}"])
def test_what_follows_the_name_of_a_table_is_a_version(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a version"):
        parse_side(text)
