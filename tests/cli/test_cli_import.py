"""``deltamirror import`` as it is typed."""

import json
import re
import shutil
import socket

import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta import names
from deltamirror.pipeline.run import slices
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import HISTORY, put_classic, put_log, state_after
from tests.support.interfaces.commands import typed, variables, without_jvm
from tests.support.interfaces.prompt import Prompt
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import commit, file

LAST = len(HISTORY) - 1
BELOW = ("--root", "lake")
"""Name tables by their folders below ``lake``."""


@pytest.fixture
def lake(prompt: Prompt) -> Prompt:
    """A prompt with an empty catalog, and beside it the table ``lake/a`` of somebody else, versions 0 to 3."""
    prompt("init")
    put_log(place(prompt, "a"), dict(enumerate(HISTORY)))
    return prompt


def place(prompt: Prompt, name: str) -> Store:
    return store_at(str(prompt.folder / "lake" / name), StorageSettings())


def put_later_log(store: Store) -> None:
    """Versions 2 and 3, and a checkpoint of version 2: the older commits were cleaned up."""
    put_log(store, {version: HISTORY[version] for version in (2, 3)})
    put_classic(store, 2, rows(state_after(HISTORY[:3])))


def tables(prompt: Prompt) -> list[str]:
    return [table["name"] for table in prompt.json("table", "list")["tables"]]


@pytest.mark.requirement("R33")
def test_a_table_that_exists_comes_under_sql_with_its_history(lake: Prompt) -> None:
    before = {path: path.read_bytes() for path in lake.folder.glob("lake/**/*.*")}
    said = lake("import", "lake/a", "--name", "sales.a")
    location = f"file://{lake.folder}/lake/a"
    assert said.stdout == f"Imported sales.a from {location}: versions 0 to 3; 6 files.\n"
    assert said.stderr == ""
    shown = lake.json("table", "show", "sales.a")["table"]
    assert (shown["location"], shown["head"], shown["published"], shown["log_start"]) == (location, 3, 3, 0)
    assert [entry["version"] for entry in lake.json("table", "history", "sales.a")["history"]] == [3, 2, 1, 0]
    # The log is the same as before, and goes on where it was.
    assert {path: path.read_bytes() for path in lake.folder.glob("lake/**/*.*")} == before
    lake("table", "alter", "sales.a", "--set", "a=b")
    lake("mirror", "--once", "--runner", "local")
    assert (lake.folder / "lake/a/_delta_log" / names.commit_name(4)).exists()


def test_the_answer_is_one_document(lake: Prompt) -> None:
    location = f"file://{lake.folder}/lake/a"
    found = {"name": "a", "location": location, "first": 0, "last": 3, "base": None}
    assert lake.json("import", "lake/a", "--name", "a", "--dry-run") == {**found, "num_files": None}
    assert lake.json("import", "lake/a", "--name", "a") == {**found, "num_files": 6}


def test_a_log_without_its_beginning_is_imported_from_its_checkpoint(lake: Prompt) -> None:
    put_later_log(place(lake, "b"))
    name = names.checkpoint_name(2)
    said = lake("import", "lake/b", "--name", "b").stdout
    assert said == f"Imported b from file://{lake.folder}/lake/b: versions 2 to 3, the first from {name}; 6 files.\n"
    assert lake.json("table", "show", "b")["table"]["log_start"] == 2


def test_one_may_begin_later_than_the_log(lake: Prompt) -> None:
    put_classic(place(lake, "a"), 2, rows(state_after(HISTORY[:3])))
    assert lake.json("import", "lake/a", "--name", "a", "--from-version", "1")["first"] == 2
    assert [entry["version"] for entry in lake.json("table", "history", "a")["history"]] == [3, 2]


def test_one_version_is_told_as_one(lake: Prompt) -> None:
    put_log(place(lake, "b"), {0: HISTORY[0]})
    assert ": version 0; 0 files.\n" in lake("import", "lake/b", "--name", "b").stdout


def test_what_is_only_tried_leaves_the_catalog_as_it_is(lake: Prompt) -> None:
    before = lake.dump()
    said = lake("import", "lake/a", "--name", "a", "--dry-run").stdout
    assert said == f"file://{lake.folder}/lake/a can be imported as a: versions 0 to 3.\n"
    assert lake.dump() == before


