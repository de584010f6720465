"""Every reference table is imported, with the state that its log has at every version, or refused as it deserves.

Imports begin with version 0, since all of these logs do. So that they also begin with a checkpoint, each log that has
some is imported from copies that lack what is older than its first or its last, with and without the commit of that
version. The default suite has one such copy of a log of each kind of checkpoint, with or without that commit, and
leaves the logs of an earlier release to ``make soak``. All of it on SQLite; histories of all kinds on the other
engines, too. Copies have the times that the commits state: with those of a checkout, all tombstones would have expired.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

from deltamirror import Catalog, Table
from deltamirror.config import StorageSettings
from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.names import LOG_DIRECTORY, commit_name
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.decoded import adds_table
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.states import commit_time, state_at
from deltamirror.errors import DeltaMirrorError, NotFound
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import location_state, table_state
from deltamirror.ops.imports.importing import Imported, ImportOrder, TableImporter
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.ops.verify.report import Level
from deltamirror.ops.verify.verifying import Verifier
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.txnlog.tables.reading import Snapshot
from deltamirror.wiring import open_importer
from tests.support.databases.catalogs import ENGINES
from tests.support.databases.emptied import lake_url_of
from tests.support.imports.adoptions import logs_of
from tests.support.lakes.lake import add, opened, remove_of, row_counts
from tests.support.logs.checkpoints import commit, first_commit
from tests.support.logs.folder import read_log, write_log
from tests.support.mirrors.local import local_settings, mirror_of
from tests.support.reference_logs.golden import reference
from tests.support.reference_logs.own import CURRENT, EARLIER
from tests.support.reference_logs.sets import Source

pytestmark = [
    *(pytest.mark.requirement(row) for row in ("R66", "R89")),
    pytest.mark.reference,
]

REFERENCE = reference()

MISLEADING = ("checkpoint-without-", "emptied-pointer", "corrupted-last-checkpoint-kernel")
"""What the names of logs have in them that were made with something that misleads readers."""

BEFORE_ALL = 1_500_000_000_000


def copied(source: Source, folder: Path) -> Path:
    """A copy of what there is of its log."""
    log = folder / LOG_DIRECTORY
    shutil.copytree(REFERENCE.root / source.table / LOG_DIRECTORY, log)
    times = dict(stated_times(log))
    for path in log.glob("[0-9]*"):
        version, is_its_commit = int(path.name[:20]), path.name == commit_name(source.first)
        if version < source.first or (is_its_commit and not source.with_commit):
            path.unlink()
        else:
            os.utime(path, ns=(times[version] * 1_000_000,) * 2)
    return folder


def stated_times(log: Path) -> Iterator[tuple[int, int]]:
    """When each version was committed, as its commit says; if it does not, a while after the one before."""
    time = BEFORE_ALL
    for version, data in read_log(log.parent).items():
        infos = [action for action in decode_commit(data) if isinstance(action, CommitInfo)]
        time = (infos[0].timestamp if infos else None) or time + 1
        yield version, time


def checkpoints_of(table: str) -> list[int]:
    return sorted({int(path.name[:20]) for path in (REFERENCE.root / table / LOG_DIRECTORY).glob("*.checkpoint.*")})


WHOLE = [Source(table) for table in REFERENCE.importable]


def shortened(table: str) -> list[Source]:
    """From its first and from its last checkpoint, with and without the commit; or from each in one of these ways."""
    found = checkpoints_of(table)
    ways = [Source(table, base, kept) for base in sorted({*found[:1], *found[-1:]}) for kept in (True, False)]
    ways = [way for way in ways if way.checkpoint or not way.with_commit]
    return ways if REFERENCE.is_large or len(ways) < 3 else [ways[0], ways[-1]]


SHORTENED = [source for table in REFERENCE.importable for source in shortened(table)]


BASES = (
    "/deletion-vectors",
    "/feat",
    "/many-files",
    "/mapping-name",
    "/multi-part",
    "/operations",
    "/partition-types",
    "/typed-statistics",
    "/v2-json",
    "/v2-parquet",
    "/variant",
    "/emptied-pointer",
    "/old-checkpoint",
)
"""How the names of logs end whose checkpoints differ in their layout, or in what their files carry."""


def seldom() -> Iterator[Source]:
    """Sources that the default suite leaves to ``make soak``."""
    for number, table in enumerate(REFERENCE.importable):
        ways = shortened(table)
        if table.startswith(EARLIER):
            yield from (Source(table), *ways)
        elif table.endswith(BASES):
            yield from ways[number % 2 :: 2] if len(ways) > 1 else []
        else:
            yield from ways


def each_of(sources: Sequence[Source], left_out: Collection[Source] = ()) -> pytest.MarkDecorator:
    marked = [pytest.param(each, id=each.name, marks=[pytest.mark.elsewhere] * (each in left_out)) for each in sources]
    return pytest.mark.parametrize("source", marked)


every_source = each_of([*WHOLE, *SHORTENED], left_out=set(seldom()))
rebuilt_sources = each_of(
    [*WHOLE, *SHORTENED],
    left_out={
        *seldom(),
        *(each for each in WHOLE if each.table.startswith(CURRENT) and not each.table.endswith(BASES)),
    },
)
every_engine = pytest.mark.parametrize(
    "lake",
    [pytest.param(name, marks=[pytest.mark.postgres] if name == "postgresql" else []) for name in ENGINES],
    indirect=True,
    scope="module",
)


@dataclass(frozen=True, slots=True)
class Here:
    """An imported table: in the catalog, and in the folder that it was imported from."""

    imported: Imported
    table: Table
    folder: Path

    @property
    def versions(self) -> range:
        """All that were imported."""
        return range(self.imported.first, self.imported.last + 1)


@dataclass(frozen=True, slots=True)
class Lake:
    """A catalog into which tables are imported, each when it is first asked for."""

    catalog: Catalog
    importer: TableImporter
    folder: Path
    found: dict[Source, Here] = field(default_factory=dict)

    def __getitem__(self, source: Source) -> Here:
        if source not in self.found:
            folder = copied(source, self.folder / source.name)
            name = source.name.replace("/", ".").replace(".", "_").replace("+", "_")
            done = self.importer.run(ImportOrder(location=str(folder), name=name))
            self.found[source] = Here(done, self.catalog.table(name), folder)
        return self.found[source]


@pytest.fixture(scope="module", params=["sqlite"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One catalog for all tables."""
    folder = tmp_path_factory.mktemp("lake")
    with ExitStack() as stack:
        catalog = stack.enter_context(opened(lake_url_of(request.param, request, folder)))
        importer = stack.enter_context(open_importer(catalog, local_settings(), runner="local"))
        yield Lake(catalog, importer, folder)


