"""The table of requirements sees every mark that pytest sees, and no row loses its last test unnoticed."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.requirements_table import ROOT, ROWS, collect, complain


def table_of(folder: Path, source: str) -> tuple[dict[str, set[str]], list[str]]:
    """The table of a folder with one file of tests, and what could not be read."""
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(f"import pytest\n{source}\n")
    problems: list[str] = []
    return dict(collect(tests, problems.append)), problems


@pytest.mark.parametrize(
    "source",
    [
        '@pytest.mark.requirement("R5")\ndef test_a(): ...',
        '@pytest.mark.requirement("R6", "R5")\ndef test_a(): ...',
        'from pytest import mark\n@mark.requirement("R5")\nasync def test_a(): ...',
        'pytestmark = pytest.mark.requirement("R5")\ndef test_a(): ...',
        'pytestmark = [pytest.mark.slow, pytest.mark.requirement("R5")]\ndef test_a(): ...',
        'pytestmark = [*(pytest.mark.requirement(row) for row in ("R5", "R6"))]\ndef test_a(): ...',
        'pytestmark = [pytest.mark.requirement(row) for row in ["R5"]]\ndef test_a(): ...',
        'ROWS = ("R5",)\npytestmark = [pytest.mark.requirement(row) for row in ROWS]\ndef test_a(): ...',
        'PROVES = pytest.mark.requirement("R5")\n@PROVES\ndef test_a(): ...',
        'SLOW = [pytest.mark.requirement("R5")]\npytestmark = [*SLOW, pytest.mark.slow]\ndef test_a(): ...',
        'ROW = "R5"\n@pytest.mark.requirement(ROW)\ndef test_a(): ...',
        'pytestmark: list = []\npytestmark += [pytest.mark.requirement("R5")]\ndef test_a(): ...',
        'CASES = [pytest.param(1, marks=pytest.mark.requirement("R5"))]\n'
        '@pytest.mark.parametrize("x", CASES)\ndef test_a(x): ...',
    ],
)
def test_a_mark_counts_however_it_is_written(tmp_path: Path, source: str) -> None:
    table, problems = table_of(tmp_path, source)
    assert table["R5"] == {"tests/test_it.py::test_a"}
    assert not problems


@pytest.mark.parametrize(
    "source",
    [
        'class TestA:\n    pytestmark = pytest.mark.requirement("R5")\n    def test_a(self): ...',
        '@pytest.mark.requirement("R5")\nclass TestA:\n    def test_a(self): ...',
    ],
)
def test_a_mark_of_a_class_counts_for_its_tests(tmp_path: Path, source: str) -> None:
    assert table_of(tmp_path, source) == ({"R5": {"tests/test_it.py::TestA::test_a"}}, [])


@pytest.mark.parametrize(
    "source",
    [
        "pytestmark = [pytest.mark.requirement(row) for row in rows()]\ndef test_a(): ...",
        '@pytest.mark.requirement(f"R{5}")\ndef test_a(): ...',
        "@pytest.mark.requirement\ndef test_a(): ...",
        "@pytest.mark.requirement()\ndef test_a(): ...",
        "@pytest.mark.requirement(5)\ndef test_a(): ...",
        '@pytest.mark.requirement(row="R5")\ndef test_a(): ...',
        'proves = pytest.mark.requirement\n@proves("R5")\ndef test_a(): ...',
        'def test_a(request):\n    request.applymarker(pytest.mark.requirement("R5"))',
        'if True:\n    @pytest.mark.requirement("R5")\n    def test_a(): ...',
        '@pytest.mark.requirement("R5")\ndef check_a(): ...',
        'pytestmark = [pytest.mark.requirement(r) for r in ("R5", "R6") if r != "R6"]\ndef test_a(): ...',
    ],
)
def test_a_mark_that_cannot_be_read_fails_the_check_at_its_line(tmp_path: Path, source: str) -> None:
    _, [problem] = table_of(tmp_path, source)
    assert problem.startswith("tests/test_it.py:")


def test_a_row_without_a_test_fails() -> None:
    rows = {"R1": "It commits.", "R2": "It alerts."}
    assert list(complain({"R1": {"t"}, "R2": {"t"}}, rows)) == []
    [problem] = complain({"R2": {"t"}}, rows)
    assert problem.startswith("R1 has no test (It commits.)")


@pytest.mark.requirement("R95")
def test_every_row_has_a_test() -> None:
    problems: list[str] = []
    table = collect(ROOT / "tests", problems.append)
    rows = tomllib.loads(ROWS.read_text(encoding="utf-8"))["rows"]
    assert [*problems, *complain(table, rows)] == []
    assert len({test for tests in table.values() for test in tests}) > 100


def test_a_mark_names_a_row_that_there_is() -> None:
    [problem] = complain({"R1": {"t"}, "R999": {"tests/test_it.py::test_a"}}, {"R1": "It commits."})
    assert problem.startswith("tests/test_it.py::test_a names R999, which is no row")


def test_the_table_has_every_mark_that_pytest_collected(request: pytest.FixtureRequest) -> None:
    """Of all tests of this session: run by `make test`, that is every test there is."""
    problems: list[str] = []
    table = collect(ROOT / "tests", problems.append)
    seen = {(row, test) for item in request.session.items for row, test in marks_of(item)}
    assert not problems
    assert {(row, test) for row, test in seen if not is_in(table.get(row, set()), test)} == set()


def marks_of(item: pytest.Item) -> Iterator[tuple[str, str]]:
    test = item.nodeid.partition("[")[0]
    for mark in item.iter_markers("requirement"):
        yield from ((row, test) for row in mark.args)


def is_in(tests: set[str], test: str) -> bool:
    """A state machine is in the table by its own name: pytest runs it under that of its test case."""
    path = test.partition("::")[0]
    return test in tests or (test.endswith("::runTest") and any(each.startswith(f"{path}::") for each in tests))
