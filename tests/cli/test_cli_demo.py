import json
import re
import shlex
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror.cli.tour import CHAPTERS, READERS, Reader
from tests.support.interfaces.commands import typed, without_jvm
from tests.support.interfaces.prompt import Prompt

TOUR = ("demo", "--runner", "local")


def test_the_tour_shows_each_chapter_its_code_and_what_came_of_it(prompt: Prompt) -> None:
    told = prompt.json(*TOUR)["chapters"]
    assert [chapter["title"] for chapter in told] == [chapter.title for chapter in CHAPTERS]
    assert all(chapter["code"] and chapter["outcome"] for chapter in told)
    outcome = {chapter["title"]: "\n".join(chapter["outcome"]) for chapter in told}
    assert outcome["One commit over both tables"] == "orders is at version 1\npayments is at version 1"
    assert "version 2, the slow one 3" in outcome["Two writers that do not disturb each other"]
    assert outcome["Two writers in each other's way"].startswith("Conflict: ")
    assert "again: version 2, applied already" in outcome["A retry is not a second commit"]
    assert "PENDING" in outcome["What SQL knows"]
    lines = outcome["The bytes of a commit"].splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == ["commitInfo", "add"]
    assert "orders: head 4, published 4" in outcome["The mirror writes _delta_log/"]
    assert "_last_checkpoint" in outcome["A log of files, like any other"]
    assert "are those that the catalog keeps" in outcome["A log of files, like any other"]
    seen = outcome["All readers see the same rows"].splitlines()
    rows = "orders: (3, 7.0, 2024-05-02) (4, 3.0, 2024-05-02), payments: (1, 9.5) (2, 20.0)"
    assert seen[:2] == [f"delta-rs  {rows}", f"DuckDB    {rows}"]
    assert seen[2:] == ["SQL       orders: 2 rows, payments: 2 rows", "all readers see the same rows"]


@pytest.mark.parametrize(("missing", "packages"), [("deltalake", "deltalake"), ("duckdb_extension_delta", "duckdb")])
def test_a_reader_that_is_not_installed_is_named_with_the_way_to_get_it(
    prompt: Prompt, monkeypatch: pytest.MonkeyPatch, missing: str, packages: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    seen = prompt.json(*TOUR)["chapters"][-1]["outcome"]
    assert any("is not installed: pip install " + packages in line for line in seen)
    assert seen[-1] == "all readers see the same rows"


def test_readers_that_differ_are_not_passed_over(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    lying = Reader("liar", "", lambda folder: pa.table({"id": [1]}))
    monkeypatch.setattr("deltamirror.cli.tour.READERS", (*READERS, lying))
    assert "the readers differ" in prompt.error(*TOUR, exits=1)["message"]


def test_the_tour_leaves_nothing_behind(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(prompt.folder))
    said = prompt(*TOUR).stdout
    assert list(prompt.folder.iterdir()) == []
    assert "What to try next" in said
    assert "\x1b" not in said
    assert not any(line.endswith(" ") for line in said.splitlines())


def test_what_the_tour_suggests_works_in_its_folder(prompt: Prompt, monkeypatch: pytest.MonkeyPatch) -> None:
    said = prompt(*TOUR, "--folder", "lake").stdout
    monkeypatch.chdir(prompt.folder / "lake")
    suggested = re.findall(r"^    \S*deltamirror (.+)", said, re.MULTILINE)
    assert len(suggested) == 7
    for command in suggested:
        prompt(*shlex.split(command))


def test_what_the_tour_suggests_can_be_typed_where_the_command_is_not_on_the_path(
    prompt: Prompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = prompt.folder / "bin" / "deltamirror"
    beside.parent.mkdir()
    beside.touch()
    monkeypatch.setattr("sys.executable", str(beside.with_name("python")))
    monkeypatch.setenv("PATH", "/nowhere")
    assert f"\n    {beside} table list\n" in prompt(*TOUR).stdout


def test_a_folder_that_cannot_be_made_is_one_clear_error(prompt: Prompt) -> None:
    (prompt.folder / "file").touch()
    error = prompt.error(*TOUR, "--folder", "file/inside", exits=21)
    assert "file/inside" in error["message"]
    assert error["hint"]


def test_the_tour_does_not_touch_a_catalog_that_is_there(orders: Prompt) -> None:
    before = orders.dump(), sorted(orders.folder.iterdir())
    assert orders.error(*TOUR, "--folder", ".", exits=12)["code"] == "already-exists"
    assert (orders.dump(), sorted(orders.folder.iterdir())) == before


def test_without_java_the_tour_says_how_to_go_on(tmp_path: Path) -> None:
    done = typed("demo", folder=tmp_path, settings={"JAVA_HOME": "/nowhere"})
    assert done.returncode == 18
    assert "demo --runner local`" in done.stderr


@pytest.mark.elsewhere  # the tour is typed above, in one process; test_cli_mirror has a service on Spark
@pytest.mark.spark
@pytest.mark.slow
def test_the_tour_runs_on_spark_as_typed(tmp_path: Path) -> None:
    done = typed("demo", folder=tmp_path)
    assert (done.returncode, without_jvm(done.stderr)) == (0, "")
    assert done.stdout.count("\n") > 100
    assert "all readers see the same rows" in done.stdout
    assert list(tmp_path.iterdir()) == []
