"""The guarantees G1 to G9, held against what SQL and the stores contain, after every change of either."""

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from deltamirror.delta import names
from tests.simulation.records import State, Version, checkpoint_state, load_version, pointed_version
from tests.simulation.world import Witness, World

EVERYWHERE: Final = "all-"
"""Files of transactions over all tables have names that begin so."""

_EXPIRY: Final = 6 * 24 * 3600 * 1000
"""Younger tombstones are in every checkpoint."""

_LOG: Final = f"{names.LOG_DIRECTORY}/"
_POINTER: Final = f"{_LOG}{names.LAST_CHECKPOINT}"


@dataclass
class SeenTable:
    """A table as SQL has it."""

    table_id: int
    name: str
    location: str
    versions: list[Version] = field(default_factory=list)
    seen_at: list[float] = field(default_factory=list)
    """When each of them was committed, by the clock that is never set."""
    lineage: int = 0
    log_start: int = 0
    published: int = -1
    is_quarantined: bool = False
    states: dict[int, str] = field(default_factory=dict)
    checkpoints: dict[int, str] = field(default_factory=dict)
    """Those that are written, with their names."""
    unwritten: bool = False
    """Whether the newest checkpoint that was asked for is not written."""

    @property
    def head(self) -> int:
        """The newest version."""
        return len(self.versions) - 1

    @property
    def is_mirrored(self) -> bool:
        """Whether all of it is in the log, as far as is recorded."""
        success = all(state == "SUCCESS" for state in self.states.values())
        return self.published == self.head and success and not self.unwritten and not self.is_quarantined


