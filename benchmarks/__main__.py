"""``python -m benchmarks [--only NAME] [--quick] [--json FILE] [--record]``."""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import (
    bulk,
    checkpoint,
    crowd,
    growth,
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
from benchmarks.baseline import Baseline
from benchmarks.lab import Lab, open_lab
from benchmarks.machine import facts
from benchmarks.report import Result

SUITES: Mapping[str, Callable[[Lab], Result]] = {
    "single": single.run,
    "crowd": crowd.run,
    "bulk": bulk.run,
    "growth": growth.run,
    "publish": publish.run,
    "levels": levels.run,
    "checkpoint": checkpoint.run,
    "import": importing.run,
    "opening": opening.run,
    "rows": rows.run,
    "jobs": jobs.run,
    "lag": lag.run,
    "idle": idle.run,
}


def main() -> None:
    arguments = _arguments()
    with open_lab(quick=arguments.quick) as lab:
        about = facts(postgresql=lab.server.version())
        for name, text in about.items():
            print(f"{name:<12} {text}")
        results = [_run(name, lab) for name in arguments.only or SUITES]
    _judge(results, machine=about["machine"], record=arguments.record)
    if arguments.json is not None:
        figures = {result.name: result.figures for result in results}
        arguments.json.write_text(json.dumps({"facts": about, **figures}, indent=2) + "\n")


def _judge(results: Sequence[Result], *, machine: str, record: bool) -> None:
    """Print how far aims are reached, beside the stored baseline; store a new one if asked to."""
    judged, baseline = list(verdicts(results)), Baseline.load()
    if judged:
        print("\nAgainst the aims (of the peer in the same run, where there is one), and the baseline")
        print(f"of another run ({baseline.machine})\n")
    for verdict in judged:
        print(f"{verdict}{baseline.compared(verdict)}")
    if record:
        baseline.updated(judged, machine).save()


def _run(name: str, lab: Lab) -> Result:
    begin = time.monotonic()
    result = SUITES[name](lab)
    print(f"\n{result.table.text()}\n\n{name}: {time.monotonic() - begin:.0f} s", flush=True)
    return result


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure deltamirror beside delta-rs.")
    parser.add_argument("--only", action="append", choices=SUITES, help="measure this alone; may be repeated")
    parser.add_argument("--quick", action="store_true", help="less of everything, in under two minutes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file")
    parser.add_argument("--record", action="store_true", help="store the ratios of this run as the baseline")
    arguments = parser.parse_args()
    if arguments.record and arguments.quick:
        parser.error("--record stores ratios of whole measurements: leave out --quick")
    return arguments


if __name__ == "__main__":
    main()
