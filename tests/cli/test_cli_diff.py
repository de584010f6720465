"""``deltamirror diff`` as it is typed: tables and locations, equal or not, and what is neither."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.interfaces.prompt import Prompt

LOCAL = ("mirror", "--once", "--runner", "local")


def differing(prompt: Prompt, *sides: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(prompt("diff", *sides, "--json", exits=2).stdout)
    assert not found["equal"]
    return found


@pytest.mark.parametrize(
    "sides",
    [
        ("orders", "lake/orders"),
        ("lake/orders", "orders"),
        ("orders", "orders@3"),
        ("orders@2", "./lake/orders@2"),
        ("lake/orders@0", "orders@0"),
    ],
)
def test_what_is_published_equals_what_is_committed(published: Prompt, sides: tuple[str, str]) -> None:
    found = published.json("diff", *sides)
    assert (found["equal"], found["first"], found["counts"]) == (True, None, {})
    assert found["a"]["version"] == found["b"]["version"]


def test_equal_tables_are_told_in_one_line(published: Prompt) -> None:
    said = published("diff", "orders", "lake/orders").stdout
    assert said == "Equal: orders at version 3, and lake/orders at version 3.\n"


def test_two_versions_of_a_table_differ_by_their_files(published: Prompt) -> None:
    found = differing(published, "orders@1", "orders")
    assert found == {
        "equal": False,
        "a": {"table": "orders", "version": 1, "files": 1},
        "b": {"table": "orders", "version": 3, "files": 3},
        "first": "file b.parquet is in B and not in A",
        "counts": {"only_in_b": 2},
    }


def test_differences_are_told_and_counted_by_kind(published: Prompt) -> None:
    shutil.copytree(published.folder / "lake/orders", published.folder / "copy")
    published("table", "alter", "orders", "--set", "delta.appendOnly=false")
    commit = published.folder / f"copy/_delta_log/{3:020}.json"
    commit.write_text(commit.read_text().replace("c.parquet", "d.parquet"))
    changed = published.folder / f"copy/_delta_log/{1:020}.json"
    changed.write_text(changed.read_text().replace('"size":10', '"size":11'))
    assert published("diff", "orders", "copy/", exits=2).stdout.splitlines() == [
        "A is orders at version 4, B is copy/ at version 3. They differ:",
        'metaData configuration delta.appendOnly is "false" in A and absent in B.',
        "  metaData: 1 difference",
        "  1 file in A only",
        "  1 file in B only",
        "  1 file in both, with other fields",
        "  1 file with another size",
    ]


def test_a_rebuilt_log_equals_its_table(published: Prompt) -> None:
    published("rebuild", "orders", "--to", "again", "--versions", "2..3")
    for version in (2, 3):
        assert published.json("diff", f"orders@{version}", f"./again@{version}")["equal"]


def test_a_checkpoint_says_what_the_commits_said(published: Prompt) -> None:
    published("checkpoint", "orders", "--runner", "local")
    assert published.json("diff", "orders", "lake/orders")["equal"]


def test_two_locations_need_no_catalog(published: Prompt) -> None:
    (published.folder / "deltamirror.db").unlink()
    assert published.json("diff", "lake/orders", f"file://{published.folder}/lake/orders")["equal"]
    assert not (published.folder / "deltamirror.db").exists()


def test_a_folder_whose_name_ends_like_a_version_is_written_with_a_slash(published: Prompt) -> None:
    shutil.copytree(published.folder / "lake/orders", published.folder / "old@1")
    assert published.json("diff", "orders", "./old@1/")["equal"]


def test_a_table_that_is_not_there_is_not_found(published: Prompt) -> None:
    error = published.error("diff", "orders", "nope", exits=11)
    assert error["table"] == "nope"
    assert "./nope" in error["hint"]


@pytest.mark.parametrize("side", ["orders@9", "lake/orders@9"])
def test_a_version_that_is_not_there_is_not_found(published: Prompt, side: str) -> None:
    assert published.error("diff", "orders", side, exits=11)["version"] == 9


@pytest.mark.parametrize("side", ["orders@x", "orders@-1", "orders@", "orders@1.5", "orders@9999999999999999999"])
def test_what_is_no_version_is_refused(published: Prompt, side: str) -> None:
    error = published.error("diff", "orders", side, exits=10)
    assert "is not a version" in error["message"]
    assert "orders@7" in error["hint"]


def test_a_location_without_a_log_is_told_apart(published: Prompt) -> None:
    (published.folder / "empty").mkdir()
    error = published.error("diff", "orders", "./empty", exits=11)
    assert str(published.folder / "empty") in error["message"]
    assert published.error("diff", "./nowhere", "orders", exits=11)["message"]


def test_a_damaged_commit_is_named(published: Prompt) -> None:
    commit = published.folder / f"lake/orders/_delta_log/{2:020}.json"
    commit.write_text(commit.read_text()[:-20])
    error = published.error("diff", "orders", "lake/orders", exits=10)
    assert f"{2:020}.json" in error["message"]


def test_one_side_alone_is_a_usage_error(published: Prompt) -> None:
    published.error("diff", "orders", exits=64)
    published.error("diff", exits=64)


def test_an_empty_side_is_refused(published: Prompt) -> None:
    published.error("diff", "orders", "", exits=11)


def test_a_catalog_that_is_not_there_is_told(prompt: Prompt, tmp_path: Path) -> None:
    assert prompt.error("diff", "orders", "lake/orders", exits=17)["code"] == "catalog-mismatch"
