"""The ratios of an earlier run, stored, and whether a run is within the spread of them.

Times of two machines do not compare; ratios to a peer in the same run nearly do. Two runs of the same code on one
machine differ by up to a half, so that only a ratio beyond that tells of a change.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.aims import Verdict

__all__ = ["PATH", "SPREAD", "Baseline"]

PATH: Final = Path(__file__).with_name("baseline.json")
SPREAD: Final = 1.5
"""By which factor a ratio may differ, either way."""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios by the names of their verdicts, and the machine that they were measured on."""

    machine: str
    ratios: Mapping[str, float]

    @classmethod
    def load(cls, path: Path = PATH) -> "Baseline":
        """The one that is stored."""
        return msgspec.json.decode(path.read_bytes(), type=cls)

    def compared(self, verdict: Verdict) -> str:
        """What a verdict is beside the stored ratio, in words that follow on it; empty where none is stored."""
        before = self.ratios.get(verdict.what)
        if before is None:
            return ""
        change = verdict.ratio / before
        word = "below" if change < 1 / SPREAD else "above" if change > SPREAD else "within"
        return f"; baseline {before:.2f} ×, {word} its spread (factor {SPREAD:g})"

    def updated(self, verdicts: Sequence[Verdict], machine: str) -> "Baseline":
        """With the ratios of a run in the place of the stored ones; those that it did not measure stay."""
        measured = {verdict.what: round(verdict.ratio, 2) for verdict in verdicts}
        return Baseline(machine=machine, ratios={**self.ratios, **measured})

    def save(self, path: Path = PATH) -> None:
        """Store it, to be read by people, too."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
