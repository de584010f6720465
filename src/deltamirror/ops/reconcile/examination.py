"""Holding the log of a table against its records: objects that are missing, altered, or not ours."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from deltamirror.batches import batched
from deltamirror.delta.names import (
    LOG_DIRECTORY,
    SIDECARS,
    LogFile,
    UuidCheckpoint,
    checkpoint_name,
    is_log_name,
    parse,
)
from deltamirror.deltalog.comparison import ListedLog, list_log
from deltamirror.ops.reconcile.checksums import expected_checksums, wrong_checksums
from deltamirror.ops.reconcile.manifests import damaged_manifests
from deltamirror.ops.reconcile.rereading import Rereading
from deltamirror.ops.reconcile.shortcuts import Misleading, Shortcuts
from deltamirror.pipeline.run.inspection import Inspector
from deltamirror.publish.checkpoint.companions import damaged_sidecars
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.presence import has_place
from deltamirror.storage.ranges import stored_digest
from deltamirror.storage.store import ETag, Meta, Obstacle, Store
from deltamirror.txnlog.content.superseded import is_superseded
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.expected_objects import (
    KeptCheckpoint,
    KeptCommit,
    KeptLog,
    kept_checkpoints,
    kept_commits,
    kept_log_again,
    lost_checkpoints,
)
from deltamirror.work import ExpectedObject, ObjectDifference

CLOCKS_APART: Final = 300_000
"""By how much the clocks of a store and of the database may differ (ms): younger objects are looked at twice."""

_WINDOW: Final = 10_000
_SAMPLED_BYTES: Final = 16 * 1024 * 1024
"""The largest checkpoint of ours that is read for a sample."""
_MOST_CHECKSUMS: Final = 1_000
_FAR_APART: Final = 1_000
"""After so many versions a chain of checksums begins anew sooner than it gets there."""
_MOST_FOREIGN: Final = 100
"""So many foreign commits say enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Which objects are read: all, or a sample, those whose turn it is, and those that a listing makes suspicious."""

    full: bool
    sample: range = range(0)
    rereading: Rereading | None = None
    since: int = 0
    """Objects that were modified before this time (ms) were looked at."""
    judged: frozenset[Meta] = frozenset()
    """Shortcuts of other writers that were read before, and mislead no reader."""
    takes_unusable: bool = False
    """Whether checkpoints that are empty, or lack parts, count as misleading, though readers pass over them."""
    writes_checksums: Callable[[], bool] = lambda: True
    """Whether version checksums that are missing, or wrong, are written again; asked where there are some."""

    def is_reread(self, version: int) -> bool:
        """Whether all objects of a version are read, whatever their size and time."""
        return self.full or (self.rereading is not None and self.rereading.is_due(version))

    def is_suspect(self, meta: Meta | None, *, written_at: int) -> bool:
        """Whether an object is missing from a listing, or was touched since it was written."""
        return meta is None or meta.modified > max(written_at, self.since)


@dataclass(slots=True)
class Findings:
    """What is not as it should be."""

    checked: int = 0
    """How many objects were read."""
    missing: list[ObjectDifference] = field(default_factory=list)
    """Commits that were published, and are gone."""
    altered: list[ObjectDifference] = field(default_factory=list)
    """Commits that were published, and have other bytes; and what is superseded."""
    superseded: set[int] = field(default_factory=set)
    """Versions in whose place there is one of ours that was superseded: a worker that woke late put it there."""
    foreign: list[ObjectDifference] = field(default_factory=list)
    """Foreign commits: above the head, or in the place of a version that was never published."""
    checkpoints: list[ObjectDifference] = field(default_factory=list)
    """Checkpoints that were written, and are gone or have other bytes; or their sidecars, or the pointer."""
    checksums: list[int] = field(default_factory=list)
    """Versions from the newest checkpoint on whose ``.crc`` is gone, and any whose ``.crc`` is not the one we put."""
    late_checksums: list[int] = field(default_factory=list)
    """Those of them that we never wrote: they come after a commit that has none, as a RESTORE, or another writer
    published their versions, as before an import."""
    misleading: list[Misleading] = field(default_factory=list)
    """What readers go by, and says something else than SQL, or belongs to no version of the log."""
    judged: frozenset[Meta] = frozenset()
    """Shortcuts of other writers that were read, at this look or before, and mislead no reader."""
    obstacles: list[Obstacle] = field(default_factory=list)
    """Folders, pipes and the like in the place of an object, which are not ours to take away."""
    is_place_gone: bool = False
    """Whether there is nothing at the table's location, not even its folder, though the table was published there."""


