"""One place has one spelling, and no table lies in another, however its location is spelled."""

import pytest

from deltamirror.errors import InvalidLocation
from deltamirror.storage.location import canonical_location, folders_above, is_inside

ACCOUNT = "c@account.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("spellings", "canonical"),
    [
        (["/data/t", "//data/t", "///data//t/", "/data/x/../t", "file:/data/t", "file:////data/t"], "file:///data/t"),
        (["s3://b/t", "s3a://b/t/", "s3n://b//t", "S3://b/t"], "s3://b/t"),
        (
            [
                f"abfss://{ACCOUNT}/t",
                f"abfs://{ACCOUNT}//t/",
                "abfss://c@Account.DFS.core.windows.net/t",
                "abfss://c@account.blob.core.windows.net/t",
                "abfss://c@account.dfs.core.windows.net./t",
            ],
            f"abfs://{ACCOUNT}/t",
        ),
    ],
)
def test_all_spellings_of_a_place_are_one(spellings: list[str], canonical: str) -> None:
    assert {canonical_location(each) for each in spellings} == {canonical}


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("file:///data/%E9", "is not UTF-8 text"),
        ("file:///data/%00", "has control characters in it"),
        (r"C:\x", "is a Windows path"),
        (r"\\srv\x", "is a Windows path"),
    ],
)
def test_what_would_become_another_place_is_refused(location: str, why: str) -> None:
    with pytest.raises(InvalidLocation, match=why):
        canonical_location(location)


def test_a_name_in_any_language_may_be_encoded() -> None:
    assert canonical_location("file:///data/%C3%A9") == canonical_location("/data/é")


@pytest.mark.parametrize(
    ("inner", "outer", "inside"),
    [
        ("s3://b/t", "s3://b/t", True),
        ("s3://b/t/u", "s3://b/t", True),
        ("s3://b/tu", "s3://b/t", False),
        ("az://c/t", f"abfs://{ACCOUNT}/t", True),
        (f"abfs://{ACCOUNT}/t/u", "az://c/t", True),
        ("az://other/t", f"abfs://{ACCOUNT}/t", False),
        ("abfs://c@another.dfs.core.windows.net/t", f"abfs://{ACCOUNT}/t", False),
        ("s3://c/t", "az://c/t", False),
    ],
)
def test_a_place_is_in_another_however_both_are_spelled(inner: str, outer: str, inside: bool) -> None:
    assert is_inside(inner, outer) == inside


@pytest.mark.parametrize(
    "location", ["file:///a", "file:///a/b%20c/d", "s3://bucket", "s3://bucket/", "s3://bucket/a/b", "abfs://c@x.y/a/b"]
)
def test_the_folders_above_are_all_that_a_location_lies_in(location: str) -> None:
    above = folders_above(location)
    assert all(is_inside(location, each) for each in above)
    candidates = {location[:end] for end in range(location.index("://") + 4, len(location))}
    expected = {each for each in candidates if is_inside(location, each)}
    assert expected <= {*above, location, "file:///"}  # no table lies at the root of a disk
