"""Fails where tests take fewer branches of a package than they have to, by the figures that `make coverage` wrote.

Usage: check_coverage.py FILE
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PACKAGES = ("delta", "publish", "txnlog", "pipeline")
# Parts of paths: tests on SQLite and without Spark do not reach these; the default suite runs them on their servers.
ELSEWHERE = ("/engines/duckdb.py", "/engines/postgresql.py", "/pipeline/run/spark/")
LEAST = 90.0  # percent of the branches of each package
SHOWN = 5


def share(summaries: Iterable[Mapping[str, int]]) -> float:
    """How many percent of the branches were taken; all of them where there are none."""
    some = list(summaries)
    total = sum(each["num_branches"] for each in some)
    return 100 * sum(each["covered_branches"] for each in some) / total if total else 100.0


def summaries_of(package: str, files: Mapping[str, Any]) -> dict[str, Mapping[str, int]]:
    return {
        path: figures["summary"]
        for path, figures in files.items()
        if f"/deltamirror/{package}/" in path and not any(part in path for part in ELSEWHERE)
    }


def main() -> int:
    files, failed = json.loads(Path(sys.argv[1]).read_text())["files"], False
    for package in PACKAGES:
        own = summaries_of(package, files)
        if not own:
            sys.exit(f"{package}: nothing was measured")
        percent = share(own.values())
        failed |= percent < LEAST
        print(
            f"{package}: {percent:.1f} % of its branches are taken, of {LEAST:.0f} % that have to be; least of all in"
        )
        for least, path in sorted((share([each]), path) for path, each in own.items())[:SHOWN]:
            print(f"  {least:5.1f} %  {path}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
