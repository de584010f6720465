"""Which alerts a silence is for: by patterns on a terminal, by one alert or one table on the page."""

import glob
from collections.abc import Sequence
from fnmatch import fnmatchcase

from deltamirror.config import Settings
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.ops.alerts.rules import rules_in_force
from deltamirror.txnlog.alerts import Silence, has_alerts
from deltamirror.txnlog.database.access import Database


def patterns_of(target: str, table: str | None, settings: Settings, tables: Sequence[str]) -> tuple[str, str]:
    """The patterns of rules and of subjects that a pattern of either means, with one of tables for a rule."""
    rules = _rule_names(settings)
    if any(fnmatchcase(rule, target) for rule in rules):
        return target, table or "*"
    if table is not None:
        raise _no_rule(target, settings)
    if any(fnmatchcase(name, target) for name in tables):
        return "*", target
    raise NotFound(f"neither a rule nor a table is called {target!r}", hint=f"the rules are: {', '.join(rules)}")


def exact_patterns(database: Database, rule: str, subject: str, settings: Settings) -> tuple[str, str]:
    """The patterns of one rule and one subject; without a rule all of the subject's, without a subject all of the rule.

    A rule that these settings do not have may be one of another service's: then there is an alert of it.
    """
    if not rule and not subject:
        raise InvalidInput("a silence is for a rule, for a table, or for both", hint="choose one of the alerts")
    if rule and rule not in _rule_names(settings):
        with database.read() as connection:
            if not has_alerts(connection, rule):
                raise _no_rule(rule, settings)
    return glob.escape(rule) or "*", glob.escape(subject) or "*"


def words_of(silence: Silence) -> str:
    """What is silenced."""
    whose = "" if silence.subject == "*" else f" of {silence.subject}"
    return f"{'all rules' if silence.rule == '*' else f'rule {silence.rule}'}{whose}"


def _rule_names(settings: Settings) -> list[str]:
    return [rule.name for rule in rules_in_force(settings)]


def _no_rule(name: str, settings: Settings) -> NotFound:
    return NotFound(f"no rule is called {name!r}", hint=f"the rules are: {', '.join(_rule_names(settings))}")
