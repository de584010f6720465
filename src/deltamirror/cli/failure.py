"""How a command ends when it does not succeed: one line, a hint, where to read more, an exit status, and nothing else.

With ``--json`` the failure is one JSON object on standard error, so that standard output holds a
result or nothing.
"""

import sys
import traceback
from dataclasses import dataclass
from typing import Any, Final

import click
import msgspec

from deltamirror.config import redact_text
from deltamirror.errors import DeltaMirrorError

EXIT_OTHER: Final = 1
EXIT_USAGE: Final = 64
EXIT_INTERRUPTED: Final = 130
EXIT_CLOSED_PIPE: Final = 141
_USAGE: Final = "usage"
_INTERRUPTED: Final = "interrupted"
_GUIDE: Final = "docs/guides/troubleshooting.md"
"""Has a section for each code of ``errors.py``."""


@dataclass(frozen=True, slots=True)
class ToldFailure:
    """What is told to the caller."""

    exit_status: int
    code: str
    message: str
    hint: str = ""
    details: dict[str, Any] | None = None

    @property
    def section(self) -> str:
        """Where the guide says more about it; empty for what was not an error of ours."""
        return "" if self.code in (_USAGE, _INTERRUPTED) else f"{_GUIDE}#{self.code}"


def failure_of(error: BaseException) -> ToldFailure:
    """What a command that raised ``error`` answers."""
    match error:
        case DeltaMirrorError():
            details = {k: v for k, v in error.as_json().items() if k not in ("code", "message", "hint")}
            return ToldFailure(error.exit_status, error.code, error.message, error.hint, details)
        case click.UsageError():
            return ToldFailure(EXIT_USAGE, _USAGE, error.format_message(), _usage_hint(error))
        case click.ClickException():
            return ToldFailure(EXIT_USAGE, _USAGE, error.format_message())
        case click.Abort() | KeyboardInterrupt():
            return ToldFailure(EXIT_INTERRUPTED, _INTERRUPTED, "interrupted; nothing is half-written")
        case _:
            text = f"{type(error).__name__}: {error}"
            return ToldFailure(
                EXIT_OTHER, "internal", text, "this is a defect: run it again with --debug and report it"
            )


def report(failure: ToldFailure, *, json: bool, trace: BaseException | None = None) -> None:
    """Write ``failure`` to standard error, after the traceback of ``trace`` if that is given."""
    if trace is not None:
        click.echo(redact_text("".join(traceback.format_exception(trace))), err=True, nl=False)
    click.echo(redact_text(_as_json(failure) if json else _as_text(failure)), err=True)


def _usage_hint(error: click.UsageError) -> str:
    return f"`{error.ctx.command_path} --help` shows how" if error.ctx else ""


def _as_text(failure: ToldFailure) -> str:
    error = click.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    hint = f"\nhint: {failure.hint}" if failure.hint else ""
    more = f"\nmore: {failure.section}" if failure.section else ""
    return f"{error} {one_line(failure.message)}{hint}{more}"


def _as_json(failure: ToldFailure) -> str:
    body = {"code": failure.code, "exit_status": failure.exit_status, "message": failure.message}
    if failure.hint:
        body["hint"] = failure.hint
    return msgspec.json.encode({"error": body | (failure.details or {})}, enc_hook=str).decode()


def one_line(text: str) -> str:
    """A message without its line breaks and its secrets."""
    return redact_text(" ".join(text.split()))
