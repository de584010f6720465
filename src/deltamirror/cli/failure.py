"""How a command ends when it does not succeed: one line, a hint, an exit status, and nothing else.

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

__all__ = [
    "EXIT_CLOSED_PIPE",
    "EXIT_INTERRUPTED",
    "EXIT_OTHER",
    "EXIT_USAGE",
    "ToldFailure",
    "failure_of",
    "one_line",
    "report",
]

EXIT_OTHER: Final = 1
EXIT_USAGE: Final = 64
EXIT_INTERRUPTED: Final = 130
EXIT_CLOSED_PIPE: Final = 141


@dataclass(frozen=True, slots=True)
class ToldFailure:
    """What is told to the caller."""

    exit_status: int
    code: str
    message: str
    hint: str = ""
    details: dict[str, Any] | None = None


def failure_of(error: BaseException) -> ToldFailure:
    """What a command that raised ``error`` answers."""
    match error:
        case DeltaMirrorError():
            details = {k: v for k, v in error.as_json().items() if k not in ("code", "message", "hint")}
            return ToldFailure(error.exit_status, error.code, error.message, error.hint, details)
        case click.UsageError():
            return ToldFailure(EXIT_USAGE, "usage", error.format_message(), _usage_hint(error))
        case click.ClickException():
            return ToldFailure(EXIT_USAGE, "usage", error.format_message())
        case click.Abort() | KeyboardInterrupt():
            return ToldFailure(EXIT_INTERRUPTED, "interrupted", "interrupted; nothing is half-written")
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
    return f"{error} {one_line(failure.message)}{hint}"


def _as_json(failure: ToldFailure) -> str:
    body = {"code": failure.code, "exit_status": failure.exit_status, "message": failure.message}
    if failure.hint:
        body["hint"] = failure.hint
    return msgspec.json.encode({"error": body | (failure.details or {})}, enc_hook=str).decode()


def one_line(text: str) -> str:
    """A message without its line breaks and its secrets."""
    return redact_text(" ".join(text.split()))
