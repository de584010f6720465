"""``python -m benchmarks [--only NAME] [--quick] [--json FILE] [--record]``."""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import (
    bulk,
    checkpoint,
    commands,
    crowd,
    growth,
    huge,
    idle,
    importing,
    jobs,
    lag,
    levels,
    opening,
    publish,
    rows,
    single,
)
from benchmarks.aims import verdicts
from benchmarks.lab import Lab, open_lab
from benchmarks.machine import facts
from benchmarks.page import write
from benchmarks.report import Result
from benchmarks.results import Measured, Results

SUITES: Mapping[str, Callable[[Lab], Result]] = {
    "single": single.run,
    "crowd": crowd.run,
    "bulk": bulk.run,
    "growth": growth.run,
    "history": growth.run_history,
    "tables": growth.run_tables,
    "claims": growth.run_claims,
    "publish": publish.run,
    "levels": levels.run,
    "checkpoint": checkpoint.run,
    "import": importing.run,
    "opening": opening.run,
    "rows": rows.run,
    "jobs": jobs.run,
    "lag": lag.run,
    "idle": idle.run,
    "commands": commands.run,
    "huge": huge.run,
}


def main() -> None:
    arguments = _arguments()
    begun, recorded = datetime.now(UTC), Results.load()
    results, measured = [], recorded
    with open_lab(quick=arguments.quick) as lab:
        about = facts(postgresql=lab.server.version())
        for name, text in about.items():
            print(f"{name:<12} {text}")
        for name in arguments.only or SUITES:
            result, seconds = _run(name, lab)
            results.append(result)
            if arguments.record:  # at once: what follows takes long, and may fail
                measured = measured.updated(name, _measured(result, begun, about, seconds))
                measured.save()
                write(measured)
    _judge(results, recorded)
    if arguments.json is not None:
        figures = {result.name: result.figures for result in results}
        arguments.json.write_text(json.dumps({"facts": about, **figures}, indent=2) + "\n")


def _measured(result: Result, begun: datetime, about: Mapping[str, str], seconds: float) -> Measured:
    return Measured(
        run=f"{begun:%Y-%m-%d %H:%M}",
        facts=about,
        seconds=round(seconds),
        table=result.table,
        figures=result.figures,
        verdicts=[replace(verdict, ratio=round(verdict.ratio, 2)) for verdict in verdicts([result])],
    )


def _judge(results: Sequence[Result], recorded: Results) -> None:
    """Print how far aims are reached, beside what was recorded before."""
    if judged := list(verdicts(results)):
        print("\nAgainst the aims (of the peer in the same run, where there is one), and what was recorded before\n")
    for verdict in judged:
        print(f"{verdict}{recorded.compared(verdict)}")


def _run(name: str, lab: Lab) -> tuple[Result, float]:
    begin = time.monotonic()
    result = SUITES[name](lab)
    seconds = time.monotonic() - begin
    print(f"\n{result.table.text()}\n\n{name}: {seconds:.0f} s", flush=True)
    return result, seconds


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure deltamirror beside delta-rs.")
    parser.add_argument("--only", action="append", choices=SUITES, help="measure this alone; may be repeated")
    parser.add_argument("--quick", action="store_true", help="less of everything, in under two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--record", action="store_true", help="write tables, charts and ratios into docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.record and arguments.quick:
        parser.error("--record keeps results of whole measurements: leave out --quick")
    return arguments


if __name__ == "__main__":
    main()
