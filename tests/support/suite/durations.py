"""How long each test file takes, which decides when it runs: ``pytest --record-durations`` writes what it measured.

Recorded are seconds of one worker on the machine that measured; only their order matters.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

_FILE: Final = Path(__file__).parents[2] / "durations.json"
_OPTION: Final = "--record-durations"
_measured: Final = defaultdict[str, float](float)


def recorded() -> dict[str, int]:
    """Seconds by test file; a file that takes less than one is not listed."""
    found: dict[str, int] = json.loads(_FILE.read_text())
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that records."""
    parser.addoption(_OPTION, action="store_true", help=f"write how long each test file took to tests/{_FILE.name}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the time of a test, of its setup or of its teardown."""
    _measured[report.nodeid.partition("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the times of the files that ran; the controlling process of pytest-xdist knows all of them."""
    if session.config.getoption(_OPTION) and not hasattr(session.config, "workerinput"):
        _FILE.write_text(json.dumps(_longest_first(), indent=1) + "\n")


def _longest_first() -> dict[str, int]:
    root = _FILE.parents[1]
    times = recorded() | {file: round(seconds) for file, seconds in _measured.items()}
    listed = {file: seconds for file, seconds in times.items() if seconds >= 1 and (root / file).exists()}
    return dict(sorted(listed.items(), key=lambda entry: (-entry[1], entry[0])))
