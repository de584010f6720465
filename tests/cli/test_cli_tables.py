import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

SPARK_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {}},
    ],
}


def fields(prompt: Prompt, name: str) -> list[tuple[str, object]]:
    return [(f["name"], f["type"]) for f in prompt.json("table", "show", name)["table"]["schema"]["fields"]]


@pytest.mark.requirement("R107")
def test_init_may_be_repeated(prompt: Prompt) -> None:
    first = prompt.json("init")
    assert first == prompt.json("init")
    assert first["catalog"] == "sqlite:///deltamirror.db"
    assert first["schema_version"] >= 1


@pytest.mark.requirement("R40")
def test_a_table_lives_its_life_in_every_database(prompt: Prompt, catalog_url: str, add: AddLine) -> None:
    address = ["--catalog", catalog_url]
    prompt("init", *address)
    created = prompt.json("table", "create", "t", "--location", "t", "--schema", "id long, day date", *address)
    assert created["table"]["head"] == 0
    assert prompt.json("commit", "t", "-", *address, stdin=add(partitionValues={}))["version"] == 1
    assert [entry["version"] for entry in prompt.json("table", "history", "t", *address)["history"]] == [1, 0]
    assert [file["path"] for file in prompt.json("table", "files", "t", *address)["files"]] == ["a.parquet"]
    assert prompt.json("table", "drop", "t", "--yes", "--unpublished", *address)["dropped"]
    assert prompt.json("table", "list", *address) == {"tables": []}


def test_create_answers_with_the_table(prompt: Prompt) -> None:
    prompt("init")
    said = prompt("table", "create", "sales.orders", "--location", "lake/orders", "--schema", "id long").stdout
    assert said == f"Created sales.orders at file://{prompt.folder}/lake/orders, version 0.\n"
    shown = prompt.json("table", "show", "sales.orders")["table"]
    assert (shown["name"], shown["head"], shown["published"], shown["state"]) == ("sales.orders", 0, None, "active")
    assert shown["location"] == f"file://{prompt.folder}/lake/orders"


def test_create_takes_partitions_properties_features_and_a_description(prompt: Prompt) -> None:
    prompt("init")
    options = ["--partition-by", "day,region", "--property", "delta.appendOnly=true", "--property", "owner=a=b"]
    schema = "id long NOT NULL, day date, region string"
    more = ["--feature", "deletionVectors", "--description", "all orders"]
    prompt("table", "create", "t", "--location", "t", "--schema", schema, *options, *more)
    shown = prompt.json("table", "show", "t")["table"]
    assert shown["partition_columns"] == ["day", "region"]
    assert shown["properties"]["delta.appendOnly"] == "true"
    assert shown["properties"]["owner"] == "a=b"
    assert shown["description"] == "all orders"
    assert "deletionVectors" in shown["protocol"]["writerFeatures"]
    text = prompt("table", "show", "t").stdout
    for part in ("id long NOT NULL\n", "day date\n", "day, region\n", "owner = a=b\n", "all orders\n"):
        assert part in text


def _json_file(folder: Path) -> str:
    (folder / "schema.json").write_text(json.dumps(SPARK_SCHEMA))
    return "schema.json"


def _arrow_schema() -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("day", pa.date32())])


def _arrow_file(folder: Path) -> str:
    with pa.OSFile(str(folder / "schema.arrow"), "wb") as sink, pa.ipc.new_file(sink, _arrow_schema()):
        pass
    return "schema.arrow"


def _arrow_message(folder: Path) -> str:
    (folder / "schema.ipc").write_bytes(_arrow_schema().serialize().to_pybytes())
    return "schema.ipc"


def _parquet_file(folder: Path) -> str:
    pq.write_table(_arrow_schema().empty_table(), folder / "data.parquet")
    return "data.parquet"


@pytest.mark.parametrize("made", [_json_file, _arrow_file, _arrow_message, _parquet_file])
def test_a_schema_comes_from_json_arrow_or_parquet(prompt: Prompt, made: Callable[[Path], str]) -> None:
    prompt("init")
    prompt("table", "create", "t", "--location", "t", "--schema-file", made(prompt.folder))
    assert fields(prompt, "t") == [("id", "long"), ("day", "date")]


@pytest.mark.parametrize("content", [b"\x00\x01", b"PAR1nonsense", b"{not json", b"ARROW1nonsense"])
def test_a_file_that_is_no_schema_is_one_clear_error(prompt: Prompt, content: bytes) -> None:
    prompt("init")
    (prompt.folder / "x").write_bytes(content)
    error = prompt.error("table", "create", "t", "--location", "t", "--schema-file", "x", exits=10)
    assert error["code"] == "invalid-schema"
    assert prompt.json("table", "list") == {"tables": []}