class Observer(Witness):
    """Knows what SQL and the stores contain, what somebody else did to the stores, and what writers were told."""

    def __init__(self, world: World) -> None:
        self._world, self._driver = world, world.database.driver
        self._changes = -1
        self._log_changes: Counter[str] = Counter()
        """How often each log was changed, by location."""
        self._judged: dict[int, tuple[Hashable, bool]] = {}
        """Whether a log was what SQL says of it, by table, and all that this answer follows from."""
        self.tables: dict[int, SeenTable] = {}
        self.touched: set[tuple[str, str]] = set()
        """Objects that somebody else put, changed or deleted, and that are not ours again."""
        self.saved: set[bytes] = set()
        """Digests of what was put aside before it was replaced."""
        self.superseded: dict[bytes, set[str]] = {}
        """Digests of versions that an adoption took out of the history, and the files that they added."""
        self.dropped: set[str] = set()
        """Files of commits that an adoption dropped, because it was told to."""
        self.in_trouble: set[int] = set()
        """Tables that have trouble of their own."""
        self._promised: dict[str, Mapping[str, int]] = {}
        self._refused: set[str] = set()

    # What writers are told

    def acknowledged(self, files: Iterable[str], versions: Mapping[str, int]) -> None:
        """A writer was told that its transaction is committed, with these files, as these versions."""
        for file in files:
            self._promised[file] = versions
            self._check_promise(file, versions)

    def refused(self, files: Iterable[str]) -> None:
        """A writer was told that its transaction did not take place, and will not."""
        self._refused.update(files)
        for table in self.tables.values():
            _require(self._refused.isdisjoint(_added(table)), f"G2: {table.name} has what its writer was refused")

    def _check_promise(self, file: str, versions: Mapping[str, int]) -> None:
        for table in self.tables.values():
            if (version := versions.get(table.name)) is not None and file not in self.dropped:
                # An adoption gives versions of ours other numbers.
                places = table.versions if table.lineage else table.versions[version : version + 1]
                held = any(file in each.added for each in places)
                _require(held, f"G2: {file} was committed as version {version} of {table.name}, and is not there")

    # SQL

    def committed(self) -> None:
        """Whatever a transaction did, the guarantees hold."""
        if self._driver.total_changes == self._changes:
            return
        self._changes = self._driver.total_changes
        self._see_tables()
        for table in self.tables.values():
            self._see_versions(table)
        self._check_transactions()
        for table in self.tables.values():
            self._see_mirror(table)

    def _see_tables(self) -> None:
        query = (
            "SELECT t.table_id, name, location, lineage, log_start, published_version, quarantined_at "
            "FROM dl_tables t JOIN dl_heads h ON h.table_id = t.table_id"
        )
        for table_id, name, location, lineage, log_start, published, quarantined in self._driver.execute(query):
            table = self.tables.setdefault(table_id, SeenTable(table_id, name, location))
            if (lineage or 0) != table.lineage:
                self._see_adoption(table, lineage)
            table.log_start, table.published, table.is_quarantined = log_start, published, quarantined is not None

    def _see_adoption(self, table: SeenTable, lineage: int) -> None:
        """The one way in which versions change: an operator asked for it, and what was there is kept."""
        _require(lineage == table.lineage + 1, f"G2: {table.name} was adopted twice at once")
        query = "SELECT version, commit_id, new_version FROM dl_superseded WHERE table_id = ? AND lineage = ?"
        rows = self._driver.execute(query, [table.table_id, table.lineage]).fetchall()
        for version, commit_id, moved_to in rows:
            known = table.versions[version]
            _require(known.commit_id == commit_id, f"G2: {table.name} supersedes what was not version {version}")
            self.superseded[hashlib.sha256(known.data).digest()] = set(known.added)
            if moved_to is None:
                self.dropped |= known.added
        table.lineage = lineage
        table.versions.clear()
        table.seen_at.clear()
        table.states.clear()
        table.checkpoints.clear()

    def _see_versions(self, table: SeenTable) -> None:
        query = (
            "SELECT version, commit_id, committed_at, txn_id, digest, read_version FROM dl_table_versions "
            "WHERE table_id = ? ORDER BY version"
        )
        rows = self._driver.execute(query, [table.table_id]).fetchall()
        _require([row[0] for row in rows] == list(range(len(rows))), f"G3: {table.name} has gaps: {rows}")
        _require(len(rows) >= len(table.versions), f"G2: {table.name} has lost versions")
        for row, known in zip(rows, table.versions, strict=False):
            same = (row[1], bytes(row[4])) == (known.commit_id, known.digest)
            _require(same, f"G2: version {row[0]} of {table.name} was committed twice")
        for row in rows[len(table.versions) :]:
            self._add_version(table, row[1:])
            self._take_in(table, row[0])
        [[head]] = self._driver.execute("SELECT version FROM dl_heads WHERE table_id = ?", [table.table_id])
        _require(head == table.head, f"G2: the head of {table.name} is {head}, its newest version {table.head}")

    def _add_version(self, table: SeenTable, row: tuple[Any, ...]) -> None:
        before = table.versions[-1] if table.versions else None
        state = before.state if before else State()
        version = load_version(self._driver, row, state)
        what = f"version {table.head + 1} of {table.name}"
        if before is not None:
            _require(version.committed_at > before.committed_at, f"G2: {what} is not later than the one before it")
        again = version.added & _added(table)
        _require(not again, f"G2: {what} adds {sorted(again)}, which was added before: committed twice")
        gone = version.removed - state.files.keys()
        _require(not gone, f"G2: {what} removes {sorted(gone)}, which the table does not have")
        if version.removed and version.read_version is not None:
            missed = [v for v in range(version.read_version + 1, table.head + 1) if table.versions[v].removed]
            _require(
                not missed, f"G2: {what} read {version.read_version}, and {missed} came first: a conflict was missed"
            )
        _require(self._refused.isdisjoint(version.added), f"G2: {what} is what its writer was refused")
        table.versions.append(version)
        table.seen_at.append(self._world.schedule.now)

    def _take_in(self, table: SeenTable, version: int) -> None:
        """What somebody else put there is ours, if it was adopted."""
        name = names.commit_name(version)
        if self._is_touched(table, name) and self._object(table, name) == table.versions[version].data:
            self.touched.discard((table.location, f"{_LOG}{name}"))

    def _check_transactions(self) -> None:
        everywhere = [
            {file for file in _added(table) - self.dropped if file.startswith(EVERYWHERE)}
            for table in self.tables.values()
        ]
        _require(all(each == everywhere[0] for each in everywhere), "G2: a transaction over all tables is torn")

    def _see_mirror(self, table: SeenTable) -> None:
        own = [table.table_id]
        states = dict(self._driver.execute("SELECT version, state FROM dl_mirror_status WHERE table_id = ?", own))
        for version, state in states.items():
            if state == "SUCCESS" and table.states.get(version) != "SUCCESS" and version >= table.log_start:
                self._check_recorded(table, version)
        table.states = states
        behind = [version for version in range(table.published + 1) if states.get(version) != "SUCCESS"]
        _require(not behind, f"G3: {table.name} is published up to {table.published}, but {behind} are not")
        _require(states.keys() == set(range(table.head + 1)), f"{table.name}: a version has no state")
        query = "SELECT version, state, name FROM dl_checkpoints WHERE table_id = ? ORDER BY version"
        checkpoints = self._driver.execute(query, own).fetchall()
        written = {version: name for version, state, name in checkpoints if state == "SUCCESS"}
        for version in {each for each in written.keys() - table.checkpoints.keys() if each >= table.log_start}:
            self._check_checkpoint(table, version, written[version])
        table.checkpoints = written
        asked = [(version, state) for version, state, _ in checkpoints if version <= table.published]
        table.unwritten = bool(asked) and asked[-1][1] != "SUCCESS"

    def _check_recorded(self, table: SeenTable, version: int) -> None:
        found = self._object(table, names.commit_name(version))
        is_there = found == table.versions[version].data or self._is_touched(table, names.commit_name(version))
        _require(is_there, f"R53: version {version} of {table.name} is recorded as published, and is not in the log")

    def _check_checkpoint(self, table: SeenTable, version: int, name: str) -> None:
        if self._is_touched(table, name):
            return
        found = self._object(table, name)
        _require(found is not None, f"R53: {name} of {table.name} is recorded as written, and is not in the log")
        state, wanted = checkpoint_state(found or b""), table.versions[version].state
        if table.versions[version].committed_at > table.versions[0].committed_at + _EXPIRY:
            state, wanted = replace(state, tombstones=frozenset()), replace(wanted, tombstones=frozenset())
        _require(state == wanted, f"G4: {name} of {table.name} is not the state of its version")

    # Stores

    def changed(self, location: str, key: str, *, before: bytes | None, after: bytes | None, ours: bool) -> None:
        """Whatever happened to an object, the guarantees hold."""
        self._log_changes[location] += 1
        table = next((each for each in self.tables.values() if each.location == location), None)
        if table is None or not key.startswith(_LOG):
            return
        if not ours:
            self.touched.add((location, key))
            return
        if key.startswith(f"{_LOG}_deltamirror/") and after is not None:
            self.saved.add(hashlib.sha256(after).digest())
        elif key == _POINTER:
            self._check_pointer(table, before, after)
        else:
            self._check_object(table, key, before, after)
        if after is None or hashlib.sha256(after).digest() not in self.superseded:
            self.touched.discard((location, key))

    def _check_object(self, table: SeenTable, key: str, before: bytes | None, after: bytes | None) -> None:
        match names.parse(key.removeprefix(_LOG)):
            case names.Commit(version):
                self._check_commit(table, version, before, after)
            case names.ChecksumFile(version) if after is not None:
                self._check_follows(table, version, key)
                self._check_checksum(table, version, after)
            case names.Checkpoint(version) if after is not None:
                self._check_follows(table, version, key)
            case names.Checkpoint(version):
                may_go = version < table.log_start or self._is_touched(table, key.removeprefix(_LOG))
                _require(may_go, f"G9: {key} of {table.name} was deleted, which the log has to hold")
                self._check_readable(table)

    def _check_commit(self, table: SeenTable, version: int, before: bytes | None, after: bytes | None) -> None:
        what = f"version {version} of {table.name}"
        if after is None:
            _require(version < table.log_start, f"G9: {what} was deleted, which the log has to hold")
            self._check_readable(table)
            return
        if hashlib.sha256(after).digest() in self.superseded and before is None:
            # A worker that woke late: it is known for what it is, and replaced when somebody repairs the table.
            self.touched.add((table.location, f"{_LOG}{names.commit_name(version)}"))
            return
        _require(version <= table.head, f"G1: {what} is in the log, and not in SQL")
        if before is not None:
            mended = self._is_touched(table, names.commit_name(version))
            kept = hashlib.sha256(before).digest() in self.saved
            _require(mended and kept, f"G5: {what} was overwritten")
        _require(after == table.versions[version].data, f"G4: {what} is in the log with other bytes than in SQL")
        if version > table.log_start:
            name = names.commit_name(version - 1)
            is_there = self._object(table, name) is not None or self._is_touched(table, name)
            _require(is_there, f"G3: {what} is in the log before the version before it")

    def _check_readable(self, table: SeenTable) -> None:
        """Every version from the log's start on can be read: from a checkpoint, or from the first commit."""
        if any(location == table.location for location, _ in self.touched):
            return
        listed = [names.parse(name) for name in self._names_in_log(table)]
        commits = {each.version for each in listed if isinstance(each, names.Commit)}
        checkpoints = {each.version for each in listed if isinstance(each, names.Checkpoint)}
        starts = [
            max((c for c in checkpoints if c <= v), default=-1) for v in range(table.log_start, table.published + 1)
        ]
        for version, start in enumerate(starts, table.log_start):
            missing = set(range(start + 1, version + 1)) - commits
            _require(not missing, f"G9: version {version} of {table.name} cannot be read without {sorted(missing)}")

    def _check_follows(self, table: SeenTable, version: int, key: str) -> None:
        name = names.commit_name(version)
        is_there = self._object(table, name) is not None or self._is_touched(table, name)
        _require(is_there, f"G3: {key} of {table.name} is in the log before its commit")

    def _check_checksum(self, table: SeenTable, version: int, data: bytes) -> None:
        found, files = json.loads(data), table.versions[version].state.files
        counted = (found["numFiles"], found["tableSizeBytes"])
        _require(counted == (len(files), sum(files.values())), f"G4: the checksum {version} of {table.name} is wrong")

    def _check_pointer(self, table: SeenTable, before: bytes | None, after: bytes | None) -> None:
        if after is None:
            _require(self._is_touched(table, names.LAST_CHECKPOINT), f"G3: the pointer of {table.name} was deleted")
            return
        version = json.loads(after)["version"]
        name = names.checkpoint_name(version)
        if before is not None and not self._is_touched(table, names.LAST_CHECKPOINT):
            earlier = json.loads(before)["version"]
            _require(earlier <= version, f"G3: the pointer of {table.name} went back from {earlier} to {version}")
        is_there = self._object(table, name) is not None or self._is_touched(table, name)
        _require(is_there, f"G3: the pointer of {table.name} names {name}, which is not there")
        if not self._is_touched(table, name):
            self._check_checkpoint(table, version, name)

    # At the end

    @property
    def is_settled(self) -> bool:
        """Whether everything is mirrored, and nothing in a log is anybody else's."""
        return all(map(self._is_settled, self.tables.values()))

    def held_up(self, but: SeenTable) -> list[str]:
        """The tables, but for this one and for those in quarantine, that are not mirrored."""
        others = [table for table in self.tables.values() if table is not but and not table.is_quarantined]
        return [table.name for table in others if not self._is_settled(table)]

    def delayed(self, seconds: float) -> list[str]:
        """The tables without trouble of their own, which were published to before, that wait for longer than this."""
        since = self._world.schedule.now - seconds
        well = [table for key, table in self.tables.items() if key not in self.in_trouble and table.published >= 0]
        return [table.name for table in well if any(at < since for at in table.seen_at[table.published + 1 :])]

    def _is_settled(self, table: SeenTable) -> bool:
        return table.is_mirrored and self._is_log_whole(table)

    def _is_log_whole(self, table: SeenTable) -> bool:
        """Asked before every step, and answered anew when the log has changed, or what SQL says of it."""
        said_by_sql = (table.lineage, table.head, table.log_start, *table.checkpoints.items())
        basis = (self._log_changes[table.location], said_by_sql)
        if (judged := self._judged.get(table.table_id)) is None or judged[0] != basis:
            judged = self._judged[table.table_id] = (basis, self._judge_log(table))
        return judged[1]

    def _judge_log(self, table: SeenTable) -> bool:
        first = names.commit_name(table.log_start)
        found = {name: data for name, data in self._commits_in_log(table).items() if name >= first}
        kept = enumerate(table.versions[table.log_start :], table.log_start)
        checkpoints = {version: name for version, name in table.checkpoints.items() if version >= table.log_start}
        is_whole = all(self._object(table, name) is not None for name in checkpoints.values())
        if checkpoints and self._pointed(table) < max(checkpoints):
            return False
        commits = {names.commit_name(version): known.data for version, known in kept}
        return is_whole and found == commits and not any(self._misleading(table))

    def _misleading(self, table: SeenTable) -> Iterator[str]:
        """What readers of a log go by, and says something else than its commits."""
        there = set[int]()
        for name in self._names_in_log(table):
            match names.parse(name):
                case names.Checkpoint(version) if version >= table.log_start:
                    there.add(version)
                    if not self._is_sound(table, version, name):
                        yield name
                case names.UuidCheckpoint(version) if self._is_sound(table, version, name):
                    pass  # of another writer, and by chance of two versions with the same files
                case names.UuidCheckpoint() | names.Compaction():  # we write none of them here
                    yield name
                case names.ChecksumFile(version) if version > table.head:
                    yield name
        if self._object(table, names.LAST_CHECKPOINT) is not None and self._pointed(table) not in there:
            yield names.LAST_CHECKPOINT

    def _is_sound(self, table: SeenTable, version: int, name: str) -> bool:
        """Whether a checkpoint, whoever put it there, has the files and the rest of its version."""
        if version > table.head:
            return False
        try:
            found = checkpoint_state(self._object(table, name) or b"")
        except (pa.ArrowException, KeyError):
            return False
        wanted = table.versions[version].state
        return replace(found, tombstones=wanted.tombstones) == wanted

    def _pointed(self, table: SeenTable) -> int:
        """The version that the pointer names; -1 where none can be read."""
        return pointed_version(self._object(table, names.LAST_CHECKPOINT) or b"")

    def _commits_in_log(self, table: SeenTable) -> Mapping[str, bytes | None]:
        listed = self._names_in_log(table)
        return {name: self._object(table, name) for name in listed if isinstance(names.parse(name), names.Commit)}

    def _names_in_log(self, table: SeenTable) -> list[str]:
        store = self._world.store(table.location)
        return [meta.key.removeprefix(_LOG) for meta in store.list(_LOG.rstrip("/")) if "_deltamirror/" not in meta.key]

    def check_end(self) -> None:
        """After everything went on without trouble for long enough."""
        for table in self.tables.values():
            _require(table.is_mirrored, f"G6: {table.name} is not mirrored: {_troubles(table)}")
            self._check_log(table)
            misleading = list(self._misleading(table))
            _require(not misleading, f"G5: readers of {table.name} go by {misleading}, which SQL does not say")
            for version, name in table.checkpoints.items():
                if version >= table.log_start:
                    self._check_checkpoint(table, version, name)
        for file, versions in self._promised.items():
            self._check_promise(file, versions)

    def _check_log(self, table: SeenTable) -> None:
        first = names.commit_name(table.log_start)
        found = {name: data for name, data in self._commits_in_log(table).items() if name >= first}
        wanted = {names.commit_name(version) for version in range(table.log_start, table.head + 1)}
        _require(found.keys() == wanted, f"G6: the log of {table.name} has {found.keys() ^ wanted} too many or too few")
        for version in range(table.log_start, table.head + 1):
            same = found[names.commit_name(version)] == table.versions[version].data
            _require(same, f"G6: version {version} of {table.name} has other bytes in the log than in SQL")

    def _object(self, table: SeenTable, name: str) -> bytes | None:
        found = self._world.store(table.location).read(f"{_LOG}{name}")
        return None if found is None else found.data

    def _is_touched(self, table: SeenTable, name: str) -> bool:
        return (table.location, f"{_LOG}{name}") in self.touched


def _added(table: SeenTable) -> set[str]:
    return {file for version in table.versions for file in version.added}


def _troubles(table: SeenTable) -> str:
    waiting = [f"{version} {state}" for version, state in table.states.items() if state != "SUCCESS"]
    return f"head {table.head}, published {table.published}, {waiting}, quarantined: {table.is_quarantined}"


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)
