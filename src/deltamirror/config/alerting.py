"""The settings of alerts and of the service level objective (SLO)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec

from deltamirror.config.keys import FINITE, NOT_NEGATIVE, POSITIVE, Reload, described
from deltamirror.config.secrets import Secret

Scope: TypeAlias = Literal["table", "store", "channel", "catalog"]
Severity: TypeAlias = Literal["info", "warning", "critical"]
Operator: TypeAlias = Literal[">", ">=", "<", "<=", "==", "!="]
Metric: TypeAlias = Literal[
    "lag_seconds",
    "lag_versions",
    "stalled_seconds",
    "failed_versions",
    "escalations",
    "quarantined",
    "paused",
    "drift_objects",
    "checkpoint_age_versions",
    "circuit_state",
    "delivery_attempts",
    "backlog_versions",
    "no_progress_seconds",
]

SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
"""The least severe first."""

LOG_CHANNEL: Final = "log"
"""The channel that is always there: the process's own log."""


class MetricInfo(NamedTuple):
    """What a metric is measured of, and what its value is."""

    scope: Scope
    text: str


METRICS: Final[Mapping[str, MetricInfo]] = {
    "lag_seconds": MetricInfo(
        "table", "how long ago the oldest version that is not published was committed, attempted or not; 0 if all are"
    ),
    "lag_versions": MetricInfo("table", "how many versions are not published"),
    "stalled_seconds": MetricInfo(
        "table",
        "how long nothing of the table was published though versions wait: a backlog that shrinks is not stalled",
    ),
    "failed_versions": MetricInfo("table", "how many versions failed, and wait for their next attempt"),
    "escalations": MetricInfo("table", "how many versions and checkpoints failed past the limit, or in a lasting way"),
    "quarantined": MetricInfo(
        "table", "1 while the table is in quarantine, for a diverged or altered log; 0 otherwise"
    ),
    "paused": MetricInfo("table", "1 while the table is paused, by itself or with all others; 0 otherwise"),
    "drift_objects": MetricInfo(
        "table", "how many commits and checkpoints a comparison found missing or altered within the last hour"
    ),
    "checkpoint_age_versions": MetricInfo("table", "how many versions were published since the newest checkpoint"),
    "circuit_state": MetricInfo("store", "the circuit of the store: 0 closed, 1 half-open, 2 open"),
    "delivery_attempts": MetricInfo("channel", "how many attempts to send a notification failed in a row"),
    "backlog_versions": MetricInfo("catalog", "how many versions of all tables are not published"),
    "no_progress_seconds": MetricInfo(
        "catalog", "how long nothing at all was published though versions of active tables wait"
    ),
}
"""The metrics that rules compare."""

_NESTING: Final[Sequence[frozenset[str]]] = (
    frozenset({"catalog"}),
    frozenset({"store", "catalog"}),
    frozenset({"channel", "catalog"}),
    frozenset({"table", "store", "catalog"}),
)
"""Which scopes one rule may combine: a table also has the metrics of its store, and everything those of the catalog."""


def scope_of(metrics: Sequence[str]) -> Scope | None:
    """What a rule over these metrics is evaluated for: the narrowest scope; None where they do not go together."""
    scopes = {METRICS[metric].scope for metric in metrics}
    if not any(scopes <= together for together in _NESTING):
        return None
    order: tuple[Scope, ...] = ("table", "store", "channel", "catalog")
    return next((scope for scope in order if scope in scopes), None)


class SloSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a commit may take to become visible in `_delta_log/`."""

    p95: Annotated[
        float,
        POSITIVE,
        described(
            "95 % of the versions are visible within this time after their commit: the error budget is the other 5 %.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 5.0
    p99: Annotated[
        float,
        POSITIVE,
        described("The same for 99 % of the versions.", unit="s", reload=Reload.LIVE),
    ] = 60.0
    lag_warning: Annotated[
        float,
        POSITIVE,
        described("The lag above which the rule `lag-warning` fires.", unit="s", reload=Reload.LIVE),
    ] = 60.0
    lag_critical: Annotated[
        float,
        POSITIVE,
        described("The lag above which the rule `lag-critical` fires.", unit="s", reload=Reload.LIVE),
    ] = 300.0


class AlertCondition(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: a metric, an operator, a threshold."""

    metric: Annotated[Metric, described("What is measured.", reload=Reload.LIVE)]
    operator: Annotated[Operator, described("How it is compared.", reload=Reload.LIVE)] = ">"
    threshold: Annotated[float, FINITE, described("What it is compared with.", reload=Reload.LIVE)]

    def __str__(self) -> str:
        return f"{self.metric} {self.operator} {self.threshold:g}"


