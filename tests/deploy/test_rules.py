"""The rules, queries and examples for Prometheus, Alertmanager and Grafana: as their own tools check them."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.monitoring.dashboards import DEPLOY, panels, queries
from tests.support.servers.debian import installed

ROOT = Path(__file__).parents[2]
RULES = DEPLOY / "prometheus" / "alerts.yml"
GUIDE = ROOT / "docs" / "guides" / "monitoring.md"


def checked(program: str, *arguments: str, package: str = "prometheus", folder: Path = DEPLOY) -> str:
    tool = installed(program, package=package)
    done = subprocess.run([tool, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@pytest.mark.requirement("R61")
def test_the_rules_are_right_and_pass_their_own_tests() -> None:
    assert "SUCCESS" in checked("promtool", "check", "rules", "prometheus/alerts.yml")
    tested = checked("promtool", "test", "rules", "alerts_test.yml", "slo_test.yml", folder=DEPLOY / "prometheus")
    assert tested.count("SUCCESS") == 2


def test_every_alert_is_seen_to_fire_by_a_test_of_the_rules() -> None:
    text = "".join((DEPLOY / "prometheus" / name).read_text() for name in ("alerts_test.yml", "slo_test.yml"))
    fired = set(re.findall(r'alertname="(\w+)", alertstate="firing", (?:\w+="[^"]+"(?:, )?)+}\', value: 1', text))
    assert fired | {"DeltamirrorLag"} == set(alerts())


@pytest.mark.requirement("R99")
@pytest.mark.parametrize("name", sorted(alerts()))
def test_every_alert_says_what_to_run_and_has_its_section_in_the_guide(name: str) -> None:
    alert = alerts()[name]
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert set(alert["annotations"]) == {"summary", "description", "command", "runbook"}
    assert alert["annotations"]["runbook"] == f"docs/guides/monitoring.md#{name.lower()}"
    assert f"\n### {name}\n" in GUIDE.read_text()


def test_the_examples_of_prometheus_and_alertmanager_are_right() -> None:
    for example in ("prometheus/prometheus.yml", "docker/prometheus.yml"):
        checked("promtool", "check", "config", "--syntax-only", example)
    checked("amtool", "check-config", "alertmanager/alertmanager.yml", package="prometheus-alertmanager")


def test_rules_and_dashboard_name_metrics_that_there_are() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    there = set(re.findall(r'"(deltamirror_\w+)"', sources))
    assert len(there) > 20
    expressions = [rule["expr"] for rule in rules()] + [query for _, query in queries()]
    named = {name for text in expressions for name in re.findall(r"\bdeltamirror_\w+", text)}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= there


def test_the_dashboard_has_a_place_for_every_panel_and_a_panel_for_every_subject() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        cells = {(x + column, y + line) for column in range(width) for line in range(height)}
        assert not taken & cells, panel["title"]
        assert x + width <= 24
        taken |= cells
    shown = {"Lag by table", "Backlog", "Failures by class", "Circuits", "Error budget left", "Mean time of a stage"}
    assert shown <= {title for title, _ in queries()}
    assert len({panel["id"] for panel in panels()}) == len(panels())
