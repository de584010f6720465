"""Whatever put a table into quarantine: every command says so, and the one advice that is given works."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")
NAMED = re.compile(r"`deltamirror ([^`]+)`")
RUNS = {"repair", "adopt", "rebuild", "reconcile", "mirror", "checkpoint"}
"""Commands that do something; ``report`` and ``status`` only show."""


@pytest.fixture
def lived(published: Prompt, add: AddLine) -> Prompt:
    """A prompt with the table ``orders`` at version 3, published, and at version 4, which is not."""
    published("commit", "orders", "-", stdin=add(path="d.parquet"))
    return published


def file_of(prompt: Prompt, version: int) -> Path:
    found: Path = prompt.folder / f"lake/orders/_delta_log/{version:020}.json"
    return found


def lose_place(prompt: Prompt) -> None:
    shutil.rmtree(prompt.folder / "lake/orders")


def alter(prompt: Prompt) -> None:
    file_of(prompt, 2).write_bytes(file_of(prompt, 2).read_bytes() + b"\n")


def put_foreign(prompt: Prompt) -> None:
    other = file_of(prompt, 3).read_bytes().replace(b"c.parquet", b"theirs.parquet")
    later = re.sub(rb'(?<="inCommitTimestamp":)[0-9]+', lambda found: b"%d" % (int(found[0]) + 1), other)
    file_of(prompt, 4).write_bytes(later)


def do_both(prompt: Prompt) -> None:
    alter(prompt)
    put_foreign(prompt)


def bring_back(prompt: Prompt) -> None:
    (prompt.folder / "lake/orders").mkdir()


def block_by_folder(prompt: Prompt) -> None:
    file_of(prompt, 2).unlink()
    file_of(prompt, 2).mkdir()


def block_by_pipe(prompt: Prompt) -> None:
    file_of(prompt, 2).unlink()
    os.mkfifo(file_of(prompt, 2))


def link_log(prompt: Prompt) -> None:
    log = file_of(prompt, 0).parent
    log.rename(prompt.folder / "elsewhere")
    log.symlink_to(prompt.folder / "elsewhere")


def put_log_back(prompt: Prompt) -> None:
    log = file_of(prompt, 0).parent
    log.unlink()
    (prompt.folder / "elsewhere").rename(log)


class Reason(NamedTuple):
    """What puts a table into quarantine."""

    damage: Callable[[Prompt], None]
    exit_status: int
    by_hand: Callable[[Prompt], None] = lambda _: None
    """The part of the advice that is no command."""


REASONS = {
    "place gone": Reason(lose_place, 11),
    "altered": Reason(alter, 2),
    "foreign": Reason(put_foreign, 2),
    "both": Reason(do_both, 2),
    "a folder": Reason(block_by_folder, 10, lambda prompt: file_of(prompt, 2).rmdir()),
    "a pipe": Reason(block_by_pipe, 10, lambda prompt: file_of(prompt, 2).unlink()),
    "a linked log": Reason(link_log, 10, put_log_back),
    "a linked log, lost": Reason(link_log, 10, lambda prompt: file_of(prompt, 0).parent.unlink()),
}


@pytest.fixture(params=REASONS)
def stopped(lived: Prompt, request: pytest.FixtureRequest) -> tuple[Prompt, Reason]:
    """The table in quarantine."""
    reason = REASONS[request.param]
    reason.damage(lived)
    lived("reconcile", "--strategy", "full", "--runner", "local", exits=reason.exit_status)
    return lived, reason


def test_versions_that_wait_in_quarantine_are_a_failure_that_stands(stopped: tuple[Prompt, Reason]) -> None:
    prompt, (_, exit_status, _) = stopped
    for _ in range(2):
        said = prompt(*LOCAL, exits=None)
        assert said.exit_code in (exit_status, 2)  # 2: no version of the table failed, and one waits
        assert "orders is in quarantine: " in said.stdout
        assert NAMED.search(said.stdout)


def test_the_one_advice_of_a_quarantine_works(stopped: tuple[Prompt, Reason]) -> None:
    prompt, reason = stopped
    shown, listed, [table] = prompt("status", "orders").stdout, prompt("status").stdout, statuses(prompt)
    assert shown.count("what to do: ") == 1
    assert "next one: at once" not in shown
    advised = commands(shown)
    assert commands(listed) == advised
    assert table["error"] is None or commands(table["error"]["hint"]) == advised
    refusal = prompt.error("reconcile", "orders", "--runner", "local", exits=16)
    assert commands(refusal["hint"]) == advised
    reason.by_hand(prompt)
    for command in advised:
        prompt(*command.split(), exits=None)
        if statuses(prompt)[0]["state"] == "active":
            break
    prompt(*LOCAL)
    assert [(each["state"], each["lag_versions"], each["error"]) for each in statuses(prompt)] == [("active", 0, None)]


def statuses(prompt: Prompt) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = prompt.json("status")["tables"]
    return found


def commands(text: str) -> list[str]:
    """The commands that are named and do something, in order."""
    return [each for each in NAMED.findall(" ".join(text.split())) if each.split()[0] in RUNS]


def test_a_place_that_is_brought_back_is_repaired(lived: Prompt) -> None:
    lose_place(lived)
    lived("reconcile", "--strategy", "full", "--runner", "local", exits=11)
    lived("repair", "orders", exits=11)
    bring_back(lived)
    lived("repair", "orders")
    lived(*LOCAL)
