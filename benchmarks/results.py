"""What was measured last, stored: the table and the ratios of each suite, and whether a run is within their spread.

Times of two machines do not compare; ratios to a peer in the same run nearly do. Two runs of the same code on one
machine differ by up to a half, so that only a ratio beyond that tells of a change. Each verdict says its own spread.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.aims import Verdict
from benchmarks.report import Table

PATH: Final = Path(__file__).with_name("results.json")


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One suite of a run."""

    run: str
    """When its run began, in UTC: the suites of one run have the same."""
    facts: Mapping[str, str]
    """Machine and versions."""
    seconds: int
    table: Table
    figures: Mapping[str, Any]
    verdicts: Sequence[Verdict]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The last recorded measurement of each suite, by its name."""

    suites: Mapping[str, Measured]

    @classmethod
    def load(cls, path: Path = PATH) -> "Results":
        """Those that are stored."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    @property
    def runs(self) -> Sequence[str]:
        """The runs that they are of, the newest first."""
        return sorted({suite.run for suite in self.suites.values()}, reverse=True)

    def compared(self, verdict: Verdict) -> str:
        """What a verdict is beside the stored ratio, in words that follow on it; empty where none is stored."""
        stored = {each.what: each for suite in self.suites.values() for each in suite.verdicts}
        if verdict.what not in stored:
            return ""
        before = stored[verdict.what].ratio
        change = verdict.ratio / before
        spread = min(verdict.spread, stored[verdict.what].spread)  # a slower run may not widen its own
        word = "below" if change < 1 / spread else "above" if change > spread else "within"
        return f"; recorded {before:.2f} ×, {word} its spread (factor {spread:g})"

    def updated(self, name: str, measured: Measured) -> "Results":
        """With another measurement of a suite."""
        return Results(suites={**self.suites, name: measured})

    def save(self, path: Path = PATH) -> None:
        """Store them, to be read by people, too."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
