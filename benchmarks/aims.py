"""The speed to reach, and how far it is reached."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.report import Result

_ONE_WRITER = {"sqlite": 30.0, "postgresql": 30.0, "duckdb": 1.5}
_MANY_WRITERS = {"sqlite": 50.0, "postgresql": 50.0}
_BULK = 1.5
_PUBLISH = 10.0
_BATCHES = 5.0
_ONE_BY_ONE = 3.0
_CHECKPOINT = {"delta-rs": {"first": 1.5, "next": 5.0}, "Delta Spark": {"first": 3.0, "next": 20.0}}
_SIZE = 3.0
_HUGE_SECONDS = 10.0
_HUGE_MEBIBYTES = 2048.0
_OPENED_BY = 1.0
_IMPORT_FILES = 1 / 1.5
_IMPORT_COMMITS = 1 / 2
_OPENING = {"": 10.0, ", checkpoint": 2.0}
_LAG_MS = {"20": {"p95": 500.0}, "100": {"p95": 1_000.0, "p99": 3_000.0}}
_IDLE_CORE = 0.02
_COMMAND_SECONDS = {"--help": 0.2, "status": 0.5}
_ROWS = 1.0
_ONE_ROW = 20.0
_JOB_APPEND = 1 / 1.2
_HTTP_COMMITS = {8: ("eight", 10.0), 64: ("64", 100.0)}
_BOUND_SPREAD = 2.0
"""Of a bound without a peer: one machine is so much faster than another of its kind, or than itself at another hour."""
_BUSY = 0.8
_QUEUE_SPREAD = 6.0
"""Of a time in a queue where all cores are at work: work that costs a tenth more waits several times as long."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many times as fast as its peer something is, or of its bound where it has no peer; and the aim."""

    what: str
    ratio: float
    aim: float
    note: str = ""
    spread: float = 1.5
    """By which factor the ratio of another run may differ, either way."""

    @property
    def is_reached(self) -> bool:
        """Whether it is as fast as it has to be."""
        return self.ratio >= self.aim

    @property
    def word(self) -> str:
        """For people."""
        return "reached" if self.is_reached else "missed"

    def __str__(self) -> str:
        return f"{self.word:<8} {self.what:<62} {self.ratio:6.2f} × of {self.aim:.3g} ×{self.note}"


def verdicts(results: Sequence[Result]) -> Iterator[Verdict]:
    """One for each aim that was measured."""
    judges = {
        "single": _single,
        "crowd": _crowd,
        "bulk": _bulk,
        "publish": _publish,
        "checkpoint": _checkpoint,
        "huge": _huge,
        "import": _import,
        "opening": _opening,
        "rows": _rows,
        "jobs": _jobs,
        "lag": _lag,
        "idle": _idle,
        "commands": _commands,
    }
    for result in results:
        if result.name in judges:
            yield from judges[result.name](result.figures)


def _single(figures: dict[str, Any]) -> Iterator[Verdict]:
    rates, computed = ({name: _median(runs, key) for name, runs in figures.items()} for key in ("rate", "cpu"))
    for engine, aim in _ONE_WRITER.items():
        ours = f"deltamirror {engine}"
        ratio, unhindered = rates[ours] / rates["delta-rs"], 1e3 / computed[ours] / rates["delta-rs"]
        note = _limit(ratio, rates, engine) + _computing(unhindered)
        yield Verdict(f"one writer, {engine}", ratio, aim, note)


