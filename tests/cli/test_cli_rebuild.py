"""``deltamirror rebuild`` as it is typed."""

import shutil
from pathlib import Path

import pytest

from tests.support.interfaces.prompt import Prompt

LOCAL = ("mirror", "--once", "--runner", "local")


def commits(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "_delta_log").glob("*.json")}


@pytest.mark.requirement("R66")
def test_the_log_is_written_again_bit_for_bit(published: Prompt) -> None:
    done = published.json("rebuild", "orders", "--to", "again")
    location = f"file://{published.folder}/again"
    assert done == {
        "table": "orders",
        "location": location,
        "first": 0,
        "last": 3,
        "versions": 4,
        "already": 0,
        "checkpoint": None,
    }
    assert commits(published.folder / "again") == commits(published.folder / "lake/orders")
    said = published("rebuild", "orders", "--to", "again").stdout
    assert said == f"{location} has versions 0 to 3 of orders (4 of them were there already).\n"


def test_a_range_begins_with_a_checkpoint(published: Prompt) -> None:
    said = published("rebuild", "orders", "--to", "again", "--versions", "2..3").stdout
    assert said == f"file://{published.folder}/again has versions 2 to 3 of orders, with a checkpoint of version 2.\n"
    log = published.folder / "again/_delta_log"
    assert sorted(path.name for path in log.iterdir() if path.suffix != ".lock") == [
        f"{2:020}.checkpoint.parquet",
        f"{2:020}.json",
        f"{3:020}.json",
        "_last_checkpoint",
    ]


def test_with_checkpoints_the_interval_of_the_table_counts(published: Prompt) -> None:
    published("table", "alter", "orders", "--set", "delta.checkpointInterval=2")
    assert published.json("rebuild", "orders", "--to", "again", "--checkpoints")["checkpoint"] == 4


def test_one_version_is_told_as_one(published: Prompt) -> None:
    said = published("rebuild", "orders", "--to", "again", "--versions", "0..0").stdout
    assert said == f"file://{published.folder}/again has version 0 of orders.\n"


def test_other_bytes_end_with_status_2_and_stay(published: Prompt) -> None:
    published("rebuild", "orders", "--to", "again", "--versions", "0..0")
    foreign = published.folder / f"again/_delta_log/{1:020}.json"
    foreign.write_text("{}\n")
    error = published.error("rebuild", "orders", "--to", "again", exits=2)
    assert (error["code"], error["version"], error["key"]) == ("diverged", 1, f"_delta_log/{1:020}.json")
    assert "nothing was overwritten" in error["hint"]
    assert foreign.read_text() == "{}\n"


@pytest.mark.parametrize("where", [(), ("--to", "lake/orders")], ids=["without --to", "its own"])
def test_the_tables_own_log_is_restored(published: Prompt, where: tuple[str, ...]) -> None:
    home = published.folder / "lake/orders"
    before = commits(home)
    (home / f"_delta_log/{1:020}.json").unlink()
    said = published("rebuild", "orders", *where).stdout
    assert said == f"file://{home} has versions 0 to 3 of orders (3 of them were there already).\n"
    assert commits(home) == before
    shutil.rmtree(home / "_delta_log")
    done = published.json("rebuild", "orders", *where)
    assert (done["location"], done["versions"], done["already"]) == (f"file://{home}", 4, 0)
    assert commits(home) == before


def test_other_bytes_in_the_tables_own_log_end_with_status_2_and_stay(published: Prompt) -> None:
    foreign = published.folder / f"lake/orders/_delta_log/{1:020}.json"
    foreign.write_text("{}\n")
    error = published.error("rebuild", "orders", exits=2)
    assert (error["code"], error["version"], error["key"]) == ("diverged", 1, f"_delta_log/{1:020}.json")
    assert "deltamirror repair orders" in error["hint"]
    assert foreign.read_text() == "{}\n"
    assert published.json("status", "orders")["tables"][0]["state"] == "active"


def test_at_home_nothing_is_written_that_the_mirror_has_not_published(orders: Prompt) -> None:
    error = orders.error("rebuild", "orders", exits=16)
    assert "deltamirror mirror --once" in error["hint"]
    assert not (orders.folder / "lake").exists()


def test_a_table_that_is_not_there_is_not_found(published: Prompt) -> None:
    error = published.error("rebuild", "nope", "--to", "again", exits=11)
    assert error["table"] == "nope"
    assert "table list" in error["hint"]


def test_versions_that_the_table_does_not_have_are_not_found(published: Prompt) -> None:
    error = published.error("rebuild", "orders", "--to", "again", "--versions", "2..9", exits=11)
    assert error["message"] == "table 'orders' has no versions 2 to 9: it has versions 0 to 3"
    assert error["version"] == 9
    error = published.error("rebuild", "orders", "--to", "again", "--versions", "9..9", exits=11)
    assert error["message"] == "table 'orders' has no version 9: it has versions 0 to 3"
    assert not (published.folder / "again").exists()


@pytest.mark.parametrize("text", ["3", "3..", "..3", "3..1", "a..b", "-1..2", "1...2", "1..9999999999999999999", ""])
def test_what_is_no_range_of_versions_is_a_usage_error(published: Prompt, text: str) -> None:
    assert (
        "such as 3..7" in published.error("rebuild", "orders", "--to", "again", "--versions", text, exits=64)["message"]
    )


def test_an_empty_location_is_a_usage_error(published: Prompt) -> None:
    assert "empty" in published.error("rebuild", "orders", "--to", "", exits=64)["message"]


@pytest.mark.parametrize("where", ["lake/other", "lake/other/below", "lake", "lake/orders/below"])
def test_a_location_of_another_table_is_refused(published: Prompt, where: str) -> None:
    published("table", "create", "other", "--location", "lake/other", "--schema", "id long")
    error = published.error("rebuild", "orders", "--to", where, exits=10)
    assert error["code"] == "invalid-location"
    assert error["location"] == f"file://{published.folder}/{where}"
    assert not (published.folder / "lake/other").exists()


@pytest.mark.parametrize(
    ("where", "told"), [("~/x", "home folder"), ("ftp://x/y", "scheme"), ("s3://bucket", "bucket")]
)
def test_a_malformed_location_is_refused(published: Prompt, where: str, told: str) -> None:
    error = published.error("rebuild", "orders", "--to", where, exits=10)
    assert told in error["message"]


def test_a_file_in_the_place_of_the_folder_is_refused(published: Prompt) -> None:
    (published.folder / "again").write_text("a file")
    assert published.error("rebuild", "orders", "--to", "again", exits=10)["code"] == "invalid-location"
