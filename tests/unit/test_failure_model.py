"""The failure model has a row for each step and each fault that the tests know, and each row leads to its tests."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror.errors import DeltaMirrorError
from deltamirror.steps import Step
from tests.support.crashes.strikes import BY_THE_CLOCK, ELSEWHERE, STRIKES, Phase

pytestmark = pytest.mark.requirement("R109")

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "failure-model.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
TARGETS = dict(re.findall(r"^\[(\w)\]: (\S+)$", TEXT, re.MULTILINE))
MATRIX = "../tests/fault/test_crash_matrix.py"


def rows(section: str) -> Iterator[list[str]]:
    """The cells of each row of the tables of a section, without their heads."""
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and not set(line) <= set("|- "):
            yield cells


def sections(level: str) -> dict[str, str]:
    """What is under each heading."""
    parts = re.split(rf"^{level} (.+)$", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def links(cell: str) -> list[str]:
    """The files that a cell leads to."""
    found = re.findall(r"\[[^\]]*\](?:\(([^)]*)\)|\[(\w)\])", cell)
    return [address or TARGETS[name] for address, name in found]


def steps_under(heading: str) -> list[list[str]]:
    return [cells for cells in rows(sections("###")[heading]) if cells[0] != "Step" and len(cells) == 6]


STEP_ROWS = [cells for heading in sections("###") for cells in steps_under(heading)]
FAULT_ROWS = [
    cells
    for cells in rows(sections("##")["A store, a disk or a database fails"])
    if cells[0] != "Fault" and len(cells) == 5
]


def test_every_step_has_one_row_and_there_is_no_other() -> None:
    assert sorted(cells[0] for cells in STEP_ROWS) == sorted(strike.title for strike in STRIKES)


def test_every_registered_step_is_struck_or_exempt_with_a_reason() -> None:
    struck = {strike.step for strike in STRIKES}
    assert sorted([*struck, *BY_THE_CLOCK, *ELSEWHERE]) == sorted(Step)
    assert all(BY_THE_CLOCK.values())
    assert all(ELSEWHERE.values())


def test_every_registered_step_is_marked_where_it_takes_place() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert [step for step in Step if f"Step.{step.name}" not in source] == []


def test_a_step_stands_with_its_phase() -> None:
    for heading in sections("###"):
        named = {cells[0] for cells in steps_under(heading)}
        phases = {strike.phase for strike in STRIKES if strike.title in named}
        assert phases == {Phase(word) for word in re.findall(r"\w+", heading.lower()) if word != "and"}


def test_every_row_says_what_is_left_who_notices_and_what_helps() -> None:
    for cells in [*STEP_ROWS, *FAULT_ROWS]:
        assert all(cells), cells[0]


def test_every_row_leads_to_tests_that_are_there() -> None:
    for cells in [*STEP_ROWS, *FAULT_ROWS]:
        found = links(cells[-1])
        assert found, cells[0]
        for address in found:
            path = (DOCUMENT.parent / address).resolve()
            assert path.is_relative_to(ROOT / "tests"), cells[0]
            assert re.search(r"^def test_", path.read_text(encoding="utf-8"), re.MULTILINE), address


def test_every_step_leads_to_the_matrix() -> None:
    assert all(MATRIX in links(cells[-1]) for cells in STEP_ROWS)


def test_the_classes_of_faults_are_classes_of_errors() -> None:
    codes = {error.code for error in _all(DeltaMirrorError)}
    named = {code for cells in FAULT_ROWS for code in re.findall(r"`([a-z-]+)`", cells[2])}
    assert named <= codes
    assert len(named) >= 7


def _all(error: type[DeltaMirrorError]) -> Iterator[type[DeltaMirrorError]]:
    yield error
    for below in error.__subclasses__():
        yield from _all(below)