def test_list_shows_every_table(orders: Prompt) -> None:
    orders("table", "create", "a", "--location", "lake/a", "--schema", "id long")
    tables = orders.json("table", "list")["tables"]
    assert [(t["name"], t["head"], t["state"]) for t in tables] == [("a", 0, "active"), ("orders", 0, "active")]
    lines = orders("table", "list").stdout.splitlines()
    assert lines[0].split()[:2] == ["TABLE", "HEAD"]
    assert [line.split()[0] for line in lines[1:]] == ["a", "orders"]


def test_an_empty_catalog_says_what_to_do(prompt: Prompt) -> None:
    prompt("init")
    assert prompt("table", "list").stdout == "No tables. `deltamirror table create` makes one.\n"


def test_files_of_a_version_a_time_and_a_partition(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add(path="a.parquet"))
    second = orders.json("commit", "orders", "-", stdin=add(path="b.parquet", partitionValues={"day": "2024-01-02"}))
    orders("commit", "orders", "-", stdin=add(path="c.parquet", partitionValues={"day": None}))

    def paths(*options: str) -> list[str]:
        return sorted(file["path"] for file in orders.json("table", "files", "orders", *options)["files"])

    assert paths() == ["a.parquet", "b.parquet", "c.parquet"]
    assert paths("--version", "1") == ["a.parquet"]
    assert paths("--version", "0") == []
    assert paths("--as-of", str(second["timestamp"])) == ["a.parquet", "b.parquet"]
    assert paths("--partition", "day=2024-01-02") == ["b.parquet"]
    assert paths("--partition", "day=2024-01-02", "--version", "1") == []


def test_files_are_listed_with_size_time_and_partition(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", stdin=add(path="a%20b.parquet", size=123456, modificationTime=1704067200000))
    lines = orders("table", "files", "orders").stdout.splitlines()
    assert lines[0].split() == ["SIZE", "MODIFIED", "PARTITION", "PATH"]
    assert lines[1].split() == ["123456", "2024-01-01", "00:00:00.000Z", "day=2024-01-01", "a%20b.parquet"]
    (file,) = orders.json("table", "files", "orders")["files"]
    assert (file["size"], file["modification_time"]) == (123456, 1704067200000)
    assert file["partition_values"] == {"day": "2024-01-01"}


def test_history_tells_what_each_commit_did(orders: Prompt, add: AddLine) -> None:
    orders("commit", "orders", "-", "--operation", "DELIVERY", stdin=add() + add(path="b.parquet"))
    newest, oldest = orders.json("table", "history", "orders")["history"]
    assert (newest["version"], newest["operation"], newest["num_added"]) == (1, "DELIVERY", 2)
    assert (oldest["version"], oldest["operation"]) == (0, "CREATE TABLE")
    assert [e["version"] for e in orders.json("table", "history", "orders", "--limit", "1")["history"]] == [1]
    assert "DELIVERY" in orders("table", "history", "orders").stdout


def test_a_paused_table_takes_commits_that_wait_for_resume(orders: Prompt, add: AddLine) -> None:
    assert orders.json("table", "pause", "orders", "--unpublished")["state"] == "paused"
    assert orders.json("commit", "orders", "-", stdin=add())["version"] == 1
    assert orders.json("table", "show", "orders")["table"]["state"] == "paused"
    resumed = orders.json("table", "resume", "orders")
    assert (resumed["state"], resumed["unpublished"]) == ("active", 2)


@pytest.mark.parametrize("command", ["pause", "drop"])
def test_unpublished_versions_need_a_word_more(orders: Prompt, command: str) -> None:
    yes = ["--yes"] if command == "drop" else []
    error = orders.error("table", command, "orders", *yes, exits=16)
    assert error["code"] == "refused"
    assert "--unpublished" in error["hint"]
    assert orders.json("table", "show", "orders")["table"]["state"] == "active"


def test_drop_asks_and_no_is_no(orders: Prompt) -> None:
    result = orders("table", "drop", "orders", "--unpublished", stdin="n\n", exits=16)
    assert "Drop orders from the catalog?" in result.stderr
    assert "not dropped" in result.stderr
    assert len(orders.json("table", "list")["tables"]) == 1


def test_drop_without_an_answer_drops_nothing(orders: Prompt) -> None:
    assert "--yes" in orders("table", "drop", "orders", "--unpublished", exits=64).stderr
    assert len(orders.json("table", "list")["tables"]) == 1


def test_drop_never_deletes_files_and_says_so(orders: Prompt) -> None:
    data = orders.folder / "lake/orders/a.parquet"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"data")
    said = orders("table", "drop", "orders", "--unpublished", stdin="y\n").stdout
    assert f"No file at file://{orders.folder}/lake/orders was deleted." in said
    assert data.read_bytes() == b"data"
    assert orders.json("table", "list")["tables"] == []
