"""How many mutants of each module the tests noticed at the last full run, and the page that tells it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from tests.mutation.targets import TARGETS

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "mutants.md"
_SCORES: Final = Path(__file__).parent / "scores.json"
_INTRODUCTION: Final = """\
<!-- Written by `python -m tests.mutation --record` from tests/mutation/scores.json and tests/mutation/targets.py. -->

# Mutants

A mutant is a module with one small defect: a statement deleted, a condition negated, an operator, a number or a text
changed, an exception let through. `make mutants` makes them of the modules in `tests/mutation/targets.py`, which write
bytes into logs, and runs the tests of the module against each. Tests have to notice a mutant, unless it is no defect:
then the table of targets says why. The scores are those of the last run over all mutants of a module.

| Module | Mutants | Noticed | No defect | Not noticed |
|---|---|---|---|---|
"""


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """All mutants of a module, and those of them that no test noticed."""

    mutants: int
    survivors: tuple[str, ...]


def recorded() -> dict[str, Score]:
    """The scores by module, in the order of the table of targets."""
    found = msgspec.json.decode(_SCORES.read_bytes(), type=dict[str, Score]) if _SCORES.exists() else {}
    return {module: found[module] for module in TARGETS if module in found}


def record(module: str, score: Score) -> None:
    """Put the score of a module in the place of its last one, and write the page again."""
    scores = recorded() | {module: score}
    _SCORES.write_bytes(msgspec.json.format(msgspec.json.encode(scores), indent=1) + b"\n")
    PAGE.write_text(page(recorded()))


def page(scores: Mapping[str, Score]) -> str:
    """The page of all scores."""
    rows = "".join(_row(module, score) for module, score in scores.items())
    return f"{_INTRODUCTION}{rows}{''.join(_survivors(scores))}"


def _row(module: str, score: Score) -> str:
    unexplained = sum(name not in TARGETS[module].harmless for name in score.survivors)
    harmless, noticed = len(score.survivors) - unexplained, score.mutants - len(score.survivors)
    return f"| `{_short(module)}` | {score.mutants} | {noticed} | {harmless} | {unexplained} |\n"


def _survivors(scores: Mapping[str, Score]) -> Iterator[str]:
    yield "\n## Mutants that no test noticed, and why they are no defects\n"
    for module, score in scores.items():
        if score.survivors:
            yield f"\n### `{_short(module)}`\n\n"
            yield from (
                f"- `` {name} ``: {TARGETS[module].harmless.get(name, '**a test is missing**')}\n"
                for name in score.survivors
            )


def _short(module: str) -> str:
    return module.removeprefix("deltamirror/")