def examine(database: Database, log: KeptLog, inspector: Inspector, address: StoreAddress, look: Look) -> Findings:
    """Compare a log with what SQL says of it. Nothing is changed, neither there nor here."""
    # What is recorded as written is in the log: SQL is asked before the log is listed for what has to be there.
    with database.read() as connection:
        log = kept_log_again(connection, log)  # another process may have cleaned it before it was our turn
        checkpoints = kept_checkpoints(connection, log.table_id, first=log.log_start)
        awaited = frozenset(lost_checkpoints(connection, log.table_id))
    store = inspector.store(address)
    if blocked := [each for each in store.obstacles(LOG_DIRECTORY) if each.key == LOG_DIRECTORY]:
        return Findings(obstacles=blocked)  # there is no log: the objects behind a link are not the table's
    listed = list_log(store, first=log.log_start)
    # Our commits are in SQL before they are in the log: SQL is asked after it was listed for what may be there.
    with database.read() as connection:
        head = kept_log_again(connection, log).head
    examination = _Examination(database, log, inspector, address, look, listed)
    examination.look_for_obstacles()
    for first in range(log.log_start, head + 1, _WINDOW):
        examination.compare(first, min(first + _WINDOW - 1, head))
    examination.look_above(head)
    examination.compare_checkpoints(checkpoints)
    examination.compare_shortcuts(checkpoints, head, awaited)
    examination.compare_checksums(max((each.version for each in checkpoints), default=0))
    examination.look_around()
    return examination.findings


