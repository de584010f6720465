"""In which order test files run, and which of them in one process.

The longest first, so that no worker is left alone with one at the end. What needs the same costly servers and sessions
goes to one worker: each has its own.
"""

from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

__all__ = ["pytest_collection_modifyitems", "pytest_xdist_make_scheduler"]

_TOGETHER: Final = ("tests/interop/", "tests/contract/runner/")
"""The folders whose files share sessions of Spark, and readers."""

_LONGEST: Final = (
    "interop/test_every_reader.py",
    "fault/test_crash_matrix.py",
    "fault/test_mirror_kill.py",
    "simulation/test_schedules.py",
    "fault/test_import_kill.py",
    "contract/runner/test_runners.py",
)
"""As measured; whatever is not named comes after them, in the usual order."""

_TESTS: Final = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort them; the order within a file stays."""
    places = {_TESTS / name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


class _ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc]
    """Files go to workers as a whole; some folders, too."""

    def _split_scope(self, nodeid: str) -> str:
        folder = next((folder for folder in _TOGETHER if nodeid.startswith(folder)), None)
        return folder or nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """What ``-n`` distributes tests by, whatever ``--dist`` says."""
    return _ByFileOrFolder(config, log)
