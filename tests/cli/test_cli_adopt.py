"""``deltamirror adopt`` as it is typed."""

import json
from pathlib import Path

import pytest

from tests.support.interfaces.prompt import AddLine, Prompt

LOCAL = ("mirror", "--once", "--runner", "local")
PLAIN = ("--property", "delta.enableInCommitTimestamps=false")

pytestmark = pytest.mark.requirement("R39")


@pytest.fixture
def lake(prompt: Prompt, add: AddLine) -> Prompt:
    """A prompt with the published tables ``a`` and ``b``, at version 1, in whose logs somebody else can write."""
    prompt("init")
    for name in ("a", "b"):
        prompt("table", "create", name, "--location", f"lake/{name}", "--schema", "id long", *PLAIN)
        prompt("commit", name, "-", stdin=add(path=f"{name}.parquet", partitionValues={}))
    prompt(*LOCAL)
    return prompt


def log_of(lake: Prompt, table: str) -> Path:
    found: Path = lake.folder / f"lake/{table}/_delta_log"
    return found


def write_as_others(lake: Prompt, add: AddLine, table: str, version: int) -> str:
    """A commit of somebody else; what it is."""
    data = '{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE"}}\n' + add(path="theirs", partitionValues={})
    (log_of(lake, table) / f"{version:020}.json").write_text(data)
    return data


def test_a_log_that_somebody_else_wrote_to_is_adopted(lake: Prompt, add: AddLine) -> None:
    lake("commit", "a", "-", stdin=add(path="c.parquet", partitionValues={}))
    theirs = write_as_others(lake, add, "a", 2)
    lake(*LOCAL, exits=2)
    assert "`deltamirror adopt a`" in lake("status", "a").stdout
    assert "`deltamirror adopt a`" in lake("report", "a").stdout
    refused = lake.error("commit", "a", "-", stdin=add(path="d.parquet", partitionValues={}), exits=2)
    assert (refused["code"], refused["table"], refused["version"]) == ("diverged", "a", 2)
    before = lake.dump()
    foreseen = lake("adopt", "a", "--dry-run").stdout
    assert foreseen == "a, version 2: would be adopted\n  version 2 of ours is version 3\n"
    assert [line for line in lake.dump() if "dl_leases" not in line] == [
        line for line in before if "dl_leases" not in line
    ]
    assert lake("adopt", "a").stdout == "a, version 2: adopted\n  version 2 of ours is version 3\n"
    assert lake("adopt", "a").stdout == "Nothing to adopt.\n"
    lake(*LOCAL)
    assert (log_of(lake, "a") / f"{2:020}.json").read_text() == theirs
    assert b"c.parquet" in (log_of(lake, "a") / f"{3:020}.json").read_bytes()
    [status] = lake.json("status", "a")["tables"]
    assert (status["state"], status["published"], status["diverged_version"]) == ("active", 3, None)
    assert ": superseded, version 3 since\n" in lake("report", "a").stdout
    [moved] = lake.json("report", "a", "3")["superseded"]
    assert (moved["version"], moved["new_version"], moved["reason"]) == (2, 3, None)


def test_a_run_that_has_nothing_to_publish_says_that_a_log_is_ahead(lake: Prompt, add: AddLine) -> None:
    write_as_others(lake, add, "a", 2)
    lake("commit", "b", "-", stdin=add(path="more.parquet", partitionValues={}))
    done = json.loads(lake(*LOCAL, "--json", exits=2).stdout)
    assert (done["tables"], done["failures"], done["diverged"]) == ({"b": 1}, [], {"a": 2})
    said = lake(*LOCAL, exits=2).stdout
    assert "a is in quarantine: " in said
    assert "`deltamirror adopt a`" in said
    lake("adopt", "a")
    assert lake.json(*LOCAL)["diverged"] == {}


def test_commits_that_cannot_follow_are_named_and_dropped_only_if_asked_for(lake: Prompt, add: AddLine) -> None:
    remove = {"path": "a.parquet", "deletionTimestamp": 1, "dataChange": True, "partitionValues": {}, "size": 10}
    lake("commit", "a", "-", stdin=json.dumps({"remove": remove}))
    write_as_others(lake, add, "a", 2)
    before = lake.dump()
    error = lake.error("adopt", "a", exits=16)
    assert "version 2 (version 2 (WRITE) came first: theirs was added" in error["message"]
    assert "--drop-conflicting" in error["hint"]
    [foreseen] = lake.json("adopt", "a", "--dry-run")["tables"]
    assert [each["version"] for each in foreseen["dropped"]] == [2]
    assert foreseen["refused"] is not None
    assert [line for line in lake.dump() if "dl_leases" not in line] == [
        line for line in before if "dl_leases" not in line
    ]
    said = lake("adopt", "a", "--drop-conflicting").stdout
    assert "version 2 of ours is dropped: " in said
    assert ": superseded and dropped: " in lake("report", "a").stdout


def test_one_command_adopts_all_logs(lake: Prompt, add: AddLine) -> None:
    assert lake("adopt", "--all").stdout == "Nothing to adopt.\n"
    for name in ("a", "b"):
        write_as_others(lake, add, name, 2)
    write_as_others(lake, add, "b", 4)
    done = json.loads(lake("adopt", "--all", "--json", exits=16).stdout)
    assert [(each["table"], each["adopted"], each["rebased"]) for each in done["tables"]] == [("a", [2], [])]
    [failure] = done["failures"]
    assert (failure["table"], failure["code"]) == ("b", "refused")
    assert failure["hint"]


@pytest.mark.parametrize("options", [(), ("a", "--all"), ("a", "--split-transactions")], ids=" ".join)
def test_what_to_adopt_has_to_be_clear(lake: Prompt, options: tuple[str, ...]) -> None:
    before = lake.dump()
    assert lake.error("adopt", *options, exits=64)["code"] == "usage"
    assert lake.error("adopt", "no", exits=11)["code"] == "not-found"
    assert lake.dump() == before
