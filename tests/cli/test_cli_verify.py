"""``deltamirror verify`` as it is typed: the same, late, drifted and repaired, and what is asked for wrongly."""

import json

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

pytestmark = pytest.mark.requirement("R72")

LOCAL = ("mirror", "--once", "--runner", "local")
LOG = "lake/orders/_delta_log"


@pytest.fixture
def lived(orders: Prompt, add: AddLine) -> Prompt:
    """A prompt with the table ``orders`` at version 1, published."""
    orders("commit", "orders", "-", stdin=add(stats='{"numRecords":1}'))
    orders(*LOCAL)
    return orders


def test_a_published_table_has_not_drifted(lived: Prompt) -> None:
    [found] = lived.json("verify", "orders", "--all-versions")["tables"]
    assert (found["drift"], found["late"], found["versions"], found["error"]) == (False, 0, 2, None)
    said = lived("verify", "--all").stdout
    assert said.startswith("orders: the log says what the database says (")


def test_versions_that_wait_are_late(lived: Prompt, add: AddLine) -> None:
    lived("commit", "orders", "-", stdin=add(path="b.parquet"))
    said = lived("verify", "orders", exits=3).stdout
    assert said.startswith("orders: late by 1 version (")
    assert lived.json("verify", "orders", "--repair")["tables"][0]["late"] == 0


def test_drift_is_told_and_repaired_and_the_next_look_is_clean(lived: Prompt) -> None:
    (lived.folder / LOG / f"{0:020}.json").unlink()
    path = lived.folder / LOG / f"{1:020}.json"
    path.write_text(path.read_text().replace('"size":10', '"size":11'))
    said = lived("verify", "orders", exits=2).stdout
    assert "orders, version 0: gone from the log\n" in said
    assert "orders, version 1: changed after publication\n" in said
    refused = json.loads(lived("verify", "orders", "--repair", "--json", exits=2).stdout)
    assert refused["tables"][0]["error"]["code"] == "diverged"
    lived("verify", "orders", "--repair", "--replace-altered")
    assert not lived.json("verify", "orders")["tables"][0]["drift"]


def test_data_files_that_are_gone_are_found_by_a_paranoid_look_alone(lived: Prompt) -> None:
    lived("verify", "orders", "--level", "strict")
    said = lived("verify", "orders", "--level", "paranoid", exits=2).stdout
    assert "orders, version 1, reader: delta-rs: " in said


@pytest.mark.parametrize(
    ("words", "exits", "message"),
    [
        ((), 64, "name tables, or give --all"),
        (("orders", "--all"), 64, "name tables, or give --all"),
        (("orders", "--level", "lax"), 64, "lax"),
        (("orders", "--version", "-1"), 64, "-1"),
        (("orders", "--version", "0", "--all-versions"), 64, "--version is for one table"),
        (("--all", "--version", "0"), 64, "--version is for one table"),
        (("orders", "--replace-altered"), 64, "--replace-altered is for --repair"),
        (("nothing",), 11, "there is no table 'nothing'"),
    ],
)
def test_a_wrong_question_is_told_so(lived: Prompt, words: tuple[str, ...], exits: int, message: str) -> None:
    assert message in lived.error("verify", *words, exits=exits)["message"]


def test_a_version_that_is_not_in_the_log_is_the_error_of_its_table(lived: Prompt) -> None:
    found = json.loads(lived("verify", "orders", "--version", "9", "--json", exits=11).stdout)
    assert "there are 0 to 1" in found["tables"][0]["error"]["message"]
