"""Rules that files of a log break: where, what was expected, what was found, and what to do."""

import shlex
from dataclasses import dataclass
from typing import Final

from deltamirror.delta.validation.log_rules import rule_of
from deltamirror.delta.validation.rules import RuleSeverity
from deltamirror.errors import CapacityExceeded, DeltaMirrorError, InvalidAction, InvalidLine, Unsupported

_LONGEST: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that a file of a log breaks."""

    rule: str
    severity: RuleSeverity
    file: str
    """Its key below the table's location."""
    line: int | None
    """From 1, in a file of lines."""
    row: int | None
    """From 1, in a Parquet file."""
    field: str
    """The field of the action, or of the file, as the protocol spells it; empty where it is all of it."""
    expected: str
    found: str
    remedy: str
    command: str
    """The command that checks the file again, once the remedy was applied."""


@dataclass(frozen=True, slots=True)
class LogObject:
    """A file of a log, or the log itself, that rules are applied to."""

    location: str
    key: str

    def finding(
        self,
        rule: str,
        *,
        found: object,
        line: int | None = None,
        row: int | None = None,
        field: str = "",
        expected: object = None,
    ) -> Finding:
        """A rule that it breaks. Unless told otherwise, the text of the rule is what was expected."""
        broken = rule_of(rule)
        return Finding(
            rule=rule,
            severity=broken.severity,
            file=self.key,
            line=line,
            row=row,
            field=field,
            expected=broken.text if expected is None else _shown(expected),
            found=_shown(found),
            remedy=broken.remedy,
            command=shlex.join(["deltamirror", "validate", f"{self.location}/{self.key}"]),
        )

    def of_error(self, error: DeltaMirrorError, *, line: int | None, otherwise: str = "line.json") -> Finding:
        """The rule that decoding, or checking, an action found broken."""
        match error:
            case InvalidAction():
                field = ".".join(filter(None, (error.action, error.field)))
                return self.finding(error.rule, line=line, field=field, found=error.found or error.message)
            case InvalidLine():
                return self.finding("line.json", line=line, found=error.message.partition(": ")[2] or error.message)
            case Unsupported():
                return self.finding("line.action.unknown", line=line, found=", ".join(error.features) or error.message)
            case CapacityExceeded():
                return self.finding("line.long", line=line, found=error.message)
            case _:
                return self.finding(otherwise, line=line, found=error.message)


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
