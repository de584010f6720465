import json

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")
HERE = ("--runner", "local")


@pytest.mark.requirement("R22")
def test_the_newest_published_version_gets_its_checkpoint_once(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    orders(*LOCAL)
    first = orders.json("checkpoint", "orders", *HERE)
    log = orders.folder / "lake/orders/_delta_log"
    written = log / f"{1:020}.checkpoint.parquet"
    assert (first["table"], first["version"], first["written"]) == ("orders", 1, True)
    assert first["num_bytes"] == written.stat().st_size
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 1
    again = orders("checkpoint", "orders", *HERE).stdout
    assert again == f"orders had the checkpoint of version 1 already ({first['num_bytes']:,} bytes).\n"
    assert orders.json("status")["tables"][0]["checkpoint"]["version"] == 1


def test_it_is_written_by_the_runner_of_the_mirror_unless_another_one_is_named(
    orders: Prompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders(*LOCAL)
    monkeypatch.setenv("DELTAMIRROR_MIRROR__RUNNER", "spark")
    monkeypatch.setenv("SPARK_HOME", "/nowhere")
    assert "Spark" in orders.error("checkpoint", "orders", exits=20)["message"]
    assert orders("checkpoint", "orders", *HERE).stdout.startswith("orders has a checkpoint of version 0 (")


def test_a_master_is_for_spark(orders: Prompt) -> None:
    assert "--master is for Spark" in orders("checkpoint", "orders", *HERE, "--master", "local[1]", exits=64).stderr


def test_a_table_without_a_published_version_has_nothing_to_write(orders: Prompt) -> None:
    error = orders.error("checkpoint", "orders", exits=16)
    assert error["code"] == "refused"
    assert "deltamirror mirror --once" in error["hint"]


def test_a_paused_table_is_refused(orders: Prompt) -> None:
    orders(*LOCAL)
    orders("table", "pause", "orders")
    assert orders.error("checkpoint", "orders", exits=16)["hint"] == "run `deltamirror table resume orders`"


def test_a_table_that_is_paused_with_all_others_is_refused_with_what_resumes_them(orders: Prompt) -> None:
    orders(*LOCAL)
    orders("table", "pause", "--all")
    error = orders.error("checkpoint", "orders", exits=16)
    assert (error["message"], error["hint"]) == (
        "the mirror of all tables is paused",
        "run `deltamirror table resume --all`",
    )


def test_a_table_that_is_not_there_is_not_found(orders: Prompt) -> None:
    assert orders.error("checkpoint", "nope", exits=11)["table"] == "nope"


def test_a_checkpoint_that_cannot_be_written_says_why_and_the_status_shows_it(orders: Prompt) -> None:
    orders(*LOCAL)
    in_the_way = orders.folder / f"lake/orders/_delta_log/{0:020}.checkpoint.parquet"
    in_the_way.mkdir()
    (in_the_way / "file").write_text("in the way")
    error = orders.error("checkpoint", "orders", *HERE, exits=10)
    assert error["code"] == "invalid-location"
    [table] = orders.json("status", "orders")["tables"]
    assert (table["error"], table["checkpoint_error"]["code"]) == (None, "invalid-location")
    assert "checkpoint: invalid-location" in orders("status").stdout
