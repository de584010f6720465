"""``python -m benchmarks.page``: writes what was measured last into docs/benchmarks.md, with its charts."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.aims import Verdict
from benchmarks.charts import bars, lines
from benchmarks.model import Costs, World, check, sizing
from benchmarks.report import Table
from benchmarks.results import Measured, Results

_DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
PAGE: Final = _DOCS / "benchmarks.md"
CHARTS: Final = _DOCS / "charts"
_START: Final = "<!-- Written by `python -m benchmarks --record` from benchmarks/results.json. -->"
_END: Final = "<!-- The end of what is written. -->"
_WORLD: Final = World(tables=100_000, commits_a_second=10_000.0, postgresql_cores=16)
_BY_SIZE: Final = {
    "growth": "Latency of a commit by the files of its table",
    "history": "Latency of a commit by the versions of its table",
    "tables": "Latency of a commit by the tables of its catalog",
    "claims": "Latency of a claim that finds nothing by the tables of the catalog",
}


def page(text: str, results: Results) -> str:
    """The page with these results in the place of those that it has."""
    before, _, rest = text.partition(_START)
    _, _, after = rest.partition(_END)
    return "\n".join([f"{before}{_START}", "", *_figures(results), f"{_END}{after}"])


def charts(results: Results) -> dict[str, str]:
    """The charts by the names of their files."""
    found = {"aims.svg": bars("What ratios are of their aims", _verdicts(results))}
    for name, title in _BY_SIZE.items():
        if name in results.suites:
            found[f"{name}.svg"] = lines(title, "p50 in ms", _costs(results.suites[name].table))
    return found


def write(results: Results) -> None:
    """Write page and charts."""
    PAGE.write_text(page(PAGE.read_text(), results))
    CHARTS.mkdir(exist_ok=True)
    for name, chart in charts(results).items():
        (CHARTS / name).write_text(chart)


def _figures(results: Results) -> Iterator[str]:
    newest = results.runs[0]
    [facts, *_] = [suite.facts for suite in results.suites.values() if suite.run == newest]
    yield f"The run that began at {newest} UTC:"
    yield ""
    yield from (f"- {name}: {text}" for name, text in facts.items())
    if others := [name for name, suite in results.suites.items() if suite.run != newest]:
        yield f"- of other runs, as their headings say: {', '.join(others)}"
    yield from ("", "![What ratios are of their aims](charts/aims.svg)", "")
    yield from (_aims(_verdicts(results)).text(), "")
    for name, suite in results.suites.items():
        yield from _suite(name, suite, newest)
    if {"lag", "claims"} <= results.suites.keys():
        yield from _larger_world(results.suites["lag"].figures, results.suites["claims"].figures)


def _suite(name: str, suite: Measured, newest: str) -> Iterator[str]:
    of = "" if suite.run == newest else f", in the run of {suite.run}"
    yield from (f"### {name}{of} ({suite.seconds:,} s)", "", suite.table.text(), "")
    if name in _BY_SIZE:
        yield from (f"![{_BY_SIZE[name]}](charts/{name}.svg)", "")


def _larger_world(lag: Mapping[str, Any], claims: Mapping[str, Any]) -> Iterator[str]:
    yield from ("### A larger world", "", check(lag).text(), "")
    yield from (sizing(_WORLD, Costs.measured(lag, claims)).text(), "")


def _verdicts(results: Results) -> Sequence[Verdict]:
    return [verdict for suite in results.suites.values() for verdict in suite.verdicts]


def _aims(verdicts: Sequence[Verdict]) -> Table:
    rows = [
        (each.what, f"{each.ratio:.2f} ×", f"{each.aim:.3g} ×", each.word, each.note.removeprefix("; "))
        for each in verdicts
    ]
    reached = sum(each.is_reached for each in verdicts)
    title = f"{reached} of {len(verdicts)} aims are reached (times as fast as the peer in the same run, or of a bound):"
    return Table(title, ("", "ratio", "aim", "", "beside it"), rows)


def _costs(table: Table) -> dict[str, dict[float, float]]:
    """The lines of a table whose columns are sizes."""
    sizes = [max(1.0, float(re.sub(r"[^0-9]", "", column))) for column in table.header[1:]]
    return {
        name: {size: float(cell) for size, cell in zip(sizes, cells, strict=True) if cell}
        for name, *cells in table.rows
    }


if __name__ == "__main__":
    write(Results.load())