@dataclass(slots=True)
class _Examination:
    database: Database
    log: KeptLog
    inspector: Inspector
    address: StoreAddress
    look: Look
    listed: ListedLog
    findings: Findings = field(default_factory=Findings)
    _doubtful: list[int] = field(default_factory=list)
    """Versions of ours whose checksums have to be read."""
    _put_by_others: set[int] = field(default_factory=set)
    """Versions whose checksums were never ours to write, as those of an import."""
    _obstacles: frozenset[str] = frozenset()
    _last_put: int = -1
    """The newest version that ever was in the log."""

    def look_for_obstacles(self) -> None:
        """Links, folders and the like with the name of a log file. Readers follow links; we do not, nor keep them.

        A link in the place of a folder stays: an operator may have moved the folder on purpose.
        """
        found = [each for each in self._store.obstacles(LOG_DIRECTORY) if is_log_name(_name(each.key))]
        found += [each for each in self._store.obstacles(SIDECARS) if each.key.endswith((SIDECARS, ".parquet"))]
        self._obstacles = frozenset(each.key for each in found)
        links = [each for each in found if each.is_link and each.key != SIDECARS]
        self.findings.obstacles += [each for each in found if each not in links]
        self.findings.misleading += [_link(each) for each in links]

    def compare(self, first: int, last: int) -> None:
        """The commits of some versions."""
        with self.database.read() as connection:
            kept = kept_commits(connection, self.log.table_id, first=first, last=last)
        suspects = {each.version: each for each in kept if self._is_suspect(each)}
        self._last_put = max([self._last_put, *(each.version for each in kept if each.published_at is not None)])
        self._doubtful += [each.version for each in kept if self._has_doubtful_checksum(each)]
        self._put_by_others |= {each.version for each in kept if each.is_put_by_others}
        for found in self._differences([each.object for each in suspects.values()]):
            commit = suspects[found.version]
            if found.found:
                self._sort(found, was_published=commit.published_at is not None)
            elif commit.is_published:
                self.findings.missing.append(found)

    def look_above(self, head: int) -> None:
        """Commits that SQL does not have are foreign."""
        above = sorted(version for version in self.listed.commits if version > head)
        for version in above[:_MOST_FOREIGN]:
            key = self.listed.commits[version].key
            if (found := stored_digest(self._store, key)) is not None:
                self._sort(ObjectDifference(version=version, key=key, found=found.hex()), was_published=False)

    def compare_checkpoints(self, checkpoints: Sequence[KeptCheckpoint]) -> None:
        """Whether the checkpoints that are recorded are there as they were written, with their sidecars."""
        newest = max((each.version for each in checkpoints if each.digest is not None), default=-1)
        suspects = [each for each in (self._suspect(each, newest) for each in checkpoints) if each is not None]
        found = list(self._differences(suspects))
        lost = {each.version for each in found}
        for each in checkpoints:
            is_v2 = isinstance(parse(each.name), UuidCheckpoint)
            is_whole = self._is_looked_through(each)
            if is_v2 and (is_whole or each.version == newest) and each.version not in lost:
                self.findings.checked += 1
                found += damaged_sidecars(self._store, _key(each), each.version, whole=is_whole)
        for difference in found:
            self._note(difference)
        self._give_up_manifests(checkpoints, found)

    def _is_looked_through(self, checkpoint: KeptCheckpoint) -> bool:
        """Whether the sidecars of a checkpoint are read, if it has some.

        So are they where nothing builds on it any more since the last look: the next checkpoint was refused to.
        """
        if self.look.is_reread(checkpoint.version):
            return True
        if checkpoint.digest is None:
            return checkpoint.written_at >= self.look.since
        return checkpoint.version in self.look.sample and checkpoint.num_bytes <= _SAMPLED_BYTES

    def _give_up_manifests(self, checkpoints: Sequence[KeptCheckpoint], found: Sequence[ObjectDifference]) -> None:
        """Those that share a sidecar are written again together. Behind a folder that is a link, readers find them."""
        if SIDECARS in self._obstacles:
            return
        recorded = {_key(each) for each in checkpoints}
        for misleading, damage in damaged_manifests(self._store, self.listed, found):
            self.findings.misleading.append(misleading)
            if misleading.meta.key in recorded:
                self._note(damage)

    def compare_shortcuts(self, checkpoints: Sequence[KeptCheckpoint], head: int, awaited: frozenset[int]) -> None:
        """Whether readers that do not go by the commits see what SQL says; of what is not recorded, by what it says."""
        shortcuts = Shortcuts(
            database=self.database,
            log=self.log,
            store=self._store,
            listed=self.listed,
            head=head,
            last_put=max(self._last_put, self.log.published),
            awaited=awaited,
            foreign=min((each.version for each in self.findings.foreign), default=None),
            modified_after=self.look.since,
            obstacles=self._obstacles,
            sample=self.look.sample,
            is_reread=self.look.is_reread,
            takes_unusable=self.look.takes_unusable,
            judged=self.look.judged,
        )
        recorded = {each.name for each in checkpoints if each.digest is not None}
        recorded |= {_name(each.meta.key) for each in self.findings.misleading}  # they were judged
        self.findings.misleading += shortcuts.misleading(recorded)
        pointer, in_the_way = shortcuts.pointer(checkpoints[-1] if checkpoints else None)
        self.findings.misleading += [] if in_the_way is None else [in_the_way]
        self._note(pointer)
        if self.log.log_start > 0 and self.log.log_start not in shortcuts.sound_versions:
            key = f"{LOG_DIRECTORY}/{checkpoint_name(self.log.log_start)}"
            self._note(ObjectDifference(version=self.log.log_start, key=key, found=""))
        self.findings.checked += shortcuts.checked
        self.findings.judged = frozenset(shortcuts.passed)

    def look_around(self) -> None:
        """Whether there is nothing in the log because all of its place is gone."""
        was_published = self.log.published >= self.log.log_start
        self.findings.is_place_gone = was_published and self.listed.is_empty and not has_place(self._store)

    def compare_checksums(self, newest: int) -> None:
        """Which versions have no checksum, from the newest checkpoint on; and which have another than was written."""
        # That of the version that an imported table begins with follows from nothing.
        oldest = self.log.log_start + (self.log.log_start > 0)
        wanted = range(max(newest, oldest, self.log.published - _MOST_CHECKSUMS), self.log.published + 1)
        doubtful = [version for version in self._doubtful if version >= oldest]
        altered = set[int]()
        for versions in _runs(doubtful):
            altered |= self._altered_checksums(versions)
        missing = self._without_checksum(wanted, oldest)
        if not missing and not altered:
            return
        if self.look.writes_checksums():
            certain = {each.version for each in expected_checksums(self.database, self.log, missing)}
            self.findings.checksums = sorted(certain.intersection(wanted) | altered)
            self.findings.late_checksums = _never_written(missing, certain, self._put_by_others)
        else:
            self.findings.misleading += [_wrong_checksum(self.listed.checksums[each], each) for each in sorted(altered)]

    def _altered_checksums(self, versions: Sequence[int]) -> set[int]:
        """Those of some versions that say something else than SQL: byte by byte first, which executors do."""
        altered, differing = set[int](), set[int]()
        for some in batched(expected_checksums(self.database, self.log, versions), _WINDOW):
            for found in self._differences(some):
                (differing if found.found else altered).add(found.version)
        if differing:
            altered |= set(wrong_checksums(self.database, self.log, self._store, versions, suspects=differing))
        return altered

    def _without_checksum(self, wanted: range, oldest: int) -> list[int]:
        """Those of the wanted versions that have none, and the versions right before them that have none either."""
        start = wanted.start
        while start > max(oldest, wanted.start - _MOST_CHECKSUMS) and start - 1 not in self.listed.checksums:
            start -= 1
        found = [version for version in range(start, wanted.stop) if version not in self.listed.checksums]
        return found if found and found[-1] >= wanted.start else []

    def _sort(self, found: ObjectDifference, *, was_published: bool) -> None:
        """Whose the bytes are that are not the database's."""
        with self.database.read() as connection:
            if is_superseded(connection, self.log.table_id, found.version, found.found):
                self.findings.superseded.add(found.version)
        ours = was_published or found.version in self.findings.superseded
        (self.findings.altered if ours else self.findings.foreign).append(found)

    def _is_suspect(self, commit: KeptCommit) -> bool:
        meta = self.listed.commits.get(commit.version)
        if not commit.is_published:
            return meta is not None  # being put there at this moment, or a foreign commit
        if commit.version in self.look.sample or self.look.is_reread(commit.version):
            return True
        if self.look.is_suspect(meta, written_at=commit.published_at or 0):
            return True
        return meta is not None and meta.size != commit.object.num_bytes

    def _has_doubtful_checksum(self, commit: KeptCommit) -> bool:
        meta, put_at = self.listed.checksums.get(commit.version), commit.published_at
        if meta is None or put_at is None:
            return False
        if not meta.size or self.look.is_reread(commit.version):
            return True
        # To say what one has to hold, all files of the table may have to be counted: not because clocks are apart.
        return self.look.is_suspect(meta, written_at=put_at + CLOCKS_APART)

    def _suspect(self, checkpoint: KeptCheckpoint, newest: int) -> ExpectedObject | None:
        """The file of a checkpoint, if it has to be read. One that nothing builds on only has to be there."""
        meta = self.listed.others.get(checkpoint.name)
        if meta is not None and (checkpoint.digest is None or not self._is_doubtful(checkpoint, meta, newest)):
            return None
        # A wrong digest differs, and so does nothing; the size of one file among sidecars is not recorded.
        pieces = ((0 if meta is None else meta.size, checkpoint.digest or b""),)
        return ExpectedObject(version=checkpoint.version, key=_key(checkpoint), pieces=pieces)

    def _is_doubtful(self, checkpoint: KeptCheckpoint, meta: Meta, newest: int) -> bool:
        """Whether the file of a checkpoint of ours has to be read: large ones only by what the listing says of them."""
        if self.look.is_reread(checkpoint.version) or self.look.is_suspect(meta, written_at=checkpoint.written_at):
            return True
        if isinstance(parse(checkpoint.name), UuidCheckpoint):
            # Its size is not recorded, but that of all files together; the newest is read for its sidecars anyway.
            is_sampled = checkpoint.version == newest or checkpoint.version in self.look.sample
        elif meta.size != checkpoint.num_bytes:
            return True
        else:
            is_sampled = checkpoint.version in self.look.sample
        return is_sampled and meta.size <= _SAMPLED_BYTES

    def _note(self, damaged: ObjectDifference | None) -> None:
        """A checkpoint's sidecars and pointer are written again with it."""
        if damaged is not None and damaged.version not in {each.version for each in self.findings.checkpoints}:
            self.findings.checkpoints.append(damaged)

    def _differences(self, expected: Sequence[ExpectedObject]) -> Iterator[ObjectDifference]:
        """What is not as it should be. An object is missing where something else has its name: that is not opened."""
        yield from (
            ObjectDifference(version=each.version, key=each.key, found="")
            for each in expected
            if each.key in self._obstacles
        )
        objects = [each for each in expected if each.key not in self._obstacles]
        self.findings.checked += len(objects)
        if objects:
            yield from self.inspector.differences(self.address, objects)

    @property
    def _store(self) -> Store:
        return self.inspector.store(self.address)


