"""``python -m benchmarks`` compares its ratios with recorded ones, and writes a page with tables and charts."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec.json import encode

from benchmarks import __main__ as program
from benchmarks.aims import Verdict, verdicts
from benchmarks.lab import ENGINES
from benchmarks.page import CHARTS, PAGE, charts, page
from benchmarks.report import Result, Table
from benchmarks.results import Measured, Results

pytestmark = pytest.mark.requirement("R91")

GROWTH = Table("Latency", ("p50 ms", "0 files", "1,000 files"), [("us", "1.50", "3.00"), ("peer", "20.00", "")])


def measured(*found: Verdict, run: str = "2026-01-01 10:00", table: Table = GROWTH) -> Measured:
    return Measured(run=run, facts={"machine": "here"}, seconds=3, table=table, figures={}, verdicts=found)


RESULTS = Results(
    suites={
        "single": measured(Verdict("commits", 12.0, 10.0, "; a note"), Verdict("scans", 0.5, 2.0)),
        "growth": measured(run="2025-12-31 09:00"),
    }
)


@pytest.mark.parametrize(("ratio", "word"), [(7.9, "below"), (8.1, "within"), (17.9, "within"), (18.1, "above")])
def test_a_ratio_is_told_from_the_recorded_one_beyond_its_spread(ratio: float, word: str) -> None:
    said = RESULTS.compared(Verdict("commits", ratio, 10.0))
    assert said == f"; recorded 12.00 ×, {word} its spread (factor 1.5)"


def test_a_time_in_a_queue_where_all_cores_are_at_work_has_a_wider_spread() -> None:
    times = {"p95": 500.0, "p99": 900.0, "cores there": 2}
    loads = {load: {**times, "cores": {"all": cores}} for load, cores in (("20", 0.5), ("100", 1.9))}
    found = list(verdicts([Result("lag", Table("", (), ()), loads)]))
    assert [(each.what, each.spread) for each in found] == [
        ("from commit to visible, 20 tables, p95", 2.0),
        ("from commit to visible, 100 tables, p95", 6.0),
        ("from commit to visible, 100 tables, p99", 6.0),
    ]
    assert found[1].note == "; 1.9 of 2 cores were at work"


def test_a_run_does_not_widen_the_spread_that_was_recorded() -> None:
    said = RESULTS.compared(Verdict("commits", 7.9, 10.0, spread=6.0))
    assert said == "; recorded 12.00 ×, below its spread (factor 1.5)"


def test_nothing_is_said_of_a_ratio_that_is_not_recorded() -> None:
    assert RESULTS.compared(Verdict("merges", 1.0, 1.0)) == ""


def test_a_recorded_suite_replaces_its_last_results_and_no_others(tmp_path: Path) -> None:
    file, another = tmp_path / "results.json", measured(Verdict("commits", 13.0, 10.0), run="2026-02-02 10:00")
    RESULTS.updated("single", another).save(file)
    expected = Results(suites={"single": another, "growth": RESULTS.suites["growth"]})
    assert encode(Results.load(file)) == encode(expected)


def test_a_run_finds_its_ratios_by_their_names_in_the_stored_file() -> None:
    rates = {f"{kind} {engine}": [{"rate": 20.0, "cpu": 0.5}] for kind in ("deltamirror", "bare") for engine in ENGINES}
    single = Result("single", Table("", (), ()), {**rates, "delta-rs": [{"rate": 2.0, "cpu": 5.0}]})
    told = [verdict.what for verdict in verdicts([single])]
    assert told == ["one writer, sqlite", "one writer, postgresql", "one writer, duckdb"]
    assert all(Results.load().compared(Verdict(what, 1.0, 1.0)) for what in told)


def test_clients_over_http_are_judged_beside_a_server_that_only_answers() -> None:
    shares = {"failed": 0, "lost": 0, "slowest": 0.9}
    rates = {"HTTP, 8 clients": 300.0, "HTTP, 64 clients": 2_000.0, "bare server, 8 clients": 1_500.0}
    rates |= {"bare server, 64 clients": 4_000.0, "delta-rs": 20.0}
    commits = {name: {"rate": rate, **shares} for name, rate in rates.items()}
    eight, many = verdicts([Result("jobs", Table("", (), ()), {"appends": {}, "commits": commits})])
    assert (eight.what, eight.ratio, eight.aim) == ("eight clients over HTTP", 15.0, 10.0)
    assert (many.what, many.ratio, many.aim) == ("64 clients over HTTP", 100.0, 100.0)
    assert many.note == "; failed 0, lost 0, slowest writer 90%; bare server 200.0 ×, of which 50%"


def test_a_short_run_is_not_recorded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--quick", "--record"])
    with pytest.raises(SystemExit):
        program.main()
    assert "leave out --quick" in capsys.readouterr().err


def test_the_page_shows_what_is_stored() -> None:
    stored = Results.load()
    assert page(PAGE.read_text(), stored) == PAGE.read_text(), "run `python -m benchmarks.page`"
    assert {name: (CHARTS / name).read_text() for name in charts(stored)} == charts(stored)


def test_the_page_keeps_what_people_wrote_and_says_of_which_run_a_table_is() -> None:
    text = page(page(PAGE.read_text(), Results.load()), RESULTS)
    before, after = PAGE.read_text().split("<!-- Written")[0], PAGE.read_text().split("what is written. -->")[1]
    assert text.startswith(before)
    assert text.endswith(after)
    assert "1 of 2 aims are reached" in text
    assert "### growth, in the run of 2025-12-31 09:00 (3 s)" in text
    assert "### single (3 s)" in text


def test_a_chart_has_a_bar_for_each_aim_and_a_line_for_each_subject() -> None:
    drawn = {name: ET.fromstring(text) for name, text in charts(RESULTS).items()}  # noqa: S314 - our own
    space = "{http://www.w3.org/2000/svg}"
    colours = [bar.get("fill") for bar in drawn["aims.svg"].findall(f"{space}rect")]
    assert len(colours) == 3  # with the paper
    assert colours[1] != colours[2]
    points = [line.get("points", "").split() for line in drawn["growth.svg"].findall(f"{space}polyline")]
    assert [len(line) for line in points] == [2, 1]
    assert float(points[0][1].split(",")[1]) < float(points[0][0].split(",")[1]), "dearer is higher"