class AlertRule(msgspec.Struct, frozen=True, kw_only=True, rename={"for_": "for"}):
    """When an alert fires. A block with the name of a ready-made rule changes the keys that it gives."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100), described("Its name.", reload=Reload.LIVE)]
    metric: Annotated[Metric | None, described("What is measured, in a rule of one condition.", reload=Reload.LIVE)] = (
        None
    )
    operator: Annotated[Operator | None, described("How it is compared; `>` unless given.", reload=Reload.LIVE)] = None
    threshold: Annotated[
        Annotated[float, FINITE] | None, described("What it is compared with.", reload=Reload.LIVE)
    ] = None
    all: Annotated[
        tuple[AlertCondition, ...] | None,
        described("Further conditions, all of which have to hold.", reload=Reload.LIVE),
    ] = None
    any: Annotated[
        tuple[AlertCondition, ...] | None,
        described("Further conditions, one of which has to hold.", reload=Reload.LIVE),
    ] = None
    for_: Annotated[
        Annotated[float, NOT_NEGATIVE] | None,
        described(
            "How long the conditions have to hold before the alert fires; 0 unless given.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = None
    severity: Annotated[Severity | None, described("How grave it is; `warning` unless given.", reload=Reload.LIVE)] = (
        None
    )
    tables: Annotated[
        str | None,
        described("The tables that it concerns, as a pattern such as `sales.*`; all unless given.", reload=Reload.LIVE),
    ] = None
    cooldown: Annotated[
        Annotated[float, NOT_NEGATIVE] | None,
        described(
            "How long after a notification the next one of the same alert may be sent; `alerts.cooldown` unless given.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = None
    channels: Annotated[
        tuple[str, ...] | None,
        described("The names of the channels that get it; all channels unless given.", reload=Reload.LIVE),
    ] = None
    enabled: Annotated[bool | None, described("Whether it is evaluated.", reload=Reload.LIVE)] = None

    @property
    def conditions(self) -> tuple[AlertCondition, ...]:
        """Every condition, wherever it is written."""
        return (*self.required, *(self.any or ()))

    @property
    def required(self) -> tuple[AlertCondition, ...]:
        """The conditions all of which have to hold."""
        if self.metric is None or self.threshold is None:
            return self.all or ()
        own = AlertCondition(metric=self.metric, operator=self.operator or ">", threshold=self.threshold)
        return (own, *(self.all or ()))


class AlertChannel(msgspec.Struct, frozen=True, kw_only=True):
    """Where notifications go. The channel `log` is always there."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100), described("Its name.", reload=Reload.LIVE)]
    kind: Annotated[
        Literal["log", "webhook", "slack", "alertmanager", "apprise"],
        described(
            "What it speaks: lines of the log, JSON by HTTP, Slack's incoming webhooks, Alertmanager's API v2, or one "
            "of the services of `apprise` (e-mail, Teams, Telegram, …; extra `alerts`).",
            reload=Reload.LIVE,
        ),
    ]
    url: Annotated[
        Secret | None,
        described(
            "Its address: `https://…`, with `user:password@` where it wants HTTP Basic, or what `apprise` takes, such "
            "as `mailto://…`. Never shown.",
            reload=Reload.LIVE,
        ),
    ] = None
    bearer: Annotated[
        Secret | None,
        described(
            "A token that is sent as `Authorization: Bearer …` (webhook, alertmanager). Never shown.",
            reload=Reload.LIVE,
        ),
    ] = None
    signing_key: Annotated[
        Secret | None,
        described(
            "Webhook: the body is signed with this key, `X-Deltamirror-Signature: sha256=` and the HMAC in "
            "hexadecimal. Never shown.",
            reload=Reload.LIVE,
        ),
    ] = None
    severity: Annotated[Severity, described("The least severe alert that it gets.", reload=Reload.LIVE)] = "info"
    repeat: Annotated[
        Annotated[float, NOT_NEGATIVE] | None,
        described(
            "How often a notification is sent again while the alert fires; 0: never. Unless given, 60 for "
            "`alertmanager`, which forgets alerts that are not repeated, and 0 otherwise.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = None


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which alerts fire, and where notifications go: all services evaluate the rules, one sends each notification."""

    enabled: Annotated[bool, described("Evaluate rules and send notifications.", reload=Reload.LIVE)] = True
    interval: Annotated[
        float, POSITIVE, described("How often the rules are evaluated.", unit="s", reload=Reload.LIVE)
    ] = 15.0
    cooldown: Annotated[
        float,
        NOT_NEGATIVE,
        described(
            "How long after a notification the next one of the same alert may be sent, for rules that do not say it.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 300.0
    timeout: Annotated[
        float,
        POSITIVE,
        described("How long one notification may take before it counts as failed.", unit="s", reload=Reload.LIVE),
    ] = 10.0
    retry_base: Annotated[
        float,
        POSITIVE,
        described(
            "The pause before a notification that failed is sent again; it doubles each time.",
            unit="s",
            reload=Reload.LIVE,
        ),
    ] = 5.0
    retry_max: Annotated[
        float,
        POSITIVE,
        described("The longest pause between two attempts to send a notification.", unit="s", reload=Reload.LIVE),
    ] = 300.0
    rules: Annotated[
        tuple[AlertRule, ...], described("Rules beside the ready-made ones, or changes of those.", reload=Reload.LIVE)
    ] = ()
    channels: Annotated[tuple[AlertChannel, ...], described("Channels beside `log`.", reload=Reload.LIVE)] = ()

    def contradictions(self, ready_made: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Keys whose values do not go together, each with what is wrong."""
        yield from ((name, what) for name in ("rules", "channels") for what in _repeated(name, getattr(self, name)))
        for channel in self.channels:
            yield from (("channels", f"channel {channel.name!r}: {what}") for what in _channel_problems(channel))
        known = {LOG_CHANNEL, *(channel.name for channel in self.channels)}
        for rule in self.rules:
            problems = _rule_problems(rule, known, ready_made)
            yield from (("rules", f"rule {rule.name!r}: {what}") for what in problems)


def _repeated(name: str, blocks: Sequence[AlertRule | AlertChannel]) -> Iterator[str]:
    for found, count in Counter(block.name for block in blocks).items():
        if count > 1:
            yield f"`alerts.{name}`: the name {found!r} is given {count} times"


def _channel_problems(channel: AlertChannel) -> Iterator[str]:
    if (channel.name == LOG_CHANNEL) != (channel.kind == "log"):
        yield "the name `log` is that of the channel of kind `log`, and of no other"
    if channel.kind != "log" and channel.url is None:
        yield "`url` is missing"
    url = "" if channel.url is None else channel.url.reveal()
    if url and channel.kind in ("webhook", "slack", "alertmanager") and not url.startswith(("http://", "https://")):
        yield "`url` does not begin with `https://` or `http://`"
    if channel.bearer is not None and "@" in url.partition("://")[2].partition("/")[0]:
        yield "its `url` has a user, and `bearer` is given: a request is authorised in one way"
    if channel.signing_key is not None and channel.kind != "webhook":
        yield "`signing_key` is for channels of kind `webhook`"
    if channel.bearer is not None and channel.kind not in ("webhook", "alertmanager"):
        yield "`bearer` is for channels of kind `webhook` or `alertmanager`"


def _rule_problems(rule: AlertRule, channels: set[str], ready_made: Sequence[str]) -> Iterator[str]:
    changes = rule.name in ready_made
    if (rule.metric is None) != (rule.threshold is None) and not changes:
        yield "`metric` and `threshold` go together: one of them is missing"
    elif not rule.conditions and not changes:
        yield "it has no condition: give `metric` and `threshold`, `all` or `any`"
    elif rule.conditions and scope_of([condition.metric for condition in rule.conditions]) is None:
        yield f"its metrics are measured of different things: {_scopes(rule)}"
    elif rule.tables is not None and rule.conditions and scope_of([each.metric for each in rule.conditions]) != "table":
        yield "`tables` is for rules with a metric of tables"
    for channel in rule.channels or ():
        if channel not in channels:
            yield f"`channels` names {channel!r}, which is no channel; there are {', '.join(sorted(channels))}"


def _scopes(rule: AlertRule) -> str:
    return ", ".join(f"`{each.metric}` of a {METRICS[each.metric].scope}" for each in rule.conditions)
