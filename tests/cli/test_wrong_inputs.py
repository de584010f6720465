"""Wrong input, one clear error, a stable exit status, and nothing half-written."""

import json
import socket
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from deltamirror.delta.bounds import LONGEST_LINE
from tests.support.interfaces.prompt import AddLine, Prompt


@contextmanager
def every_connection(statement: str) -> Iterator[None]:
    """Run a statement on each SQLite connection that is opened."""

    def run(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(statement)

    event.listen(Engine, "connect", run)
    try:
        yield
    finally:
        event.remove(Engine, "connect", run)


def test_broken_json_is_named_with_its_line(orders: Prompt, add: AddLine) -> None:
    before = orders.dump()
    (orders.folder / "actions.jsonl").write_text(add() + add(path="b.parquet") + '{"add": {"path"\n')
    error = orders.error("commit", "orders", "actions.jsonl", exits=10)
    assert (error["code"], error["line"], error["source"]) == ("invalid-line", 3, "actions.jsonl")
    assert "line 3" in error["message"] or "actions.jsonl:3" in error["message"]
    assert orders.dump() == before


def test_broken_json_late_in_a_staged_commit_leaves_nothing(
    orders: Prompt, add: AddLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(add(path=f"{n}.parquet") for n in range(200)) + "{\n"
    monkeypatch.setenv("DELTAMIRROR_CATALOG__STAGE_ABOVE", "10")
    monkeypatch.setenv("DELTAMIRROR_CATALOG__CHUNK_LINES", "20")
    error = orders.error("commit", "orders", "-", stdin=lines, exits=10)
    assert error["line"] == 201
    assert error["source"] == "standard input"
    assert orders.json("table", "show", "orders")["table"]["head"] == 0
    assert orders.json("table", "files", "orders")["files"] == []


@pytest.mark.parametrize(
    ("line", "code", "exits", "named"),
    [
        ('{"frobnicate": {}}', "unsupported", 15, "frobnicate"),
        ('[{"add": {}}]', "invalid-line", 10, "line 1"),
        ('{"add": {"path": "x"}}', "invalid-action", 10, "add"),
    ],
)
def test_a_line_that_is_no_action_is_refused(orders: Prompt, line: str, code: str, exits: int, named: str) -> None:
    before = orders.dump()
    error = orders.error("commit", "orders", "-", stdin=line + "\n", exits=exits)
    assert error["code"] == code
    assert named in json.dumps(error)
    assert orders.dump() == before


@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    ("fields", "field", "found"),
    [
        ({"path": "C:\\data\\a.parquet"}, "path", "C:\\data\\a.parquet"),
        ({"path": "C:/data/a.parquet"}, "path", "C:/data/a.parquet"),
        ({"size": -1}, "size", "-1"),
        ({"partitionValues": {"day": "2024-01-01", "planet": "mars"}}, "partitionValues", "planet"),
    ],
)
def test_an_add_that_breaks_a_rule_is_named_with_field_rule_and_finding(
    orders: Prompt, add: AddLine, fields: dict[str, object], field: str, found: str
) -> None:
    before = orders.dump()
    error = orders.error("commit", "orders", "-", stdin="\n" + add(path="good.parquet") + add(**fields), exits=10)
    assert (error["code"], error["action"], error["field"]) == ("invalid-action", "add", field)
    assert error["message"].startswith("standard input, line 3: ")
    assert error["rule"]
    assert found in error["found"]
    assert orders.dump() == before


@pytest.mark.parametrize(
    "command",
    [
        ["table", "show", "nope"],
        ["table", "history", "nope"],
        ["table", "files", "nope"],
        ["table", "alter", "nope", "--set", "a=b"],
        ["table", "drop", "nope", "--yes"],
        ["table", "pause", "nope"],
        ["table", "resume", "nope"],
        ["commit", "nope", "-"],
    ],
    ids=" ".join,
)
def test_a_table_that_does_not_exist_is_not_found(orders: Prompt, add: AddLine, command: list[str]) -> None:
    before = orders.dump()
    error = orders.error(*command, stdin=add(), exits=11)
    assert (error["code"], error["table"]) == ("not-found", "nope")
    assert "nope" in error["message"]
    assert error["hint"]
    assert orders.dump() == before


@pytest.mark.parametrize("options", [["--version", "7"], ["--as-of", "2001-01-01"]])
def test_a_version_that_does_not_exist_is_not_found(orders: Prompt, options: list[str]) -> None:
    assert orders.error("table", "files", "orders", *options, exits=11)["code"] == "not-found"


@pytest.mark.parametrize("version", ["0", "2", "99"])
def test_a_wrong_at_version_is_a_conflict_that_names_both_versions(orders: Prompt, add: AddLine, version: str) -> None:
    before = orders.dump()
    error = orders.error("commit", "orders", "-", "--at-version", version, stdin=add(), exits=13)
    assert error["code"] == "conflict"
    assert error["actual_version"] == 0
    assert version in error["message"]
    assert orders.dump() == before


@pytest.mark.parametrize("location", ["lake/orders/inner", "lake", "lake/orders", "lake/x/../orders/"])
def test_a_location_inside_around_or_at_another_table_is_refused(orders: Prompt, location: str) -> None:
    before = orders.dump()
    command = ["table", "create", "other", "--location", location, "--schema", "id long"]
    exits = 12 if "orders" in location and not location.endswith("inner") else 10
    error = orders.error(*command, exits=exits)
    assert error["code"] in ("invalid-location", "already-exists")
    assert "orders" in error["message"]
    assert orders.dump() == before


def test_a_name_that_is_taken_is_refused(orders: Prompt) -> None:
    error = orders.error("table", "create", "orders", "--location", "elsewhere", "--schema", "id long", exits=12)
    assert (error["code"], error["table"]) == ("already-exists", "orders")


def test_a_folder_that_has_a_log_is_not_created_over(orders: Prompt) -> None:
    log = orders.folder / "old" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{}\n")
    error = orders.error("table", "create", "old", "--location", "old", "--schema", "id long", exits=12)
    assert "import" in error["hint"]


@pytest.mark.parametrize("url", ["sqlite:///empty.db", "duckdb:///empty.duckdb"], ids=["sqlite", "duckdb"])
def test_a_database_that_was_not_initialised_points_to_init(prompt: Prompt, url: str) -> None:
    error = prompt.error("table", "list", "--catalog", url, exits=17)
    assert error["code"] == "catalog-mismatch"
    assert "deltamirror init" in error["hint"]


def test_a_catalog_of_a_later_release_is_refused(orders: Prompt, add: AddLine) -> None:
    with sqlite3.connect(orders.folder / "deltamirror.db") as connection:
        connection.execute("UPDATE dl_catalog SET value = '99' WHERE key = 'schema_version'")
    connection.close()
    before = orders.dump()
    for command in (["table", "list"], ["init"], ["commit", "orders", "-"]):
        error = orders.error(*command, stdin=add(), exits=17)
        assert "99" in error["message"]
        assert "upgrade" in error["hint"]
    assert orders.dump() == before


def test_somebody_elses_tables_are_left_alone(prompt: Prompt) -> None:
    with sqlite3.connect(prompt.folder / "deltamirror.db") as connection:
        connection.execute("CREATE TABLE dl_tables (mine int)")
    connection.close()
    before = prompt.dump()
    assert "dl_tables" in prompt.error("init", exits=17)["message"]
    assert prompt.dump() == before


def test_a_file_that_is_no_database_is_refused(prompt: Prompt) -> None:
    (prompt.folder / "deltamirror.db").write_text("these are notes, not a database\n" * 100)
    error = prompt.error("init", exits=17)
    assert error["hint"]


def test_a_read_only_database_is_permission_denied(orders: Prompt, add: AddLine) -> None:
    before = orders.dump()
    with every_connection("PRAGMA query_only = ON"):
        error = orders.error("commit", "orders", "-", stdin=add(), exits=21)
        assert orders.json("table", "files", "orders")["files"] == []
    assert error["code"] == "permission-denied"
    assert orders.dump() == before


def test_a_full_database_is_capacity_exceeded(orders: Prompt, add: AddLine) -> None:
    with sqlite3.connect(orders.folder / "deltamirror.db") as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()
    before = orders.dump()
    lines = "".join(add(path=f"{n:0500}.parquet") for n in range(300))
    with every_connection(f"PRAGMA max_page_count = {pages}"):
        error = orders.error("commit", "orders", "-", stdin=lines, exits=22)
    assert error["code"] == "capacity-exceeded"
    assert error["hint"]
    assert orders.dump() == before
    assert orders.json("commit", "orders", "-", stdin=lines)["version"] == 1


def test_a_line_without_an_end_is_not_read_to_its_end(orders: Prompt) -> None:
    with Path("endless.jsonl").open("wb") as file:
        file.truncate(50 * LONGEST_LINE)  # no more than a hole on the disk
    tracemalloc.start()
    try:
        error = orders.error("commit", "orders", "endless.jsonl", exits=10)
        assert tracemalloc.get_traced_memory()[1] < 10 * LONGEST_LINE
    finally:
        tracemalloc.stop()
    assert f"endless.jsonl, line 1: a line of more than {LONGEST_LINE:,} bytes" in error["message"]


def test_a_server_that_does_not_answer_is_unavailable_and_its_password_stays_hidden(prompt: Prompt) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result = prompt("table", "list", "--catalog", f"postgresql://me:hunter2@127.0.0.1:{port}/lake", exits=20)
    assert result.stderr.startswith("error: ")
    assert "hint: " in result.stderr
    assert "hunter2" not in result.output


@pytest.mark.postgres
def test_a_wrong_password_is_permission_denied(prompt: Prompt, postgres_url: str) -> None:
    wrong = postgres_url.replace("deltamirror-tests", "hunter2")
    result = prompt("init", "--catalog", wrong, exits=21)
    assert "hunter2" not in result.output


@pytest.mark.parametrize("folder", ["nowhere/lake.db"])
def test_a_folder_that_does_not_exist_is_one_clear_error(prompt: Prompt, folder: str) -> None:
    error = prompt.error("init", "--catalog", f"sqlite:///{folder}", exits=20)
    assert error["hint"]
