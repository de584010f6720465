from typing import Any

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt


def shown(prompt: Prompt) -> Any:
    return prompt.json("table", "show", "orders")["table"]


def test_properties_are_set_and_unset(orders: Prompt) -> None:
    done = orders.json("table", "alter", "orders", "--set", "owner=me", "--set", "delta.appendOnly=true")
    assert done["version"] == 1
    assert shown(orders)["properties"].items() >= {"owner": "me", "delta.appendOnly": "true"}.items()
    assert orders.json("table", "alter", "orders", "--unset", "owner")["version"] == 2
    assert "owner" not in shown(orders)["properties"]
    assert shown(orders)["properties"]["delta.appendOnly"] == "true"


def test_columns_are_added_at_the_end(orders: Prompt) -> None:
    orders(
        "table", "alter", "orders", "--add-column", "amount decimal(10,2)", "--add-column", "tags map<string,string>"
    )
    assert [f["name"] for f in shown(orders)["schema"]["fields"]] == ["id", "day", "amount", "tags"]
    history = orders.json("table", "history", "orders")["history"]
    assert (history[0]["version"], history[0]["operation"]) == (1, "ADD COLUMNS")


@pytest.mark.parametrize("column", ["ID string", "amount", "amount long NOT NULL", "a, b long", "am;ount long"])
def test_a_column_that_cannot_be_added_is_refused(orders: Prompt, column: str) -> None:
    assert orders.error("table", "alter", "orders", "--add-column", column, exits=10)["code"] == "invalid-schema"
    assert shown(orders)["head"] == 0


@pytest.mark.requirement("R4")
def test_features_are_enabled_and_the_protocol_keeps_what_it_had(orders: Prompt) -> None:
    before = shown(orders)["protocol"]
    orders("table", "alter", "orders", "--enable-feature", "deletionVectors")
    after = shown(orders)["protocol"]
    assert "deletionVectors" in after["writerFeatures"]
    assert set(before.get("writerFeatures", [])) <= set(after["writerFeatures"])


def test_an_unknown_feature_is_refused(orders: Prompt) -> None:
    error = orders.error("table", "alter", "orders", "--enable-feature", "timeMachine", exits=15)
    assert error["code"] == "unsupported"
    assert "timeMachine" in error["message"]
    assert shown(orders)["head"] == 0


def test_a_constraint_is_added_and_dropped(orders: Prompt) -> None:
    orders("table", "alter", "orders", "--add-constraint", "positive=id > 0")
    assert shown(orders)["properties"]["delta.constraints.positive"] == "id > 0"
    again = orders.error("table", "alter", "orders", "--add-constraint", "positive=id > 1", exits=12)
    assert again["code"] == "already-exists"
    orders("table", "alter", "orders", "--drop-constraint", "positive")
    assert "delta.constraints.positive" not in shown(orders)["properties"]
    assert orders.error("table", "alter", "orders", "--drop-constraint", "positive", exits=11)["code"] == "not-found"


def test_a_comment_is_set(orders: Prompt) -> None:
    orders("table", "alter", "orders", "--comment", "all orders")
    assert shown(orders)["description"] == "all orders"


def test_several_changes_are_one_commit(orders: Prompt) -> None:
    changes = ["--set", "owner=me", "--add-column", "amount double", "--enable-feature", "deletionVectors"]
    assert orders.json("table", "alter", "orders", *changes)["version"] == 1
    assert shown(orders)["head"] == 1


def test_an_alteration_without_effect_writes_nothing(orders: Prompt) -> None:
    orders("table", "alter", "orders", "--set", "owner=me")
    done = orders("table", "alter", "orders", "--set", "owner=me")
    assert shown(orders)["head"] == 1
    assert done.stdout == "orders is so already; version 1 is still its head.\n"


