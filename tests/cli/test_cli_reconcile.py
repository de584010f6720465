"""``deltamirror reconcile``, ``report`` and ``repair`` as they are typed."""

import hashlib
from pathlib import Path

import pytest

from tests.support.interfaces.commands import following
from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")


@pytest.fixture
def lived(orders: Prompt, add: AddLine) -> Prompt:
    """A prompt with the table ``orders`` at version 3, published."""
    for name in "abc":
        orders("commit", "orders", "-", stdin=add(path=f"{name}.parquet"))
    orders(*LOCAL)
    return orders


def file_of(lived: Prompt, version: int) -> Path:
    found: Path = lived.folder / f"lake/orders/_delta_log/{version:020}.json"
    return found


def alter(lived: Prompt, version: int) -> bytes:
    data: bytes = file_of(lived, version).read_bytes() + b"\n"
    file_of(lived, version).write_bytes(data)
    return data


@pytest.mark.requirement("R56")
@pytest.mark.parametrize("strategy", ["smart", "full"])
def test_what_is_gone_is_told_and_written_again(lived: Prompt, strategy: str) -> None:
    before = file_of(lived, 2).read_bytes()
    file_of(lived, 2).unlink()
    said = lived("reconcile", "--strategy", strategy, "--runner", "local").stdout
    assert said.startswith("orders, version 2: gone from the log\n")
    assert said.endswith(" read: 1 found wrong, 1 written, 0 left.\n")
    assert file_of(lived, 2).read_bytes() == before
    [table] = lived.json("reconcile", "orders", "--runner", "local")["tables"]
    assert (table["table"], table["missing"], table["repaired"], table["left"], table["error"]) == (
        "orders", [], 0, 0, None
    )  # fmt: skip


def test_incremental_publishes_what_is_not_and_reads_nothing(lived: Prompt, add: AddLine) -> None:
    lived("commit", "orders", "-", stdin=add(path="d.parquet"))
    file_of(lived, 2).unlink()
    answer = lived.json("reconcile", "--strategy", "incremental", "--runner", "local")
    [table] = answer["tables"]
    assert (answer["strategy"], table["checked"], table["repaired"], table["missing"]) == ("incremental", 0, 1, [])
    assert file_of(lived, 4).exists()


@pytest.mark.requirement("R39")
@pytest.mark.requirement("R84")
def test_an_altered_commit_stops_the_table_is_reported_and_repaired(lived: Prompt, add: AddLine) -> None:
    theirs = alter(lived, 1)
    said = lived("reconcile", "--runner", "local", exits=2).stdout
    assert "orders, version 1: changed after publication, and not overwritten\n" in said
    assert "orders is in quarantine: run `deltamirror report orders`\n" in said
    lived("commit", "orders", "-", stdin=add(path="d.parquet"))
    assert lived(*LOCAL, exits=2).stdout.startswith("Nothing was due.")
    assert "`deltamirror repair orders --replace-altered`" in lived("status").stdout
    [status] = lived.json("status", "orders")["tables"]
    assert (status["state"], status["quarantine_reason"] is None) == ("quarantined", False)
    lived("status", "--check", exits=2)

    said = lived("report", "orders").stdout
    assert "In quarantine since " in said
    assert f"sha256 found:    {hashlib.sha256(theirs).hexdigest()}" in said
    [attempt] = lived.json("report", "orders", "1")["attempts"]
    assert (attempt["version"], attempt["error_code"], attempt["error_stage"]) == (1, "diverged", "verify")
    assert attempt["found_digest"] == hashlib.sha256(theirs).hexdigest()
    assert attempt["hint"]

    error = lived.error("repair", "orders", exits=2)
    assert (error["code"], error["version"]) == ("diverged", 1)
    assert file_of(lived, 1).read_bytes() == theirs
    done = lived.json("repair", "orders", "--replace-altered")
    assert (done["replaced"], done["published"]) == ([1], 4)
    [saved] = done["saved"]
    assert (lived.folder / "lake/orders" / saved).read_bytes() == theirs
    lived("status", "--check")
    assert lived("repair", "orders").stdout == "orders is published up to version 4 (10 objects compared).\n"


def test_a_report_of_a_table_without_failures_says_so(lived: Prompt) -> None:
    location = f"file://{lived.folder}/lake/orders"
    assert lived("report", "orders").stdout == (
        f"orders, active: published up to version 3 of 3, at {location}\nNo attempt failed.\n"
    )
    assert lived.json("report", "orders", "2")["attempts"] == []


@pytest.mark.requirement("R54")
def test_a_lasting_failure_is_in_status_and_report_until_it_is_solved(lived: Prompt, add: AddLine) -> None:
    lived("commit", "orders", "-", stdin=add(path="d.parquet"))
    file_of(lived, 4).write_bytes(b"{}\n")
    lived(*LOCAL, exits=2)
    assert lived.json("status", "orders")["tables"][0]["escalations"] == 1
    assert "deltamirror report orders" in lived("status").stdout
    assert "Escalated " in lived("report", "orders").stdout
    file_of(lived, 4).unlink()
    lived("repair", "orders")
    assert lived.json("status", "orders")["tables"][0]["escalations"] == 0
    [escalation] = lived.json("report", "orders", "4")["escalations"]
    assert (escalation["error_code"], escalation["closed_at"] is None) == ("diverged", False)
    assert ", solved " in lived("report", "orders").stdout


@pytest.mark.parametrize(
    ("command", "status", "code"),
    [
        (("reconcile", "missing"), 11, "not-found"),
        (("repair", "missing"), 11, "not-found"),
        (("report", "missing"), 11, "not-found"),
        (("report", "orders", "4"), 11, "not-found"),
        (("report", "orders", "-1"), 64, "usage"),
        (("report", "orders", "x"), 64, "usage"),
        (("reconcile", "--strategy", "clever"), 64, "usage"),
    ],
)
def test_wrong_input_is_told_as_such(lived: Prompt, command: tuple[str, ...], status: int, code: str) -> None:
    assert lived.error(*command, exits=status)["code"] == code


@pytest.mark.requirement("R53")
def test_a_service_compares_logs_by_itself(lived: Prompt, add: AddLine) -> None:
    before = file_of(lived, 2).read_bytes()
    settings = {"DELTAMIRROR_MIRROR__RUNNER": "local", "DELTAMIRROR_RECONCILE__INTERVAL": "0.5"}
    file_of(lived, 2).unlink()
    with following(folder=lived.folder, settings=settings) as service:
        while not (said := service.line()).endswith("1 objects are written again\n"):
            assert said
        assert file_of(lived, 2).read_bytes() == before
        assert service.stop()[0] == 0
    assert lived.json("report", "orders", "2")["attempts"][0]["error_code"] == "not-found"
