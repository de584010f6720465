"""Opening a table of many commits, with and without a checkpoint, beside delta-rs and Delta Spark."""

from benchmarks import child, importing_tasks
from benchmarks import opening_tasks as tasks
from benchmarks.lab import Lab
from benchmarks.report import Result, Table

_ENGINES = ("sqlite", "postgresql", "duckdb")
_WARM = 20


def run(lab: Lab) -> Result:
    """Seconds until all files are listed, and until a scan of one partition is planned."""
    commits = int(lab.pick(full=20_000, quick=2_000))
    warm, folder = str(lab.folder / "opened-warm"), str(lab.folder / "opened")
    child.call(importing_tasks.write_commits, folder=warm, count=_WARM)
    child.call(importing_tasks.write_commits, folder=folder, count=commits)
    locations = {"warm": warm, "large": folder}
    figures: dict[str, dict[str, float]] = {}
    for engine in _ENGINES:
        figures |= _ours(lab, engine, locations)
    figures |= _peers(warm, folder, "")
    child.call(tasks.write_checkpoint, folder=folder)
    figures |= _peers(warm, folder, ", checkpoint")
    rows = [(name, *(f"{seconds[what]:.3f}" for what in ("list", "plan"))) for name, seconds in figures.items()]
    title = f"Opening a table of {commits:,} commits of one add"
    header = ("", "s until all files are listed", "s until one day is planned")
    return Result("opening", Table(title, header, rows), {"commits": commits, **figures})


def _ours(lab: Lab, engine: str, locations: dict[str, str]) -> dict[str, dict[str, float]]:
    with lab.place(engine) as place:
        child.call(tasks.import_tables, place=place.json(), locations=locations)
        ours = child.call(tasks.by_deltamirror, place=place.json(), warm="warm", name="large")
        found = {f"deltamirror {engine}": ours}
        if engine != "duckdb":
            found[f"bare {engine}"] = child.call(tasks.by_driver, place=place.json(), name="large")
        return found


def _peers(warm: str, folder: str, suffix: str) -> dict[str, dict[str, float]]:
    peers = {"delta-rs": tasks.by_delta_rs, "Delta Spark": tasks.by_delta_spark}
    return {f"{name}{suffix}": child.call(task, warm=warm, folder=folder) for name, task in peers.items()}
