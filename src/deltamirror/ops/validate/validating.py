"""The log of a table, or one of its files, held against all rules: read-only, one commit and a few states at a time."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from deltamirror.delta import names
from deltamirror.delta.features import require_readable
from deltamirror.delta.validation.opening import barred_values
from deltamirror.deltalog.commits import read_blocks, read_whole
from deltamirror.deltalog.comparison import ListedLog, list_log
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.rules.commits import CommitRules
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.deltalog.states import state_at
from deltamirror.errors import NotFound
from deltamirror.ops.validate.checkpoints import CheckpointCounts, file_findings
from deltamirror.ops.validate.checksums import decoded_checksum
from deltamirror.ops.validate.commit_sweep import CommitSweep
from deltamirror.ops.validate.pointers import read_pointer
from deltamirror.ops.validate.states import UNDECODABLE
from deltamirror.ops.validate.sweep import CommitExaminer, LogSweep
from deltamirror.storage.store import Meta, Store

MOST_FINDINGS: Final = 1_000
"""So many findings are kept; the others are counted by their rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The answer to whether a log, or a file of one, breaks a rule."""

    location: str
    file: str | None
    """The file, where it was only one."""
    version: int | None
    """The newest version of the log; None where there is none, or where a file lies outside of a log."""
    objects: int
    """How many files there are in the log; 1 for a single file."""
    readable: bool | None
    """Whether a reader can open the newest version; None for a single file."""
    findings: tuple[Finding, ...]
    """The first of them."""
    counts: Mapping[str, int]
    """How many there are of each rule."""

    @property
    def is_valid(self) -> bool:
        """Whether no rule is broken."""
        return not self.counts


def validate_log(store: Store, *, only: str | None = None, examine: CommitExaminer = CommitSweep) -> Validated:
    """Hold the log of a table against all rules; with ``only``, the findings of one of its files are told.

    ``examine`` looks at the commits. NotFound or InvalidInput where there is no log.
    """
    listed = _listed(store)
    if only is not None and store.head(only) is None:
        raise _no_file(store, only)
    found = LogSweep(store, listed, examine).findings()
    findings, counts = _gathered(each for each in found if only in (None, each.file))
    versions = [*listed.commits, *(each.version for each in listed.checkpoints)]
    return Validated(
        location=store.location,
        file=only,
        version=max(versions, default=None),
        objects=1 if only else len(listed.commits) + len(listed.checksums) + len(listed.others),
        readable=None if only else _is_readable(store, findings),
        findings=findings,
        counts=counts,
    )


def validate_file(store: Store, key: str) -> Validated:
    """Hold a file that lies in no log against the rules that need no other file."""
    meta = store.head(key)
    if meta is None:
        raise _no_file(store, key)
    findings, counts = _gathered(_of_file(store, meta))
    return Validated(
        location=store.location, file=key, version=None, objects=1, readable=None, findings=findings, counts=counts
    )


def _listed(store: Store) -> ListedLog:
    listed = list_log(store)
    if listed.is_empty and next(iter(store.list(names.LOG_DIRECTORY)), None) is None:
        read_listing(store)  # which says what is there instead of a log
    return listed


def _gathered(found: Iterator[Finding]) -> tuple[tuple[Finding, ...], Mapping[str, int]]:
    kept: list[Finding] = []
    counts: Counter[str] = Counter()
    for each in found:
        counts[each.rule] += 1
        if len(kept) < MOST_FINDINGS:
            kept.append(each)
    return tuple(kept), dict(counts)


def _is_readable(store: Store, findings: tuple[Finding, ...]) -> bool:
    """Whether the newest version can be opened, as a reader does it: by the newest checkpoint, and what follows."""
    if not findings:
        return True
    try:
        state = state_at(store, read_listing(store))
        require_readable(state.protocol, table=store.location)
    except (*UNDECODABLE, NotFound):
        return False
    return not any(barred_values(state.metadata, state.protocol))


def _of_file(store: Store, meta: Meta) -> Iterator[Finding]:
    subject, name = LogObject(store.location, meta.key), meta.key.rpartition("/")[2]
    match names.parse(name):
        case names.Checkpoint() | names.CheckpointPart() | names.UuidCheckpoint():
            yield from file_findings(store, meta, CheckpointCounts())
        case names.ChecksumFile():
            found = decoded_checksum(subject, read_whole(store, meta))
            yield from (found,) if isinstance(found, Finding) else ()
        case _ if name == names.LAST_CHECKPOINT:
            pointer = read_pointer(subject, read_whole(store, meta))
            yield from (pointer,) if isinstance(pointer, Finding) else ()
        case _ if name.endswith(".parquet"):
            yield from file_findings(store, meta, CheckpointCounts())
        case _:
            rules = CommitRules()
            examined = rules.examined(subject, 0, partial(read_blocks, store, meta))
            yield from (each for each in examined if isinstance(each, Finding))


def _no_file(store: Store, key: str) -> NotFound:
    return NotFound(f"there is no {key} in {store.location}", hint="check the location, and who may read it")
