"""The rules that are there without settings, and what settings make of them."""

from collections.abc import Iterator
from typing import Final

import msgspec

from deltamirror.config.alerting import AlertRule, SloSettings


def ready_made(slo: SloSettings) -> tuple[AlertRule, ...]:
    """Rules for what an operator has to know of, whatever the tables are."""
    return (
        AlertRule(name="lag-warning", metric="lag_seconds", threshold=slo.lag_warning, severity="warning"),
        AlertRule(name="lag-critical", metric="lag_seconds", threshold=slo.lag_critical, severity="critical"),
        AlertRule(name="failure-escalated", metric="escalations", threshold=0.0, severity="critical"),
        AlertRule(name="quarantined", metric="quarantined", threshold=0.0, severity="critical"),
        AlertRule(name="circuit-open", metric="circuit_state", operator="==", threshold=2.0, severity="warning"),
        AlertRule(name="drift-found", metric="drift_objects", threshold=0.0, severity="warning"),
        AlertRule(name="checkpoint-age", metric="checkpoint_age_versions", threshold=1_000.0, severity="warning"),
        AlertRule(name="no-progress", metric="no_progress_seconds", threshold=120.0, severity="critical"),
        AlertRule(
            name="notification-failed", metric="delivery_attempts", operator=">=", threshold=3.0, severity="warning"
        ),
    )


READY_MADE_NAMES: Final = tuple(rule.name for rule in ready_made(SloSettings()))


def merged_rules(given: tuple[AlertRule, ...], slo: SloSettings) -> Iterator[AlertRule]:
    """The ready-made rules, changed by the blocks that have their names, then the rules of the settings."""
    blocks = {block.name: block for block in given}
    for rule in ready_made(slo):
        yield _changed(rule, blocks.pop(rule.name)) if rule.name in blocks else rule
    yield from blocks.values()


def _changed(rule: AlertRule, block: AlertRule) -> AlertRule:
    """A ready-made rule with the keys that a block gives; other conditions take the place of its own."""
    kept = msgspec.structs.asdict(rule)
    changes = {name: value for name, value in msgspec.structs.asdict(block).items() if value is not None}
    if (block.all or block.any) and block.metric is None:
        kept |= {"metric": None, "threshold": None, "operator": None}
    return AlertRule(**{**kept, **changes})