def place(folder: Path) -> Store:
    return store_at(str(folder), StorageSettings())


@cache
def reference_states(table: str) -> list[CheckpointState]:
    """The state of every version from all commits, whatever checkpoints say."""
    store = place(REFERENCE.root / table)
    listing = replace(read_listing(store), checkpoints=())
    return [state_at(store, listing, version) for version in range(listing.last + 1)]


def projected(snapshot: Snapshot) -> CheckpointState:
    """What the tables of the database say without the lines."""
    return CheckpointState(
        version=snapshot.version,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        transactions=tuple(snapshot.transactions().values()),
        domains=tuple(snapshot.domain_metadata().values()),
        files=adds_table([(0, file) for file in snapshot.adds()]).select(FILES.names),
        removes=REMOVES.empty_table(),
    )


def assert_same(one: CheckpointState, other: CheckpointState) -> None:
    found = compare(one, other)
    assert found.equal, (one.version, found.first, found.counts)


def tombstones(state: CheckpointState) -> set[str]:
    return {str(row) for row in state.removes.to_pylist()}


def test_every_table_is_either_imported_or_refused_for_a_reason() -> None:
    assert REFERENCE.refusals.keys() <= REFERENCE.refused_logs.keys() <= set(REFERENCE.tables)
    found = len(REFERENCE.tables) - len(REFERENCE.refused_logs)
    assert len(REFERENCE.importable) == found == REFERENCE.num_importable
    assert len(SHORTENED) > REFERENCE.floors.shortened
    assert {*REFERENCE.sources} <= {*WHOLE, *SHORTENED}


@every_source
def test_all_versions_are_imported_from_the_first_that_can_be_had(lake: Lake, source: Source) -> None:
    here, last = lake[source], len(reference_states(source.table)) - 1
    assert (here.imported.first, here.imported.last) == (source.first, last)
    assert (here.imported.base is None) == (source.checkpoint is None)
    info = here.table.info()
    assert (info.log_start, info.head, info.published) == (source.first, last, last)
    listing = read_listing(place(here.folder))
    data = {version: data.partition(b"\n")[0] for version, data in read_log(here.folder).items()}
    times = {version: commit_time(listing, version, data=data.get(version)) for version in here.versions}
    assert {entry.version: entry.timestamp for entry in here.table.history()} == times
    assert here.imported.num_files == reference_states(source.table)[last].files.num_rows


@every_source
def test_every_version_has_the_state_of_the_log(lake: Lake, source: Source) -> None:
    here, database = lake[source], lake.catalog.database
    store = place(here.folder)
    listing = read_listing(store)
    for version in here.versions:
        expected, found = state_at(store, listing, version), table_state(database, here.table.name, version)
        assert_same(found, expected)
        assert tombstones(found) == tombstones(expected)
        assert_same(projected(here.table.snapshot(version)), expected)
        if source.checkpoint is not None:
            assert_same(expected, reference_states(source.table)[version])


@pytest.mark.default_when(  # on SQLite every source has all of this
    parameters=lambda those: (
        those["lake"] == "postgresql" or (those["lake"] == "duckdb" and those["source"].checkpoint is not None)
    )
)
@every_engine
@each_of(REFERENCE.sources)
def test_every_engine_has_the_same_states_and_bytes(lake: Lake, source: Source) -> None:
    here = lake[source]
    for version in here.versions:
        assert_same(projected(here.table.snapshot(version)), reference_states(source.table)[version])
    commits = read_log(here.folder)
    assert {version: here.table.commit_file(version) for version in commits} == commits


