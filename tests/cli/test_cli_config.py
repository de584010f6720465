from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.config import Settings, keys
from deltamirror.delta.lines import encode
from tests.support.interfaces.prompt import AddLine, Prompt


def values(document: dict[str, Any]) -> dict[str, tuple[object, str]]:
    return {entry["key"]: (entry["value"], entry["origin"]) for entry in document["settings"]}


@pytest.mark.requirement("R75")
def test_show_names_the_origin_of_every_value(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    (prompt.folder / "deltamirror.toml").write_text("[catalog]\nchunk_lines = 9\n")
    monkeypatch.setenv("DELTAMIRROR_WRITER__RETRIES", "5")
    shown = prompt.json("config", "show", "--catalog", "duckdb:///x.duckdb")
    assert shown["file"] == "deltamirror.toml"
    assert values(shown)["catalog.chunk_lines"] == (9, "deltamirror.toml:2")
    assert values(shown)["writer.retries"] == (5, "DELTAMIRROR_WRITER__RETRIES")
    assert values(shown)["catalog.url"] == ("duckdb:///x.duckdb", "--catalog")
    assert values(shown)["writer.backlog_limit"] == (None, "default")


@pytest.mark.requirement("R46")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_show_never_shows_a_password(prompt: Prompt, form: list[str]) -> None:
    result = prompt("config", "show", "--catalog", "postgresql://me:hunter2@db/x?sslpassword=hunter2", *form)
    assert "postgresql://me:***@db/x?sslpassword=***" in result.stdout
    assert "hunter2" not in result.output


@pytest.mark.requirement("R46")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_show_never_shows_a_secret(prompt: Prompt, form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for key in (key for key in keys(Settings) if key.secret):
        monkeypatch.setenv(key.variable, "hunter2")
    monkeypatch.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", "id")
    result = prompt("config", "show", *form)
    assert "***" in result.stdout
    assert "hunter2" not in result.output


def test_show_as_text_is_aligned_and_without_escapes(prompt: Prompt) -> None:
    lines = prompt("config", "show").stdout.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE", "FROM"]
    assert all(line.index("default") == lines[0].index("FROM") for line in lines[1:])
    assert "\x1b" not in "".join(lines)


def test_check_says_that_settings_are_good(prompt: Prompt) -> None:
    assert prompt("config", "check").stdout == "The settings are good (no file).\n"
    assert prompt.json("config", "check") == {"file": None, "problems": []}


def test_check_finds_every_problem_at_once(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    (prompt.folder / "deltamirror.toml").write_text("[catalog]\nchunk_line = 9\nbusy_timeout = 'x'\n")
    monkeypatch.setenv("DELTAMIRROR_CATALOG_URL", "sqlite:///x.db")
    result = prompt("config", "check", exits=10)
    assert result.stdout == ""
    assert "error: deltamirror.toml:2: unknown setting `catalog.chunk_line`\n" in result.stderr
    assert "error: deltamirror.toml:3: `catalog.busy_timeout`: expected number, found 'x'\n" in result.stderr
    assert "error: unknown variable `DELTAMIRROR_CATALOG_URL`\n" in result.stderr
    assert prompt("config", "check", "--json", exits=10).stdout.count('"code":"invalid-settings"') == 3


@pytest.mark.parametrize("command", [["table", "list"], ["init"], ["config", "show"]])
def test_a_wrong_setting_stops_every_command_with_10(prompt: Prompt, command: list[str]) -> None:
    (prompt.folder / "deltamirror.toml").write_text("\n[catalogue]\n")
    result = prompt(*command, exits=10)
    assert result.stderr == (
        "error: deltamirror.toml:2: unknown section `catalogue`\nhint: did you mean `catalog`?\n"
        "more: docs/guides/troubleshooting.md#invalid-settings\n"
    )
    assert not (prompt.folder / "deltamirror.db").exists()


def test_a_file_of_another_name_is_taken_with_config(prompt: Prompt) -> None:
    (prompt.folder / "other.toml").write_text("log.level = 'error'\n")
    assert values(prompt.json("config", "show", "--config", "other.toml"))["log.level"] == ("error", "other.toml:1")
    assert prompt.error("config", "show", "--config", "missing.toml", exits=10)["source"] == "missing.toml"


@pytest.mark.requirement("R75")
def test_show_for_a_table_names_the_block_or_the_property_that_a_value_comes_from(orders: Prompt) -> None:
    (orders.folder / "deltamirror.toml").write_text(
        "[[tables]]\nmatch = 'ord*'\nmirror.enabled = false\ncheckpoint.bytes = 7\n"
    )
    properties = ["deltamirror.checkpointBytes=9", "delta.checkpointInterval=4"]
    orders("table", "alter", "orders", *(word for each in properties for word in ("--set", each)))
    with Catalog("sqlite:///deltamirror.db") as catalog:
        known = catalog.table("orders").snapshot().metadata
    foreign = replace(known, configuration={**known.configuration, "deltamirror.mirrorVerify": "sometimes"})
    orders("commit", "orders", "-", stdin=f"{encode(foreign).decode()}\n")
    shown = orders.json("config", "show", "--table", "orders")
    assert values(shown)["mirror.enabled"] == (False, "deltamirror.toml:3")
    assert values(shown)["checkpoint.bytes"] == (9, "table property deltamirror.checkpointBytes")
    assert values(shown)["checkpoint.interval"] == (4, "table property delta.checkpointInterval")
    assert values(shown)["mirror.verify"] == ("basic", "default")
    assert shown["ignored"] == [
        {"property": "deltamirror.mirrorVerify", "expected": "`off` or `basic` or `strict` or `paranoid`"},
    ]
    assert "deltamirror.mirrorVerify is ignored" in orders("config", "show", "--table", "orders").stdout
    assert values(orders.json("config", "show"))["mirror.enabled"] == (True, "default")
    assert orders.error("config", "show", "--table", "nothing", exits=11)["code"] == "not-found"


@pytest.mark.requirement("R116")
def test_a_table_that_is_switched_off_is_disabled_and_never_late(orders: Prompt, add: AddLine) -> None:
    (orders.folder / "deltamirror.toml").write_text("[[tables]]\nmatch = 'orders'\nmirror.enabled = false\n")
    assert orders.json("mirror", "--once", "--runner", "local")["versions"] == 0
    [status] = orders.json("status", "--check", "--max-lag", "0")["tables"]
    assert (status["state"], status["lag_versions"]) == ("disabled", 1)
    assert "config show --table orders" in orders("status", "orders").stdout
    assert orders.json("table", "list")["tables"][0]["state"] == "disabled"
    assert orders.json("report", "orders")["state"] == "disabled"
    (orders.folder / "deltamirror.toml").unlink()
    orders("status", "--check", "--max-lag", "0", exits=3)
