import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from deltamirror.cli.tour import CHAPTERS


def test_the_tour_shows_each_chapter_its_code_and_what_came_of_it(prompt) -> None:
    told = prompt.json("demo")["chapters"]
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


def test_the_tour_leaves_nothing_behind(prompt, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(prompt.folder))
    said = prompt("demo").stdout
    assert list(prompt.folder.iterdir()) == []
    assert "What to try next" in said
    assert "\x1b" not in said
    assert not any(line.endswith(" ") for line in said.splitlines())


def test_what_the_tour_suggests_works_in_its_folder(prompt, monkeypatch) -> None:
    said = prompt("demo", "--folder", "lake").stdout
    monkeypatch.chdir(prompt.folder / "lake")
    suggested = re.findall(r"^    \S*deltamirror (.+)", said, re.MULTILINE)
    assert len(suggested) == 5
    for command in suggested:
        prompt(*shlex.split(command))


def test_what_the_tour_suggests_can_be_typed_where_the_command_is_not_on_the_path(prompt, monkeypatch) -> None:
    beside = prompt.folder / "bin" / "deltamirror"
    beside.parent.mkdir()
    beside.touch()
    monkeypatch.setattr("sys.executable", str(beside.with_name("python")))
    monkeypatch.setenv("PATH", "/nowhere")
    assert f"\n    {beside} table list\n" in prompt("demo").stdout


def test_a_folder_that_cannot_be_made_is_one_clear_error(prompt) -> None:
    (prompt.folder / "file").touch()
    error = prompt.error("demo", "--folder", "file/inside", exits=21)
    assert "file/inside" in error["message"]
    assert error["hint"]


def test_the_tour_does_not_touch_a_catalog_that_is_there(orders) -> None:
    before = orders.dump(), sorted(orders.folder.iterdir())
    assert orders.error("demo", "--folder", ".", exits=12)["code"] == "already-exists"
    assert (orders.dump(), sorted(orders.folder.iterdir())) == before


def test_the_tour_runs_as_typed(tmp_path: Path) -> None:
    source = Path(sys.modules["deltamirror"].__file__ or "").parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "deltamirror.cli", "demo"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") > 50
