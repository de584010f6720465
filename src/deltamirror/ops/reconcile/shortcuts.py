"""What a log holds beside its commits, and readers go by: checkpoints, compactions, version checksums, the pointer.

All of it is derived from the commits, so that a reader need not read them. It is judged by what it says, not by its
writer: a shortcut misleads readers if it says something else than SQL, or is of a version that SQL does not have.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import chain, takewhile
from typing import Final

import pyarrow as pa

from deltamirror.delta.lastcheckpoint import LastCheckpoint, PointerReading, decode
from deltamirror.deltalog.checkpoint.content import CheckpointState, replay
from deltamirror.deltalog.checkpoint.state import transactions_after
from deltamirror.deltalog.checkpoints import read_checkpoint
from deltamirror.deltalog.commits import read_blocks
from deltamirror.deltalog.comparison import ListedLog, list_log
from deltamirror.deltalog.listing import CheckpointFiles, CompactionFile
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.errors import InvalidInput, Unsupported
from deltamirror.ops.diff.comparing import compare
from deltamirror.publish.checkpoint.companions import leads_to, repeats
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import fetch_chunks, replay_work
from deltamirror.txnlog.queue.expected_objects import KeptCheckpoint, KeptLog
from deltamirror.txnlog.tables.reading import snapshot
from deltamirror.work import ObjectDifference

_BEYOND: Final = "belongs to a version that the database does not have"
_EARLY: Final = "belongs to a version that is not in the log"
_ASTRAY: Final = "leads readers to no checkpoint of this log"
_OTHERWISE: Final = "tells readers something else of a checkpoint than its file"

_MISSPELT: Final = "has a name that Delta Lake on Spark takes for a file of the log, and that no writer gives to one"

_UNUSABLE: Final = "is of a checkpoint that readers pass over: it is empty, or lacks parts"

_UNREADABLE: Final = (InvalidInput, Unsupported, pa.ArrowException, LookupError, TypeError, ValueError)
"""The errors that reading a file of another writer may lead to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misleading:
    """An object that readers go by, and that does not say what SQL says."""

    version: int
    meta: Meta
    reason: str
    """In words that follow on the name of the object."""
    is_link: bool = False
    """Whether it is a symbolic link, of which nothing is kept but its target, in words."""


class TableStates:
    """What a table was at versions, which ascend: each state continues from the one before it."""

    def __init__(self, database: Database, log: KeptLog) -> None:
        self._database, self._log = database, log
        self._last: CheckpointState | None = None

    def at(self, version: int) -> tuple[CheckpointState, int]:
        """The state of a version as SQL has it, and when that was committed."""
        taken = snapshot(self._database, self._log.name, version=version)
        if self._last is None or self._last.version != version:
            base = self._last if self._last is not None and self._last.version < version else None
            self._last = self._replayed(version, taken.timestamp, base)
        return self._last, taken.timestamp

    def with_compaction(self, store: Store, compaction: CompactionFile) -> CheckpointState:
        """What a reader makes of a version that takes a compaction in place of the commits that lead to it."""
        with self._database.read() as connection:
            before = max(compaction.first - 1, self._log.log_start or -1)
            commits = replay_work(connection, self._log.table_id, last=before)
            ours = ((chunk.decoded() for chunk in fetch_chunks(connection, work)) for work in commits)
            lines = chain(ours, [read_blocks(store, compaction.meta)])
            return replay(lines, version=compaction.last, committed_at=0, base=None)

    def _replayed(self, version: int, committed_at: int, base: CheckpointState | None) -> CheckpointState:
        with self._database.read() as connection:
            after = None if base is None else base.version
            commits = replay_work(connection, self._log.table_id, last=version, after=after)
            lines = ((chunk.decoded() for chunk in fetch_chunks(connection, work)) for work in commits)
            return replay(lines, version=version, committed_at=committed_at, base=base)


