import re
from pathlib import Path

import pytest

from deltamirror.config import load
from deltamirror.ops.alerts.background import evaluate_now
from deltamirror.wiring import open_catalog
from tests.support.interfaces.prompt import AddLine, Prompt
from tests.support.monitoring.receivers import http_receiver

LOCAL = ("mirror", "--once", "--runner", "local")
RULE = '[[alerts.rules]]\nname = "behind"\nmetric = "lag_versions"\nthreshold = 0\n'


def channel(url: str) -> str:
    return f'[[alerts.channels]]\nname = "hook"\nkind = "webhook"\nurl = "{url}?token=hunter2"\n'


def evaluated(folder: Path) -> None:
    """As a service does."""
    settings = load(environment={}, folder=folder).settings
    with open_catalog(settings) as catalog:
        evaluate_now(catalog.database, settings)


@pytest.mark.requirement("R80")
def test_a_channel_is_tested_by_a_message(prompt: Prompt) -> None:
    with http_receiver() as hook:
        (prompt.folder / "deltamirror.toml").write_text(channel(hook.url))
        assert prompt("alert", "test", "hook").stdout == "Channel hook took the message.\n"
        assert (hook.next().document["event"], hook.requests.empty()) == ("test", True)
        hook.status = 403
        error = prompt.error("alert", "test", "hook", exits=20)
    assert error["message"] == "channel 'hook': HTTP 403 Forbidden"
    refused = prompt.error("alert", "test", "hook", exits=20)
    assert "refused" in refused["message"]
    assert "hunter2" not in str(refused)


def test_a_channel_that_is_not_there_is_named(prompt: Prompt) -> None:
    error = prompt.error("alert", "test", "pager", exits=11)
    assert (error["message"], error["hint"]) == ("there is no channel 'pager'", "the settings have these: log")


@pytest.mark.requirement("R54")
def test_alerts_are_listed_while_they_fire_and_with_all_afterwards(orders: Prompt, add: AddLine) -> None:
    assert orders("alert", "list").stdout == "No alert fires.\n"
    (orders.folder / "deltamirror.toml").write_text(RULE)
    evaluated(orders.folder)
    [row] = orders.json("alert", "list")["alerts"]
    assert (row["rule"], row["subject"], row["state"], row["silenced"]) == ("behind", "orders", "firing", False)
    shown = orders("alert", "list").stdout
    assert re.search(r"^behind +orders +firing +warning .* it waits for a service$", shown, re.MULTILINE)
    orders(*LOCAL)
    evaluated(orders.folder)
    assert orders.json("alert", "list")["alerts"] == []
    [row] = orders.json("alert", "list", "--all")["alerts"]
    assert row["state"] == "resolved"


@pytest.mark.requirement("R81")
def test_a_rule_or_a_table_is_silenced_and_no_longer(orders: Prompt) -> None:
    (orders.folder / "deltamirror.toml").write_text(RULE)
    evaluated(orders.folder)
    why = ("--for", "2h", "--reason", "moving the bucket")
    of_table = orders.json("alert", "silence", "ord*", *why)
    of_rule = orders.json("alert", "silence", "lag-*", "--table", "orders", *why)
    assert [(each["rule"], each["subject"]) for each in (of_table, of_rule)] == [("*", "ord*"), ("lag-*", "orders")]
    assert of_table["ends_at"] - of_table["created_at"] == 7_200_000
    listed = orders.json("alert", "list")
    assert [each["silence_id"] for each in listed["silences"]] == sorted(
        [of_table["silence_id"], of_rule["silence_id"]],
        key=lambda name: (of_table if name == of_table["silence_id"] else of_rule)["ends_at"],
    )
    assert listed["alerts"][0]["silenced"]
    assert "moving the bucket" in orders("alert", "list").stdout
    for each in (of_table, of_rule):
        orders("alert", "unsilence", each["silence_id"])
    assert orders.json("alert", "list")["silences"] == []
    assert orders.error("alert", "unsilence", of_rule["silence_id"], exits=11)["message"].startswith(
        "there is no silence"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", "--for", "2h", "--reason", "x"), "neither a rule nor a table is called 'nothing'"),
        (("nothing", "--table", "orders", "--for", "2h", "--reason", "x"), "no rule is called 'nothing'"),
    ],
)
def test_a_silence_of_nothing_is_refused(orders: Prompt, arguments: tuple[str, ...], message: str) -> None:
    error = orders.error("alert", "silence", *arguments, exits=11)
    assert error["message"] == message
    assert "lag-warning" in error["hint"]


def test_a_length_of_time_has_a_unit(orders: Prompt) -> None:
    for wrong in ("2", "-2h", "0s", "2 weeks"):
        error = orders.error("alert", "silence", "orders", "--for", wrong, "--reason", "x", exits=64)
        assert "is no length of time such as 90s, 15m, 2h or 1d" in error["message"]


@pytest.mark.requirement("R77")
def test_the_status_shows_the_objectives_and_what_is_left_of_their_budgets(orders: Prompt) -> None:
    orders(*LOCAL)
    document = orders.json("status", "--slo")
    hour = document["overall"][0]
    assert (hour["table"], hour["window"], hour["versions"], hour["waiting"]) == (None, "1 h", 1, 0)
    assert (hour["budget_left"], hour["burn_rate"]) == (1.0, 0.0)
    assert [(each["percent"], each["seconds"]) for each in hour["objectives"]] == [(95, 5.0), (99, 60.0)]
    assert [row["window"] for row in orders.json("status", "orders", "--slo")["tables"]] == ["1 h", "24 h", "30 d"]
    shown = orders("status", "--slo").stdout
    assert re.search(r"^all tables +1 h +1 +0 +\S+ s +\S+ s +\S+ s +p95 100%  p99 100% +0\.00$", shown, re.MULTILINE)
    assert "give one of them" in orders.error("status", "--slo", "--check", exits=64)["message"]
