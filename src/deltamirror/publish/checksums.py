"""The version checksums ``N.crc`` of a unit: each follows from the one before it and from its commit.

Readers start from them, so a wrong one is worse than none. Trouble with one is reported and stops nothing.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

import msgspec
from msgspec.structs import replace

from deltamirror.config import redact_text
from deltamirror.delta.actions import Action, Add, Metadata, Protocol, file_key
from deltamirror.delta.checksum import MOST_FILES, Checksum, decode, encode, first_checksum, next_checksum
from deltamirror.delta.hashorder import live_files
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.names import LOG_DIRECTORY, checksum_name
from deltamirror.errors import DeltaMirrorError, Internal, LeaseLost, Transient
from deltamirror.steps import Step
from deltamirror.storage.store import Changed, Created, Data, Store
from deltamirror.work import CommitUnit, CommitWork, Failure, Guard, Stage

_LARGEST = 16 * 1024 * 1024
_BEHIND = 8
_TRIES = 3

_Item = TypeVar("_Item")


class ChecksumChain:
    """The checksums of consecutive versions. It ends at the first one that is not certain."""

    __slots__ = ("_files", "_last")

    def __init__(self, seed: Checksum | None) -> None:
        """Begin after the version of ``seed``; without one only version 0 begins a chain."""
        self._last = seed
        self._files = None if seed is None else seed.all_files

    def following(self, work: CommitWork, data: Data) -> Checksum | None:
        """The checksum of the next version; None where the chain has ended, or ends with it."""
        # The actions of a larger commit, as objects, would need some ten times the memory of its bytes.
        if work.num_bytes > _LARGEST or (self._last is None and work.version > 0):
            self._last = None
            return None
        return self.after(work.version, decode_commit(bytes(data)), num_files=work.num_files)

    def after(self, version: int, actions: Collection[Action], *, num_files: int | None = None) -> Checksum | None:
        """The checksum of the next version, which consists of ``actions``; None as for ``following``.

        ``num_files`` is how many files the table has after it, where that is known.
        """
        last, self._last = self._last, None
        if last is None and version > 0:
            return None
        found = first_checksum(actions) if last is None else next_checksum(last, actions, files=self._known_files)
        if found is None or num_files not in (None, found.num_files):
            return None
        self._files = self._files_after(found, actions)
        self._last = found
        return found

    @property
    def _known_files(self) -> Callable[[], Iterable[Add]] | None:
        files = self._files
        return None if files is None else lambda: files

    def _files_after(self, found: Checksum, actions: Iterable[Action]) -> tuple[Add, ...] | None:
        """The live files, also where this checksum does not list them: a later one may."""
        if found.all_files is not None or self._files is None or found.num_files > MOST_FILES:
            return found.all_files
        return live_files(self._files, actions)


class ChecksumTrail:
    """Writes the checksums of versions that are published, where there are several in a thread of its own and a few
    versions behind.

    Where a store takes its time over each object, a version would otherwise take twice as long. ``guard`` is called in
    that thread, too. At the end of the ``with`` block all are written, and their folder is yet to be synced.
    """

    def __init__(self, unit: CommitUnit, store: Store, guard: Guard) -> None:
        self.checksum: bytes | None = None
        """That of the last version; None where it is not certain."""
        self.failure: Failure | None = None
        """The first thing that went wrong."""
        self.lost_at: int | None = None
        """The version whose checksum was not written because the lease was lost."""
        self._unit, self._store, self._guard = unit, store, guard
        self._chain = ChecksumChain(None if unit.checksum is None else decode(unit.checksum))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="deltamirror-checksums")
        self._under_way: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._thread.shutdown()

    def follow(self, work: CommitWork, data: Data) -> None:
        """The version is published: write its checksum, some time soon."""
        if not self._unit.checksums:
            return
        if len(self._unit.commits) == 1:  # none waits for it
            self._write(work, data)
            return
        self._under_way.append(self._thread.submit(self._write, work, data))
        if len(self._under_way) > _BEHIND:
            self._under_way.popleft().result()

    def _write(self, work: CommitWork, data: Data) -> None:
        key = f"{LOG_DIRECTORY}/{checksum_name(work.version)}"
        self.checksum = None
        if self.lost_at is not None:
            return
        try:
            checksum = self._chain.following(work, data)
            if checksum is not None:
                self.checksum = encode(checksum)
                write_checksum(self._store, key, checksum, guard=self._guard, synced=False)
        except LeaseLost:
            self.checksum, self.lost_at = None, work.version
        except DeltaMirrorError as error:
            self._note(error, work, key)
        except Exception as error:  # noqa: BLE001 - commits go on, whatever is the matter with a checksum
            reason = redact_text(f"{type(error).__name__}: {error}")
            self._note(Internal(f"no {key} for table {self._unit.table!r}: {reason}"), work, key)

    def _note(self, error: DeltaMirrorError, work: CommitWork, key: str) -> None:
        failure = Failure(error=error, stage=Stage.CHECKSUM, version=work.version, key=key)
        self.failure = self.failure or failure


def write_checksum(store: Store, key: str, checksum: Checksum, *, guard: Guard, synced: bool = True) -> bool:
    """Create the object. One that is there is kept if readers learn nothing wrong from it, else replaced.

    Whether anything was written.
    """
    data = encode(checksum)
    for _ in range(_TRIES):
        guard()
        with Step.PUT_CHECKSUM:
            put = store.create(key, data, synced=synced)
        if isinstance(put, Created):
            return True
        found = store.read(key)
        if found is None:
            continue  # an upload of another process that came to nothing
        if is_true(found.data, checksum):
            return False
        guard()
        with Step.PUT_CHECKSUM:
            replaced = store.replace(key, data, if_match=found.meta.etag)
        if not isinstance(replaced, Changed):
            return True
    raise Transient(f"{key} keeps changing in {store.location}", hint="another writer is at it; try again")


def is_true(data: bytes, ours: Checksum) -> bool:
    """Whether readers take nothing from a ``.crc`` but what ours says: both say the same of all that both state.

    This alone tells one that is kept from one that is written again: another writer may spell it otherwise, and leave
    facts out.
    """
    theirs = decode(data)
    if theirs is None:
        return False
    stated = {**stated_facts(theirs), **_further_facts(theirs)}
    expected = {**stated_facts(ours), **_further_facts(ours)}
    return all(stated.get(name, value) == value for name, value in expected.items()) and _bins_agree(theirs, ours)


def _further_facts(checksum: Checksum) -> Mapping[str, object]:
    """Facts of a checksum that no reader needs."""
    facts = {"transaction": checksum.txn_id, "deleted counts": checksum.deleted_record_counts}
    return {name: value for name, value in facts.items() if value is not None}


def _bins_agree(theirs: Checksum, ours: Checksum) -> bool:
    """Whether two histograms say the same at the boundaries that both have: other writers may choose others."""
    if theirs.file_size_histogram is None or ours.file_size_histogram is None:
        return True
    stated, expected = theirs.file_size_histogram.below(), ours.file_size_histogram.below()
    return all(expected[bound] == stated[bound] for bound in expected.keys() & stated.keys())


def stated_facts(checksum: Checksum) -> Mapping[str, object]:
    """The facts that readers take from a checksum, in a form that does not depend on spelling and order."""
    facts = {
        "size": checksum.table_size_bytes,
        "files": checksum.num_files,
        "deleted": checksum.num_deleted_records,
        "vectors": checksum.num_deletion_vectors,
        "transactions": _by(checksum.set_transactions, lambda txn: txn.app_id),
        "domains": _by(checksum.domain_metadata, lambda domain: domain.domain),
        "listed": _by(checksum.all_files and map(_without_empty_tags, checksum.all_files), file_key),
    }
    return {name: value for name, value in facts.items() if value is not None} | {
        "timestamp": checksum.in_commit_timestamp,
        "protocol": _protocol(checksum.protocol),
        "metadata": _metadata(checksum.metadata),
    }


def _by(items: Iterable[_Item] | None, key: Callable[[_Item], Hashable]) -> Mapping[Hashable, _Item] | None:
    return None if items is None else {key(item): item for item in items}


def _without_empty_tags(add: Add) -> Add:
    """Delta Lake on Spark 4.2 lists files that it read from a checkpoint with empty tags; the log has none."""
    return replace(add, tags=None) if add.tags == {} else add


def _protocol(protocol: Protocol) -> tuple[object, ...]:
    readers, writers = set(protocol.reader_features or ()), set(protocol.writer_features or ())
    return protocol.min_reader_version, protocol.min_writer_version, readers, writers


def _metadata(metadata: Metadata) -> tuple[object, Metadata]:
    if metadata.schema_string is None:
        return None, metadata
    try:
        return msgspec.json.decode(metadata.schema_string), replace(metadata, schema_string=None)
    except msgspec.DecodeError:
        return None, metadata
