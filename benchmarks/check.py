"""``python -m benchmarks.check``: whether speed is of the order that it was, by ratios to delta-rs in one run.

Times say nothing on another machine, and ratios of runs as short as these vary by a half. So it fails only where a
ratio is far below the usual one: what made it so is no chance.
"""

import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from benchmarks import checkpoint, child, publish, single
from benchmarks import publish_tasks as tasks
from benchmarks.adds import adds
from benchmarks.lab import Lab, open_lab
from benchmarks.writers import DELTA_RS, Subject

_SECONDS: Final = 1.0
_TURNS: Final = 3
_VERSIONS: Final = 300
_FILES: Final = 100_000
_LEAST: Final = {
    "commits, sqlite": 2.5,
    "commits, postgresql": 2.5,
    "publishing, sqlite": 1.2,
    "publishing, postgresql": 1.0,
    "first checkpoint": 0.12,
    "next checkpoint": 0.3,
    "open by the checkpoint": 0.4,
}
"""Half of the ratios on a machine that has twice as much to do as it can: a quiet one gives several times as much."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as delta-rs something is, and the least that is not a failure."""

    what: str
    value: float
    least: float

    @property
    def is_kept(self) -> bool:
        """Whether it is within the margin."""
        return self.value >= self.least

    def __str__(self) -> str:
        word = "ok" if self.is_kept else "FAILED"
        return f"{word:<7} {self.what:<26} {self.value:6.2f} × of delta-rs, at least {self.least:g} ×"


def main() -> int:
    """Measure, print, and tell by the exit status."""
    found: list[Ratio] = []
    with open_lab(quick=True) as lab:
        for measured in (_commits, _publishing, _checkpoints):
            for what, value in measured(lab):
                found.append(Ratio(what, value, _LEAST[what]))
                print(found[-1], flush=True)
    return 0 if all(ratio.is_kept for ratio in found) else 1


def _commits(lab: Lab) -> Iterator[tuple[str, float]]:
    subjects = (DELTA_RS, Subject("deltamirror", "sqlite"), Subject("deltamirror", "postgresql"))
    rates: dict[Subject, list[float]] = {subject: [] for subject in subjects}
    for _ in range(_TURNS):  # in turns, so that a busy machine slows all of them
        for subject in subjects:
            rates[subject].append(single.once(lab, subject, _SECONDS)["rate"])
    for subject in subjects[1:]:
        yield f"commits, {subject.engine}", statistics.median(rates[subject]) / statistics.median(rates[DELTA_RS])


def _publishing(lab: Lab) -> Iterator[tuple[str, float]]:
    with lab.place("files") as place:
        peer = child.call(tasks.delta_rs_commits, place=place.json(), count=_VERSIONS)["rate"]
    for engine in ("sqlite", "postgresql"):
        yield (
            f"publishing, {engine}",
            publish.mirrored(lab, engine, _VERSIONS, runner="local")["rate"] / peer,
        )


def _checkpoints(lab: Lab) -> Iterator[tuple[str, float]]:
    with lab.place("sqlite") as place:
        found = checkpoint.measured(lab, place, islice(adds(seed=1), _FILES), peers=checkpoint.DELTA_RS)
    ours, peer = found["deltamirror"], found["delta-rs"]
    yield "first checkpoint", peer["first"] / ours["first"]
    yield "next checkpoint", peer["next"] / ours["next"]
    yield "open by the checkpoint", peer["open delta-rs"] / ours["open delta-rs"]


if __name__ == "__main__":
    sys.exit(main())
