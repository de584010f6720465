import json
import re
import sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from deltamirror.cli.output import duration
from deltamirror.ops.advice import remedy
from deltamirror.txnlog.queue.breakers import Breaker
from deltamirror.txnlog.queue.status import CheckpointStatus, CleanupStatus, LastError, TableStatus
from tests.support.interfaces.commands import typed_in_colour, typed_on_a_terminal
from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "mirroring.md"


@pytest.fixture
def outage(orders: Prompt, add: AddLine) -> Prompt:
    """A table whose first version is published, with two more that cannot be: a file is in the way of its log."""
    orders("table", "create", "other", "--location", "lake/other", "--schema", "id long")
    orders(*LOCAL)
    (orders.folder / "lake/orders").rename(orders.folder / "aside")
    (orders.folder / "lake/orders").write_text("in the way")
    for name in ("a", "b"):
        orders("commit", "orders", "-", stdin=add(path=name))
    orders(*LOCAL, exits=10)
    return orders


def asked(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "deltamirror.db") as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return found


@pytest.mark.requirement("R27")
def test_during_an_outage_the_numbers_are_those_of_sql(outage: Prompt) -> None:
    other, orders = sorted(outage.json("status")["tables"], key=lambda table: table["lag_versions"])
    in_sql = """
        SELECT h.version, t.published_version, count(*),
               sum(s.state = 'PENDING'), sum(s.state = 'FAILED'), min(v.committed_at)
        FROM dl_tables t JOIN dl_heads h USING (table_id) JOIN dl_mirror_status s USING (table_id)
        JOIN dl_table_versions v ON v.table_id = s.table_id AND v.version = s.version
        WHERE t.name = 'orders' AND s.state <> 'SUCCESS'
    """
    [(head, published, lag, pending, failed, oldest)] = asked(outage.folder, in_sql)
    names = ("head", "published", "lag_versions", "pending", "failed")
    assert tuple(orders[name] for name in names) == (head, published, lag, pending, failed) == (2, 0, 2, 1, 1)
    [(later,)] = asked(outage.folder, "SELECT cast((julianday('now') - 2440587.5) * 86400000 AS integer)")
    assert 0 < orders["lag_ms"] <= later - oldest + 1
    assert (other["name"], other["lag_versions"], other["lag_ms"], other["error"]) == ("other", 0, 0, None)


@pytest.mark.requirement("R27")
def test_an_error_says_what_where_how_often_and_what_to_do(outage: Prompt) -> None:
    outage(*LOCAL, exits=10)
    [orders] = outage.json("status", "orders")["tables"]
    error = orders["error"]
    assert (error["version"], error["code"], error["attempts"]) == (1, "invalid-location", 2)
    assert error["next_attempt_at"] > error["at"]
    assert "lake/orders" in error["message"]
    assert error["hint"]
    said = outage("status", "orders").stdout
    for word in ("invalid-location at version 1", error["message"], f"stage {error['stage']}", "2 attempts", "what to"):
        assert word in said


def test_people_see_a_row_a_table_and_what_to_do_about_failures(outage: Prompt) -> None:
    header, first, second, advice = outage("status").stdout.splitlines()
    assert header.split()[:5] == ["TABLE", "STATE", "HEAD", "PUBLISHED", "LAG"]
    assert first.split()[:5] == ["orders", "active", "2", "0", "2"]
    assert first.endswith("invalid-location")
    assert second.split() == ["other", "active", "0", "0", "0", "0", "0"]
    assert advice.startswith("orders, version 1: invalid-location: the location ")
    assert "is a file; move away what is in the place of the table's folder" in advice


def words(text: str) -> set[str]:
    """All but numbers and units: how long a version waits is another time later."""
    return {word for word in re.split(r"[\s,;:]+", text) if re.search("[A-Za-z]{4}", word)}


@pytest.mark.parametrize("args", [("status",), ("status", "orders")], ids=" ".join)
def test_no_word_is_broken_on_a_terminal_of_80_columns(outage: Prompt, args: tuple[str, ...]) -> None:
    elsewhere = outage(*args).stdout
    shown = typed_on_a_terminal(*args, folder=outage.folder, columns=80)
    assert max(map(len, elsewhere.splitlines())) > 80
    assert [line for line in shown.splitlines() if len(line) > 80 and str(outage.folder) not in line] == []
    assert words(shown) <= words(elsewhere)
    assert words(elsewhere) - words(shown) <= {"PENDING", "CHECKPOINT", "ERROR"}


def test_rows_that_need_somebody_have_a_colour_on_a_terminal(outage: Prompt) -> None:
    with sqlite3.connect(outage.folder / "deltamirror.db") as connection:
        connection.execute("UPDATE dl_tables SET quarantined_at = 1, quarantine_reason = 'x' WHERE name = 'other'")
    connection.close()
    shown = typed_in_colour("status", folder=outage.folder, columns=200)
    assert {line[:10] for line in shown.splitlines()[1:3]} == {"\x1b[33morder", "\x1b[31mother"}
    plain = typed_in_colour("status", folder=outage.folder, columns=200, settings={"NO_COLOR": "1"})
    assert ("\x1b[33m" in plain, "\x1b[31m" in plain) == (False, False)
    assert "\x1b" not in outage("status").stdout


