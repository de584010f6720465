"""States that commits come to, held against checkpoints, compactions and checksums, which say the same in short."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltamirror.delta.paths import decode_path
from deltamirror.delta.properties import deleted_file_retention_ms, write_stats_as_json, write_stats_as_struct
from deltamirror.deltalog.checkpoint.columns import combined
from deltamirror.deltalog.checkpoint.content import CheckpointState, replay
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.checkpoint.reconciliation import are_ascending, keys_of
from deltamirror.deltalog.checkpoint.state import transactions_after
from deltamirror.deltalog.commits import read_blocks, read_commits
from deltamirror.deltalog.listing import CompactionFile
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import CapacityExceeded, InvalidInput, Unsupported
from deltamirror.ops.diff.comparing import DIFFERING, ONLY_IN_A, ONLY_IN_B, compare, unequal
from deltamirror.storage.store import Meta, Store

UNDECODABLE: Final = (InvalidInput, Unsupported, CapacityExceeded)
"""The errors about what a file says; the rules of lines and rows name them."""

_RULES: Final[Mapping[str, str]] = {
    ONLY_IN_A: "checkpoint.files.extra",
    ONLY_IN_B: "checkpoint.files.missing",
    DIFFERING: "checkpoint.files.differing",
    "protocol": "checkpoint.protocol.differing",
    "metaData": "checkpoint.metaData.differing",
    "txn": "checkpoint.txn.differing",
    "domainMetadata": "checkpoint.domain.differing",
}
"""The kinds of differences, a checkpoint being A and its commits B."""

_OF_TOMBSTONES: Final = tuple(name for name in REMOVES.names if name not in ("path", "dataChange", "deletionVector"))
"""What is compared of removes of the same key. Writers may leave any of it out but the time, without which the file is
deleted at once."""

_KEEP_ALL: Final = 0
"""A time before all others: nothing has expired."""


class CommitStates:
    """What the commits of a log come to at versions, which ascend; each state continues from the one before it."""

    def __init__(self, store: Store, commits: Mapping[int, Meta]) -> None:
        self._store, self._commits = store, commits
        self._state: CheckpointState | None = None
        self._at = -1

    def at(self, version: int) -> CheckpointState | None:
        """The state of a version; None where a commit before it is missing, empty, or cannot be decoded."""
        if version > self._at:
            self._state, self._at = self._replayed(version), version
        return self._state

    def begin(self, state: CheckpointState) -> None:
        """Go on from what a checkpoint says, since its commits do not lead there."""
        self._state, self._at = state, state.version

    def _replayed(self, version: int) -> CheckpointState | None:
        wanted = range(self._at + 1, version + 1)
        metas = [self._commits[each] for each in wanted if each in self._commits]
        if (self._state is None and self._at >= 0) or len(metas) < len(wanted) or not all(each.size for each in metas):
            return None
        return _replayed(self._store, metas, self._state, version)

    def with_compaction(self, compaction: CompactionFile, before: CheckpointState | None) -> CheckpointState | None:
        """The state that follows on ``before`` where a compaction takes the place of its commits."""
        if before is None and compaction.first > 0:
            return None
        return _replayed(self._store, [compaction.meta], before, compaction.last)


def _replayed(store: Store, metas: list[Meta], base: CheckpointState | None, version: int) -> CheckpointState | None:
    if not metas:
        return base
    lines = [read_blocks(store, metas[0])] if len(metas) == 1 else read_commits(store, metas)
    try:
        return replay(lines, version=version, committed_at=_KEEP_ALL, base=base)
    except UNDECODABLE:
        return None


def repeated_paths(subject: LogObject, state: CheckpointState, rule: str) -> Iterator[Finding]:
    """Paths that are live twice, with whatever deletion vectors."""
    files = _without(state.files, "deletionVector")
    if are_ascending(files):
        return
    counts = pc.value_counts(keys_of(files))
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        found = f"{repeated[0]['values'].as_py()} ({len(repeated):,} such paths)"
        yield subject.finding(rule, field="add.path", found=found)


def respelled_paths(subject: LogObject, state: CheckpointState) -> Iterator[Finding]:
    """Files that are live under several spellings of their path, which readers take for several files."""
    if not pc.any(pc.match_substring(state.files.column("path"), "%")).as_py():
        return
    paths = pc.unique(keys_of(_without(state.files, "deletionVector")))
    escaped = pc.match_substring(paths, "%")
    decoded = pa.array(map(decode_path, paths.filter(escaped).to_pylist()), paths.type)
    counts = pc.value_counts(pc.replace_with_mask(paths, escaped, decoded))
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        found = f"{repeated[0]['values'].as_py()} ({len(repeated):,} such files)"
        yield subject.finding("log.path.spelled-twice", field="add.path", found=found)


def checkpoint_differences(
    subject: LogObject, found: CheckpointState, commits: CheckpointState | None, *, written_at: int
) -> Iterator[Finding]:
    """The rules that a checkpoint breaks by what it says: of its own files, and of those of its commits."""
    yield from repeated_paths(subject, found, "checkpoint.path.twice")
    both = pc.indices_nonzero(pc.is_in(keys_of(found.files), keys_of(found.removes)))
    if len(both):
        path = found.files.column("path")[both[0].as_py()].as_py()
        yield subject.finding("checkpoint.path.removed", field="remove.path", found=path)
    if commits is not None:
        yield from _differences(subject, found, commits, written_at)
        yield from _lost_tombstones(subject, "checkpoint.tombstones.lost", found, commits, written_at)
        yield from _differing_tombstones(subject, found, commits)


def compaction_differences(
    subject: LogObject, found: CheckpointState | None, commits: CheckpointState | None, *, written_at: int
) -> Iterator[Finding]:
    """Whether a compaction comes to what its commits come to; nothing is said where one of both is not known."""
    if found is not None and commits is not None:
        difference = compare(found, commits)
        if difference.first is not None:
            yield subject.finding("compaction.state", found=f"{difference.first} (A: the compaction, B: the commits)")
        yield from _lost_tombstones(subject, "compaction.tombstones.lost", found, commits, written_at)


def _differences(
    subject: LogObject, found: CheckpointState, commits: CheckpointState, written_at: int
) -> Iterator[Finding]:
    difference = compare(_comparable(found, written_at), _comparable(commits, written_at))
    for kind, rule in _RULES.items():
        if kind in difference.examples:
            example = f"{difference.examples[kind]} (A: the checkpoint, B: the commits)"
            yield subject.finding(rule, field=_field(kind, difference.counts), found=example)


def _field(kind: str, counts: Mapping[str, int]) -> str:
    """The first of the fields that differ, or the action."""
    fields = [each.partition(".")[2] for each in counts if each.startswith(f"{DIFFERING}.")]
    if kind in (ONLY_IN_A, ONLY_IN_B):
        return "add.path"
    return f"add.{fields[0]}" if kind == DIFFERING and fields else kind


def _comparable(state: CheckpointState, written_at: int) -> CheckpointState:
    """Without transactions that may have expired, and without statistics where the table keeps none of them."""
    after = transactions_after(state.metadata, committed_at=written_at)
    kept = tuple(each for each in state.transactions if after is None or (each.last_updated or 0) > after)
    metadata = state.metadata
    has_stats = write_stats_as_json(metadata) or write_stats_as_struct(metadata)
    return replace(state, transactions=kept, files=state.files if has_stats else _without(state.files, "stats"))


def _lost_tombstones(
    subject: LogObject, rule: str, found: CheckpointState, commits: CheckpointState, written_at: int
) -> Iterator[Finding]:
    after = written_at - deleted_file_retention_ms(found.metadata)
    expected = commits.removes.filter(pc.greater(pc.fill_null(commits.removes.column("deletionTimestamp"), 0), after))
    lost = pc.indices_nonzero(pc.invert(pc.is_in(keys_of(expected), keys_of(found.removes))))
    if len(lost):
        path = expected.column("path")[lost[0].as_py()].as_py()
        told = f"no remove of {path} ({len(lost):,} such files)"
        yield subject.finding(rule, field="remove.path", found=told)


def _differing_tombstones(subject: LogObject, found: CheckpointState, commits: CheckpointState) -> Iterator[Finding]:
    """What a checkpoint says of removed files otherwise than their commits; of each field, the first file."""
    places = pc.index_in(keys_of(found.removes), keys_of(commits.removes))
    rows, others = pc.indices_nonzero(places.is_valid()), places.drop_null()
    for name in _OF_TOMBSTONES:
        mine = combined(found.removes.column(name)).take(rows)
        theirs = combined(commits.removes.column(name)).take(others)
        stated = theirs.is_valid() if name == "deletionTimestamp" else pc.and_(mine.is_valid(), theirs.is_valid())
        differing = pc.indices_nonzero(pc.and_(stated, unequal(mine, theirs)))
        if len(differing):
            pair = differing[0].as_py()
            path = found.removes.column("path")[rows[pair].as_py()].as_py()
            told = f"{mine[pair].as_py()} of {path} ({len(differing):,} such files)"
            field, expected = f"remove.{name}", theirs[pair].as_py()
            yield subject.finding("checkpoint.tombstones.differing", field=field, expected=expected, found=told)


def _without(files: pa.Table, column: str) -> pa.Table:
    place, kind = files.schema.get_field_index(column), FILES.field(column).type
    return files.set_column(place, FILES.field(column), pa.nulls(files.num_rows, kind))
