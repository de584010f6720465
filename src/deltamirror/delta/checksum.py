"""The version checksum ``N.crc``: what a table amounts to at a version, as Delta Lake on Spark 4.4 writes it.

It is computed from the checksum before it and the actions of one commit. Readers trust it, and a wrong one is worse
than none: where an input is not certain, there is no checksum, and where only a list is not, the list is absent.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from deltamirror.delta.actions import Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn
from deltamirror.delta.features import in_commit_timestamps, writer_features_of
from deltamirror.delta.hashorder import live_domains, live_files, live_transactions
from deltamirror.delta.histograms import DeletedRecordCounts, Deletions, FileSizeHistogram
from deltamirror.delta.lines import json_text
from deltamirror.delta.properties import deletion_vectors, write_stats_as_json, write_stats_as_struct
from deltamirror.delta.replay import State, replay

MOST_FILES = 50
"""A checksum lists the files of a table that has at most so many."""

_MOST_TRANSACTIONS = 100
_MOST_DOMAINS = 10
_MOST_INDEXED_COLUMNS = 32
_INDEXED_COLUMNS = "delta.dataSkippingNumIndexedCols"
_TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"

_WITHOUT_CHECKSUM = frozenset({"CLONE", "CONVERT", "RESTORE"})
_MANUAL = "Manual Update"
# They add files that the table has already, with other statistics or row ids.
_ADDING_NOTHING = frozenset({"COMPUTE STATS", "DROP FEATURE", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"})
# It removes deletion vectors, which the table never counted as files.
_REMOVING_NOTHING = frozenset({"Deletion Vector Tombstones"})

# Paths that Spark lists in another spelling than the log has, or that are no plain paths.
_RESPELLED = re.compile(r"\A/|(?<!:)//|(?:\A|/)\.{1,2}(?:/|\Z)|[?#]")

LiveFiles = Callable[[], Iterable[Add]]


class Checksum(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The content of ``N.crc``, in order of the wire. An empty list says that there are none; ``None``, nothing."""

    txn_id: str | None = None
    table_size_bytes: int
    num_files: int
    num_deleted_records: int | None = msgspec.field(default=None, name="numDeletedRecordsOpt")
    num_deletion_vectors: int | None = msgspec.field(default=None, name="numDeletionVectorsOpt")
    num_metadata: int
    num_protocol: int
    in_commit_timestamp: int | None = msgspec.field(default=None, name="inCommitTimestampOpt")
    set_transactions: tuple[Txn, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None
    metadata: Metadata
    protocol: Protocol
    file_size_histogram: FileSizeHistogram | None = None
    deleted_record_counts: DeletedRecordCounts | None = msgspec.field(
        default=None, name="deletedRecordCountsHistogramOpt"
    )
    all_files: tuple[Add, ...] | None = None


class _LegacyHistogram(msgspec.Struct, rename="camel"):
    """Delta Lake 4.2 and 4.3 named the histogram differently."""

    histogram_opt: FileSizeHistogram | None = None


_DECODER = msgspec.json.Decoder(Checksum)
_LEGACY_DECODER = msgspec.json.Decoder(_LegacyHistogram)


def encode(checksum: Checksum) -> bytes:
    """The bytes of the file: one line."""
    return json_text(checksum).encode() + b"\n"


def decode(data: bytes) -> Checksum | None:
    """The checksum that a writer left; ``None`` if it is not a complete one."""
    try:
        found, legacy = _DECODER.decode(data), _LEGACY_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if (found.num_metadata, found.num_protocol) != (1, 1):
        return None
    return replace(found, file_size_histogram=found.file_size_histogram or legacy.histogram_opt)


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit whose effect on the totals is certain, and what is in force after it."""

    actions: Collection[Action]
    info: CommitInfo
    protocol: Protocol
    metadata: Metadata
    added: list[Add]
    removed: list[Remove]

    @property
    def sizes_added(self) -> list[int]:
        return [add.size for add in self.added]

    @property
    def sizes_removed(self) -> list[int]:
        return [remove.size or 0 for remove in self.removed]


def lists_files(metadata: Metadata) -> bool:
    """Whether a checksum lists files, if they are few: checkpoints keep statistics, and not of very many columns."""
    columns = metadata.configuration.get(_INDEXED_COLUMNS, str(_MOST_INDEXED_COLUMNS))
    few = columns.removeprefix("-").isdecimal() and int(columns) <= _MOST_INDEXED_COLUMNS
    return few and (write_stats_as_json(metadata) or write_stats_as_struct(metadata))


def first_checksum(actions: Collection[Action]) -> Checksum | None:
    """The checksum of version 0, which consists of ``actions``; ``None`` as for ``next_checksum``."""
    protocol = next((action for action in actions if isinstance(action, Protocol)), None)
    metadata = next((action for action in actions if isinstance(action, Metadata)), None)
    if protocol is None or metadata is None:
        return None
    nothing = checksum_of(replay([(protocol, metadata)]))
    # What comes before a table has no properties, so none of them keeps files off the first list.
    return next_checksum(replace(nothing, all_files=(), metadata=replace(metadata, configuration={})), actions)


def next_checksum(
    previous: Checksum, actions: Collection[Action], *, files: LiveFiles | None = None
) -> Checksum | None:
    """The checksum of the version that consists of ``actions`` and follows that of ``previous``.

    ``files`` gives the live files *before* the commit. It is asked only where they are needed and ``previous`` does
    not list them; without it, fields that need them are left out. ``None`` means that the totals are not certain: a
    remove does not say its size, the operation is unknown or one of those that rewrite history, the listed files
    contradict the totals. Where files are not listed, the caller vouches that added ones were not live and removed
    ones were.
    """
    commit = _certain(previous, actions)
    if commit is None:
        return None
    size = previous.table_size_bytes + sum(commit.sizes_added) - sum(commit.sizes_removed)
    count = previous.num_files + len(commit.added) - len(commit.removed)
    listed = _list_files(previous, commit, count=count, files=files)
    if min(size, count) < 0 or not _agrees(listed, count=count, size=size):
        return None
    deletions = _deletions_before(previous, commit, files).updated(added=commit.added, removed=commit.removed)
    histogram = previous.file_size_histogram
    return Checksum(
        txn_id=commit.info.txn_id,
        table_size_bytes=size,
        num_files=count,
        num_deleted_records=deletions.records,
        num_deletion_vectors=deletions.vectors,
        num_metadata=1,
        num_protocol=1,
        in_commit_timestamp=_timestamp(commit.info, commit.metadata),
        set_transactions=_transactions(previous, commit),
        domain_metadata=_domains(previous, commit),
        metadata=commit.metadata,
        protocol=commit.protocol,
        file_size_histogram=histogram and histogram.updated(added=commit.sizes_added, removed=commit.sizes_removed),
        deleted_record_counts=deletions.counts,
        # Spark takes the totals of a manual update from the whole state, and lists nothing.
        all_files=None if commit.info.operation == _MANUAL else _plainly_spelled(listed),
    )


def checksum_of(state: State, *, info: CommitInfo | None = None) -> Checksum:
    """The checksum of a whole state, where a chain of checksums begins anew. ``info`` is that of its version."""
    files = state.files.values()
    vectors = [add.deletion_vector.cardinality for add in files if add.deletion_vector is not None]
    return checksum_from_totals(
        sizes=_integers([add.size for add in files]),
        cardinalities=_integers(vectors),
        files=files,
        transactions=state.txns.values(),
        domains=state.domains.values(),
        protocol=state.protocol,
        metadata=state.metadata,
        info=info,
    )


def _integers(values: list[int]) -> pa.Array:
    # To look at values, pyarrow imports pandas where it is installed, which takes longer than all of a small commit.
    return pa.array(values, pa.int64()) if values else pa.nulls(0, pa.int64())


def checksum_from_totals(
    *,
    sizes: pa.Array | pa.ChunkedArray,
    cardinalities: pa.Array | pa.ChunkedArray,
    files: Iterable[Add] = (),
    transactions: Iterable[Txn],
    domains: Iterable[DomainMetadata],
    protocol: Protocol,
    metadata: Metadata,
    info: CommitInfo | None = None,
) -> Checksum:
    """The checksum of a whole state of any size, from facts about it (integers as Arrow arrays, without nulls).

    ``sizes`` has one number a live file, ``cardinalities`` one a live file with a deletion vector. ``files`` are the
    live files; it is read only where ``sizes`` has at most ``MOST_FILES``, and if it disagrees with ``sizes``, no files
    are listed. The other facts are those in force; ``info`` is the commitInfo of the version.
    """
    count, size = len(sizes), pc.sum(sizes).as_py() or 0
    writable = _writes_vectors(protocol, metadata)
    deletions = Deletions.of_vectors(cardinalities, num_files=count) if writable else Deletions()
    listed = live_files(files, ()) if count <= MOST_FILES and lists_files(metadata) else None
    return Checksum(
        txn_id=None if info is None else info.txn_id,
        table_size_bytes=size,
        num_files=count,
        num_deleted_records=deletions.records,
        num_deletion_vectors=deletions.vectors,
        num_metadata=1,
        num_protocol=1,
        in_commit_timestamp=None if info is None else _timestamp(info, metadata),
        set_transactions=None if _expires_transactions(metadata) else _few_transactions(transactions),
        domain_metadata=_few_domains(domains),
        metadata=metadata,
        protocol=protocol,
        file_size_histogram=FileSizeHistogram.of(sizes),
        deleted_record_counts=deletions.counts,
        all_files=_plainly_spelled(listed) if _agrees(listed, count=count, size=size) else None,
    )


def _certain(previous: Checksum, actions: Collection[Action]) -> _Commit | None:
    """The commit, if all that the totals depend on is certain."""
    info = next((action for action in actions if isinstance(action, CommitInfo)), None)
    if info is None or info.operation is None or info.operation in _WITHOUT_CHECKSUM:
        return None
    adds = [] if info.operation in _ADDING_NOTHING else [action for action in actions if isinstance(action, Add)]
    removes = [action for action in actions if isinstance(action, Remove)]
    counted = [] if info.operation in _REMOVING_NOTHING else removes
    if any(not remove.extended_file_metadata or remove.size is None for remove in counted):
        return None
    commit = _Commit(
        actions=actions,
        info=info,
        protocol=next((action for action in actions if isinstance(action, Protocol)), previous.protocol),
        metadata=next((action for action in actions if isinstance(action, Metadata)), previous.metadata),
        added=adds,
        removed=counted,
    )
    return None if in_commit_timestamps(commit.metadata) and info.in_commit_timestamp is None else commit


def _timestamp(info: CommitInfo, metadata: Metadata) -> int | None:
    return info.in_commit_timestamp if in_commit_timestamps(metadata) else None


def _transactions(previous: Checksum, commit: _Commit) -> tuple[Txn, ...] | None:
    if previous.set_transactions is None or _expires_transactions(previous.metadata, commit.metadata):
        return None
    committed = [action for action in commit.actions if isinstance(action, Txn)]
    return None if len(committed) > _MOST_TRANSACTIONS else _few_transactions(previous.set_transactions, committed)


def _expires_transactions(*metadata: Metadata) -> bool:
    """Whether transactions expire, so that those in force depend on the reader's clock."""
    return any(_TRANSACTION_RETENTION in each.configuration for each in metadata)


def _few_transactions(before: Iterable[Txn], committed: Iterable[Txn] = ()) -> tuple[Txn, ...] | None:
    found = live_transactions(before, committed)
    return found if len(found) <= _MOST_TRANSACTIONS else None


def _domains(previous: Checksum, commit: _Commit) -> tuple[DomainMetadata, ...] | None:
    return None if previous.domain_metadata is None else _few_domains(previous.domain_metadata, commit.actions)


def _few_domains(before: Iterable[DomainMetadata], actions: Iterable[Action] = ()) -> tuple[DomainMetadata, ...] | None:
    found = live_domains(before, actions)
    return found if len(found) <= _MOST_DOMAINS else None


def _deletions_before(previous: Checksum, commit: _Commit, files: LiveFiles | None) -> Deletions:
    """The base of the metrics: that of the checksum before, or, once vectors may be written, the files before."""
    if not _has_vectors(commit.protocol):
        return Deletions()
    if previous.num_deletion_vectors is not None:
        return Deletions(previous.num_deleted_records, previous.num_deletion_vectors, previous.deleted_record_counts)
    before = _files_before(previous, files) if _writes_vectors(previous.protocol, previous.metadata) else None
    return Deletions() if before is None else Deletions.of(before)


def _has_vectors(protocol: Protocol) -> bool:
    return "deletionVectors" in writer_features_of(protocol)


def _writes_vectors(protocol: Protocol, metadata: Metadata) -> bool:
    return _has_vectors(protocol) and deletion_vectors(metadata)


def _files_before(previous: Checksum, files: LiveFiles | None) -> Iterable[Add] | None:
    return previous.all_files if previous.all_files is not None or files is None else files()


def _list_files(previous: Checksum, commit: _Commit, *, count: int, files: LiveFiles | None) -> tuple[Add, ...] | None:
    """The files after the commit, if they are few, known, and have statistics of one schema."""
    if not lists_files(previous.metadata) or not _same_schema(previous.metadata, commit.metadata):
        return () if count == 0 else None
    before = _files_before(previous, files) if max(previous.num_files, count) <= MOST_FILES else None
    return None if before is None else live_files(before, commit.actions)


def _agrees(listed: tuple[Add, ...] | None, *, count: int, size: int) -> bool:
    return listed is None or (len(listed), sum(add.size for add in listed)) == (count, size)


def _same_schema(before: Metadata, after: Metadata) -> bool:
    old, changed = before.schema_string, after.schema_string
    if old is None or changed is None:
        return old == changed
    return old == changed or msgspec.json.decode(old) == msgspec.json.decode(changed)


def _plainly_spelled(files: tuple[Add, ...] | None) -> tuple[Add, ...] | None:
    return None if files is None or any(_RESPELLED.search(add.path) for add in files) else files