@pytest.mark.parametrize(
    ("code", "stage", "location", "said", "unsaid"),
    [
        ("unavailable", "put", "file:///lake/t", "the disk and its mount", "endpoint"),
        ("unavailable", "put", "s3://lake/t", "`storage.endpoint`", "mount"),
        ("permission-denied", "put", "file:///lake/t", "rights of the table's folder", "keys"),
        ("not-found", "put", "file:///lake/t", "the folder that the table lies in", "bucket"),
        ("not-found", "put", "s3://lake/t", "create the bucket", "folder"),
        ("not-found", "verify", "s3://lake/t", "written again by itself", "bucket"),
    ],
)
def test_what_to_do_fits_the_store_and_what_was_met(
    code: str, stage: str, location: str, said: str, unsaid: str
) -> None:
    advice = remedy(code, stage=stage, location=location)
    assert said in advice
    assert unsaid not in advice


def test_a_check_tells_lag_from_divergence_from_good(outage: Prompt) -> None:
    outage("status", "--check")
    assert json.loads(outage("status", "--check", "--max-lag", "0", "--json", exits=3).stdout)["tables"]
    outage("status", "other", "--check", "--max-lag", "0")
    (outage.folder / "lake/orders").unlink()
    (outage.folder / "aside").rename(outage.folder / "lake/orders")
    (outage.folder / f"lake/orders/_delta_log/{1:020}.json").write_text("{}\n")
    outage(*LOCAL, exits=2)
    outage("status", "--check", "--max-lag", "0", exits=2)
    outage("status")


@pytest.mark.parametrize("options", [["--max-lag", "5"], ["--check", "--max-lag", "-1"], ["a", "b"]], ids=" ".join)
def test_what_cannot_be_meant_is_a_usage_error(orders: Prompt, options: list[str]) -> None:
    assert orders.error("status", *options, exits=64)["code"] == "usage"


def test_a_table_that_is_not_there_is_not_found(orders: Prompt) -> None:
    assert orders.error("status", "nope", exits=11)["table"] == "nope"


def test_no_tables_are_no_error(prompt: Prompt) -> None:
    prompt("init")
    assert prompt("status", "--check").stdout.startswith("No tables.")
    assert prompt.json("status") == {"all_paused": False, "stores": [], "tables": []}


def test_a_pause_of_all_tables_shows(orders: Prompt) -> None:
    orders("table", "pause", "--all")
    shown = orders.json("status")
    assert shown["all_paused"]
    assert [table["state"] for table in shown["tables"]] == ["paused"]


def test_the_guide_documents_every_field_of_the_json() -> None:
    section = GUIDE.read_text().partition("## Status")[2].partition("\n## ")[0]
    documented = {name for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for name in _names(row)}
    errors_of_ours = {f"error.{field.name}" for field in fields(LastError)} | {"error.hint"}
    checkpoint = {f"checkpoint.{field.name}" for field in fields(CheckpointStatus)}
    cleanup = {f"cleanup.{field.name}" for field in fields(CleanupStatus)}
    own = {field.name for field in fields(TableStatus)} - {"error", "checkpoint", "cleanup"}
    assert documented == own | checkpoint | cleanup | errors_of_ours | {"all_paused", "stores"}


def _names(row: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", row)


@pytest.fixture
def shut(orders: Prompt) -> Prompt:
    """A catalog whose local disk is left alone, with what happened before."""
    orders(*LOCAL)
    breaker = ("file:///", "open", 5, 1, 0, 2_000, 4_000_000_000_000, None, "unavailable", "cannot write: HTTP 503")
    events = [("file:///", 1_000, "closed", "host:7:a", "it is back"), ("file:///", 2_000, "open", "host:7:a", "5 …")]
    with sqlite3.connect(orders.folder / "deltamirror.db") as connection:
        connection.execute("INSERT INTO dl_breakers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", breaker)
        connection.executemany("INSERT INTO dl_breaker_events VALUES (?, ?, ?, ?, ?)", events)
    connection.close()
    return orders


@pytest.mark.requirement("R55")
def test_a_store_that_is_left_alone_shows_with_its_history(shut: Prompt) -> None:
    *_, line = shut("status").stdout.splitlines()
    assert line == (
        "the circuit for file:/// is open until 2096-10-02 07:06:40.000Z; next probe then; 5 failures in a row, "
        "the last: unavailable: cannot write: HTTP 503"
    )
    assert shut("status", "orders").stdout.splitlines()[-1] == line
    [store] = shut.json("status")["stores"]
    assert (store["store"], store["state"], store["failures"], store["changed_at"]) == ("file:///", "open", 5, 2_000)
    assert [(event["at"], event["state"]) for event in store["events"]] == [(2_000, "open"), (1_000, "closed")]


@pytest.mark.requirement("R55")
def test_who_mirrors_by_hand_tries_the_store_at_once(shut: Prompt, add: AddLine) -> None:
    for name in "abc":
        shut("commit", "orders", "-", stdin=add(path=name))
    shut(*LOCAL)
    [store] = shut.json("status")["stores"]
    assert (store["state"], store["failures"], store["retry_at"]) == ("closed", 0, None)
    # A table that the store served, and that did not fail, needs no probe. Events of 1970 are forgotten.
    assert [event["state"] for event in store["events"]] == ["closed"]
    assert "store" not in shut("status").stdout


def test_the_guide_documents_every_field_of_a_store() -> None:
    section = GUIDE.read_text().partition("| Field of `stores` |")[2].partition("\n\n")[0]
    documented = {name for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for name in _names(row)}
    assert documented == {field.name for field in fields(Breaker)} | {"events"}


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "0.0 s"),
        (1_234, "1.2 s"),
        (59_949, "59.9 s"),
        (60_000, "1 min 0 s"),
        (3_599_999, "59 min 59 s"),
        (3_600_000, "1 h 0 min"),
        (93_600_000, "1 d 2 h"),
    ],
)
def test_a_length_of_time_is_said_in_its_two_largest_units(milliseconds: int, said: str) -> None:
    assert duration(milliseconds) == said
