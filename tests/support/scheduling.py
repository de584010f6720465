"""In which order test files run: the longest first, so that no worker is left alone with one at the end."""

from pathlib import Path
from typing import Final

import pytest

__all__ = ["pytest_collection_modifyitems"]

_LONGEST: Final = (
    "fault/test_crash_matrix.py",
    "fault/test_mirror_kill.py",
    "interop/test_twin.py",
    "interop/test_every_reader.py",
    "interop/test_import_live.py",
    "interop/test_thread.py",
    "interop/test_fence.py",
    "simulation/test_schedules.py",
    "fault/test_import_kill.py",
)
"""As measured; whatever is not named comes after them, in the usual order."""

_TESTS: Final = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort them; the order within a file stays."""
    places = {_TESTS / name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
