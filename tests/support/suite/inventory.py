"""What the tests ran against: engines, servers and readers, printed at the end of every test session.

Under pytest-xdist each worker hands its list to the controlling process.
"""

from typing import Any

import pytest

_OUTPUT = "deltamirror_inventory"


class Inventory:
    """The set of things that a test session used, by kind."""

    def __init__(self) -> None:
        self._used: set[tuple[str, str]] = set()

    def add(self, kind: str, name: str) -> None:
        """Note that a thing was used."""
        self._used.add((kind, name))

    def merge(self, pairs: list[tuple[str, str]]) -> None:
        """Take in what a worker used."""
        self._used.update((kind, name) for kind, name in pairs)

    def pairs(self) -> list[tuple[str, str]]:
        """All kinds and names, sorted."""
        return sorted(self._used)


_session = Inventory()


def record(kind: str, name: str) -> None:
    """Note that a thing was used in this session: ``record("server", "PostgreSQL 18.6")``."""
    _session.add(kind, name)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand a worker's list to the controlling process."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = _session.pairs()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take in a worker's list."""
    _session.merge(getattr(node, "workeroutput", {}).get(_OUTPUT, []))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was used."""
    if pairs := _session.pairs():
        terminalreporter.section("used in this run")
        for kind, name in pairs:
            terminalreporter.write_line(f"{kind:<8} {name}")
