"""Version checksums, each held against the one before it and its commit, and against whole states."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec
import pyarrow.compute as pc
from msgspec.structs import replace

from deltamirror.delta.actions import Action, CommitInfo
from deltamirror.delta.checksum import Checksum, checksum_from_totals, decode
from deltamirror.delta.histograms import FileSizeHistogram
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.deltalog.commits import read_commits, read_whole
from deltamirror.deltalog.rules.findings import Finding, LogObject
from deltamirror.errors import CapacityExceeded
from deltamirror.publish.checksums import ChecksumChain, stated_facts
from deltamirror.storage.store import Meta, Store

_FIELDS: Final[Mapping[str, str]] = {
    "size": "tableSizeBytes",
    "files": "numFiles",
    "deleted": "numDeletedRecordsOpt",
    "vectors": "numDeletionVectorsOpt",
    "transactions": "setTransactions",
    "domains": "domainMetadata",
    "sizes": "fileSizeHistogram",
    "deletions": "deletedRecordCountsHistogramOpt",
    "listed": "allFiles",
    "timestamp": "inCommitTimestampOpt",
    "protocol": "protocol",
    "metadata": "metadata",
}
"""The facts of a checksum, by the names of their rules, with their fields in the file."""

_OF_STATES: Final = frozenset(_FIELDS) - {"timestamp", "listed"}


class _Counts(msgspec.Struct, rename="camel"):
    num_metadata: int = 1
    num_protocol: int = 1


def decoded_checksum(subject: LogObject, data: bytes) -> Checksum | Finding:
    """A checksum, or why it is none."""
    found = decode(data)
    if found is not None:
        return found
    try:
        counts = msgspec.json.decode(data, type=_Counts)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return subject.finding("checksum.json", found=str(error))
    told = f"{counts.num_metadata}, {counts.num_protocol}"
    if (counts.num_metadata, counts.num_protocol) != (1, 1):
        return subject.finding("checksum.counts", field="numMetadata, numProtocol", expected="1, 1", found=told)
    return subject.finding("checksum.json", found="a field is missing, or has another type")


class ChecksumRules:
    """What checksums have to meet. Where a chain of them ends, the next one is taken at its word."""

    def __init__(self, store: Store, checksums: Mapping[int, Meta], commits: Iterable[int]) -> None:
        """The checksums of a log, whose ``commits`` are followed in the order of their versions."""
        self._store, self._checksums = store, checksums
        followed = [checksums[version] for version in sorted(commits) if version in checksums]
        self._ahead = read_commits(store, followed)
        self._chain = ChecksumChain(None)
        self.compared: set[int] = set()
        """The versions whose checksums were held against their commits."""

    def skip(self) -> None:
        """A commit is missing: nothing follows from the checksum before it."""
        self._chain = ChecksumChain(None)

    def follow(self, version: int, actions: Collection[Action] | None) -> Iterator[Finding]:
        """Hold the checksum of a version against its actions; None where these are not known, or too many."""
        expected = None if actions is None else self._chain.after(version, actions)
        found = None
        if (meta := self._checksums.get(version)) is not None:
            subject = LogObject(self._store.location, meta.key)
            found = _decoded(subject, next(self._ahead))
            if isinstance(found, Finding):
                self.compared.add(version)
                yield found
            else:
                yield from _of_commit(subject, found, actions or ())
                if expected is not None:
                    self.compared.add(version)
                    yield from _differences(subject, found, expected, _FIELDS)
        if expected is None:
            self._chain = ChecksumChain(found if isinstance(found, Checksum) else None)


def state_differences(store: Store, meta: Meta, state: CheckpointState) -> Iterator[Finding]:
    """A checksum held against the state of its version."""
    subject = LogObject(store.location, meta.key)
    found = decoded_checksum(subject, read_whole(store, meta))
    if isinstance(found, Checksum):
        expected = _checksum_of(state)
        if found.file_size_histogram is not None:
            bounds = found.file_size_histogram.sorted_bin_boundaries
            histogram = FileSizeHistogram.of(state.files.column("size"), bounds)
            expected = replace(expected, file_size_histogram=histogram)
        yield from _differences(subject, found, expected, _OF_STATES)


def _decoded(subject: LogObject, blocks: Iterable[bytes]) -> Checksum | Finding:
    try:
        return decoded_checksum(subject, b"".join(blocks))
    except CapacityExceeded as error:
        return subject.finding("checksum.json", found=error.message)


def _of_commit(subject: LogObject, found: Checksum, actions: Iterable[Action]) -> Iterator[Finding]:
    """What a checksum repeats of the commit alone; it may leave it out."""
    ids = [each.txn_id for each in actions if isinstance(each, CommitInfo)][:1]
    if found.txn_id is not None and ids not in ([], [None], [found.txn_id]):
        yield subject.finding("checksum.txn-id", field="txnId", expected=ids[0], found=found.txn_id)


def _checksum_of(state: CheckpointState) -> Checksum:
    vectors = pc.struct_field(state.files.column("deletionVector"), "cardinality")
    return checksum_from_totals(
        sizes=state.files.column("size"),
        cardinalities=vectors.drop_null(),
        transactions=state.transactions,
        domains=state.domains,
        protocol=state.protocol,
        metadata=state.metadata,
    )


def _differences(subject: LogObject, found: Checksum, expected: Checksum, facts: Collection[str]) -> Iterator[Finding]:
    """The facts that a checksum states otherwise than they are; it may leave some of them out."""
    stated, actual = ({**stated_facts(each), **_histograms(each)} for each in (found, expected))
    actual |= _in_other_bins(found, expected)
    for name in _FIELDS:
        if name in facts and name in stated and name in actual and stated[name] != actual[name]:
            wanted, there = _apart(actual[name], stated[name])
            yield subject.finding(f"checksum.{name}", field=_FIELDS[name], expected=wanted, found=there)


def _histograms(checksum: Checksum) -> dict[str, object]:
    sizes, deletions = checksum.file_size_histogram, checksum.deleted_record_counts
    stated = {
        "sizes": sizes and (sizes.file_counts, sizes.total_bytes),
        "deletions": deletions and deletions.deleted_record_counts,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _in_other_bins(found: Checksum, expected: Checksum) -> dict[str, object]:
    """The histogram that a checksum with bins of its own has to have: one that counts all files, and all bytes."""
    theirs, ours = found.file_size_histogram, expected.file_size_histogram
    if theirs is None or (ours is not None and ours.sorted_bin_boundaries == theirs.sorted_bin_boundaries):
        return {}
    there = (sum(theirs.file_counts), sum(theirs.total_bytes))
    all_counted = there == (expected.num_files, expected.table_size_bytes)
    is_partial = not theirs.sorted_bin_boundaries or theirs.sorted_bin_boundaries[0] > 0
    right = all_counted or is_partial
    return {"sizes": _histograms(found)["sizes"] if right else (expected.num_files, expected.table_size_bytes)}


def _apart(expected: object, found: object) -> tuple[object, object]:
    """Two facts that differ; of lists, the first entry that does."""
    if not isinstance(expected, Mapping) or not isinstance(found, Mapping):
        return expected, found
    keys = (key for key in (*expected, *found) if expected.get(key) != found.get(key))
    key = next(keys)
    return (expected.get(key) or f"no {key}"), (found.get(key) or f"no {key}")
