"""Importing a table of one large checkpoint, and one of many commits, beside delta-rs opening them."""

from typing import Any

from benchmarks import child
from benchmarks import importing_tasks as tasks
from benchmarks.lab import Lab
from benchmarks.report import Result, Table

_ENGINES = ("sqlite", "postgresql")


def run(lab: Lab) -> Result:
    """Seconds and memory: in this process on two databases, and on Spark."""
    files, commits = int(lab.pick(full=1_000_000, quick=20_000)), int(lab.pick(full=20_000, quick=2_000))
    folders = {name: str(lab.folder / name) for name in ("small", "checkpoint", "commits")}
    child.call(tasks.write_commits, folder=folders["small"], count=2)
    child.call(tasks.write_checkpointed, folder=folders["checkpoint"], count=files)
    child.call(tasks.write_commits, folder=folders["commits"], count=commits)
    found = {name: _measured(lab, folders[name], folders["small"]) for name in ("checkpoint", "commits")}
    rows = [(f"{what}: {name}", *_cells(figures)) for what, each in found.items() for name, figures in each.items()]
    title = f"Import of {files:,} files from one checkpoint, and of {commits:,} commits"
    return Result("import", Table(title, ("", "s", "peak MiB"), rows), {"files": files, "commits": commits, **found})


def _measured(lab: Lab, location: str, small: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        "delta-rs open": {"seconds": child.call(tasks.delta_rs_open, location=location)}
    }
    for engine in _ENGINES:
        found |= _imported(lab, engine, location, small)
    with lab.place("sqlite") as place:
        arguments = {"place": place.json(), "location": location, "small": small}
        found["deltamirror sqlite, on Spark"] = child.call(tasks.import_table, **arguments, runner="spark")
    return found


def _imported(lab: Lab, engine: str, location: str, small: str) -> dict[str, dict[str, Any]]:
    with lab.place(engine) as place, lab.place(engine) as empty:
        arguments = {"place": place.json(), "location": location, "small": small}
        ours = child.call(tasks.import_table, **arguments, runner="local")
        bare = child.call(tasks.bare_load, source=place.json(), target=empty.json())
    return {f"deltamirror {engine}": ours, f"bare {engine}": {"seconds": bare}}


def _cells(figures: dict[str, Any]) -> tuple[str, str]:
    return f"{figures['seconds']:.2f}", f"{figures['peak']:.0f}" if "peak" in figures else ""
