"""In-commit timestamps are right on every road by which bytes are prepared before the head of their table is locked.

Appends, exact versions, retries, lines of other writers, adoptions and imports meet versions that turn the timestamps
on or off, drawn by a seed. The log is held against the protocol by a model that knows nothing but its JSON.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from deltamirror import Add, Catalog, MirrorEngine, Table
from deltamirror.config import StorageSettings, WriterSettings
from deltamirror.delta.actions import Action, Metadata
from deltamirror.delta.lines import encode
from deltamirror.errors import Conflict, InvalidAction
from deltamirror.storage.open import store_at
from deltamirror.txnlog.commit.committing import Committing
from tests.support.databases.catalogs import ENGINES
from tests.support.imports.adoptions import add_line, adopted, assert_same, mirror, mirroring, their_commit
from tests.support.imports.importers import imported
from tests.support.lakes.lake import add, create, info_of, opened, paths
from tests.support.mirrors.local import committed_files, make_table, published_files
from tests.support.readers.reader import Reader

pytestmark = [pytest.mark.requirement("R6"), pytest.mark.requirement("R37")]

ENABLED = "delta.enableInCommitTimestamps"
SINCE = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
ENABLEMENT = "metaData.in-commit-timestamp.enablement"
LARGE = 5
"""Commits of so many files are staged before they are ratified."""
SMALL_OR_STAGED = pytest.mark.parametrize("size", [1, LARGE], ids=["small", "staged"])


@dataclass
class Moment:
    """When a commit is prepared to its last byte, and its head is not locked yet: something else happens, once."""

    act: Callable[[], str] | None = None
    came: str = ""
    """What happened."""

    def come(self) -> None:
        """It is this moment."""
        act, self.act = self.act, None
        self.came = self.came if act is None else act()


@pytest.fixture
def before_lock(monkeypatch: pytest.MonkeyPatch) -> Moment:
    moment = Moment()

    def after_moment(step: Callable[..., Any]) -> Callable[..., Any]:
        def act_first(*arguments: Any) -> Any:
            moment.come()
            return step(*arguments)

        return act_first

    for step in ("_append", "_ratify"):  # in one statement, or under a lock of the head
        monkeypatch.setattr(Committing, step, after_moment(getattr(Committing, step)))
    return moment


@pytest.fixture
def staging(sqlite_lake: str) -> Iterator[Catalog]:
    """A catalog with few lines in a large commit, which commits whatever a log holds."""
    writer = WriterSettings(on_divergence="accept", retry_base=0.01, retry_max=0.05)
    with opened(sqlite_lake, writer=writer, stage_above=LARGE - 1, chunk_lines=2) as found:
        yield found


def objections(files: Mapping[str, bytes]) -> Iterator[str]:
    """What the protocol objects to in a log that is given from its version 0 on."""
    was_on, since, last = False, dict[str, str](), 0
    for version, data in enumerate(files.values()):
        lines = [msgspec.json.decode(line) for line in data.splitlines()]
        info: dict[str, Any] = next((line["commitInfo"] for line in lines if "commitInfo" in line), {})
        stated: Any = info.get("inCommitTimestamp")
        is_on = was_on
        for configuration in (line["metaData"]["configuration"] for line in lines if "metaData" in line):
            is_on = configuration.get(ENABLED) == "true"
            if is_on and not was_on:
                since = dict(zip(SINCE, (str(version), str(stated)), strict=True)) if version else {}
            told = {key: configuration[key] for key in SINCE if key in configuration}
            if is_on and told != since:
                yield f"version {version} says that timestamps hold since {told}, and not since {since}"
        if is_on and ("commitInfo" not in lines[0] or stated is None):
            yield f"version {version} has no time in its first line"
        elif is_on and stated <= last:
            yield f"version {version} has the time {stated}, after {last}"
        elif not is_on and stated is not None and "engineInfo" in info:  # others may state one all the same
            yield f"version {version} of ours has a time, though the table has none"
        last, was_on = max(last, stated or info.get("timestamp", 0)), is_on


def lines_of(files: list[Add], metadata: Metadata | None = None, *, stated: int | None) -> bytes:
    """A commit of another writer."""
    times = {"timestamp": 1_700_000_000_000} if stated is None else {"inCommitTimestamp": stated, "timestamp": stated}
    info = {"commitInfo": {**times, "operation": "WRITE", "operationParameters": {}}}
    actions: list[Action] = [*files] if metadata is None else [metadata, *files]
    return b"\n".join([msgspec.json.encode(info), *map(encode, actions)]) + b"\n"


def with_properties(
    metadata: Metadata, properties: Mapping[str, str] | None = None, *, without: tuple[str, ...] = ()
) -> Metadata:
    kept = {key: value for key, value in metadata.configuration.items() if key not in without}
    return replace(metadata, configuration={**kept, **(properties or {})})


def turned_on(metadata: Metadata, *, version: int, at: int) -> Metadata:
    """The metadata with which another writer turns timestamps on."""
    return with_properties(metadata, {ENABLED: "true", **dict(zip(SINCE, (str(version), str(at)), strict=True))})


@dataclass
class Lake:
    """One table, the files that it has by the model, and what may happen to it."""

    catalog: Catalog
    engine: MirrorEngine
    table: Table
    chance: random.Random
    before_lock: Moment
    files: set[str] = field(default_factory=set)
    number: int = 0

    def fresh(self) -> list[Add]:
        """Files that no commit has added: one, or so many that they are staged."""
        count = self.chance.choice([1, LARGE])
        self.number += count
        return [add(f"f{number}", stats='{"numRecords":1}') for number in range(self.number - count, self.number)]

    @property
    def head(self) -> int:
        return self.table.info().head

    def change(self) -> str:
        """Another writer turns timestamps on or off, or changes something else of the table; which of them."""
        was_on = self.table.snapshot().metadata.configuration.get(ENABLED) == "true"
        kind = self.chance.choice([("on", "off")[was_on]] * 2 + ["other"])
        changed = {f"other{self.head}": "x"} if kind == "other" else {ENABLED: str(kind == "on").lower()}
        self.table.alter(properties=changed)
        return kind

    def meanwhile(self) -> bool:
        """Let the table change once the next commit is prepared; whether it does."""
        changes = self.chance.random() < 0.7
        self.before_lock.act = self.change if changes else None
        return changes

    def append(self) -> None:
        """A blind append follows a version that turns timestamps on: that makes no file another one."""
        files = self.fresh()
        self.meanwhile()
        self.commit(files, lambda: self.table.append(files), after=("", "on"))

    def append_twice(self) -> None:
        """A token is for one commit, however the table changed between its uses."""
        files, token = self.fresh(), f"token {self.number}"
        self.meanwhile()
        if self.commit(files, lambda: self.table.append(files, token=token), after=("", "on")):
            self.change()
            assert self.table.append(files, token=token).already_applied

    def append_read(self) -> None:
        """An append that was computed from a version before others changed the table."""
        files, tx = self.fresh(), self.catalog.transaction()
        tx.stage("t", list(files), read_version=self.head)
        if self.chance.random() < 0.5:
            self.change()
        self.meanwhile()
        self.commit(files, tx.commit)

    def append_at(self) -> None:
        """An append that becomes an exact version, staged before some of those that come before it."""
        files, ahead, tx = self.fresh(), self.chance.randint(0, 2), self.catalog.transaction()
        tx.stage("t", list(files), at_version=self.head + 1 + ahead)
        for _ in range(ahead):
            self.change()
        is_taken = self.meanwhile()
        assert self.commit(files, tx.commit, after=("",)) is not is_taken

    def set_metadata(self) -> None:
        """Metadata that was read before others changed it, or did not."""
        read, tx = self.table.snapshot().metadata, self.catalog.transaction()
        tx.stage("t", [with_properties(read, {"mine": str(self.head)})], read_version=self.head)
        is_changed = self.meanwhile()
        assert self.commit([], tx.commit, after=("",)) is not is_changed

    def restate_metadata(self) -> None:
        """Metadata of an earlier version becomes an exact one; what it says of timestamps is as old as it."""
        earlier = self.table.snapshot(self.chance.randint(0, self.head)).metadata
        changed = with_properties(self.table.snapshot().metadata, earlier.configuration)
        tx = self.catalog.transaction()
        tx.stage("t", [changed], at_version=self.head + 1)
        self.commit([], tx.commit, after=("",))

    def lines(self) -> None:
        """Lines of another writer, who saw the table at this version or at the one before."""
        seen = self.table.snapshot(max(0, self.head - self.chance.randint(0, 1)))
        files, kind = self.fresh(), self.chance.choice(["append", "turn on", "turn on carelessly", "forget"])
        stated = seen.timestamp + self.chance.choice([0, 60_000])
        told = {
            "append": None,
            "turn on": turned_on(seen.metadata, version=self.head + 1, at=stated),
            "turn on carelessly": with_properties(seen.metadata, {ENABLED: "true"}),
            "forget": with_properties(seen.metadata, without=SINCE),
        }[kind]
        is_on = (told or seen.metadata).configuration.get(ENABLED) == "true"
        tx = self.catalog.transaction()
        tx.stage_lines("t", lines_of(files, told, stated=stated if is_on else None), at_version=self.head + 1)
        self.commit(files, tx.commit)

    def commit(self, files: list[Add], act: Callable[[], object], *, after: tuple[str, ...] = ()) -> bool:
        """Whether it is committed, as it has to be ``after`` these changes; its files are in the table, or none is."""
        self.before_lock.came = ""
        try:
            act()
        except (Conflict, InvalidAction):
            assert self.before_lock.came not in after
            self.before_lock.act = None  # it was refused before
            return False
        self.files |= {file.path for file in files}
        return True

    def adopt(self) -> None:
        """Another writer commits to the log while commits of ours wait; ours come after theirs, or are dropped."""
        mirror(self.engine)
        version, seen = self.head + 1, self.table.snapshot()
        for act in self.chance.sample([self.append, self.append, self.lines, self.change], k=3):
            act()
        is_on = seen.metadata.configuration.get(ENABLED) == "true"
        now = max(int(time.time() * 1000), seen.timestamp + 1)
        theirs: list[dict[str, Any]] = [add_line(f"theirs-{version}")]
        if not is_on and self.chance.random() < 0.6:
            is_on = True
            theirs.append(msgspec.json.decode(encode(turned_on(seen.metadata, version=version, at=now))))
        stated = {"inCommitTimestamp": now} if is_on else {}
        their_commit(self.table, version, *theirs, **stated, isBlindAppend=len(theirs) == 1)
        adopted(self.engine, drop_conflicting=True)
        self.files = set(paths(self.table))
        assert f"theirs-{version}" in self.files

    def check(self, reader: Reader) -> None:
        """Log and database agree with the model, with each other and with the protocol."""
        mirror(self.engine)
        assert published_files(self.table) == committed_files(self.table)
        assert list(objections(published_files(self.table))) == []
        assert set(paths(self.table)) == self.files
        assert_same(self.table, reader)


ROADS = ("append", "append_twice", "append_read", "append_at", "set_metadata", "restate_metadata", "lines", "adopt")


@pytest.mark.default_when(parameters=lambda those: those["seed"] < 3)
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_commit_carries_its_time_however_the_table_changed_while_it_was_prepared(
    staging: Catalog, before_lock: Moment, tmp_path: Path, seed: int, delta_rs: Reader
) -> None:
    chance = random.Random(seed)
    properties = {ENABLED: chance.choice(["true", "false"])}
    with mirroring(staging) as engine:
        lake = Lake(
            staging,
            engine,
            make_table(staging, tmp_path, properties=properties, features=["inCommitTimestamp"]),
            chance,
            before_lock,
        )
        for _ in range(2):
            for road in chance.sample(ROADS, k=len(ROADS)):
                getattr(lake, road)()
                assert list(objections(committed_files(lake.table))) == [], road
        lake.check(delta_rs)
    with Catalog(f"sqlite:///{tmp_path}/second.db") as second:
        second.init()
        imported(second, store_at(lake.table.location, StorageSettings()))
        second.table("t").append([add("imported")])
        assert list(objections(committed_files(second.table("t")))) == []


@pytest.mark.default_on(*ENGINES)
def test_an_append_that_was_prepared_before_timestamps_were_turned_on_has_one(
    catalog: Catalog, before_lock: Moment
) -> None:
    table = create(catalog, properties={ENABLED: "false"})
    table.append([add("before")])
    before_lock.act = lambda: str(table.alter(properties={ENABLED: "true"}))
    table.append([add("after")])
    assert next(iter(info_of(table, 3))) == "inCommitTimestamp"
    assert list(objections(committed_files(table))) == []


@SMALL_OR_STAGED
def test_lines_that_were_prepared_before_timestamps_were_turned_on_are_refused(staging: Catalog, size: int) -> None:
    table = create(staging, properties={ENABLED: "false"})
    lines = lines_of([add(f"f{number}") for number in range(size)], stated=None)
    table.alter(properties={ENABLED: "true"})
    with pytest.raises(InvalidAction) as refused, staging.transaction() as tx:
        tx.stage_lines("t", lines, at_version=2)
    assert refused.value.field == "inCommitTimestamp"
    assert table.info().head == 1


@SMALL_OR_STAGED
@pytest.mark.parametrize("version", [None, 1, 3], ids=["nothing", "an earlier version", "a later version"])
def test_lines_that_say_since_when_timestamps_hold_say_so_of_themselves(
    staging: Catalog, size: int, version: int | None
) -> None:
    table = create(staging, properties={ENABLED: "false"})
    table.append([add("before")])
    seen, stated = table.snapshot(), table.info().head_timestamp + 1
    wrong = with_properties(seen.metadata, {ENABLED: "true"})
    if version is not None:
        wrong = turned_on(seen.metadata, version=version, at=stated)
    files = [add(f"f{number}") for number in range(size)]
    with pytest.raises(InvalidAction) as refused, staging.transaction() as tx:
        tx.stage_lines("t", lines_of(files, wrong, stated=stated), at_version=2)
    told = "no version" if version is None else f"version {version} at {stated}"
    assert (refused.value.rule, refused.value.table) == (ENABLEMENT, "t")
    assert refused.value.found == f"{told} instead of version 2 at {stated}"
    right = turned_on(seen.metadata, version=2, at=stated)
    with staging.transaction() as tx:
        tx.stage_lines("t", lines_of(files, right, stated=stated), at_version=2)
    forgotten = with_properties(right, without=SINCE)
    with pytest.raises(InvalidAction) as refused, staging.transaction() as tx:
        tx.stage_lines("t", lines_of([add("later")], forgotten, stated=stated + 1), at_version=3)
    assert refused.value.rule == ENABLEMENT
