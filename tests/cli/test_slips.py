"""Slips of the keyboard, the shell and the editor: each is told what it was, where, and what to do."""

import json
from pathlib import Path

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

HUGE = "9" * 20
ADD = {"path": "a", "partitionValues": {"day": None}, "size": 1, "modificationTime": 1, "dataChange": True}
SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


@pytest.mark.parametrize("option", ["--token", "--operation"])
def test_a_variable_that_was_not_set_is_not_taken_for_a_value(orders: Prompt, add: AddLine, option: str) -> None:
    assert option in orders.error("commit", "orders", "-", option, "", stdin=add(), exits=64)["message"]


def test_an_empty_catalog_address_does_not_fall_back_to_another_catalog(orders: Prompt) -> None:
    error = orders.error("table", "list", "--catalog", "", exits=10)
    assert (error["code"], error["source"]) == ("invalid-settings", "--catalog")


@pytest.mark.parametrize("command", [["init"], ["table", "list"]], ids=" ".join)
@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "duckdb:///:memory:"])
def test_a_catalog_that_would_be_gone_with_the_command_is_refused(prompt: Prompt, command: list[str], url: str) -> None:
    error = prompt.error(*command, "--catalog", url, exits=10)
    assert "in memory" in error["message"]
    assert "file" in error["hint"]


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
@pytest.mark.parametrize("file", ["lake.db", "data/lake.db", "lake"])
def test_a_file_behind_two_slashes_is_an_address_with_one_slash_short(prompt: Prompt, engine: str, file: str) -> None:
    error = prompt.error("init", "--catalog", f"{engine}://{file}", exits=10)
    assert "two slashes" in error["message"]
    assert f"{engine}:///{file}" in error["hint"]
    assert not list(prompt.folder.iterdir())


@pytest.mark.parametrize("url", ["sqlite:///lake.db ", "sqlite:/// lake.db", "duckdb:///lake.db\n"])
def test_a_blank_beside_the_name_of_a_file_makes_no_second_file(prompt: Prompt, url: str) -> None:
    error = prompt.error("init", "--catalog", url, exits=10)
    assert "has a blank before or after the name" in error["message"]
    assert "remove the blank" in error["hint"]
    assert not list(prompt.folder.iterdir())


