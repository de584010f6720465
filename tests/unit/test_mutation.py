"""The mutants of ``make mutants``: one defect each, none in words for people, and tests notice them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.operators import code_lines, mutants_of
from tests.mutation.running import SOURCES
from tests.mutation.scores import PAGE, page, recorded
from tests.mutation.targets import TARGETS

ROOT = Path(__file__).parents[2]
SOURCE = '''
"""A module."""
import re
LONGEST = 16
_NAME = re.compile("a")
def short(line: bytes, *, most: int = LONGEST) -> bool:
    """Whether it is."""
    if len(line) > most and line:
        raise ValueError(f"longer than {most}")
    try:
        return line != b"x"
    except TypeError:
        return False
'''


def test_a_mutant_has_one_defect_that_code_can_show() -> None:
    names = {mutant.name for mutant in mutants_of(SOURCE)}
    assert {
        "module: LONGEST = 16 -> pass",
        "module: 16 -> 17",
        "module: 'a' -> ''",
        "module: 'a' -> 'aX'",
        "short: len(line) > most -> len(line) >= most",
        "short: len(line) > most and line -> len(line) > most or line",
        "short: raise ValueError(f'longer than {most}') -> pass",
        "short: line != b'x' -> line == b'x'",
        "short: b'x' -> b'xX'",
        "short: return line != b'x' -> return None",
        "short: False -> True",
        "short: except TypeError: return False -> except TypeError: raise",
    } <= names


def test_words_for_people_stay_as_they_are() -> None:
    changed = [mutant.name for mutant in mutants_of(SOURCE) if "it is.X" in mutant.code or "than X" in mutant.code]
    assert changed == []


def test_every_line_of_code_has_a_mutant() -> None:
    assert code_lines(SOURCE) <= {mutant.line for mutant in mutants_of(SOURCE)}


def test_every_mutant_is_another_program() -> None:
    mutants = mutants_of(SOURCE)
    assert len({mutant.code for mutant in mutants}) == len({mutant.name for mutant in mutants}) == len(mutants)
    for mutant in mutants:
        compile(mutant.code, "mutant", "exec")


@pytest.mark.default_when(parameters=lambda those: "commitinfo" not in those["module"])  # it has hundreds
@pytest.mark.parametrize("module", [name for name, target in TARGETS.items() if target.harmless])
def test_a_mutant_that_is_called_harmless_is_one_of_its_module(module: str) -> None:
    names = {mutant.name for mutant in mutants_of((SOURCES / module).read_text())}
    assert TARGETS[module].harmless.keys() <= names


def test_the_page_has_the_scores_that_were_recorded() -> None:
    assert PAGE.read_text() == page(recorded())


@pytest.mark.requirement("R65")
def test_mutants_of_a_module_are_noticed_by_its_tests() -> None:
    command = [sys.executable, "-m", "tests.mutation", "--module", "delta/names", "--most", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 mutants killed" in done.stdout
