"""Publishing a backlog of small commits to local disk, beside delta-rs committing the same."""

from typing import Any

from benchmarks import child
from benchmarks import publish_tasks as tasks
from benchmarks.lab import Lab
from benchmarks.report import Result, Table, rate

_ENGINES = ("sqlite", "postgresql")


def run(lab: Lab) -> Result:
    """Versions a second: by batches, one by one, on Spark, by the bare parts of each, and by delta-rs."""
    count = int(lab.pick(full=1_000, quick=200))
    found: dict[str, dict[str, float]] = {}
    with lab.place("files") as place:
        found["delta-rs commits"] = child.call(tasks.delta_rs_commits, place=place.json(), count=count)
        found["bare store"] = child.call(tasks.bare_creates, place=place.json(), count=count)
        found["bare store, on Spark"] = child.call(tasks.bare_jobs, place=place.json(), count=count)
    for engine in _ENGINES:
        found[f"deltamirror {engine}, in batches"] = mirrored(lab, engine, count, runner="local")
        found[f"deltamirror {engine}, one by one"] = mirrored(lab, engine, count, batch=1, runner="local")
        with lab.place(engine) as place:
            found[f"bare {engine}, one by one"] = child.call(tasks.bare_one_by_one, place=place.json(), count=count)
    name = "deltamirror sqlite, in batches, without checkpoints"
    found[name] = mirrored(lab, "sqlite", count, runner="local", checkpoints=False)
    found["deltamirror sqlite, on Spark"] = mirrored(lab, "sqlite", count, runner="spark")
    base = found["delta-rs commits"]["rate"]
    rows = [(name, rate(figures["rate"]), f"{figures['rate'] / base:.1f} ×") for name, figures in found.items()]
    title = f"A backlog of {count:,} commits of one add, on local disk"
    return Result("publish", Table(title, ("", "versions/s", "of delta-rs"), rows), {"count": count, **found})


def mirrored(
    lab: Lab, engine: str, count: int, *, runner: str, batch: int | None = None, checkpoints: bool = True
) -> Any:
    """Versions a second that a mirror publishes of a backlog; in batches of the default size, or of another one."""
    with lab.place(engine) as place:
        child.call(tasks.fill, place=place.json(), count=count)
        return child.call(tasks.mirror, place=place.json(), batch=batch, runner=runner, checkpoints=checkpoints)
