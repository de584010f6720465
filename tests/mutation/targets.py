"""Which modules are mutated, by which tests their mutants have to be killed, and which of them cannot be."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.running import Suite

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A module, the tests that have to notice its mutants, and the mutants that are no defects."""

    tests: tuple[str, ...]
    """The files of tests, the quickest first: each is for the mutants that those before it did not notice."""
    harmless: Mapping[str, str] = field(default_factory=dict)
    """By the name of a mutant, why no test can tell it from the module, or need not."""

    def suites(self, module: Path) -> Iterator[Suite]:
        """The tests, one file after the other."""
        yield from (Suite(module, tests) for tests in self.tests)


_TYPE = "a type, which nothing reads at run time"
_CLASS_NAME = "the name of a class that is never shown"
_CULPRIT = "`encode` refuses one of these actions: the joined lines are not returned"
_NOT_CHANGED = "a guard against callers that change one, of which there are none"
_BY_NAME = "a guard against callers that do not name the fields, of which there are none"
_SHORTCUT = "a shortcut: the pattern that follows finds nothing in other texts"
_SHIFTS = "the shift goes by fives, from 30 to 35"
_PAIRS = "UTF-16 has an even number of bytes"

TARGETS: Mapping[str, Target] = {
    "deltamirror/delta/lines.py": Target(
        tests=(
            "tests/golden/test_reference_lines.py",
            "tests/unit/delta/test_line_edges.py",
            "tests/unit/delta/test_lines.py",
        ),
        harmless={
            "_Line: action: Action -> pass": "every subclass has the field; the base tells it to the type checker",
            (
                "_line: msgspec.defstruct(f'_{struct.__name__}Line', fields, bases=(_Line,), "
                "forbid_unknown_fields=True) -> msgspec.defstruct(f'_{struct.__name__}Line', fields, "
                "forbid_unknown_fields=True)"
            ): "the base tells the field to the type checker",
            "_line: '_' -> ''": _CLASS_NAME,
            "_line: '_' -> '_X'": _CLASS_NAME,
            "_line: 'Line' -> ''": _CLASS_NAME,
            "_line: 'Line' -> 'LineX'": _CLASS_NAME,
            "encode_commit: b'' -> b'X'": _CULPRIT,
            r"encode_commit: b'\n' -> b'\nX'": _CULPRIT,
            "_view: 2 -> 3": "of the pieces, only the one between the first two quotes is looked at",
            "_view (2): 0 -> 1": "a time that is absent is not negative, whichever number stands for it",
        },
    ),
    "deltamirror/delta/names.py": Target(
        tests=("tests/unit/delta/test_names.py",),
        harmless={
            "module: 'json' -> 'jsonX'": _TYPE,
            "module: 'json' -> ''": _TYPE,
            "module: 'parquet' -> 'parquetX'": _TYPE,
            "module: 'parquet' -> ''": _TYPE,
            "LogFile: @abstractmethod def _suffix(self) -> str: ... -> pass": "every subclass has the method",
        },
    ),
    "deltamirror/delta/paths.py": Target(
        tests=("tests/unit/delta/test_paths.py", "tests/unit/delta/test_validation_paths.py"),
        harmless={
            "path_identity: '%' -> ''": _SHORTCUT,
            "path_identity: ':' -> ''": _SHORTCUT,
            "_timestamp: '0' -> '0X'": "no time ends with such a letter",
        },
    ),
    "deltamirror/delta/order.py": Target(
        tests=("tests/golden/test_reference_lines.py", "tests/unit/delta/test_order.py"),
        harmless={
            "module: 'V' -> 'VX'": _TYPE,
            "module: 'V' -> ''": _TYPE,
            "module: 32 -> 33": _SHIFTS,
            "_walk: shift >= _HASH_BITS -> shift > _HASH_BITS": _SHIFTS,
            "java_hash: zip(units[::2], units[1::2], strict=True) -> zip(units[::2], units[1::2])": _PAIRS,
            "java_hash: True -> False": _PAIRS,
        },
    ),
    "deltamirror/delta/commitinfo.py": Target(
        tests=("tests/unit/delta/test_operation_words.py", "tests/unit/delta/test_commitinfo.py"),
        harmless={
            **{
                f"module: '{mode}' -> '{changed}'": _TYPE
                for mode in ("Append", "Overwrite", "ErrorIfExists", "Ignore")
                for changed in (f"{mode}X", "")
            },
            (
                "RewriteMetrics: dataclass(frozen=True, slots=True, kw_only=True)"
                " -> dataclass(slots=True, kw_only=True)"
            ): _NOT_CHANGED,
            (
                "RewriteMetrics: dataclass(frozen=True, slots=True, kw_only=True) -> dataclass(frozen=True, slots=True)"
            ): _BY_NAME,
            "RewriteMetrics: True -> False": _NOT_CHANGED,
            "RewriteMetrics (2): True -> False": _BY_NAME,
        },
    ),
}
"""By their paths below ``src``."""