@pytest.fixture(scope="module")
def logs(lake: Lake) -> Iterator[Logs]:
    """The logs of all tables, as the reconciler looks at them."""
    with mirror_of(lake.catalog) as engine, logs_of(engine) as found:
        yield found


@every_source
def test_a_table_that_was_just_imported_has_not_drifted(lake: Lake, logs: Logs, source: Source) -> None:
    """What another writer left is kept where it is true; what it left out is late; its rows are those of its lines.

    No checkpoint or pointer is taken to mislead readers unless it does.
    """
    [found] = Verifier(logs, level=Level.STRICT).run([lake[source].table.name])
    assert (found.error, found.rows, found.checksums) == (None, (), ())
    assert (found.missing, found.altered, found.foreign, found.obstacles) == ((), (), (), ())
    wrong = [*found.misleading, *found.checkpoints]
    if any(name in source.table for name in MISLEADING):
        assert wrong
    else:
        assert (wrong, found.differences) == ([], ())


def test_there_are_tombstones_in_logs_that_begin_with_a_checkpoint(tmp_path: Path) -> None:
    firsts = [location_state(place(copied(source, tmp_path / source.name)), source.first) for source in SHORTENED]
    assert sum(state.removes.num_rows > 0 for state in firsts) >= REFERENCE.floors.with_tombstones


@every_source
def test_every_commit_file_is_there_byte_for_byte(lake: Lake, source: Source) -> None:
    here = lake[source]
    commits = read_log(here.folder)
    assert commits.keys() == set(here.versions) - (set() if source.with_commit else {source.first})
    for version, data in commits.items():
        assert here.table.commit_file(version) == data, version
    if not source.with_commit:
        with pytest.raises(NotFound, match="no commit file"):
            here.table.commit_file(source.first)


@rebuilt_sources
def test_a_rebuilt_log_has_the_same_bytes_and_states(lake: Lake, source: Source, tmp_path: Path) -> None:
    here, again = lake[source], tmp_path / "again"
    done = rebuild(lake.catalog.database, here.table.name, to=place(again), checkpoints=True)
    assert (done.first, done.last) == (source.first, here.imported.last)
    assert read_log(again) == read_log(here.folder)
    for version in {done.first, done.checkpoint or 0, done.last}:
        assert_same(location_state(place(again), version), reference_states(source.table)[version])


@pytest.mark.parametrize("table", REFERENCE.refusals)
def test_a_table_that_is_refused_leaves_nothing_behind(lake: Lake, table: str, tmp_path: Path) -> None:
    shutil.copytree(REFERENCE.root / table, tmp_path / "table")
    before, refusal = row_counts(lake.catalog), REFERENCE.refusals[table]
    with pytest.raises(DeltaMirrorError, match=refusal.phrase) as raised:
        lake.importer.run(ImportOrder(location=str(tmp_path / "table"), name="refused"))
    assert type(raised.value) is refusal.error
    assert str(tmp_path) in raised.value.message
    assert raised.value.hint
    assert row_counts(lake.catalog) == before


@pytest.mark.parametrize(
    "respelled",
    [
        pytest.param(lambda data: data.rstrip(b"\n"), id="no last newline"),
        pytest.param(lambda data: b"\n \n" + data.replace(b"\n", b"\r\n\n"), id="blank lines and returns"),
    ],
)
def test_lines_that_end_otherwise_are_kept(lake: Lake, respelled: Callable[[bytes], bytes], tmp_path: Path) -> None:
    commits = {version: respelled(data) for version, data in read_log(REFERENCE.root / REFERENCE.respelled).items()}
    table = fresh(lake, tmp_path / "table", commits)
    for version, state in enumerate(reference_states(REFERENCE.respelled)):
        assert_same(projected(table.snapshot(version)), state)
    rebuild(lake.catalog.database, table.name, to=place(tmp_path / "again"))
    assert read_log(tmp_path / "again") == commits


@every_engine
def test_a_file_is_ended_by_a_remove_that_spells_its_path_otherwise(lake: Lake, tmp_path: Path) -> None:
    added, removed = (add(path, day="1") for path in ("file:///lake/a%2fb", "FILE:/lake/a%2Fb"))
    commits = [first_commit(), commit(added), commit(remove_of(removed)), commit(added)]
    table = fresh(lake, tmp_path, dict(enumerate(commits)))
    assert [table.snapshot(version).count_files() for version in range(4)] == [0, 1, 0, 1]


def fresh(lake: Lake, folder: Path, commits: Mapping[int, bytes]) -> Table:
    """A table of these commits, imported under a name that no other has."""
    write_log(folder, commits)
    name = f"t{uuid4().hex}"
    lake.importer.run(ImportOrder(location=str(folder), name=name))
    return lake.catalog.table(name)
