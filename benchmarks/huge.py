"""Checkpoints of 10,000,000 files: seconds and memory of the first one, and of the next, some commits later."""

import re
from itertools import islice

from benchmarks import checkpoint_tasks as tasks
from benchmarks import child, publish_tasks
from benchmarks.adds import adds, write_ndjson
from benchmarks.bulk_tasks import commit
from benchmarks.checkpoint import LATER, publish
from benchmarks.lab import Lab, Place
from benchmarks.report import Result, Table

_COMMITS = 10
_NAME = re.compile(rb"(?<=-)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?=\.)")
_DIGITS = b"0123456789abcdef"


def run(lab: Lab) -> Result:
    """The table is on SQLite, its log on local disk; each checkpoint has a process of its own."""
    each = int(lab.pick(full=1_000_000, quick=10_000))
    with lab.place("sqlite") as place:
        _fill(lab, place, each)
        first = child.call(tasks.deltamirror, place=place.json())
        bare = child.call(tasks.bare_file, place=place.json())
        child.call(publish_tasks.fill, place=place.json(), count=LATER)
        publish(place)
        found = {"first": first, "next": child.call(tasks.deltamirror, place=place.json())}
    rows = [
        (name, f"{figures['seconds']:.1f}", f"{figures['megabytes']:.0f}", *_memory(figures))
        for name, figures in found.items()
    ]
    count = each * _COMMITS
    title = f"Checkpoint of {count:,} files, and the next one, {LATER} commits later"
    rows.append(("bare next", f"{bare:.1f}", "", "", ""))
    figures = {"count": count, "bare next": bare, **found}
    return Result("huge", Table(title, ("", "s", "MB", "peak MiB", "own MiB"), rows), figures)


def _memory(figures: dict[str, float]) -> tuple[str, str]:
    return f"{figures['peak']:.0f}", f"{figures['own']:.0f}"


def _fill(lab: Lab, place: Place, each: int) -> None:
    """Commits of so many files each, published. All have random names of their own; their statistics come again."""
    source = lab.folder / "huge.ndjson"
    write_ndjson(source, islice(adds(seed=9), each))
    lines = source.read_bytes()
    for number in range(_COMMITS):
        source.write_bytes(_renamed(lines, number))
        child.call(commit, place=place.json(), source="ndjson", path=str(source))
    source.unlink()
    publish(place)


def _renamed(lines: bytes, number: int) -> bytes:
    """The same files with other names: each digit of their UUIDs is another one."""
    others = bytes.maketrans(_DIGITS, _DIGITS[number:] + _DIGITS[:number])
    return _NAME.sub(lambda found: found[0].translate(others), lines)
