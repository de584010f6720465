"""Rules as they are evaluated: ready-made ones and those of the settings, with every default filled in."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from deltamirror.config import (
    LOG_CHANNEL,
    SEVERITIES,
    AlertChannel,
    AlertCondition,
    AlertRule,
    Scope,
    Settings,
    Severity,
    merged_rules,
    scope_of,
)

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRule:
    """When an alert fires, for which subjects, and where it is told."""

    name: str
    scope: Scope
    required: tuple[AlertCondition, ...] = ()
    """All of these have to hold,"""
    alternatives: tuple[AlertCondition, ...] = ()
    """and one of these, if there are any."""
    hold_ms: int = 0
    severity: Severity = "warning"
    tables: str = "*"
    cooldown_ms: int = 0
    channels: tuple[str, ...] | None = None
    """None: all."""

    @property
    def conditions(self) -> tuple[AlertCondition, ...]:
        """Every condition."""
        return self.required + self.alternatives

    def concerns(self, scope: str, subject: str) -> bool:
        """Whether it is evaluated for a subject."""
        return scope == self.scope and (scope != "table" or fnmatchcase(subject, self.tables))

    def holds(self, values: Mapping[str, float]) -> bool:
        """Whether its conditions hold for these values; a metric without a value fulfils no condition."""
        for each in self.required:  # a loop: it runs for every rule and table
            if not _holds(each, values):
                return False
        return not self.alternatives or any(_holds(each, values) for each in self.alternatives)


def rules_in_force(settings: Settings) -> tuple[ParsedRule, ...]:
    """The rules that are evaluated."""
    merged = merged_rules(settings.alerts.rules, settings.slo)
    return tuple(_rule(each, settings.alerts.cooldown) for each in merged if each.enabled is not False)


def channels_in_force(settings: Settings) -> tuple[AlertChannel, ...]:
    """The channels of the settings, and the log."""
    given = settings.alerts.channels
    has_log = any(channel.name == LOG_CHANNEL for channel in given)
    return given if has_log else (AlertChannel(name=LOG_CHANNEL, kind="log"), *given)


def told_channels(rule: ParsedRule, channels: tuple[AlertChannel, ...], *, scope: str, subject: str) -> tuple[str, ...]:
    """The channels that an alert is told to. One about a channel is told to the others, and always to the log."""
    is_own = scope == "channel"
    named = [
        channel.name
        for channel in channels
        if SEVERITIES.index(rule.severity) >= SEVERITIES.index(channel.severity)
        and (rule.channels is None or channel.name in rule.channels)
        and not (is_own and channel.name == subject)
    ]
    return tuple(named) if named or not is_own else (LOG_CHANNEL,)


def _holds(condition: AlertCondition, values: Mapping[str, float]) -> bool:
    value = values.get(condition.metric)
    return value is not None and _OPERATORS[condition.operator](value, condition.threshold)


def _rule(given: AlertRule, cooldown: float) -> ParsedRule:
    scope = scope_of([condition.metric for condition in given.conditions])
    if scope is None:
        raise ValueError(f"the settings hold a rule without a scope: {given.name}")  # load() refuses it
    return ParsedRule(
        name=given.name,
        scope=scope,
        required=given.required,
        alternatives=given.any or (),
        hold_ms=int((given.for_ or 0) * 1000),
        severity=given.severity or "warning",
        tables=given.tables or "*",
        cooldown_ms=int((cooldown if given.cooldown is None else given.cooldown) * 1000),
        channels=given.channels,
    )