def _median(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def _limit(ratio: float, rates: dict[str, float], engine: str) -> str:
    return _beside(ratio, rates[f"bare {engine}"] / rates["delta-rs"], "bare database")


def _beside(ratio: float, limit: float, what: str) -> str:
    """A note of what the same run measured of the work that cannot be left out."""
    return f"; {what} {limit:.1f} ×, of which {ratio / limit:.0%}"


def _computing(ratio: float) -> str:
    """A note of what our process would reach that never had to wait: for disk, database, or its turn."""
    return f"; without any waiting {ratio:.1f} ×"


def _crowd(figures: dict[str, Any]) -> Iterator[Verdict]:
    rates = {name: run["rate"] for name, run in figures.items()}
    for engine, aim in _MANY_WRITERS.items():
        run = figures[f"deltamirror {engine}"]
        ratio = run["rate"] / rates["delta-rs"]
        note = f"; failed {run['failed']}, lost {run['lost']}, slowest writer {run['slowest']:.0%}"
        note += f"; one writer alone {run['alone'] / rates['delta-rs']:.1f} ×"
        yield Verdict(f"eight writers, {engine}", ratio, aim, note + _limit(ratio, rates, engine))


def _bulk(figures: dict[str, Any]) -> Iterator[Verdict]:
    base = figures["delta-rs"]["seconds"]
    for name, figure in figures.items():
        if name.startswith("deltamirror"):
            what = name.removeprefix("deltamirror ")
            ratio, bare = base / figure["seconds"], base / figures[f"bare {what.partition(',')[0]}"]["seconds"]
            note = _beside(ratio, bare, "the bare load of its rows") + f"; {figure['computed']:.1f} s computed"
            yield Verdict(f"{figures['count']:,} adds, {what}", ratio, _BULK, note)


def _publish(figures: dict[str, Any]) -> Iterator[Verdict]:
    base, bare = figures["delta-rs commits"]["rate"], "bare store"
    of_peer = {name: figure["rate"] / base for name, figure in figures.items() if name != "count"}

    def note_of(ours: str, limit: str, what: str) -> str:
        unhindered = figures["count"] / figures[ours]["computed"] / base
        return _beside(of_peer[ours], of_peer[limit], what) + _computing(unhindered)

    for engine in ("sqlite", "postgresql"):
        in_batches, singly = (f"deltamirror {engine}, {how}" for how in ("in batches", "one by one"))
        bare_singly = f"bare {engine}, one by one"
        batches, one_by_one = of_peer[in_batches], of_peer[singly]
        yield Verdict(f"publishing, {engine}", batches, _PUBLISH, note_of(in_batches, bare, bare))
        note = note_of(singly, bare_singly, "bare puts and transactions")
        yield Verdict(f"publishing one by one, {engine}", one_by_one, _ONE_BY_ONE, note)
        note = f"; bare store against bare puts and transactions {of_peer[bare] / of_peer[bare_singly]:.1f} ×"
        yield Verdict(f"batches against one by one, {engine}", batches / one_by_one, _BATCHES, note)
    on_spark = of_peer["deltamirror sqlite, on Spark"]
    note = _beside(on_spark, of_peer["bare store, on Spark"], "bare puts on Spark")
    yield Verdict("publishing, sqlite, on Spark", on_spark, _PUBLISH, note)


def _checkpoint(figures: dict[str, Any]) -> Iterator[Verdict]:
    for data in ("", ", numbered files"):
        ours = figures[f"deltamirror{data}"]
        for peer, aims in _CHECKPOINT.items():
            for which, aim in aims.items():
                theirs = figures[f"{peer}{data}"][which]
                ratio = theirs / ours[which]
                bare, what = (ours["bare"], "bare Arrow") if which == "first" else (ours["bare next"], "bare file")
                note = _beside(ratio, theirs / bare, what)
                yield Verdict(f"{which} checkpoint, beside {peer}{data}", ratio, aim, note)
        ratio = figures[f"delta-rs{data}"]["megabytes"] / ours["megabytes"]
        yield Verdict(f"size, beside delta-rs{data}", ratio, _SIZE)
    yield from _opened(figures)


def _opened(figures: dict[str, Any]) -> Iterator[Verdict]:
    """By our checkpoint, beside the one that the reader wrote itself; DuckDB writes none."""
    times = {name: figures[f"{name}, {figures['fewer']:,} files"] for name in ("deltamirror", *_CHECKPOINT)}
    for reader in ("delta-rs", "DuckDB", "Delta Spark"):
        owns = [times[name] for name in _CHECKPOINT if name == reader or reader not in _CHECKPOINT]
        own = min(owns, key=lambda each: float(each[f"open {reader}"]))
        best, worst = own[f"open {reader}"], own[f"worst open {reader}"]
        note = f"; its own again: down to {best / worst:.2f} ×"
        yield Verdict(
            f"{reader} opens by our checkpoint, of its own",
            best / times["deltamirror"][f"open {reader}"],
            _OPENED_BY,
            note,
        )


def _huge(figures: dict[str, Any]) -> Iterator[Verdict]:
    """Of a bound each: of memory, what is the process's own, since pages of mapped files are the system's to take."""
    files = f"{figures['count']:,} files"
    ratio, bare = (_HUGE_SECONDS / seconds for seconds in (figures["next"]["seconds"], figures["bare next"]))
    note = _beside(ratio, bare, "bare file")
    yield Verdict(f"next checkpoint of {files}, of 10 s", ratio, 1.0, note, _BOUND_SPREAD)
    for which in ("first", "next"):
        yield Verdict(f"memory of the {which} one of {files}, of 2 GiB", _HUGE_MEBIBYTES / figures[which]["own"], 1.0)


def _import(figures: dict[str, Any]) -> Iterator[Verdict]:
    for engine in ("sqlite", "postgresql"):
        large, many = figures["checkpoint"], figures["commits"]
        floor = large["delta-rs open"]["seconds"] + large[f"bare {engine}"]["seconds"]
        ours = large[f"deltamirror {engine}"]["seconds"]
        yield Verdict(f"import of a checkpoint, {engine}, of delta-rs and bare load", floor / ours, _IMPORT_FILES)
        ours = many[f"deltamirror {engine}"]["seconds"]
        yield Verdict(
            f"import of commits, {engine}, of delta-rs", many["delta-rs open"]["seconds"] / ours, _IMPORT_COMMITS
        )


def _opening(figures: dict[str, Any]) -> Iterator[Verdict]:
    for engine in ("sqlite", "postgresql"):
        for suffix, aim in _OPENING.items():
            for peer in ("delta-rs", "Delta Spark"):
                for what, seconds in figures[f"deltamirror {engine}"].items():
                    theirs = figures[f"{peer}{suffix}"][what]
                    ratio = theirs / seconds
                    bare = theirs / figures[f"bare {engine}"][what]
                    note = _beside(ratio, bare, "bare driver")
                    yield Verdict(f"open and {what}, {engine}, beside {peer}{suffix}", ratio, aim, note)


def _rows(figures: dict[str, Any]) -> Iterator[Verdict]:
    for data, peer in (("arrow", "delta-rs"), ("frames", "Delta Spark")):
        found = figures[data]
        bare = found.get("bare", {})
        for what, seconds in found["deltamirror"].items():
            ratio = found[peer][what] / seconds
            note = _beside(ratio, found[peer][what] / bare[what], "bare format") if what in bare else ""
            yield Verdict(f"{what} of {figures['count']:,} rows, beside {peer}", ratio, _ROWS, note)
    rates = figures["single"]
    yield Verdict("appends of one row, beside Delta Spark", rates["deltamirror"] / rates["Delta Spark"], _ONE_ROW)


def _jobs(figures: dict[str, Any]) -> Iterator[Verdict]:
    for store, (ours, plain) in figures["appends"].items():
        yield Verdict(f"append of a stock job, {store}, of a plain one", plain / ours, _JOB_APPEND)
    commits = figures["commits"]
    base = commits["delta-rs"]["rate"]
    for clients, (what, aim) in _HTTP_COMMITS.items():
        run = commits[f"HTTP, {clients} clients"]
        ratio, limit = run["rate"] / base, commits[f"bare server, {clients} clients"]["rate"] / base
        note = f"; failed {run['failed']}, lost {run['lost']}, slowest writer {run['slowest']:.0%}"
        yield Verdict(f"{what} clients over HTTP", ratio, aim, note + _beside(ratio, limit, "bare server"))


def _lag(figures: dict[str, Any]) -> Iterator[Verdict]:
    for load, bounds in _LAG_MS.items():
        for name, bound in bounds.items():
            if load in figures:
                found = figures[load]
                at_work, there = sum(found["cores"].values()), found["cores there"]
                note = f"; {at_work:.1f} of {there} cores were at work"
                spread = _BOUND_SPREAD if at_work < _BUSY * there else _QUEUE_SPREAD
                what = f"from commit to visible, {load} tables, {name}"
                yield Verdict(what, bound / found[name], 1.0, note, spread)


def _idle(figures: dict[str, Any]) -> Iterator[Verdict]:
    yield Verdict("an idle service, of a core", _IDLE_CORE / figures["core"], 1.0, spread=_BOUND_SPREAD)


def _commands(figures: dict[str, Any]) -> Iterator[Verdict]:
    for name, bound in _COMMAND_SECONDS.items():
        ratio, bare = (bound / figures[key] for key in (name, f"bare {name}"))
        note = _beside(ratio, bare, "bare imports")
        yield Verdict(f"deltamirror {name}, of {bound} s", ratio, 1.0, note, _BOUND_SPREAD)
