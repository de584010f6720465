"""The cost of each level of ``mirror.verify``: a backlog from SQLite to local disk, by what the process computes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks import child
from benchmarks import publish_tasks as tasks
from benchmarks.lab import Lab
from benchmarks.report import Result, Table
from deltamirror.work import Verification


@dataclass(frozen=True, slots=True)
class _Backlog:
    commits: int
    adds: int
    """Of each commit."""
    batch: int
    """So many versions are a unit of work, of which a reader opens the newest."""


_BACKLOGS: Final[Mapping[str, _Backlog]] = {
    "one add, batches of 100": _Backlog(500, 1, 100),
    "one add, one by one": _Backlog(100, 1, 1),
    "100,000 adds": _Backlog(1, 100_000, 1),
}


def run(lab: Lab) -> Result:
    """Milliseconds of processor time for a version: small ones in batches and one by one, and a large one."""
    shown = lab.pick(full=len(_BACKLOGS), quick=1)
    backlogs = dict(list(_BACKLOGS.items())[: int(shown)])
    found = {
        level.value: {name: _processor_time(lab, level, backlog) for name, backlog in backlogs.items()}
        for level in Verification
    }
    rows = [(level, *(f"{taken:,.1f}" for taken in figures.values())) for level, figures in found.items()]
    title = "Processor time (ms) to publish a version, by mirror.verify"
    return Result("levels", Table(title, ("", *backlogs), rows), dict(found))


def _processor_time(lab: Lab, level: Verification, backlog: _Backlog) -> float:
    with lab.place("sqlite") as place:
        where = place.json()
        child.call(tasks.fill, place=where, count=backlog.commits, at_once=backlog.adds)
        figures = child.call(
            tasks.mirror, place=where, batch=backlog.batch, runner="local", checkpoints=False, verify=level.value
        )
    return float(figures["computed"]) * 1_000 / backlog.commits
