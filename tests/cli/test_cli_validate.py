"""``deltamirror validate`` as it is typed: tables, logs and files, in order and broken, and what is none of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

pytestmark = pytest.mark.requirement("R72")

LOCAL = ("mirror", "--once", "--runner", "local")
LOG = "lake/orders/_delta_log"
FIRST, SECOND = (f"{LOG}/{version:020}.json" for version in (0, 1))


@pytest.fixture
def lived(orders: Prompt, add: AddLine) -> Prompt:
    """A prompt with the table ``orders`` at version 1, published."""
    orders("commit", "orders", "-", stdin=add(stats='{"numRecords":1}'))
    orders(*LOCAL)
    return orders


def findings(prompt: Prompt, target: str) -> list[dict[str, Any]]:
    found = json.loads(prompt("validate", target, "--json", exits=2).stdout)
    assert not found["valid"]
    kept: list[dict[str, Any]] = found["findings"]
    return kept


@pytest.mark.parametrize("target", ["lake/orders", "./lake/orders/", LOG, f"{LOG}/", FIRST, f"{LOG}/{1:020}.crc"])
def test_a_log_in_order_is_valid_however_it_is_named(lived: Prompt, target: str) -> None:
    found = lived.json("validate", target)
    assert (found["valid"], found["findings"], found["version"]) == (True, [], 1)


def test_a_log_is_valid_from_within_its_folder(lived: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lived.folder / "lake" / "orders")
    assert lived.json("validate", "_delta_log")["valid"]


def test_it_says_so_in_one_line(lived: Prompt) -> None:
    said = lived("validate", "lake/orders").stdout
    assert said == f"file://{lived.folder}/lake/orders, 4 files: no rule is broken; readers can open version 1.\n"


def test_a_finding_names_place_rule_and_remedy(lived: Prompt) -> None:
    path = lived.folder / SECOND
    path.write_text(path.read_text().replace('"size":10', '"size":-10'))
    [finding, *_] = findings(lived, "lake/orders")
    key = SECOND.removeprefix("lake/orders/")
    assert finding == {
        "rule": "add.size.negative",
        "severity": "error",
        "file": key,
        "line": 2,
        "row": None,
        "field": "add.size",
        "expected": "a size is a number of bytes, at least 0",
        "found": "-10",
        "remedy": "give the length of the file",
        "command": f"deltamirror validate file://{path}",
    }
    assert [each["rule"] for each in findings(lived, SECOND)] == ["add.size.negative"]
    said = lived("validate", SECOND, exits=2).stdout
    assert f"error add.size.negative: {key}, line 2, add.size\n" in said
    assert said.endswith(f"{key}: 1 finding.\n")


def test_a_file_that_lies_in_no_log_is_checked_by_itself(lived: Prompt) -> None:
    shutil.copy(lived.folder / FIRST, lived.folder / "mine.jsonl")
    assert lived.json("validate", "mine.jsonl")["valid"]
    (lived.folder / "mine.jsonl").write_text('{"add":{}}\n')
    assert [each["rule"] for each in findings(lived, "mine.jsonl")] == ["shape.missing-field"]
    for name, rule in (
        (f"{0:020}.crc", "checksum.json"),
        ("_last_checkpoint", "pointer.json"),
        (f"{0:020}.checkpoint.parquet", "checkpoint.parquet"),
        ("part-0.parquet", "checkpoint.parquet"),
    ):
        (lived.folder / name).write_text("none")
        assert [each["rule"] for each in findings(lived, name)] == [rule]


@pytest.mark.parametrize(
    ("target", "exits", "words"),
    [
        ("", 64, "is empty"),
        ("nowhere", 11, "nothing at"),
        ("lake", 10, "no Delta log"),
        (f"{LOG}/{9:020}.json", 11, f"there is no _delta_log/{9:020}.json"),
        (f"{9:020}.json", 11, f"there is no {9:020}.json"),
        ("s3://", 10, "bucket"),
        ("ftp://lake/t", 10, "unknown scheme"),
    ],
)
def test_a_target_that_is_none_is_told_so(lived: Prompt, target: str, exits: int, words: str) -> None:
    assert words in lived.error("validate", target, exits=exits)["message"]


def test_no_catalog_is_needed_and_nothing_is_written(lived: Prompt) -> None:
    (lived.folder / "deltamirror.db").unlink()
    before = _content(lived.folder)
    lived("validate", "lake/orders")
    assert _content(lived.folder) == before


def _content(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
