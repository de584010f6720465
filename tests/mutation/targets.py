"""Which modules are mutated, by which tests their mutants have to be killed, and which of them cannot be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.running import Suite

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A module, the tests that have to notice its mutants, and the mutants that are no defects."""

    quick: tuple[str, ...] = ()
    """Tests without fixtures of ours: most mutants end here, in a second."""
    thorough: tuple[str, ...] = ()
    """Tests that the others go through."""
    harmless: Mapping[str, str] = field(default_factory=dict)
    """By the name of a mutant, why no test can tell it from the module, or need not."""

    def suites(self, module: Path) -> Iterator[Suite]:
        """The tests, one file after the other: each is for the mutants that those before it did not notice."""
        yield from (Suite(module, tests, has_fixtures=False) for tests in self.quick)
        yield from (Suite(module, tests, has_fixtures=True) for tests in self.thorough)


_TYPE = "a type, which nothing reads at run time"
_CLASS_NAME = "the name of a class that is never shown"

TARGETS: Mapping[str, Target] = {
    "deltamirror/delta/lines.py": Target(
        quick=(
            "tests/unit/delta/test_lines.py",
            "tests/unit/delta/test_line_edges.py",
            "tests/golden/test_reference_lines.py",
        ),
        harmless={
            "_Line: action: Action -> pass": "every subclass has the field; the base tells it to the type checker",
            "_line: '_' -> ''": _CLASS_NAME,
            "_line: '_' -> '_X'": _CLASS_NAME,
            "_line: 'Line' -> ''": _CLASS_NAME,
            "_line: 'Line' -> 'LineX'": _CLASS_NAME,
        },
    ),
    "deltamirror/delta/names.py": Target(
        quick=("tests/unit/delta/test_names.py",),
        harmless={
            "module: 'json' -> 'jsonX'": _TYPE,
            "module: 'json' -> ''": _TYPE,
            "module: 'parquet' -> 'parquetX'": _TYPE,
            "module: 'parquet' -> ''": _TYPE,
            "LogFile: @abstractmethod def _suffix(self) -> str: ... -> pass": "every subclass has the method",
        },
    ),
}
"""By their paths below ``src``."""
