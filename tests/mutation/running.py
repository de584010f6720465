"""Running the tests of a module against one of its mutants, in a process of its own."""

import gc
import importlib
import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from itertools import repeat
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from hypothesis import Phase, settings

from tests.support.suite import examples  # noqa: F401 - its profile is the parent of the one below

SOURCES = Path(__file__).parents[2] / "src"
_IMPORTED_ONCE = (
    "duckdb",
    "hypothesis.strategies",
    "msgspec",
    "obstore",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "sqlalchemy",
)
"""What tests import of others, imported before processes fork, so that none of them has to."""
_OPTIONS = (
    *("-q", "-x", "--no-header", "--no-summary", "--tb=no", "--assert=plain"),
    *("--noconftest", "-p", "no:cacheprovider", "-p", "pytest_timeout"),
)
"""Without our fixtures, whose imports take seconds; and a failure is enough, none is explained."""
_WITH_STORES = ("--fast", "-p", "tests.support.stores.any_store", "-p", "tests.support.suite.combinations")
"""The fixtures of contract tests: stores on a disk and in memory."""

settings.register_profile("mutants", settings.get_profile("deltamirror"), phases=[Phase.explicit, Phase.generate])


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    ENDLESS = "endless"
    """The tests took so long that it would have been noticed."""


class _MutantLoader(SourceFileLoader):
    def __init__(self, name: str, path: str, code: str) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        """The code of the mutant; nothing that was compiled before counts."""
        return self.source_to_code(self._code.encode(), self.path)


class _MutantFinder(MetaPathFinder):
    def __init__(self, name: str, path: Path, code: str) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The mutant in place of its module, and nothing else."""
        if fullname != self._name:
            return None
        loader = _MutantLoader(fullname, str(self._path), self._code)
        return spec_from_file_location(fullname, self._path, loader=loader)


@dataclass(frozen=True, slots=True)
class Suite:
    """A file of tests of a module."""

    module: Path
    """Relative to ``SOURCES``."""
    tests: str

    def verdict(self, code: str, *, patience: int | None = None) -> Verdict:
        """What the tests make of the module with another source, within so many seconds."""
        process = multiprocessing.get_context("fork").Process(target=self._run, args=(code,))
        process.start()
        # Second by second: a machine that stands still meanwhile takes one of them, and condemns no mutant.
        for _ in repeat(None) if patience is None else range(patience):
            process.join(1)
            if not process.is_alive():
                return Verdict.SURVIVED if process.exitcode == 0 else Verdict.KILLED
        process.kill()
        process.join()
        return Verdict.ENDLESS

    def _run(self, code: str) -> None:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        name = ".".join(self.module.with_suffix("").parts)
        if "deltamirror" in sys.modules:
            os._exit(0)  # the mutant would not be imported: let it be seen that nothing notices it
        sys.meta_path.insert(0, _MutantFinder(name, SOURCES / self.module, code))
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        settings.load_profile("mutants")
        fixtures = _WITH_STORES if self.tests.startswith("tests/contract/") else ()
        os._exit(int(pytest.main([*_OPTIONS, *fixtures, self.tests])))


def prepare() -> None:
    """Import, once for all processes, what does not depend on a mutant."""
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
    gc.freeze()
