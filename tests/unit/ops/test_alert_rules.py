"""Rules: which values they hold for, and what becomes of an alert from one evaluation to the next."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamirror.config import (
    AlertChannel,
    AlertCondition,
    AlertRule,
    AlertSettings,
    Secret,
    Settings,
    SloSettings,
)
from deltamirror.config.alerting import Operator
from deltamirror.ops.alerts.evaluation import evaluate
from deltamirror.ops.alerts.readings import Reading
from deltamirror.ops.alerts.rules import ParsedRule, channels_in_force, rules_in_force, told_channels
from deltamirror.txnlog.alerts.records import AlertChange, AlertKey, AlertRow, AlertState, Move

pytestmark = pytest.mark.requirement("R81")

LAG = AlertCondition(metric="lag_seconds", threshold=60.0)
FAILED = AlertCondition(metric="failed_versions", operator=">=", threshold=3.0)
OPEN = AlertCondition(metric="circuit_state", operator="==", threshold=2.0)


@pytest.mark.parametrize(
    ("operator", "below", "at", "above"),
    [
        (">", False, False, True),
        (">=", False, True, True),
        ("<", True, False, False),
        ("<=", True, True, False),
        ("==", False, True, False),
        ("!=", True, False, True),
    ],
)
def test_an_operator_compares_with_the_threshold(operator: Operator, below: bool, at: bool, above: bool) -> None:
    condition = AlertCondition(metric="lag_seconds", operator=operator, threshold=60.0)
    rule = ParsedRule(name="r", scope="table", required=(condition,))
    assert [rule.holds({"lag_seconds": value}) for value in (59.0, 60.0, 61.0)] == [below, at, above]


@pytest.mark.parametrize(("lag", "failed", "is_open"), list(product((False, True), repeat=3)))
def test_all_conditions_and_one_of_the_alternatives_have_to_hold(lag: bool, failed: bool, is_open: bool) -> None:
    values = {"lag_seconds": 61.0 if lag else 1.0, "failed_versions": 3.0 if failed else 0.0,
              "circuit_state": 2.0 if is_open else 0.0}  # fmt: skip

    def holds(required: tuple[AlertCondition, ...], alternatives: tuple[AlertCondition, ...] = ()) -> bool:
        return ParsedRule(name="r", scope="table", required=required, alternatives=alternatives).holds(values)

    assert holds((LAG, FAILED, OPEN)) == (lag and failed and is_open)
    assert holds((), (LAG, FAILED, OPEN)) == (lag or failed or is_open)
    assert holds((LAG,), (FAILED, OPEN)) == (lag and (failed or is_open))


def test_a_metric_without_a_value_fulfils_no_condition() -> None:
    negated = AlertCondition(metric="lag_seconds", operator="!=", threshold=5.0)
    assert not ParsedRule(name="r", scope="table", required=(negated,)).holds({})


@pytest.mark.requirement("R77")
def test_a_threshold_of_one_table_concerns_no_other_table() -> None:
    own = AlertRule(name="lag of a", metric="lag_seconds", threshold=10.0, tables="a")
    rules = rules_in_force(Settings(alerts=AlertSettings(rules=(own,))))
    late = [Reading(scope="table", subject=name, values={"lag_seconds": 15.0}) for name in ("a", "b")]
    assert [change.key for change in evaluate(rules, late, [], now=0)] == [AlertKey("lag of a", "table", "a")]


@pytest.mark.requirement("R77")
def test_ready_made_rules_follow_the_settings_of_the_objective_and_are_changed_by_name() -> None:
    changed = (
        AlertRule(name="lag-warning", channels=("pager",)),
        AlertRule(name="drift-found", enabled=False),
        AlertRule(name="no-progress", any=(LAG, FAILED), severity="info"),
    )
    settings = Settings(slo=SloSettings(lag_warning=20.0), alerts=AlertSettings(rules=changed, cooldown=7.0))
    rules = {rule.name: rule for rule in rules_in_force(settings)}
    assert rules["lag-warning"].required == (AlertCondition(metric="lag_seconds", threshold=20.0),)
    assert (rules["lag-warning"].channels, rules["lag-warning"].cooldown_ms) == (("pager",), 7_000)
    assert rules["lag-critical"].required[0].threshold == 300.0
    assert "drift-found" not in rules
    assert (rules["no-progress"].required, rules["no-progress"].alternatives) == ((), (LAG, FAILED))
    assert (rules["no-progress"].scope, rules["no-progress"].severity) == ("table", "info")


@pytest.mark.requirement("R80")
def test_a_rule_goes_to_its_channels_and_a_channel_gets_what_is_grave_enough() -> None:
    pager = AlertChannel(name="pager", kind="webhook", url=Secret("https://x"), severity="critical")
    mail = AlertChannel(name="mail", kind="apprise", url=Secret("mailto://x"))
    channels = channels_in_force(Settings(alerts=AlertSettings(channels=(pager, mail))))

    def told(**rule: Any) -> tuple[str, ...]:
        made = ParsedRule(name="r", scope="table", required=(LAG,), **rule)
        return told_channels(made, channels, scope="table", subject="t")

    assert told(severity="critical") == ("log", "pager", "mail")
    assert told(severity="warning") == ("log", "mail")
    assert told(severity="critical", channels=("pager",)) == ("pager",)


def test_an_alert_about_a_channel_is_told_to_the_others() -> None:
    mail = AlertChannel(name="mail", kind="apprise", url=Secret("mailto://x"))
    channels = channels_in_force(Settings(alerts=AlertSettings(channels=(mail,))))
    rule = ParsedRule(name="r", scope="channel", required=(LAG,), severity="warning")
    assert told_channels(rule, channels, scope="channel", subject="mail") == ("log",)
    only = replace(rule, channels=("mail",))
    assert told_channels(only, channels, scope="channel", subject="mail") == ("log",)


KEY = AlertKey("r", "table", "t")


def reading(*, bad: bool) -> Reading:
    return Reading(scope="table", subject="t", values={"lag_seconds": 61.0 if bad else 0.0})


def rule_of(*, hold: int = 0, cooldown: int = 0) -> ParsedRule:
    return ParsedRule(name="r", scope="table", required=(LAG,), hold_ms=hold, cooldown_ms=cooldown)


def row(state: AlertState, *, since: int = 0, announced: bool = False, notified_at: int | None = None) -> AlertRow:
    return AlertRow(rule="r", scope="table", subject="t", severity="warning", state=state, since=since,
                    announced=announced, notified_at=notified_at)  # fmt: skip


PENDING, FIRING, RESOLVED = AlertState.PENDING, AlertState.FIRING, AlertState.RESOLVED


@pytest.mark.parametrize(
    ("hold", "known", "bad", "silenced", "expected"),
    [
        pytest.param(0, None, False, False, None, id="well"),
        pytest.param(0, None, True, False, (Move.FIRE, True), id="fires at once"),
        pytest.param(0, None, True, True, (Move.FIRE, False), id="fires silenced"),
        pytest.param(9, None, True, False, (Move.BEGIN, False), id="begins"),
        pytest.param(9, row(PENDING, since=92), True, False, None, id="does not hold for long enough"),
        pytest.param(9, row(PENDING, since=91), True, False, (Move.FIRE, True), id="held for long enough"),
        pytest.param(9, row(PENDING, since=91), False, False, (Move.FORGET, False), id="is over before it fired"),
        pytest.param(0, row(FIRING, announced=True), True, False, None, id="told already"),
        pytest.param(0, row(FIRING), True, True, None, id="stays silenced"),
        pytest.param(0, row(FIRING), True, False, (Move.ANNOUNCE, True), id="silence is over"),
        pytest.param(0, row(FIRING, announced=True), False, True, (Move.RESOLVE, True), id="resolved, was told"),
        pytest.param(0, row(FIRING), False, False, (Move.RESOLVE, False), id="resolved, was not told"),
        pytest.param(0, row(RESOLVED), False, False, None, id="stays resolved"),
        pytest.param(0, row(RESOLVED, notified_at=90), True, False, (Move.FIRE, True), id="fires again"),
        pytest.param(0, row(RESOLVED, notified_at=91), True, False, (Move.FIRE, False), id="again, in its cooldown"),
        pytest.param(0, row(FIRING, notified_at=90), True, False, (Move.ANNOUNCE, True), id="cooldown is over"),
    ],
)
def test_the_moves_of_an_alert(
    hold: int, known: AlertRow | None, bad: bool, silenced: bool, expected: tuple[Move, bool] | None
) -> None:
    changes = evaluate(
        [rule_of(hold=hold, cooldown=10)],
        [reading(bad=bad)],
        [] if known is None else [known],
        now=100,
        is_silenced=lambda _: silenced,
    )
    assert [(change.move, change.tells) for change in changes] == ([] if expected is None else [expected])


@pytest.mark.parametrize("gone", ["rule", "subject"])
def test_an_alert_whose_rule_or_subject_is_gone_is_resolved(gone: str) -> None:
    rules = [] if gone == "rule" else [rule_of()]
    readings = [] if gone == "subject" else [reading(bad=True)]
    [change] = evaluate(rules, readings, [row(FIRING, announced=True)], now=100)
    assert (change.move, change.tells) == (Move.RESOLVE, True)


@dataclass
class Model:
    """One alert by the words of the guide, with its whole past at hand."""

    hold: int
    cooldown: int
    bad_since: int | None = None
    fires: bool = False
    was_told: bool = False
    told_at: int | None = None

    def step(self, now: int, *, bad: bool, silenced: bool) -> str | None:
        """What is told at this moment."""
        if not bad:
            resolved = self.fires and self.was_told
            self.bad_since, self.fires, self.was_told = None, False, False
            return "resolved" if resolved else None
        self.bad_since = now if self.bad_since is None else self.bad_since
        self.fires = self.fires or now - self.bad_since >= self.hold
        cool = self.told_at is None or now - self.told_at >= self.cooldown
        if self.fires and not self.was_told and cool and not silenced:
            self.was_told, self.told_at = True, now
            return "firing"
        return None


def applied(known: AlertRow | None, change: AlertChange) -> AlertRow | None:
    """What SQL holds after a change."""
    if change.move is Move.FORGET:
        return None if known is None or known.fired_at is None else replace(known, state=RESOLVED)
    if change.move is Move.RESOLVE:
        assert known is not None
        return replace(known, state=RESOLVED, announced=False)
    told: dict[str, Any] = {"notified_at": change.at} if change.tells else {}
    if change.move is Move.ANNOUNCE:
        assert known is not None
        return replace(known, announced=True, **told)
    state = PENDING if change.move is Move.BEGIN else FIRING
    since = known.since if known is not None and known.state is PENDING else change.at
    base = known or row(state)
    fired: dict[str, Any] = {} if change.move is Move.BEGIN else {"fired_at": change.at}
    return replace(base, state=state, since=since, announced=change.tells, **told, **fired)


@given(
    hold=st.sampled_from([0, 5, 12]),
    cooldown=st.sampled_from([0, 8, 30]),
    steps=st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.booleans()), max_size=40),
)
def test_whatever_happens_what_is_told_is_what_the_guide_says(
    hold: int, cooldown: int, steps: list[tuple[int, bool, bool]]
) -> None:
    model, known, now = Model(hold, cooldown), None, 0
    for pause, bad, silenced in steps:
        now += pause
        changes = evaluate(
            [rule_of(hold=hold, cooldown=cooldown)],
            [reading(bad=bad)],
            [] if known is None else [known],
            now=now,
            is_silenced=(lambda _: True) if silenced else (lambda _: False),
        )
        assert len(changes) <= 1
        told = [change for change in changes if change.tells]
        expected = model.step(now, bad=bad, silenced=silenced)
        assert [("resolved" if each.move is Move.RESOLVE else "firing") for each in told] == (
            [] if expected is None else [expected]
        )
        for change in changes:
            known = applied(known, change)
