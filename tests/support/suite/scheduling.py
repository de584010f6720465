"""In which order test files run, and which of them in one process.

The longest first, as recorded, so that no worker is left alone with one at the end. The files that need the same costly
servers and sessions go to one worker: each worker has its own.
"""

from collections import Counter
from typing import Any, Final

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from tests.support.suite.durations import recorded

_TOGETHER: Final = ("tests/contract/runner/", "tests/interop/")
"""The folders whose files share sessions of Spark: three that publish, and the reader, whose code is compiled as it
goes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort them; the order within a file stays."""
    times = Counter[str]()
    for file, seconds in recorded().items():
        times[_scope(file)] += seconds
    items.sort(key=lambda item: -times[_scope(item.nodeid)])


def _scope(nodeid: str) -> str:
    """What one worker runs as a whole: a folder whose files belong together, or a file."""
    folder = next((folder for folder in _TOGETHER if nodeid.startswith(folder)), None)
    return folder or nodeid.partition("::")[0]


class _ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc]
    """Files go to workers as a whole; some folders, too."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """What ``-n`` distributes tests by, whatever ``--dist`` says."""
    return _ByFileOrFolder(config, log)
