"""``deltamirror clean`` as it is typed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

DAYS = 86_400_000
LOCAL = ("mirror", "--once", "--runner", "local")


@pytest.fixture
def lived(orders: Prompt, add: AddLine) -> Prompt:
    """A prompt with the table ``orders`` at version 12, published, with a checkpoint of version 10."""
    for number in range(12):
        orders("commit", "orders", "-", stdin=add(path=f"{number}.parquet"))
        if number in (9, 11):
            orders(*LOCAL)
    return orders


def age(lived: Prompt, upto: int) -> None:
    back = f"UPDATE dl_table_versions SET committed_at = committed_at - {40 * DAYS} WHERE version <= {upto}"
    with closing(sqlite3.connect(lived.folder / "deltamirror.db")) as connection, connection:
        connection.execute(back)


def names(lived: Prompt) -> list[str]:
    return sorted(path.name for path in Path(lived.folder / "lake/orders/_delta_log").iterdir())


@pytest.mark.requirement("R19")
def test_what_a_dry_run_shows_is_what_goes(lived: Prompt) -> None:
    before = names(lived)
    age(lived, 11)
    said = lived("clean", "orders", "--dry-run").stdout.splitlines()
    assert said[:2] == ["_delta_log/00000000000000000000.json", "_delta_log/00000000000000000000.crc"]
    assert said[-2].startswith("The log of orders would start with version 10: commits up to ")
    assert said[-1].startswith("Would be deleted: 20 objects, ")
    shown = lived.json("clean", "orders", "--dry-run")
    assert (shown["dry_run"], shown["log_start"], shown["raised_from"], shown["reason"]) == (True, 10, 0, "")
    assert shown["objects"] == said[:-2]
    assert names(lived) == before
    done = lived.json("clean", "orders")
    assert (done["dry_run"], done["objects"], done["num_objects"]) == (False, shown["objects"], 20)
    assert names(lived) == sorted(set(before) - {key.removeprefix("_delta_log/") for key in done["objects"]})


def test_status_says_where_the_log_starts_and_what_the_last_cleaning_did(lived: Prompt) -> None:
    [status] = lived.json("status", "orders")["tables"]
    assert status["log_start"] == 0
    age(lived, 11)
    assert "Deleted: 20 objects, " in lived("clean", "orders").stdout
    [status] = lived.json("status", "orders")["tables"]
    assert (status["log_start"], status["cleanup"]["num_objects"]) == (10, 20)
    assert status["cleanup"]["at"] > 0
    assert "starts with version 10; cleaned " in lived("status", "orders").stdout


def test_what_stays_is_told_with_the_reason(lived: Prompt) -> None:
    said = lived("clean", "orders").stdout
    assert said.startswith("The log of orders starts with version 0, as before: commits up to ")
    assert "there is no later checkpoint that is as old as that" in said
    assert said.endswith("Deleted: 0 objects, 0 bytes.\n")
    lived("table", "alter", "orders", "--set", "delta.enableExpiredLogCleanup=false")
    age(lived, 12)
    assert "delta.enableExpiredLogCleanup=false" in lived.json("clean", "orders")["reason"]


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("clean", "missing"), 11, "not-found"),
        (("clean",), 64, "usage"),
        (("clean", "orders", "--forced"), 64, "usage"),
    ],
)
def test_what_is_wrong_ends_with_a_status_of_its_own(
    lived: Prompt, arguments: tuple[str, ...], status: int, code: str
) -> None:
    assert lived.error(*arguments, exits=status)["code"] == code


def test_a_table_that_is_paused_is_not_cleaned(lived: Prompt) -> None:
    lived("table", "pause", "orders")
    assert lived.error("clean", "orders", exits=16)["code"] == "refused"