@pytest.mark.parametrize("content", [b'{"a": 1}\n', b"SQLite format 3\0" * 100, b"a,b\n1,2\n", b"x"])
@pytest.mark.parametrize("name", ["lake.db", "lake.jsonl", "lake.csv"])
def test_a_file_of_another_kind_is_never_taken_for_a_duckdb_catalog(prompt: Prompt, name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    error = prompt.error("init", "--catalog", f"duckdb:///{name}", exits=17)
    assert "no DuckDB database" in error["message"]
    assert error["hint"]
    assert Path(name).read_bytes() == content


def test_parameters_that_a_file_does_not_have_are_refused_not_ignored(prompt: Prompt) -> None:
    error = prompt.error("init", "--catalog", "sqlite:///x.db?mode=ro", exits=10)
    assert "without parameters" in error["message"]
    assert not list(prompt.folder.iterdir())


@pytest.mark.parametrize(
    "args",
    [
        ["table", "files", "orders", "--version", HUGE],
        ["table", "files", "orders", "--version", "-1"],
        ["table", "history", "orders", "--limit", HUGE],
        ["commit", "orders", "-", "--at-version", HUGE],
        ["commit", "orders", "-", "--read-version", HUGE],
        ["table", "alter", "orders", "--set", "a=1", "--set", "a=2"],
        ["table", "drop", "orders"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_a_usage_error(orders: Prompt, args: list[str]) -> None:
    before = orders.dump()
    assert orders.error(*args, exits=64)["code"] == "usage"
    assert orders.dump() == before


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("txn", {"appId": "a", "version": int(HUGE)}),
        ("add", {**ADD, "size": int(HUGE)}),
        ("add", {**ADD, "modificationTime": -int(HUGE)}),
    ],
)
def test_a_number_beyond_64_bits_is_named_with_its_field(orders: Prompt, action: str, body: dict[str, object]) -> None:
    before = orders.dump()
    error = orders.error("commit", "orders", "-", stdin=json.dumps({action: body}), exits=10)
    assert error["code"] == "invalid-action"
    assert HUGE in str(body[error["field"]])
    assert orders.dump() == before


@pytest.mark.parametrize("fields", [{"size": 1.5}, {"size": "1"}, {"size": None}, {"partitionValues": {"day": 5}}])
def test_an_error_names_its_line_once(orders: Prompt, add: AddLine, fields: dict[str, object]) -> None:
    error = orders.error("commit", "orders", "-", stdin=add(path="good") + add(**fields), exits=10)
    assert error["message"].count("standard input, line 2: ") == 1


@pytest.mark.parametrize("line", ["x", '{"add":{"path":"a"}}', "[]"])
def test_an_error_in_complete_lines_names_the_input_and_the_line_once(orders: Prompt, line: str) -> None:
    lines = (
        '{"commitInfo":{"inCommitTimestamp":9999999999999,"timestamp":9999999999999,"operation":"WRITE"}}\n\n' + line
    )
    error = orders.error("commit", "orders", "-", "--verbatim", "--at-version", "1", stdin=lines, exits=10)
    assert error["message"].startswith("standard input, line 3: ")
    assert error["message"].count("line 3") == 1


def test_line_ends_of_windows_are_taken_and_a_byte_order_mark_is_named(orders: Prompt, add: AddLine) -> None:
    assert orders.json("commit", "orders", "-", stdin=add().replace("\n", "\r\n"))["version"] == 1
    error = orders.error("commit", "orders", "-", stdin="\ufeff" + add(path="b"), exits=10)
    assert "byte order mark" in error["message"]


@pytest.mark.parametrize("text", ["", "\n\n", "\r\n"])
def test_a_commit_of_nothing_is_refused(orders: Prompt, text: str) -> None:
    assert orders.error("commit", "orders", "-", stdin=text, exits=10)["hint"]


def test_a_partition_is_asked_for_by_values_that_its_column_can_have(orders: Prompt, add: AddLine) -> None:
    lines = "".join(add(path=day or "none", partitionValues={"day": day}) for day in ("2024-01-01", "2024-01-02", None))
    orders("commit", "orders", "-", stdin=lines)

    def paths(*partitions: str) -> list[str]:
        options = [word for partition in partitions for word in ("--partition", partition)]
        return sorted(file["path"] for file in orders.json("table", "files", "orders", *options)["files"])

    assert paths("day=2024-01-01") == ["2024-01-01"]
    assert paths("DAY=2024-01-01", "DAY=2024-01-02") == ["2024-01-01", "2024-01-02"]
    assert paths("day=") == ["none"]
    error = orders.error("table", "files", "orders", "--partition", "day=2024-13-1", exits=10)
    assert "'2024-13-1' is no value of the partition column 'day'" in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("option", [["--version", "7"], ["--as-of", "2001-01-01"], ["--as-of", "0001-01-01"]])
def test_a_version_that_is_not_there_points_to_those_that_are(orders: Prompt, option: list[str]) -> None:
    error = orders.error("table", "files", "orders", *option, exits=11)
    assert "deltamirror table history orders" in error["hint"]


@pytest.mark.parametrize("schema", ["", "id", "id lng", "id long,", "a;b long", "{", '{"type":"struct"}', '"long"'])
def test_a_schema_that_is_none_comes_with_an_example(prompt: Prompt, schema: str) -> None:
    prompt("init")
    error = prompt.error("table", "create", "t", "--location", "t", "--schema", schema, exits=10)
    assert error["code"] == "invalid-schema"
    assert "long" in error["hint"]


def test_a_schema_file_is_named_in_its_errors_and_may_have_a_byte_order_mark(prompt: Prompt) -> None:
    prompt("init")
    create = ["table", "create", "t", "--location", "t", "--schema-file"]
    for name, content in {"blank": b"\n", "binary": b"\xff\xfe", "torn": b"PAR1", "half": b"{"}.items():
        Path(name).write_bytes(content)
        error = prompt.error(*create, name, exits=10)
        assert error["message"].startswith(f"{name}: ")
        assert error["hint"]
    Path("marked").write_text("\ufeff" + SCHEMA)
    prompt(*create, "marked")


def test_a_home_folder_that_no_shell_expanded_is_refused(prompt: Prompt) -> None:
    prompt("init")
    error = prompt.error("table", "create", "t", "--location", "~/t", "--schema", "id long", exits=10)
    assert "shell" in error["message"]


def test_column_mapping_is_turned_on_by_name_only(orders: Prompt) -> None:
    set_mode = ["table", "alter", "orders", "--set"]
    assert "misread" in orders.error(*set_mode, "delta.columnMapping.mode=id", exits=10)["message"]
    orders(*set_mode, "delta.columnMapping.mode=name")
    assert orders.error("table", "alter", "orders", "--unset", "delta.columnMapping.mode", exits=10)["hint"]


@pytest.mark.parametrize(
    ("option", "value", "exits"),
    [("--add-constraint", "x=", 10), ("--enable-feature", "x", 15), ("--set", "delta.appendOnly=perhaps", 10)],
)
def test_an_alteration_that_means_nothing_says_what_would(orders: Prompt, option: str, value: str, exits: int) -> None:
    assert orders.error("table", "alter", "orders", option, value, exits=exits)["hint"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"catalog = 3\n", "c.toml:1: `catalog` is a section"),
        (b"[catalog\n", "not valid TOML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[catalog]\nbusy_timeout = inf\n", "c.toml:2: `catalog.busy_timeout`: expected number <= "),
        (b"[catalog]\nstage_above = " + HUGE.encode(), "c.toml:2: `catalog.stage_above`: expected whole number <= "),
        (b'[catalog]\nurl = "lake.db"\n', "found 'lake.db'"),
    ],
)
def test_a_wrong_settings_file_is_named_with_a_way_out(prompt: Prompt, content: bytes, found: str) -> None:
    Path("c.toml").write_bytes(content)
    error = prompt.error("table", "list", "--config", "c.toml", exits=10)
    assert found in error["message"]
    assert error["hint"]


def test_settings_may_begin_with_a_byte_order_mark(prompt: Prompt) -> None:
    Path("deltamirror.toml").write_text("\ufeff[log]\nlevel = 'error'\n")
    assert prompt.json("config", "check")["problems"] == []


def test_applications_and_domains_are_shown(orders: Prompt) -> None:
    domain = {"domainMetadata": {"domain": "acme", "configuration": "{}", "removed": False}}
    lines = [{"txn": {"appId": "loader", "version": 7}}, domain]
    orders("table", "alter", "orders", "--enable-feature", "domainMetadata")
    orders("commit", "orders", "-", stdin="\n".join(map(json.dumps, lines)))
    shown = orders.json("table", "show", "orders")["table"]
    assert (shown["applications"], shown["domains"]) == ({"loader": 7}, {"acme": "{}"})
    said = orders("table", "show", "orders").stdout
    assert "loader at version 7" in said
    assert "acme" in said
