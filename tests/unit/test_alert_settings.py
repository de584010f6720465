"""``[[alerts.rules]]`` and ``[[alerts.channels]]``: what they mean, and how they are refused."""

from pathlib import Path

import pytest

from deltamirror.config import AlertCondition, examine, load, shown_blocks
from deltamirror.errors import InvalidSettings

pytestmark = pytest.mark.requirement("R77")

GOOD = """\
[slo]
p95 = 2

[[alerts.rules]]
name = "late and failing"
all = [
  {metric = "lag_seconds", threshold = 5},
  {metric = "failed_versions", operator = ">=", threshold = 1},
]
for = 30
tables = "sales.*"
severity = "critical"
channels = ["ops"]

[[alerts.rules]]
name = "drift-found"
enabled = false

[[alerts.channels]]
name = "ops"
kind = "webhook"
url = "https://hooks.example/hunter2"
bearer = "hunter3"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "lake.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(folder: Path, text: str) -> InvalidSettings:
    with pytest.raises(InvalidSettings) as caught:
        load(environment={}, config=written(folder, text))
    return caught.value


@pytest.mark.requirement("R81")
def test_rules_and_channels_are_blocks_of_the_file(tmp_path: Path) -> None:
    loaded = load(environment={}, config=written(tmp_path, GOOD))
    rule, off = loaded.settings.alerts.rules
    assert (loaded.settings.slo.p95, loaded.settings.slo.p99) == (2.0, 60.0)
    assert rule.conditions == (
        AlertCondition(metric="lag_seconds", threshold=5.0),
        AlertCondition(metric="failed_versions", operator=">=", threshold=1.0),
    )
    assert (rule.for_, rule.tables, rule.severity, rule.channels) == (30.0, "sales.*", "critical", ("ops",))
    assert (off.name, off.enabled) == ("drift-found", False)
    assert loaded.origins["alerts.rules"].endswith("lake.toml:4")
    assert loaded.origins["alerts.channels"].endswith("lake.toml:19")


def test_no_secret_of_a_channel_is_shown(tmp_path: Path) -> None:
    loaded = load(environment={}, config=written(tmp_path, GOOD))
    shown = shown_blocks(loaded.settings.alerts.channels)
    assert shown == [{"name": "ops", "kind": "webhook", "url": "***", "bearer": "***"}]
    assert "hunter" not in repr(loaded.settings.alerts)


def test_blocks_come_from_the_environment_as_json() -> None:
    given = {"DELTAMIRROR_ALERTS__CHANNELS": '[{"name": "ops", "kind": "slack", "url": "https://hooks.example/x"}]'}
    [channel] = load(environment=given).settings.alerts.channels
    assert (channel.name, channel.kind) == ("ops", "slack")
    with pytest.raises(InvalidSettings, match=r"^DELTAMIRROR_ALERTS__CHANNELS: expected a JSON list of blocks$"):
        load(environment={"DELTAMIRROR_ALERTS__CHANNELS": "ops"})


@pytest.mark.parametrize(
    ("line", "replacement", "place", "message"),
    [
        ("for = 30", "for = -1", 10, "'late and failing': `for`: expected number >= 0.0, found -1"),
        ("for = 30", 'threshold = "much"', 10, "'late and failing': `threshold`: expected number, found 'much'"),
        ("for = 30", "four = 30", 10, "'late and failing': `four`: unknown key"),
        (
            "for = 30",
            "threshold = nan",
            10,
            "'late and failing': `threshold`: expected number >= -1000000000000000.0, found nan",
        ),
        (
            'metric = "lag_seconds"',
            'metric = "lag"',
            6,
            "'late and failing': `all[0].metric`: expected `lag_seconds` or",
        ),
        (", threshold = 5}", "}", 6, "'late and failing': `all[0]`: `threshold` is missing"),
        ('name = "drift-found"\n', "", 15, "number 2: `name` is missing"),
        ('kind = "webhook"', 'kind = "fax"', 21, "'ops': `kind`: expected `log` or `webhook` or"),
        ('bearer = "hunter3"', "bearer = 3", 23, "'ops': `bearer`: expected text, found ***"),
    ],
)
def test_a_wrong_key_is_named_with_its_line_its_block_and_its_key(
    tmp_path: Path, line: str, replacement: str, place: int, message: str
) -> None:
    assert GOOD.count(line) == 1
    error = refused(tmp_path, GOOD.replace(line, replacement))
    section = "channels" if "'ops'" in message else "rules"
    assert error.message.startswith(f"{tmp_path}/lake.toml:{place}: `alerts.{section}` {message}")
    assert "hunter" not in f"{error} {error.hint}"


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        (
            'channels = ["ops"]',
            'channels = ["opps"]',
            "rule 'late and failing': `channels` names 'opps', which is no channel; there are log, ops",
        ),
        (
            'name = "drift-found"',
            'name = "drift"',
            "rule 'drift': it has no condition: give `metric` and `threshold`, `all` or `any`",
        ),
        (
            'name = "drift-found"',
            'name = "drift"\nmetric = "paused"',
            "rule 'drift': `metric` and `threshold` go together: one of them is missing",
        ),
        (
            'name = "drift-found"',
            'name = "late and failing"',
            "`alerts.rules`: the name 'late and failing' is given 2 times",
        ),
        (
            'metric = "failed_versions"',
            'metric = "delivery_attempts"',
            "rule 'late and failing': its metrics are measured of different things: `lag_seconds` of a table, "
            "`delivery_attempts` of a channel",
        ),
        ("url =", "# url =", "channel 'ops': `url` is missing"),
        (
            'url = "https://hooks',
            'url = "ftp://hooks',
            "channel 'ops': `url` does not begin with `https://` or `http://`",
        ),
        (
            'kind = "webhook"',
            'kind = "slack"',
            "channel 'ops': `bearer` is for channels of kind `webhook` or `alertmanager`",
        ),
        ("p95 = 2", "p95 = 90", "`slo.p95` (90.0 s) exceeds `slo.p99` (60.0 s)"),
    ],
)
def test_what_does_not_go_together_is_named(tmp_path: Path, line: str, replacement: str, message: str) -> None:
    assert GOOD.count(line) == 1
    _, problems = examine(environment={}, config=written(tmp_path, GOOD.replace(line, replacement)))
    assert message in [problem.message.partition(": ")[2] for problem in problems]


def test_a_block_that_is_none_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "[alerts]\nrules = 3\n").message.endswith("`alerts.rules`: expected a list of blocks")
    assert refused(tmp_path, "[alerts]\nrules = [3]\n").message.endswith(
        "`alerts.rules` number 1: expected a block of keys and values"
    )
