"""``deltamirror reconcile``, ``report`` and ``repair`` as they are typed."""

import hashlib
from pathlib import Path

import pytest

from tests.support.interfaces.commands import following
from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")


def file_of(published: Prompt, version: int) -> Path:
    found: Path = published.folder / f"lake/orders/_delta_log/{version:020}.json"
    return found


def alter(published: Prompt, version: int) -> bytes:
    data: bytes = file_of(published, version).read_bytes() + b"\n"
    file_of(published, version).write_bytes(data)
    return data


@pytest.mark.requirement("R56")
@pytest.mark.parametrize("strategy", ["smart", "full"])
def test_what_is_gone_is_told_and_written_again(published: Prompt, strategy: str) -> None:
    before = file_of(published, 2).read_bytes()
    file_of(published, 2).unlink()
    said = published("reconcile", "--strategy", strategy, "--runner", "local").stdout
    assert said.startswith("orders, version 2: gone from the log\n")
    assert said.endswith(" read: 1 found wrong, 1 written, 0 left.\n")
    assert file_of(published, 2).read_bytes() == before
    [table] = published.json("reconcile", "orders", "--runner", "local")["tables"]
    assert (table["table"], table["missing"], table["repaired"], table["left"], table["error"]) == (
        "orders", [], 0, 0, None
    )  # fmt: skip


def test_incremental_publishes_what_is_not_and_reads_nothing(published: Prompt, add: AddLine) -> None:
    published("commit", "orders", "-", stdin=add(path="d.parquet"))
    file_of(published, 2).unlink()
    answer = published.json("reconcile", "--strategy", "incremental", "--runner", "local")
    [table] = answer["tables"]
    assert (answer["strategy"], table["checked"], table["repaired"], table["missing"]) == ("incremental", 0, 1, [])
    assert file_of(published, 4).exists()


@pytest.mark.requirement("R39")
@pytest.mark.requirement("R84")
def test_an_altered_commit_stops_the_table_is_reported_and_repaired(published: Prompt, add: AddLine) -> None:
    theirs = alter(published, 1)
    said = published("reconcile", "--runner", "local", exits=2).stdout
    assert "orders, version 1: changed after publication, and not overwritten\n" in said
    assert "orders is in quarantine: run `deltamirror report orders`\n" in said
    published("commit", "orders", "-", stdin=add(path="d.parquet"))
    assert published(*LOCAL, exits=2).stdout.startswith("Nothing was due.")
    assert "`deltamirror repair orders --replace-altered`" in published("status").stdout
    [status] = published.json("status", "orders")["tables"]
    assert (status["state"], status["quarantine_reason"] is None) == ("quarantined", False)
    published("status", "--check", exits=2)

    said = published("report", "orders").stdout
    assert "In quarantine since " in said
    assert f"sha256 found:    {hashlib.sha256(theirs).hexdigest()}" in said
    [attempt] = published.json("report", "orders", "1")["attempts"]
    assert (attempt["version"], attempt["error_code"], attempt["error_stage"]) == (1, "diverged", "verify")
    assert attempt["found_digest"] == hashlib.sha256(theirs).hexdigest()
    assert attempt["hint"]

    error = published.error("repair", "orders", exits=2)
    assert (error["code"], error["version"]) == ("diverged", 1)
    assert file_of(published, 1).read_bytes() == theirs
    done = published.json("repair", "orders", "--replace-altered")
    assert (done["replaced"], done["published"]) == ([1], 4)
    [saved] = done["saved"]
    assert (published.folder / "lake/orders" / saved).read_bytes() == theirs
    published("status", "--check")
    assert published("repair", "orders").stdout == "orders is published up to version 4 (10 objects compared).\n"


def test_a_report_of_a_table_without_failures_says_so(published: Prompt) -> None:
    location = f"file://{published.folder}/lake/orders"
    assert published("report", "orders").stdout == (
        f"orders, active: published up to version 3 of 3, at {location}\nNo attempt failed.\n"
    )
    assert published.json("report", "orders", "2")["attempts"] == []


@pytest.mark.requirement("R54")
def test_a_lasting_failure_is_in_status_and_report_until_it_is_solved(published: Prompt, add: AddLine) -> None:
    published("commit", "orders", "-", stdin=add(path="d.parquet"))
    file_of(published, 4).write_bytes(b"{}\n")
    published(*LOCAL, exits=2)
    assert published.json("status", "orders")["tables"][0]["escalations"] == 1
    assert "deltamirror report orders" in published("status").stdout
    assert "Escalated " in published("report", "orders").stdout
    file_of(published, 4).unlink()
    published("repair", "orders")
    assert published.json("status", "orders")["tables"][0]["escalations"] == 0
    [escalation] = published.json("report", "orders", "4")["escalations"]
    assert (escalation["error_code"], escalation["closed_at"] is None) == ("diverged", False)
    assert ", solved " in published("report", "orders").stdout


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
def test_wrong_input_is_told_as_such(published: Prompt, command: tuple[str, ...], status: int, code: str) -> None:
    assert published.error(*command, exits=status)["code"] == code


@pytest.mark.requirement("R53")
def test_a_service_compares_logs_by_itself(published: Prompt, add: AddLine) -> None:
    before = file_of(published, 2).read_bytes()
    settings = {"DELTAMIRROR_MIRROR__RUNNER": "local", "DELTAMIRROR_RECONCILE__INTERVAL": "0.5"}
    file_of(published, 2).unlink()
    with following(folder=published.folder, settings=settings) as service:
        while not (said := service.line()).endswith("1 objects are written again\n"):
            assert said
        assert file_of(published, 2).read_bytes() == before
        assert service.stop()[0] == 0
    assert published.json("report", "orders", "2")["attempts"][0]["error_code"] == "not-found"
