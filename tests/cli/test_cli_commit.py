import json

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt


def remove(path: str = "a.parquet", **fields: object) -> str:
    return json.dumps({"remove": {"path": path, "deletionTimestamp": 5, "dataChange": True, **fields}}) + "\n"


def test_a_file_of_actions_becomes_a_version(orders: Prompt, add: AddLine) -> None:
    (orders.folder / "actions.jsonl").write_text(add() + add(path="b.parquet"))
    done = orders.json("commit", "orders", "actions.jsonl")
    assert (done["table"], done["version"], done["already_applied"]) == ("orders", 1, False)
    assert orders("commit", "orders", "-", stdin=add(path="c.parquet")).stdout.startswith("orders is at version 2 (")


def test_a_missing_last_newline_and_blank_lines_do_not_matter(orders: Prompt, add: AddLine) -> None:
    assert (
        orders.json("commit", "orders", "-", stdin="\n" + add() + "\n" + add(path="b.parquet").rstrip())["version"] == 1
    )
    assert len(orders.json("table", "files", "orders")["files"]) == 2


@pytest.mark.requirement("R36")
def test_at_version_is_exact(orders: Prompt, add: AddLine) -> None:
    assert orders.json("commit", "orders", "-", "--at-version", "1", stdin=add())["version"] == 1
    error = orders.error("commit", "orders", "-", "--at-version", "1", stdin=add(path="b.parquet"), exits=13)
    assert (error["code"], error["table"], error["actual_version"]) == ("conflict", "orders", 1)


@pytest.mark.requirement("R36")
def test_a_remove_computed_from_a_stale_version_is_a_conflict(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    orders("commit", "orders", "-", "--read-version", "1", "--operation", "DELETE", stdin=remove())
    error = orders.error("commit", "orders", "-", "--read-version", "1", stdin=remove(), exits=13)
    assert error["code"] == "conflict"
    assert error["winner_version"] == 2
    assert error["winner_operation"] == "DELETE"


def test_a_plain_append_goes_after_whatever_is_there(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    assert orders.json("commit", "orders", "-", "--read-version", "0", stdin=add(path="b.parquet"))["version"] == 2


@pytest.mark.requirement("R38")
def test_a_token_used_again_answers_with_the_first_version(orders: Prompt, add: AddLine) -> None:
    first = orders.json("commit", "orders", "-", "--token", "t1", stdin=add())
    orders("commit", "orders", "-", stdin=add(path="b.parquet"))
    again = orders.json("commit", "orders", "-", "--token", "t1", stdin=add())
    assert again == {**first, "already_applied": True}
    said = orders("commit", "orders", "-", "--token", "t1", stdin=add()).stdout
    assert said.startswith("orders was committed before as version 1 (")


@pytest.mark.requirement("R38")
def test_a_token_used_again_with_other_actions_is_an_error(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", "--token", "t1", stdin=add())
    error = orders.error("commit", "orders", "-", "--token", "t1", stdin=add(path="other.parquet"), exits=14)
    assert (error["code"], error["token"]) == ("token-reused", "t1")


@pytest.mark.requirement("R38")
def test_an_application_transaction_is_applied_once(orders: Prompt, add: AddLine) -> None:
    lines = add() + json.dumps({"txn": {"appId": "app", "version": 7}}) + "\n"
    assert not orders.json("commit", "orders", "-", stdin=lines)["already_applied"]
    assert orders.json("commit", "orders", "-", stdin=lines)["already_applied"]
    assert orders.json("table", "show", "orders")["table"]["head"] == 1


def test_verbatim_lines_are_stored_at_their_version(orders: Prompt, add: AddLine) -> None:
    moment = orders.json("table", "history", "orders")["history"][0]["timestamp"] + 1
    info = {"commitInfo": {"inCommitTimestamp": moment, "timestamp": moment, "operation": "ELSEWHERE"}}
    lines = json.dumps(info) + "\n" + add()
    assert orders.json("commit", "orders", "-", "--verbatim", "--at-version", "1", stdin=lines)["version"] == 1
    newest = orders.json("table", "history", "orders")["history"][0]
    assert (newest["kind"], newest["operation"]) == ("verbatim", "ELSEWHERE")
    assert newest["num_bytes"] == len(lines)


def test_complete_lines_without_verbatim_are_refused_and_the_hint_says_how(orders: Prompt, add: AddLine) -> None:
    info = json.dumps({"commitInfo": {"timestamp": 1, "operation": "X"}}) + "\n"
    error = orders.error("commit", "orders", "-", stdin=info + add(), exits=10)
    assert "commitInfo" in error["message"]
    assert "verbatim" in error["hint"]


def test_a_large_commit_is_staged_and_becomes_one_version(
    orders: Prompt, add: AddLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTAMIRROR_CATALOG__STAGE_ABOVE", "10")
    monkeypatch.setenv("DELTAMIRROR_CATALOG__CHUNK_LINES", "20")
    lines = "".join(add(path=f"{n}.parquet") for n in range(333))
    assert orders.json("commit", "orders", "-", stdin=lines)["version"] == 1
    assert len(orders.json("table", "files", "orders")["files"]) == 333
    (newest, _) = orders.json("table", "history", "orders")["history"]
    assert (newest["num_added"], newest["num_lines"]) == (333, 334)


def test_a_table_with_constraints_takes_files_whose_rows_were_checked(orders: Prompt, add: AddLine) -> None:
    orders("table", "alter", "orders", "--add-constraint", "positive=id > 0")
    assert "rows" in orders.error("commit", "orders", "-", stdin=add(), exits=10)["message"]
    assert orders.json("commit", "orders", "-", "--rows-checked", stdin=add())["version"] == 2


@pytest.mark.requirement("R5")
def test_verify_files_names_the_line_of_a_file_that_is_not_there(orders: Prompt, add: AddLine) -> None:
    error = orders.error("commit", "orders", "-", "--verify-files", stdin="\n" + add(), exits=10)
    assert (error["code"], error["rule"]) == ("invalid-action", "add.file.missing")
    assert error["message"].startswith("standard input, line 2: ")
