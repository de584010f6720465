"""The gates of ``make check`` that are this repository's own catch what they are there for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def gate(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.elsewhere  # `make test` begins with this gate
@pytest.mark.requirement("R108")
def test_the_package_has_no_stubs() -> None:
    done = gate("check_stubs.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.requirement("R108")
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("# Good enough for now\n", '"for now"'),
        ("x = 1  # TODO\n", '"TODO"'),
        ("def publish():\n    '''Publishes.'''\n", "publish() has no body"),
        ("class Store:\n    def put(self):\n        pass\n", "put() has no body"),
        ("def put():\n    raise NotImplementedError\n", "put() has no body"),
    ],
)
def test_a_stub_is_found(tmp_path: Path, code: str, problem: str) -> None:
    (tmp_path / "module.py").write_text(code)
    done = gate("check_stubs.py", tmp_path)
    assert done.returncode == 1
    assert problem in done.stderr


@pytest.mark.requirement("R108")
def test_a_declaration_is_no_stub(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("class Store(Protocol[T]):\n    def put(self) -> None: ...\n")
    assert gate("check_stubs.py", tmp_path).returncode == 0


@pytest.mark.elsewhere  # `make test` begins with this gate
def test_sentences_of_the_package_and_its_documents_name_who_acts() -> None:
    done = gate("check_words.py")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.py", '"""A lease that nobody has."""\n', ':1: "nobody": name who acts'),
        ("a.py", "x = 1  # whoever reads it\n", ':1: "whoever": name who acts'),
        ("a.py", 'x = f"the log of {x} is "\\\n    "someone else\'s"\n', ':1: "someone": name who acts'),
        ("a.py", '"""Compare a log.\n\nWhat is gone from it is written again.\n"""\n', ":3: "),
        ("a.py", "# Calls end in time: what\n# hangs is given up.\n", ':2: "what hangs is given"'),
        ("a.md", "Text.\n\n| a | b |\n|---|---|\n| c | somebody else wrote it |\n", ':5: "somebody"'),
        ("a.md", "# Text\n\n- What is gone is written again.\n", ':3: "What is gone is written"'),
        ("a.md", "Commits go on, and what failed past `mirror.attempts` was left alone.\n", '"left alone": '),
        ("a.md", "Read on. What failed past `mirror.attempts` is\npublished.\n", ":2: "),
    ],
)
def test_a_sentence_without_a_plain_subject_is_found(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text)
    done = gate("check_words.py", tmp_path)
    assert done.returncode == 1
    assert problem in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "What a table is called.",
        "What came of a unit: the versions that were published.",
        "Three lists: what is missing, what is altered, what is not ours.",
        "What is known of a change before its actions are checked.",
        "```\nnobody\n```\nThe word `nobody` is refused.",
    ],
)
def test_a_noun_and_code_are_no_subjects(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text(text)
    assert gate("check_words.py", tmp_path).stderr == ""


@pytest.mark.requirement("R103")
@pytest.mark.requirement("R104")
def test_imports_point_down_only_and_each_heavy_library_has_one_home() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.requirement("R87")
@pytest.mark.parametrize("package", ["delta", "publish", "txnlog", "pipeline"])
@pytest.mark.parametrize(("taken", "status"), [(90, 0), (89, 1)])
def test_branches_that_tests_do_not_take_are_counted_for_each_package(
    tmp_path: Path, package: str, taken: int, status: int
) -> None:
    figures = {
        "pipeline/run/spark/runner.py": 0,
        "txnlog/database/engines/duckdb.py": 0,
        **{f"{each}/module.py": 100 for each in ("delta", "publish", "txnlog", "pipeline")},
        f"{package}/module.py": taken,
    }
    files = {
        f"src/deltamirror/{module}": {"summary": {"covered_branches": covered, "num_branches": 100}}
        for module, covered in figures.items()
    }
    (tmp_path / "coverage.json").write_text(json.dumps({"files": files}))
    done = gate("check_coverage.py", tmp_path / "coverage.json")
    assert (done.returncode, f"{package}: {taken}.0 %" in done.stdout) == (status, True)


def test_a_package_that_was_not_measured_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "coverage.json").write_text(json.dumps({"files": {}}))
    done = gate("check_coverage.py", tmp_path / "coverage.json")
    assert (done.returncode, done.stderr) == (1, "delta: nothing was measured\n")
