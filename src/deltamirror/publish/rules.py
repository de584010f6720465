"""The rules of actions, applied to the commits of a unit before they are put."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from deltamirror.delta.names import commit_key
from deltamirror.delta.validation.rules import RuleSeverity
from deltamirror.deltalog.rules.commits import CommitRules
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import InvalidAction
from deltamirror.storage.store import Data
from deltamirror.work import CommitUnit, CommitWork

_BLOCK_BYTES: Final = 8 * 1024 * 1024


class UnitRules:
    """Applies the rules to commits one after the other: protocol and metadata of one are in force for the next."""

    def __init__(self, unit: CommitUnit) -> None:
        self._table, self._location = unit.table, unit.address.location
        self._rules = CommitRules()
        if unit.in_force is not None:
            self._rules.begin(*unit.in_force)

    def require(self, work: CommitWork, data: Data) -> None:
        """InvalidAction where a commit breaks a rule so that readers fail. Lines of others are carried as they are."""
        subject = LogObject(self._location, commit_key(work.version))
        broken = None
        for found in self._rules.examined(subject, work.version, partial(_blocks, data)):
            if broken is None and isinstance(found, Finding) and found.severity is RuleSeverity.ERROR:
                broken = found
        if broken is not None and not work.is_verbatim:
            raise self._refused(work, broken)

    def _refused(self, work: CommitWork, broken: Finding) -> InvalidAction:
        return InvalidAction(
            f"version {work.version} of table {self._table!r} breaks the rule {broken.rule}, in line {broken.line}: "
            f"found {broken.found}, expected {broken.expected}",
            hint="nothing of it was published: this is a defect of the program that encoded it; "
            f"{broken.remedy}; with mirror.verify at basic the table is published without this check",
            rule=broken.rule,
            field=broken.field,
            found=broken.found,
            table=self._table,
        )


def _blocks(data: Data) -> Iterator[bytes]:
    """The bytes of a commit, in order, each block with whole lines."""
    view, rest = memoryview(data), b""
    for at in range(0, len(view), _BLOCK_BYTES):
        whole, newline, rest = (rest + view[at : at + _BLOCK_BYTES]).rpartition(b"\n")
        if newline:
            yield whole + newline
    if rest:
        yield rest
