"""No test is skipped but for a feature that the kernel of this machine lacks, and such a skip is told aloud.

Any other skip is a failure: evidence that is missing has to be seen.
"""

from typing import Any, Final, NoReturn

import pytest

_ALLOWED: Final = "the kernel lacks "


def missing_kernel_feature(feature: str) -> NoReturn:
    """Skip the test that runs: it needs what this kernel, or the container, does not give."""
    pytest.skip(f"{_ALLOWED}{feature}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse marks that would skip for another reason, whether or not they do so here."""
    marks = [(item, mark) for item in items for name in ("skip", "skipif") for mark in item.iter_markers(name)]
    wrong = [item.nodeid for item, mark in marks if not str(mark.kwargs.get("reason", "")).startswith(_ALLOWED)]
    if wrong:
        raise pytest.UsageError(f"only what the kernel lacks is a reason to skip a test: {', '.join(wrong)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """A skip for another reason is a failure of its test."""
    return _as_failure((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Any:
    """A skip of a whole module is one, too."""
    return _as_failure((yield))


def _as_failure(report: Any) -> Any:
    if report.skipped and not hasattr(report, "wasxfail") and not _reason(report).startswith(_ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"only what the kernel lacks is a reason to skip a test: {_reason(report)}"
    return report


def _reason(report: Any) -> str:
    """Pytest gives file, line and reason."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what was not tested."""
    if skipped := terminalreporter.stats.get("skipped", []):
        terminalreporter.section(f"NOT TESTED HERE: {len(skipped)} tests need more of the kernel", red=True, bold=True)
        for report in skipped:
            terminalreporter.write_line(f"{report.nodeid}: {_reason(report)}")
