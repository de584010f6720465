"""Write the pages of docs/reference, and openapi.json, from the code; `--check` only says which are stale."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from deltamirror import errors
from deltamirror.cli import cli
from deltamirror.cli.failure import EXIT_CLOSED_PIPE, EXIT_INTERRUPTED, EXIT_OTHER, EXIT_USAGE
from deltamirror.config import Settings, SloSettings
from deltamirror.config.alerting import METRICS
from deltamirror.config.keys import Key, block_keys, keys
from deltamirror.config.ready_rules import ready_made
from deltamirror.ops.monitoring.collector import STATE_METRICS
from deltamirror.pipeline.failures.policy import POLICIES, Policy
from deltamirror.telemetry.metrics import DESCRIPTIONS
from deltamirror.web.commits.description import description

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when it is run, only its own folder is there

from scripts.action_reference import actions_page, cell, log_rules_page
from scripts.conformance import conformance_page

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Written by scripts/reference_docs.py from the code; edit the code. -->"

CLI_INTRODUCTION = """\
# Command line

Every command takes the common options, before or after its name:

{common}

A result goes to standard output: a table on a terminal, aligned text elsewhere, one JSON document with `--json`
(times are milliseconds since 1970, UTC). A failure goes to standard error: one line `error: …`, mostly one line
`hint: …`, and one line `more: …` that names its section of [the guide](../guides/troubleshooting.md); with `--json`
one JSON object

```json
{{"error": {{"code": "not-found", "exit_status": 11, "message": "…", "hint": "…", "table": "orders"}}}}
```

so standard output holds a result or nothing. [Errors](errors.md) lists codes and exit statuses; a usage error exits
with {usage}, an interrupt (Ctrl-C) with {interrupted}, a reader that closed the pipe with {closed}.
"""

SETTINGS_INTRODUCTION = """\
# Settings

No file is needed: every setting has a default. Values are taken, in this order, from

1. the command line (`--catalog URL` for `catalog.url`), or what Python hands over: `Catalog("sqlite:///lake.db")`,
2. the environment: `DELTAMIRROR_`, section and key, joined by a double underscore: `DELTAMIRROR_CATALOG__URL`
   (a setting that may be absent is unset with `null`),
3. a TOML file: the one that `--config` names, or the variable `DELTAMIRROR_CONFIG`, or `deltamirror.toml` in the
   working folder,
4. the default.

An unknown key or variable, or a value of the wrong type, is an error that names file and line, or the variable, even
where another source overrides it. `deltamirror config show` lists what holds and where it comes from (passwords are
not shown); `deltamirror config check` finds everything that is wrong.

A service that runs takes a changed file within `config.reload`, or at once after SIGHUP, as a whole or not at all:
[Configuration](../guides/configuration.md). Commands and programs read their settings when they begin.

Keys with a table property may differ between tables: by that property, or in a block `[[tables]]` of the file, with
`match = "sales.*"` and the keys, such as `mirror.enabled = false`. The property goes before the blocks, the last block
that matches before the others, and these before what holds for all tables.
"""

ALERTS = """\
## Alert rules

The conditions of a rule compare metrics. A rule may also name metrics of the store that a table is in, and of the
catalog. [Alerts](../guides/alerts.md) shows how to write them.
"""

ERRORS_INTRODUCTION = """\
# Errors

Every error of the package is a `deltamirror.errors.DeltaMirrorError` with a stable `code`, the `exit_status` of the
command line, `retryable` (whether the same call may succeed later), a `hint` for the operator, and typed fields, which
`--json` shows, too. Whatever the error, nothing is half-written. The link of a code leads to what to do about it.

```
{tree}
```
"""

METRICS_INTRODUCTION = """\
# Metrics