@dataclass(slots=True, kw_only=True)
class Shortcuts:
    """The shortcuts of a listed log, from its start up to the first foreign commit."""

    database: Database
    log: KeptLog
    store: Store
    listed: ListedLog
    head: int
    """As SQL had it after the log was listed."""
    last_put: int
    """The newest version that ever was in the log: shortcuts of older ones are used again when they are."""
    awaited: frozenset[int]
    """Checkpoints that were lost, and are written again: the pointer to one of them stays until then."""
    foreign: int | None
    """The first foreign commit: from there on shortcuts belong to foreign commits."""
    modified_after: int
    """Objects that were modified since (ms) are read; misplaced ones are found by their names."""
    obstacles: frozenset[str] = frozenset()
    """The keys of what is no object, in the place of one."""
    sample: range = range(0)
    """Objects of these versions are read, whatever their time: copies keep the time of the original."""
    is_reread: Callable[[int], bool] = lambda _: False
    """Whether objects of a version are read, also if they were before."""
    takes_unusable: bool = False
    """Whether checkpoints that readers pass over are among what is misleading; one may be under way."""
    judged: frozenset[Meta] = frozenset()
    """Objects that were read before, and mislead no reader; they are not read again for the sample."""
    checked: int = 0
    """How many objects were read."""
    passed: set[Meta] = field(default_factory=set)
    """Objects that mislead no reader, by what was read of them; at versions that stay what they are."""
    _sound: list[CheckpointFiles] = field(default_factory=list)
    _newest_recorded: int = -1

    @property
    def sound_versions(self) -> set[int]:
        """The versions that readers may start from, once all that is ``misleading`` is known."""
        return {files.version for files in self._sound}

    def misleading(self, recorded: Collection[str]) -> Iterator[Misleading]:
        """Those that mislead readers; ``recorded`` are names of checkpoints that are compared by their digests.

        An object with a misspelt name belongs to no commit, and is none itself: no writer writes such a name.
        """
        for number, metas in self.listed.misspelt.items():
            yield from (Misleading(version=number, meta=meta, reason=_MISSPELT) for meta in metas)
        ours = [files.version for files in self.listed.checkpoints if files.name in recorded]
        self._newest_recorded = max(ours, default=-1)
        states = TableStates(self.database, self.log)
        for files in self.listed.checkpoints:
            wrong = self._is_ours_to_judge(files.version) and self._of_checkpoint(files, recorded, states)
            if wrong:
                yield from (Misleading(version=files.version, meta=meta, reason=wrong) for meta in files.metas)
            else:
                self._sound.append(files)
        states = TableStates(self.database, self.log)
        for compaction in sorted(self.listed.compactions, key=lambda each: each.last):
            if self._is_ours_to_judge(compaction.last) and (wrong := self._of_compaction(compaction, states)):
                yield Misleading(version=compaction.last, meta=compaction.meta, reason=wrong)
        for version, meta in self.listed.unusable if self.takes_unusable else ():
            if self._is_ours_to_judge(version) and meta.key.rpartition("/")[2] not in recorded:
                yield Misleading(version=version, meta=meta, reason=_UNUSABLE)
        for version, meta in self.listed.checksums.items():
            if self._is_ours_to_judge(version) and version > self.last_put and version not in self.listed.commits:
                yield Misleading(version=version, meta=meta, reason=_EARLY)

    def pointer(self, ours: KeptCheckpoint | None) -> tuple[ObjectDifference | None, Misleading | None]:
        """What is wrong with the pointer: to be written again with our newest checkpoint, and to be out of its way.

        To be asked once all that is ``misleading`` is known.
        """
        found = None if POINTER_KEY in self.obstacles else self.store.read(POINTER_KEY)
        newest = -1 if ours is None else ours.version
        self.checked += found is not None or ours is not None
        if found is None:
            return (None if ours is None else ObjectDifference(version=newest, key=POINTER_KEY, found="")), None
        reading = decode(found.data)
        wrong = self._of_pointer(reading, found.meta, ours)
        if not wrong:
            return None, None
        pointed = -1 if reading.pointer is None else reading.pointer.version
        difference = ObjectDifference(version=newest, key=POINTER_KEY, found=sha256(found.data).hexdigest())
        is_in_the_way = ours is None or (reading.version is not None and pointed > newest)
        misleading = Misleading(version=pointed, meta=found.meta, reason=wrong) if is_in_the_way else None
        return (None if ours is None else difference), misleading

    def _is_ours_to_judge(self, version: int) -> bool:
        return self.foreign is None or version < self.foreign

    def _of_checkpoint(self, files: CheckpointFiles, recorded: Collection[str], states: TableStates) -> str:
        if files.version > self.head:
            return _BEYOND
        if files.name in recorded or not self._is_due(files.version, files.metas):
            return ""
        self.checked += len(files.metas)
        wrong = _difference(partial(read_checkpoint, self.store, files), *states.at(files.version))
        return wrong or self._pass(files.version, files.metas)

    def _of_compaction(self, compaction: CompactionFile, states: TableStates) -> str:
        if compaction.last > self.head:
            return _BEYOND
        if not self._is_due(compaction.last, [compaction.meta]):
            return ""
        self.checked += 1
        wrong = _difference(partial(states.with_compaction, self.store, compaction), *states.at(compaction.last))
        return wrong or self._pass(compaction.last, [compaction.meta])

    def _of_pointer(self, reading: PointerReading, meta: Meta, ours: KeptCheckpoint | None) -> str:
        pointer = reading.pointer
        if pointer is not None and not self._is_ours_to_judge(pointer.version):
            return ""
        if pointer is None or reading.version is None or (ours is not None and pointer.version < ours.version):
            return _ASTRAY
        if pointer.version in self.awaited or (ours is not None and self._is_lost(ours, pointer.version)):
            return ""  # it is written again, and the pointer with it
        reached = next((files for files in self._sound if leads_to(pointer, files)), None)
        if reached is None:
            return "" if self._is_being_written(pointer) else _ASTRAY
        if self._is_due(pointer.version, [meta]) and not repeats(self.store, pointer, reached):
            return _OTHERWISE
        return self._pass(pointer.version, [meta])

    def _is_lost(self, checkpoint: KeptCheckpoint, version: int) -> bool:
        return version == checkpoint.version and version not in {files.version for files in self.listed.checkpoints}

    def _is_being_written(self, pointer: LastCheckpoint) -> bool:
        """Whether the checkpoint came after the log was listed: then the next comparison judges both.

        Another one of that version may have been there, which misleads readers.
        """
        later = list_log(self.store, first=pointer.version).checkpoints
        same_version = takewhile(lambda each: each.version == pointer.version, later)
        return any(leads_to(pointer, files) and files not in self.listed.checkpoints for files in same_version)

    def _is_due(self, version: int, metas: Sequence[Meta]) -> bool:
        """Whether objects of a version have to be read: touched since the last look, or new to this process.

        The latter for those of the sample, and for those that readers of the newest version go by before they come to
        a checkpoint of ours.
        """
        if self.is_reread(version) or any(meta.modified > self.modified_after for meta in metas):
            return True
        if self.judged.issuperset(metas):
            self.passed.update(metas)
            return False
        return version in self.sample or version >= self._newest_recorded

    def _pass(self, version: int, metas: Sequence[Meta]) -> str:
        """Nothing is wrong with objects. An unpublished version may become another one, by an adoption."""
        if version <= self.log.published:
            self.passed.update(metas)
        return ""


def unexpired(state: CheckpointState, committed_at: int) -> CheckpointState:
    """Without transactions that expired before the commit of the version: another writer may keep them for longer."""
    after = transactions_after(state.metadata, committed_at=committed_at)
    kept = (each for each in state.transactions if after is None or (each.last_updated or 0) > after)
    return replace(state, transactions=tuple(kept))


def _difference(read: Callable[[], CheckpointState], ours: CheckpointState, committed_at: int) -> str:
    """What tells the state that an object comes to from that of its version; empty where nothing does."""
    try:
        found = compare(unexpired(read(), committed_at), ours)
    except MemoryError:  # Arrow's is an exception of both kinds
        raise
    except _UNREADABLE as error:
        return f"cannot be read: {error}"
    return "" if found.equal else f"does not say what the database says (A: the object, B: the database): {found.first}"