def test_of_many_versions_the_progress_is_shown(lake: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_MOST_ROWS", 50)  # a row for each version and one for its file
    put_log(place(lake, "a"), {version: commit(file(str(version))) for version in range(LAST + 1, 250)})
    for tried in (["--dry-run"], []):
        told = lake("import", "lake/a", "--name", "a", *tried).stderr.splitlines()
        done = [int(line.partition(" ")[0]) for line in told]
        assert told == [f"{number} of 250 versions imported" for number in done]
        assert (len(done), done[-1]) == (10, 250)


def test_a_document_comes_without_progress(lake: Prompt) -> None:
    put_log(place(lake, "a"), {version: commit(file(str(version))) for version in range(LAST + 1, 250)})
    assert lake("import", "lake/a", "--name", "a", "--json").stderr == ""


# Many tables


@pytest.fixture
def many(lake: Prompt) -> Prompt:
    """Beside ``a``: ``raw/b``, which begins with a checkpoint, ``raw/old/c``, which is damaged, and other files."""
    put_later_log(place(lake, "raw/b"))
    put_log(place(lake, "raw/old/c"), {0: HISTORY[0], 2: HISTORY[2]})
    (lake.folder / "lake/raw/notes.txt").write_text("no table")
    (lake.folder / "lake/a/part-0.parquet").write_bytes(b"rows")
    return lake


@pytest.mark.requirement("R33")
def test_all_tables_below_a_pattern_are_imported_but_for_those_that_cannot_be(many: Prompt) -> None:
    done = many("import", "--glob", "lake/**", *BELOW, exits=2)
    *lines, summary = done.stdout.splitlines()
    assert summary == "2 of 3 tables imported."
    assert [line.split(":")[0].split(" from ")[0] for line in lines] == ["Imported a", "Imported raw.b", "Not imported"]
    assert "lake/raw/old/c: invalid-input: the log at" in lines[2]
    assert "lacks the commits of version 1" in lines[2]
    assert tables(many) == ["a", "raw.b"]


def test_those_that_could_not_be_imported_are_imported_once_they_are_mended(many: Prompt) -> None:
    many("import", "--glob", "lake/raw/**", *BELOW, exits=2)
    put_log(place(many, "raw/old/c"), {1: HISTORY[1]})
    assert many("import", "--glob", "lake/raw/old/*", *BELOW).stdout.endswith("1 of 1 table imported.\n")
    assert tables(many) == ["raw.b", "raw.old.c"]


def test_what_was_imported_before_is_passed_over_whatever_its_name(many: Prompt) -> None:
    shutil.rmtree(many.folder / "lake/raw/old")
    many("import", "lake/raw/b", "--name", "b")
    said = many("import", "--glob", "lake/**", *BELOW).stdout
    assert "lake/raw/b, as b." in said
    assert said.endswith("1 of 2 tables imported; 1 in the catalog already.\n")
    before = many.dump()
    assert many("import", "--glob", "lake/**").stdout.endswith("0 of 2 tables imported; 2 in the catalog already.\n")
    document = json.loads(many("import", "--glob", "lake/**", "--json").stdout)
    assert [(each["name"], each["imported"]) for each in document["tables"]] == [("a", True), ("b", True)]
    assert (many.dump(), tables(many)) == (before, ["a", "b"])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("lake", {"a", "raw.b"}),
        ("lake/*", {"a"}),
        ("lake/raw/*", {"raw.b"}),
        ("lake/**/b", {"raw.b"}),
        ("lake/[ab]", {"a"}),
        ("lake/?", {"a"}),
    ],
)
def test_a_pattern_means_folders(many: Prompt, pattern: str, found: set[str]) -> None:
    shutil.rmtree(many.folder / "lake/raw/old")
    many("import", "--glob", pattern, *BELOW)
    assert set(tables(many)) == found


def test_a_table_has_the_name_of_its_folders_whatever_pattern_finds_it(many: Prompt) -> None:
    """Without a root, those below the root of the disk; a bucket is the root of its tables."""
    folders = [*many.folder.parts[1:], "lake", "raw", "b"]
    name = ".".join(re.sub(r"[^A-Za-z0-9_-]+", "_", folder) for folder in folders)
    for pattern in ("lake/raw/*", f"{many.folder}/lake/*/b", "./lake/**/b"):
        document = json.loads(many("import", "--glob", pattern, "--dry-run", "--json").stdout)
        assert [each["name"] for each in document["tables"]] == [name], pattern
    [listed] = json.loads(many("import", "--list", "-", "--dry-run", "--json", stdin="lake/raw/b\n").stdout)["tables"]
    assert listed["name"] == name


def test_a_name_that_two_tables_would_have_is_refused_with_both_places(many: Prompt) -> None:
    for folder in ("raw/b c", "raw/b_c"):
        put_log(place(many, folder), dict(enumerate(HISTORY)))
    pattern = ("import", "--glob", "lake/raw/b?c", *BELOW)
    tried = many(*pattern, "--dry-run", exits=2).stdout
    assert "already-exists: lake/raw/b c and lake/raw/b_c are both called 'raw.b_c'; name one of them" in tried
    said = many(*pattern, exits=2).stdout
    assert "there is a table 'raw.b_c' already, at file:///" in said
    assert tables(many) == ["raw.b_c"]


