"""``deltamirror validate``: whether the log of any Delta table, or one of its files, is as the protocol has it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from deltamirror.cli.invocation import Invocation, with_invocation
from deltamirror.cli.output import Lines, answer, counted
from deltamirror.cli.parameters import not_empty
from deltamirror.delta.names import LOG_DIRECTORY, SIDECARS, is_log_name
from deltamirror.deltalog.rules.findings import Finding
from deltamirror.errors import Diverged
from deltamirror.ops.validate.validating import Validated, validate_file, validate_log
from deltamirror.storage.store import Store
from deltamirror.wiring import open_location

_FOLDERS: Final = (SIDECARS, LOG_DIRECTORY)
"""The folders of a table that have files of its log, the deepest first."""


@click.command(epilog="Example: deltamirror validate s3://lake/orders")
@click.argument("target", metavar="LOCATION|LOG|FILE", callback=not_empty)
@with_invocation
def validate(invocation: Invocation, *, target: str) -> None:
    """Check the log of any Delta table against the protocol.

    The table may be of any writer and in any store. A LOCATION is its folder, a LOG its _delta_log, a FILE one of the
    files in there: then all of the log is read, and the findings of this file are told. A file that lies elsewhere is
    checked by itself. Nothing is written, and no catalog is needed; the keys of [storage] have to let us list and read.

    Every line of every commit, checkpoints with their sidecars, _last_checkpoint, version checksums and compactions are
    checked, each by itself and against the others. A finding names the file, the line or row, the field, the rule, what
    was expected and found, and what to do. An error keeps a reader out, or lets it read something else than others
    do; a warning costs time, or old versions. The exit status is 0 if no rule is broken, and 2 if one is.
    """
    chosen = _parse_target(target)
    found = chosen.validated(open_location(invocation.loaded().settings, chosen.location))
    answer({"valid": found.is_valid, **asdict(found)}, Lines(tuple(_lines(found))), json=invocation.json)
    if not found.is_valid:
        raise click.exceptions.Exit(Diverged.exit_status)


def _lines(found: Validated) -> Iterator[str]:
    yield from finding_lines(found.findings)
    if more := sum(found.counts.values()) - len(found.findings):
        yield f"… and {counted(more, 'further finding')}"
    checked = counted(found.objects, "file") if found.file is None else found.file
    broken = "no rule is broken" if found.is_valid else counted(sum(found.counts.values()), "finding")
    readable = {None: "", True: f"; readers can open version {found.version}", False: "; readers cannot open the table"}
    yield f"{found.location}, {checked}: {broken}{readable[found.readable]}."


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Each finding in three lines: where, what, and what to do."""
    for each in findings:
        yield f"{each.severity} {each.rule}: {_place(each)}"
        yield f"  expected: {each.expected}; found: {each.found}"
        yield f"  {each.remedy}; then `{each.command}`"


def _place(finding: Finding) -> str:
    parts = [finding.file]
    parts += [] if finding.line is None else [f"line {finding.line}"]
    parts += [] if finding.row is None else [f"row {finding.row}"]
    return ", ".join([*parts, finding.field] if finding.field else parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """A log, or a file."""

    location: str
    """Of the table; of a file that lies in no log, its folder."""
    key: str | None = None
    """The file, below the location."""
    is_in_log: bool = True

    def validated(self, store: Store) -> Validated:
        """What validating it comes to; ``store`` is the one at its location."""
        if self.key is not None and not self.is_in_log:
            return validate_file(store, self.key)
        return validate_log(store, only=self.key)


def _parse_target(text: str) -> _Target:
    """The table, log or file that a text names. A file is known by its name, or because there is one on this disk."""
    trimmed = text.rstrip("/")
    if trimmed == LOG_DIRECTORY or trimmed.endswith(f"/{LOG_DIRECTORY}"):
        return _Target(location=trimmed.removesuffix(LOG_DIRECTORY).rstrip("/") or ".")
    folder, _, name = trimmed.rpartition("/")
    for each in _FOLDERS:
        if folder == each or folder.endswith(f"/{each}"):
            return _Target(location=folder.removesuffix(each).rstrip("/") or ".", key=f"{each}/{name}")
    if not text.endswith("/") and (is_log_name(name) or _is_file(text)):
        return _Target(location=folder or ("/" if text.startswith("/") else "."), key=name, is_in_log=False)
    return _Target(location=text)


def _is_file(text: str) -> bool:
    try:
        return Path(text.removeprefix("file://")).is_file()
    except (OSError, ValueError):
        return False
