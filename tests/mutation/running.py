"""Running the tests of a module against one of its mutants, in a process of its own."""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import msgspec  # noqa: F401 - imported before processes fork, so that none of them has to
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import pytest
import sqlalchemy  # noqa: F401

__all__ = ["SOURCES", "Suite", "Verdict"]

SOURCES = Path(__file__).parents[2] / "src"
_QUIET = ("-q", "-x", "--no-header", "--no-summary", "-p", "no:cacheprovider")
_WITH_FIXTURES = ("--fast", "-p", "no:xdist")
_WITHOUT_FIXTURES = (
    *("--noconftest", "-p", "pytest_timeout", "-p", "tests.support.suite.examples"),
    *("-p", "tests.support.reference_logs.golden"),
)


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
    has_fixtures: bool

    def verdict(self, code: str, *, timeout: float | None = None) -> Verdict:
        """What the tests make of the module with another source."""
        process = multiprocessing.get_context("fork").Process(target=self._run, args=(code,))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            return Verdict.ENDLESS
        return Verdict.SURVIVED if process.exitcode == 0 else Verdict.KILLED

    def _run(self, code: str) -> None:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        name = ".".join(self.module.with_suffix("").parts)
        if "deltamirror" in sys.modules:
            os._exit(0)  # the mutant would not be imported: let it be seen that nothing notices it
        sys.meta_path.insert(0, _MutantFinder(name, SOURCES / self.module, code))
        if not self.has_fixtures:
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        status = pytest.main([*_QUIET, *(_WITH_FIXTURES if self.has_fixtures else _WITHOUT_FIXTURES), self.tests])
        os._exit(int(status))