def _name(key: str) -> str:
    return key.removeprefix(f"{LOG_DIRECTORY}/")


def _link(found: Obstacle) -> Misleading:
    file = parse(_name(found.key))
    meta = Meta(found.key, size=0, modified=0, etag=ETag(""))
    version = file.version if isinstance(file, LogFile) else -1
    return Misleading(version=version, meta=meta, reason=found.what, is_link=True)


def _runs(versions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Versions, which ascend, in parts that are far apart."""
    ends = [at for at in range(1, len(versions)) if versions[at] - versions[at - 1] > _FAR_APART]
    return (versions[first:last] for first, last in pairwise([0, *ends, len(versions)]) if last > first)


def _never_written(missing: Sequence[int], certain: Collection[int], put_by_others: Collection[int]) -> list[int]:
    """Checksums that wait: where one is not certain, the pipeline leaves out those that would follow from it.

    It publishes no version that is in the log already, and so writes no checksum of it.
    """
    late, after = list[int](), None
    for version in missing:
        if version not in certain:
            after = version
        elif after == version - 1:
            late.append(version)
            after = version
        elif version in put_by_others:
            late.append(version)
    return late


def _wrong_checksum(meta: Meta, version: int) -> Misleading:
    return Misleading(version=version, meta=meta, reason="does not say what the database says")


def _key(checkpoint: KeptCheckpoint) -> str:
    return f"{LOG_DIRECTORY}/{checkpoint.name}"