Every process measures itself, writers included: `deltamirror.telemetry.metrics.REGISTRY` is a registry of
prometheus_client, and `deltamirror.telemetry.metrics.exposition()` has its content as a scraper reads it. Names begin
with `deltamirror_`, times are seconds, sizes are bytes. No label has a version for its value; the first
`metrics.tables` tables that a process meets have a value of the label `table` of their own, and all others share the
value `other`. [The guide](../guides/mirroring.md#metrics-and-traces) says how to get at them.
"""

PROCESS_METRICS = "## Of the process\n\nCounted and measured in this process, since it started."

STATE_METRICS_TEXT = """\
## Of the catalog

Gauges of a service, or of a process that exports them with `deltamirror.ops.monitoring.collector.exported`: read from
the database at a scrape, by five queries however many tables there are, at most every `metrics.refresh` seconds. All
services of a catalog have the same values: aggregate them with `max`. While the database does not answer they are
missing, and `deltamirror_scrape_errors_total` counts."""

POLICIES_INTRODUCTION = """\
## What the mirror does

A failure stops its own table, and no other. Where trying again may help, the mirror does so after growing pauses
(`mirror.retry_base`, `mirror.retry_factor`, `mirror.retry_max`) for as long as it takes, and escalates it past
`mirror.attempts`; where it does not help, every `mirror.retry_permanent`. A store that asks for a longer pause
is. Failures in a row that speak of the store open its circuit, if most of its tables fail: see `[breaker]` in
[Settings](settings.md#breaker). `deltamirror mirror --once` tries everything at once.

| Code | Severity | Tried again | Opens the breaker | Escalated | What to do | More |
|---|---|---|---|---|---|---|"""

STATUSES = f"""\
## Other exit statuses

| Exit status | When |
|---|---|
| 0 | it worked |
| {EXIT_OTHER} | a defect of deltamirror (code `internal`) |
| 2, 3 | also `deltamirror status --check`: a table is diverged, or lags too much |
| 2 | also `deltamirror validate`: a rule is broken |
| 2, 3 | also `deltamirror verify`: a log has drifted, or versions only wait to be published |
| {EXIT_USAGE} | the command line itself is wrong (code `usage`) |
| {EXIT_INTERRUPTED} | interrupted by Ctrl-C (code `interrupted`) |
| {EXIT_CLOSED_PIPE} | the reader of the output closed the pipe |
"""


def main() -> None:
    pages = {name: page() for name, page in PAGES.items()}
    stale = [name for name, text in pages.items() if current(name) != text]
    if "--check" in sys.argv[1:]:
        if stale:
            sys.exit(f"stale: {', '.join(stale)} in {FOLDER}; run scripts/reference_docs.py")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(pages[name], encoding="utf-8")
        print(f"wrote {FOLDER / name}")


def current(name: str) -> str:
    page = FOLDER / name
    return page.read_text(encoding="utf-8") if page.exists() else ""


def cli_page() -> str:
    introduction = CLI_INTRODUCTION.format(
        common="\n".join(option_rows(common_options())),
        usage=EXIT_USAGE,
        interrupted=EXIT_INTERRUPTED,
        closed=EXIT_CLOSED_PIPE,
    )
    sections = [command_section(path, command) for path, command in commands(cli, "deltamirror")]
    return "\n".join([NOTE, introduction, *sections])


def common_options() -> list[click.Option]:
    return [p for p in cli.params if isinstance(p, click.Option) and p.name != "version"]


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if below := command.get_command(context, name):
                yield from commands(below, f"{path} {name}")
    else:
        yield path, command


def command_section(path: str, command: click.Command) -> str:
    shared = {option.name for option in common_options()}
    own = [p for p in command.params if isinstance(p, click.Option) and p.name not in shared]
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    usage = " ".join(
        [path, *(["[OPTIONS]"] if own else []), *(a.make_metavar(click.Context(command)) for a in arguments)]
    )
    example = (command.epilog or "").removeprefix("Example: ")
    parts = [f"## {path}", "", f"    {usage}", "", paragraphs(command.help or ""), "", f"Example: `{example}`"]
    return "\n".join([*parts, "", *option_rows(own), ""] if own else [*parts, ""])


def paragraphs(text: str) -> str:
    cleaned = re.sub(r"\f.*", "", text, flags=re.DOTALL).strip()
    return "\n".join(line.strip() for line in cleaned.splitlines())


def option_rows(options: list[click.Option]) -> list[str]:
    rows = [f"| `{spelling(option)}` | {cell(option.help or '')} |" for option in options]
    return ["| Option | Meaning |", "|---|---|", *rows]


def spelling(option: click.Option) -> str:
    name = max(option.opts, key=len)
    required = " (required)" if option.required else ""
    return f"{name}{'' if option.is_flag else f' {option.metavar}'}{required}"


def settings_page() -> str:
    sections: dict[str, list[Key]] = {}
    for key in keys(Settings):
        sections.setdefault(key.section, []).append(key)
    tables = [settings_section(section, found) for section, found in sections.items()]
    return "\n".join([NOTE, SETTINGS_INTRODUCTION, *tables, ALERTS, *alert_tables()])


def settings_section(section: str, found: list[Key]) -> str:
    head = [
        "| Key | Meaning | Type | Unit | Default | A change takes effect | Variable | Table property |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [setting_row(key) for key in found]
    text = getattr(Settings(), section).__doc__
    blocks = [line for key in found if key.blocks is not None for line in block_section(key)]
    return "\n".join([f"## [{section}]", "", text, "", *head, *rows, "", *blocks])


def setting_row(key: Key) -> str:
    default = "none" if key.default in (None, ()) else f"`{key.default}`"
    unit, own = key.unit or "–", f"`{key.table_property}`" if key.per_table else "–"
    cells = (f"`{key.name}`", key.text, key.kind, unit, default, str(key.reload), f"`{key.variable}`", own)
    return f"| {' | '.join(map(cell, cells))} |"


def block_section(key: Key) -> list[str]:
    """The keys of a block; in the environment, all blocks are one JSON list."""
    head = ["| Key | Meaning | Type | Unit | Default |", "|---|---|---|---|---|"]
    rows = []
    for own in block_keys(key):
        default = "required" if own.is_required else "none" if own.default is None else f"`{own.default}`"
        cells = (f"`{own.name}`", own.text, own.kind, own.unit or "–", default)
        rows.append(f"| {' | '.join(map(cell, cells))} |")
    return [f"### [[{key.path}]]", "", key.blocks.__doc__ or "", "", *head, *rows, ""]


def alert_tables() -> list[str]:
    metrics = [f"| `{name}` | {info.scope} | {cell(info.text)} |" for name, info in METRICS.items()]
    rules = [
        f"| {troubleshooting(rule.name)} | `{cell(' and '.join(map(str, rule.conditions)))}` | {rule.severity} |"
        for rule in ready_made(SloSettings())
    ]
    return [
        *("### Metrics of rules", "", "| Metric | Of a | Value |", "|---|---|---|", *metrics, ""),
        *("### Ready-made rules", "", "| Name | Condition | Severity |", "|---|---|---|", *rules, ""),
    ]


def errors_page() -> str:
    tree = re.search(r"::\n\n(.*?)\n\n", errors.__doc__ or "", flags=re.DOTALL)
    drawn = "\n".join(line[4:] for line in (tree[1] if tree else "").splitlines())
    head = ["## Codes", "", "| Code | Class | Exit status | Retryable | When |", "|---|---|---|---|---|"]
    rows = [error_row(cls) for cls in error_classes().values()]
    policies = [policy_row(policy) for policy in POLICIES.values()]
    tables = [*head, *rows, "", POLICIES_INTRODUCTION, *policies, ""]
    return "\n".join([NOTE, ERRORS_INTRODUCTION.format(tree=drawn), *tables, STATUSES])


def error_classes() -> Mapping[str, type[errors.DeltaMirrorError]]:
    found = [getattr(errors, name) for name in errors.__all__]
    ordered = sorted(found, key=lambda cls: (cls.exit_status, cls.__name__))
    return {cls.__name__: cls for cls in ordered if cls is not errors.DeltaMirrorError}


def error_row(cls: type[errors.DeltaMirrorError]) -> str:
    retryable = "yes" if cls.retryable else "no"
    when = " ".join((cls.__doc__ or "").split())
    return f"| {troubleshooting(cls.code)} | `{cls.__name__}` | {cls.exit_status} | {retryable} | {cell(when)} |"


def troubleshooting(title: str) -> str:
    """An error or an alert, with a link to what to do about it."""
    return f"[`{title}`](../guides/troubleshooting.md#{title})"


def policy_row(policy: Policy) -> str:
    again = "after growing pauses" if policy.is_retried else "once in a long while"
    counts = "yes" if policy.speaks_of_store else "no"
    remedy, guide = cell(policy.remedy), policy.guide.partition("#")[2].replace("-", " ")
    more = f"[{guide}](../guides/{policy.guide})"
    return f"| `{policy.code}` | {policy.severity} | {again} | {counts} | {policy.escalates} | {remedy} | {more} |"


def metrics_page() -> str:
    process = [(each.name, each.kind, each.labels, each.help) for each in DESCRIPTIONS]
    state = [(each.name, "gauge", each.labels, each.help) for each in STATE_METRICS]
    own = [PROCESS_METRICS, "", *metric_rows(process), "", STATE_METRICS_TEXT, "", *metric_rows(state), ""]
    return "\n".join([NOTE, METRICS_INTRODUCTION, *own])


def metric_rows(metrics: list[tuple[str, str, tuple[str, ...], str]]) -> list[str]:
    head = ["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|"]
    return head + [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels) or '–'} | {cell(text)} |"
        for name, kind, labels, text in metrics
    ]


PAGES: Mapping[str, Callable[[], str]] = {
    "actions.md": lambda: f"{NOTE}\n{actions_page()}",
    "log-rules.md": lambda: f"{NOTE}\n{log_rules_page()}",
    "conformance.md": lambda: f"{NOTE}\n{conformance_page()}",
    "cli.md": cli_page,
    "settings.md": settings_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "openapi.json": lambda: json.dumps(description(), indent=1) + "\n",
}

if __name__ == "__main__":
    main()
