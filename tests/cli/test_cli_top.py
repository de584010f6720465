"""``deltamirror top``: what a frame shows, and how it ends."""

import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.interfaces.commands import COMMAND, environment, typed_on_a_terminal
from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")
PATIENCE = 120


@pytest.fixture
def outage(orders: Prompt, add: AddLine) -> Prompt:
    """``orders`` is published but for its last version, which fails; ``other`` lags by more, and was never tried."""
    orders(*LOCAL)
    (orders.folder / "lake/orders").rename(orders.folder / "aside")
    (orders.folder / "lake/orders").write_text("in the way")
    orders("commit", "orders", "-", stdin=add())
    orders(*LOCAL, exits=10)
    orders("table", "create", "a_table_without_work", "--location", "lake/idle", "--schema", "id long")
    orders(*LOCAL, exits=10)
    orders("table", "create", "other", "--location", "lake/other", "--schema", "id long")
    with sqlite3.connect(orders.folder / "deltamirror.db") as connection:
        connection.execute("UPDATE dl_table_versions SET committed_at = committed_at - 60000 WHERE table_id = 3")
    connection.close()
    return orders


def test_tables_come_by_their_lag_and_failures_with_what_to_do(outage: Prompt) -> None:
    shown = outage("top", "--once").stdout.splitlines()
    assert shown[0].startswith("sqlite:///deltamirror.db  20")
    assert re.fullmatch(r"3 tables, 1 failing; backlog 2 versions of 2 tables, the oldest for 1 min \d+ s", shown[1])
    assert [line.split()[0] for line in shown[2:6]] == ["TABLE", "other", "orders", "a_table_without_work"]
    assert shown[6] == "no service holds a lease"
    assert "move away what is in the place of the table's folder" in shown[7]


def test_programs_get_one_document(outage: Prompt) -> None:
    told = outage.json("top")
    assert [table["name"] for table in told["tables"]] == ["other", "orders", "a_table_without_work"]
    assert told["backlog"]["versions"] == 2
    assert told["backlog"]["lag_ms"] > 60_000
    assert (told["services"], told["all_paused"]) == ([], False)


def test_circuits_and_services_are_shown(outage: Prompt) -> None:
    with sqlite3.connect(outage.folder / "deltamirror.db") as connection:
        connection.execute(
            "INSERT INTO dl_breakers (store, state, failures, successes, changed_at, retry_at)"
            " VALUES ('s3://lake', 'open', 5, 0, 1, 1)"
        )
        connection.execute(
            "INSERT INTO dl_leases (table_id, lane, owner, epoch, claimed_at, expires_at)"
            " VALUES (2, 'commits', 'host-1', 1, 1, 9999999999999), (3, 'commits', 'host-1', 1, 1, 9999999999999)"
            " ON CONFLICT (table_id, lane) DO UPDATE SET owner = 'host-1', claimed_at = 1, expires_at = 9999999999999"
        )
    connection.close()
    shown = outage("top", "--once").stdout
    assert "1 circuit not closed" in shown
    assert "the circuit for s3://lake is open until 1970-01-01 00:00:00.001Z; next probe then" in shown
    assert "service host-1: commits of 2 tables" in shown.splitlines()


def words(text: str) -> set[str]:
    return {word for word in re.split(r"[\s,;:]+", text) if re.search("[A-Za-z]{4}", word)}


def test_no_word_is_broken_on_a_terminal_of_80_columns(outage: Prompt) -> None:
    elsewhere = outage("top", "--once").stdout
    shown = typed_on_a_terminal("top", "--once", folder=outage.folder, columns=80)
    assert max(map(len, elsewhere.splitlines())) > 80
    assert [line for line in shown.splitlines() if len(line) > 80 and str(outage.folder) not in line] == []
    assert words(shown) <= words(elsewhere)


class Screen:
    """A terminal on which the command runs."""

    def __init__(self, folder: Path, *arguments: str, columns: int = 80, lines: int = 24) -> None:
        self._ours, theirs = pty.openpty()
        known = environment({"TERM": "xterm", "COLUMNS": str(columns), "LINES": str(lines)})
        self.process = subprocess.Popen(
            [*COMMAND, "top", *arguments], cwd=folder, env=known, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        self.shown = ""

    def until(self, pattern: str) -> str:
        """All that was shown from here on, up to a text that is waited for."""
        begun, deadline = len(self.shown), time.monotonic() + PATIENCE
        while not re.search(pattern, shown := without_colours(self.shown[begun:]), re.DOTALL):
            assert time.monotonic() < deadline, f"{pattern!r} is not on the screen:\n{shown}"
            self._read()
        return shown

    def _read(self) -> None:
        if select.select([self._ours], [], [], 1)[0]:
            self.shown += os.read(self._ours, 65536).decode(errors="replace").replace("\r\n", "\n")

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def ended(self) -> int:
        """The exit status, after everything was read."""
        with suppress(OSError):  # the other end is closed
            while True:
                self._read()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@contextmanager
def screen(folder: Path, *arguments: str, columns: int = 80, lines: int = 24) -> Iterator[Screen]:
    shown = Screen(folder, *arguments, columns=columns, lines=lines)
    try:
        yield shown
    finally:
        shown.close()


def test_a_terminal_is_drawn_again_without_being_cleared_until_q(outage: Prompt, add: AddLine) -> None:
    database = outage.folder / "deltamirror.db"
    with screen(outage.folder, "--interval", "0.1", columns=200, lines=9) as shown:
        assert not re.search("orders +active", shown.until("0 tables above, 2 below"))
        outage("commit", "orders", "-", stdin=add(path="more"))
        assert "\x1b[2J" not in shown.until("backlog 3 versions")
        shown.press(b"\x1b[B")
        assert re.search("orders +active", shown.until("1 table above, 1 below"))
        renamed(database, "dl_heads", "gone")
        shown.until("the database does not answer: ")
        renamed(database, "gone", "dl_heads")
        shown.until(r"orders, version 1: invalid-location: (?!.*does not answer).*\x1b\[H")
        shown.press(b"q")
        assert shown.ended() == 0
        assert shown.shown.count("\x1b[?1049h") == shown.shown.count("\x1b[?1049l") == 1


def renamed(database: Path, before: str, after: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(f"ALTER TABLE {before} RENAME TO {after}")
    connection.close()


def test_sigterm_ends_it_in_order_and_gives_the_screen_back(orders: Prompt) -> None:
    with screen(orders.folder) as shown:
        shown.until("no service holds")
        shown.process.send_signal(signal.SIGTERM)
        assert shown.ended() == 0
        assert "\x1b[?1049l" in shown.shown
        assert "Traceback" not in shown.shown


@pytest.mark.parametrize("options", [["--interval", "0"], ["--interval", "x"], ["orders"]], ids=" ".join)
def test_what_cannot_be_meant_is_a_usage_error(orders: Prompt, options: list[str]) -> None:
    assert orders.error("top", *options, exits=64)["code"] == "usage"


def test_no_tables_are_no_error(prompt: Prompt) -> None:
    prompt("init")
    told = prompt("top").stdout.splitlines()
    assert told[1:3] == ["0 tables; every version is published", "No tables. `deltamirror table create` makes one."]
