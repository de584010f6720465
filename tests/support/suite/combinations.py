"""Which databases, stores and runners a test has in the default suite, and which in ``make soak`` alone.

A behaviour is proven once at its boundary: what a database does on every database, what a store does on every store,
what a way to run Spark does on each of them.
A test above such a boundary says with ``default_on`` where the default suite runs it; its other combinations get the
mark ``elsewhere``, which the default suite leaves out and ``make soak`` runs. ``default_when`` says the same by other
parameters, such as the reader that opens a table. ``make test-fast`` runs what needs no server: SQLite, disk and
memory.
"""

from collections.abc import Iterable
from typing import Final

import pytest

from tests.support.databases.catalogs import ENGINES
from tests.support.stores.any_store import STORES

_RUNNERS: Final = frozenset({"process", "local", "standalone", "connect"})
_KINDS: Final = (frozenset(ENGINES), frozenset(STORES), _RUNNERS)
"""A combination names a database, a store, a runner, or several of these."""

_FAST: Final = "--fast"
_NEAR: Final = frozenset({"sqlite", "disk", "memory", "process"})
_COSTLY: Final = ("postgres", "spark", "crash", "slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option for the everyday loop."""
    parser.addoption(_FAST, action="store_true", help="only what is quick on SQLite, disk and memory")


@pytest.hookimpl(tryfirst=True)  # before the marks decide which tests run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what the default suite leaves out; with ``--fast``, also what takes a server or long."""
    for item in items:
        if is_left_out(item) or (config.getoption(_FAST) and not _is_quick(item)):
            item.add_marker(pytest.mark.elsewhere)


def is_left_out(item: pytest.Item) -> bool:
    """Whether its marks leave a test to ``make soak``."""
    places, condition = item.get_closest_marker("default_on"), item.get_closest_marker("default_when")
    if places is not None and not is_default(places_of(item), places.args):
        return True
    callspec = getattr(item, "callspec", None)
    return condition is not None and callspec is not None and not condition.kwargs["parameters"](callspec.params)


def _is_quick(item: pytest.Item) -> bool:
    return places_of(item) <= _NEAR and not any(item.get_closest_marker(name) for name in _COSTLY)


def places_of(item: pytest.Item) -> frozenset[str]:
    """The databases, stores and runners of a test, as its id has them."""
    callspec = getattr(item, "callspec", None)
    parts = () if callspec is None else callspec.id.split("-")
    return frozenset(part for part in parts if any(part in kind for kind in _KINDS))


def is_default(places: frozenset[str], combinations: Iterable[str]) -> bool:
    """Whether one of the combinations has the places; it says nothing of a kind of place that it does not name."""
    return any(_admits(frozenset(combination.split("-")), places) for combination in combinations)


def _admits(combination: frozenset[str], places: frozenset[str]) -> bool:
    return all(places & kind <= combination for kind in _KINDS if combination & kind)
