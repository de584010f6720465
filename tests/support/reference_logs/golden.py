"""Which reference logs tests run against: those of the project, or with ``--golden`` the tables beside the repository.

``make golden`` runs all tests that are marked ``reference`` against the latter; where they are not there, it fails.
"""

import os

import pytest

from tests.support.reference_logs.beside import WHERE, beside_the_repository
from tests.support.reference_logs.own import own_logs
from tests.support.reference_logs.sets import ReferenceSet

_OPTION = "--golden"
_is_golden = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that chooses."""
    text = "use the tables of DELTAMIRROR_SHARED (default: ../shared) instead of the project's own reference logs"
    parser.addoption(_OPTION, action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Choose, before tests are collected; tables that were asked for and are not there are an error."""
    global _is_golden  # noqa: PLW0603  (one choice a process, made before any test is imported)
    _is_golden = bool(config.getoption(_OPTION))
    # By a name that is not taken for one of the settings of deltamirror, which knows no such variable.
    if shared := os.environ.pop("DELTAMIRROR_SHARED", None):
        os.environ[WHERE] = shared
    if _is_golden and not reference().logs:
        raise pytest.UsageError(f"no reference tables at {reference().root}: set DELTAMIRROR_SHARED to where they are")


def reference() -> ReferenceSet:
    """The reference logs of this run."""
    return beside_the_repository() if _is_golden else own_logs()
