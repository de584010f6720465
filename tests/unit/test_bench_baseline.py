"""``python -m benchmarks`` compares its ratios with those of an earlier run, which are stored."""

from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.aims import Verdict, verdicts
from benchmarks.baseline import Baseline
from benchmarks.lab import ENGINES
from benchmarks.report import Result, Table

pytestmark = pytest.mark.requirement("R91")

BASELINE = Baseline(machine="here", ratios={"commits": 12.0, "scans": 2.0})


@pytest.mark.parametrize(("ratio", "word"), [(7.9, "below"), (8.1, "within"), (17.9, "within"), (18.1, "above")])
def test_a_ratio_is_told_from_the_stored_one_beyond_its_spread(ratio: float, word: str) -> None:
    said = BASELINE.compared(Verdict("commits", ratio, 10.0))
    assert said == f"; baseline 12.00 ×, {word} its spread (factor 1.5)"


def test_nothing_is_said_of_a_ratio_that_is_not_stored() -> None:
    assert BASELINE.compared(Verdict("merges", 1.0, 1.0)) == ""


def test_a_recorded_run_replaces_what_it_measured_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    BASELINE.updated([Verdict("commits", 13.004, 10.0)], "there").save(file)
    assert Baseline.load(file) == Baseline(machine="there", ratios={"commits": 13.0, "scans": 2.0})


def test_a_run_finds_its_ratios_by_their_names_in_the_stored_file() -> None:
    rates = {f"{kind} {engine}": [{"rate": 20.0}] for kind in ("deltamirror", "bare") for engine in ENGINES}
    single = Result("single", Table("", (), ()), {**rates, "delta-rs": [{"rate": 2.0}]})
    told = [verdict.what for verdict in verdicts([single])]
    assert told == ["one writer, sqlite", "one writer, postgresql", "one writer, duckdb"]
    assert set(told) <= set(Baseline.load().ratios)


def test_a_short_run_is_not_recorded(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "--quick", "--record"])
    with pytest.raises(SystemExit):
        program.main()
    assert "leave out --quick" in capsys.readouterr().err