def test_a_constraint_on_a_table_with_rows_needs_a_word_that_they_were_checked(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    error = orders.error("table", "alter", "orders", "--add-constraint", "positive=id > 0", exits=10)
    assert error["rule"] == "metaData.change.rows-unchecked"
    assert "--rows-checked" in error["hint"]
    assert orders.json("table", "alter", "orders", "--add-constraint", "positive=id > 0", "--rows-checked")["changed"]


def test_the_history_names_the_alteration_as_spark_does(orders: Prompt) -> None:
    orders("table", "alter", "orders", "--set", "owner=me")
    orders("table", "alter", "orders", "--add-constraint", "positive=id > 0")
    orders("table", "alter", "orders", "--unset", "owner", "--drop-constraint", "positive")
    history = orders.json("table", "history", "orders")["history"]
    assert [entry["operation"] for entry in history] == [
        "ALTER TABLE",
        "ADD CONSTRAINT",
        "SET TBLPROPERTIES",
        "CREATE TABLE",
    ]
    assert history[1]["parameters"] == {"name": "positive", "expr": "id > 0"}
    assert history[2]["parameters"] == {"properties": '{"owner":"me"}'}


@pytest.mark.requirement("R39")
def test_a_fence_is_put_up_and_taken_away(orders: Prompt) -> None:
    assert "orders has a fence from version 1 on." in orders("table", "fence", "orders").stdout
    assert "deltamirrorFence" in shown(orders)["protocol"]["writerFeatures"]
    again = orders.json("table", "fence", "orders")
    assert again == {"table": "orders", "version": 1, "fenced": True, "changed": False}
    assert orders.json("table", "unfence", "orders")["changed"]
    assert "deltamirrorFence" not in shown(orders)["protocol"]["writerFeatures"]
    assert "already; version 2 is still its head" in orders("table", "unfence", "orders").stdout


@pytest.mark.requirement("R39")
def test_a_fenced_table_is_imported_with_its_fence(orders: Prompt) -> None:
    orders("table", "fence", "orders")
    orders("mirror", "--once", "--runner", "local")
    location = shown(orders)["location"]
    orders("init", "--catalog", "sqlite:///other.db")
    orders("import", location, "--name", "orders", "--catalog", "sqlite:///other.db")
    imported = orders.json("table", "show", "orders", "--catalog", "sqlite:///other.db")["table"]
    assert "deltamirrorFence" in imported["protocol"]["writerFeatures"]
    assert orders.json("table", "unfence", "orders", "--catalog", "sqlite:///other.db")["version"] == 2


def columns(prompt: Prompt) -> list[str]:
    return [field["name"] for field in shown(prompt)["schema"]["fields"]]


def operations(prompt: Prompt) -> list[str]:
    return [entry["operation"] for entry in prompt.json("table", "history", "orders")["history"]]


def test_columns_are_added_moved_and_commented_at_any_depth(orders: Prompt) -> None:
    orders("table", "alter", "orders", "--add-column", "s struct<x: int> FIRST", "--add-column", "s.y date FIRST")
    orders("table", "alter", "orders", "--change-column", "s.X", "COMMENT 'deep' FIRST")
    assert columns(orders) == ["s", "id", "day"]
    inside = shown(orders)["schema"]["fields"][0]["type"]["fields"]
    assert [(field["name"], field["metadata"]) for field in inside] == [("x", {"comment": "deep"}), ("y", {})]
    assert operations(orders) == ["CHANGE COLUMN", "ADD COLUMNS", "CREATE TABLE"]


def test_to_rename_a_column_the_command_is_told_that_maps_columns_too(orders: Prompt) -> None:
    rename = ("table", "alter", "orders", "--rename-column", "id", "key")
    error = orders.error(*rename, exits=16)
    assert f"`deltamirror {' '.join(rename)} --enable-column-mapping`" in error["hint"]
    assert shown(orders)["head"] == 0
    orders(*rename, "--enable-column-mapping")
    assert (columns(orders), operations(orders)) == (["key", "day"], ["RENAME COLUMN", "CREATE TABLE"])
    [key, _] = shown(orders)["schema"]["fields"]
    assert key["metadata"] == {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
    assert shown(orders)["properties"]["delta.columnMapping.maxColumnId"] == "2"


def test_a_column_that_is_dropped_and_added_in_one_commit_is_another_one(orders: Prompt) -> None:
    orders("table", "alter", "orders", "--enable-column-mapping")
    orders("table", "alter", "orders", "--drop-column", "id", "--add-column", "id string")
    [_, added] = shown(orders)["schema"]["fields"]
    assert (added["name"], added["metadata"]["delta.columnMapping.id"]) == ("id", 3)
    assert added["metadata"]["delta.columnMapping.physicalName"] != "id"


def test_a_type_is_widened_in_the_commit_that_lets_the_table_do_so(orders: Prompt) -> None:
    orders("table", "alter", "orders", "--add-column", "n int")
    widen = ("table", "alter", "orders", "--change-column", "n", "TYPE bigint")
    error = orders.error(*widen, exits=10)
    assert "integer cannot become long" in error["message"]
    orders(*widen, "--set", "delta.enableTypeWidening=true")
    assert shown(orders)["schema"]["fields"][-1]["type"] == "long"


def test_a_default_takes_the_feature(orders: Prompt) -> None:
    change = ("table", "alter", "orders", "--change-column", "id", "SET DEFAULT 1 + 1")
    assert "--enable-feature allowColumnDefaults" in orders.error(*change, exits=16)["hint"]
    orders(*change, "--enable-feature", "allowColumnDefaults")
    assert shown(orders)["schema"]["fields"][0]["metadata"] == {"CURRENT_DEFAULT": "1 + 1"}
    orders("table", "alter", "orders", "--change-column", "id", "DROP DEFAULT")
    assert shown(orders)["schema"]["fields"][0]["metadata"] == {}


def test_not_null_is_dropped_and_not_set_where_there_are_rows(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add())
    error = orders.error("table", "alter", "orders", "--change-column", "id", "SET NOT NULL", exits=10)
    assert error["rule"] == "metaData.change.nullability"


def test_a_table_is_renamed(orders: Prompt) -> None:
    done = orders.json("table", "rename", "orders", "sales.orders")
    assert (done["table"], done["renamed_from"]) == ("sales.orders", "orders")
    assert orders.error("table", "show", "orders", exits=11)["code"] == "not-found"
    assert orders.json("table", "show", "sales.orders")["table"]["location"] == done["location"]
    assert orders.error("table", "rename", "sales.orders", "a b", exits=10)["hint"]