def test_a_root_is_above_every_table(many: Prompt) -> None:
    said = many("import", "--glob", "lake/**", "--root", "lake/raw", exits=10).stderr
    assert "lake/a is not below the root file:///" in said


def test_what_became_of_each_is_in_the_document(many: Prompt) -> None:
    document = json.loads(many("import", "--glob", "lake/**", *BELOW, "--json", exits=2).stdout)
    assert document["refused"] == 1
    a, b, c = document["tables"]
    assert (a["name"], a["imported"], a["first"], a["last"], a["num_files"], a["error"]) == ("a", True, 0, 3, 6, None)
    assert (b["name"], b["imported"], b["base"]) == ("raw.b", True, names.checkpoint_name(2))
    assert (c["name"], c["imported"], c["error"]["code"]) == ("raw.old.c", False, "invalid-input")
    assert c["error"]["hint"]


def test_all_of_them_may_be_only_tried(many: Prompt) -> None:
    before = many.dump()
    said = many("import", "--glob", "lake/**", "--dry-run", exits=2).stdout
    assert said.endswith("2 of 3 tables can be imported.\n")
    tried = json.loads(many("import", "--glob", "lake/**", "--dry-run", "--json", exits=2).stdout)
    assert [each["imported"] for each in tried["tables"]] == [False] * 3
    assert many.dump() == before


def test_a_list_says_which_and_by_what_name(many: Prompt) -> None:
    (many.folder / "tables.txt").write_text("# the tables\n\nlake/a\nlake/raw/b  sales.b\n")
    assert many("import", "--list", "tables.txt", *BELOW).stdout.endswith("2 of 2 tables imported.\n")
    assert tables(many) == ["a", "sales.b"]


def test_a_list_may_come_through_a_pipe(many: Prompt) -> None:
    many("import", "--list", "-", stdin="lake/a other\n")
    assert tables(many) == ["other"]


def test_a_location_that_a_list_has_twice_is_imported_once(many: Prompt) -> None:
    said = many("import", "--list", "-", stdin="lake/a one\nlake/a two\n", exits=2).stdout
    assert said.endswith("1 of 2 tables imported.\n")
    assert "Not imported: lake/a: " in said
    assert len(tables(many)) == 1


def test_tables_in_a_bucket_are_found(lake: Prompt, s3_bucket: str, s3_settings: StorageSettings) -> None:
    for name in ("x", "deep/y"):
        put_log(store_at(f"s3://{s3_bucket}/lake/{name}", s3_settings), dict(enumerate(HISTORY)))
    done = lake("import", "--glob", f"s3://{s3_bucket}/**", "--json", settings=variables(s3_settings))
    found = {each["name"]: each["num_files"] for each in json.loads(done.stdout)["tables"]}
    assert found == {"lake.x": 6, "lake.deep.y": 6}


def test_a_spark_that_nobody_answers_for_is_unavailable_and_imports_nothing(lake: Prompt) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{nobody.getsockname()[1]}"
        error = lake.error("import", "lake/a", "--name", "a", "--master", master, exits=20)
    assert "spark.master" in error["hint"]
    assert tables(lake) == []


@pytest.mark.elsewhere  # tests/contract/runner has the logs that Spark reads, test_cli_mirror a service on Spark
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.requirement("R33")
def test_tables_are_imported_on_spark_but_for_a_damaged_one(lake: Prompt) -> None:
    put_later_log(place(lake, "b"))
    put_log(place(lake, "b"), {version: commit(file(str(version))) for version in range(LAST + 1, 30)})
    (lake.folder / "lake/a/_delta_log" / names.commit_name(2)).write_bytes(b"{")
    on_spark = ("import", "--list", "-", "--master", "local[2]", "--json")
    done = typed(*on_spark, folder=lake.folder, stdin="lake/b b\nlake/a a\n")
    assert (done.returncode, without_jvm(done.stderr)) == (2, "")
    b, a = json.loads(done.stdout)["tables"]
    assert (b["imported"], b["num_files"]) == (True, 32)
    assert (a["imported"], a["error"]["code"]) == (False, "invalid-line")
    assert f"{names.commit_name(2)}, line 1: " in a["error"]["message"]
    assert tables(lake) == ["b"]
    assert lake.json("diff", "b", "lake/b")["equal"]


def test_a_table_that_the_catalog_has_by_another_path_is_passed_over(lake: Prompt) -> None:
    lake("import", "lake/a", "--name", "a")
    (lake.folder / "link").symlink_to("lake")
    said = lake("import", "--glob", "link/*", "--root", ".").stdout
    assert said.endswith("0 of 1 table imported; 1 in the catalog already.\n"), said
    assert tables(lake) == ["a"]
