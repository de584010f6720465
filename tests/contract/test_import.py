"""A table of somebody else comes under SQL as it is, wherever it lies, and whatever happens to it meanwhile."""

import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltamirror import Catalog
from deltamirror.config import StorageSettings
from deltamirror.delta import names
from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.lines import encode_commit
from deltamirror.delta.schema import StructType
from deltamirror.deltalog import checkpoint_pieces
from deltamirror.deltalog import commits as reading
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.states import state_at
from deltamirror.errors import InvalidAction, InvalidInput, NotFound, Refused
from deltamirror.ops.imports import foreign_log
from deltamirror.ops.rebuild.rebuilding import rebuild
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.imports.importing import Import
from tests.support.imports.adoptions import adopted, mirroring
from tests.support.imports.foreign_logs import HISTORY, put_classic, put_log, put_parts, put_v2, state_after
from tests.support.imports.importers import Meddling, assert_as_in, imported, key_of
from tests.support.lakes.lake import execute, opened, row_counts
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import commit, file, publish, unit_of
from tests.support.mirrors.claims import status_of
from tests.support.mirrors.local import mirror_of
from tests.support.stores.any_store import ON_S3_TOO, StorePlace

LAST = len(HISTORY) - 1


@pytest.fixture
def there(tmp_path: Path) -> Store:
    """An empty place on the disk."""
    return store_at(str(tmp_path / "lake" / "t"), StorageSettings())


@pytest.fixture
def storage(any_place: StorePlace) -> StorageSettings:
    """How to reach the place of ``any_store``."""
    return any_place.settings


def assert_nothing(catalog: Catalog, before: dict[str, int]) -> None:
    assert catalog.tables() == []
    assert row_counts(catalog) == before


@pytest.mark.requirement("R33")
@pytest.mark.parametrize("stated", [b"", b'"schemaString":null,'], ids=["absent", "null"])
def test_a_metadata_without_a_schema_is_a_table_without_columns(
    sqlite_lake: str, there: Store, tmp_path: Path, stated: bytes
) -> None:
    """Delta Live Tables begin so, and Delta Spark reads it so; a commit has to say what the columns are."""
    first = re.sub(rb'"schemaString":"(?:[^"\\]|\\.)*",', stated, HISTORY[0]).replace(b'["day"]', b"[]")
    put_log(there, {0: first, 1: commit(file("a", partition_values={}))})
    with opened(sqlite_lake) as catalog, mirror_of(catalog) as engine:
        assert imported(catalog, there).num_files == 1
        table = catalog.table("t")
        assert (table.snapshot().schema, table.commit_file(0)) == (StructType(), first)
        again = store_at(str(tmp_path / "again"), StorageSettings())
        rebuild(catalog.database, "t", to=again, checkpoints=True)
        assert state_at(again, read_listing(again)).metadata.schema_string is None
        with pytest.raises(InvalidAction, match="only Delta Spark reads the table"):
            table.alter(properties={"owner": "me"})
        table.alter(columns=["id long"])
        engine.mirror("t")
        engine.checkpoint("t")
    # Without that checkpoint, the Delta kernel would stumble over the line of version 0.
    assert [each.name for each in deltalake.DeltaTable(there.location).schema().fields] == ["id"]


def metas(store: Store) -> dict[int, Meta]:
    return {int(m.key[11:31]): m for m in store.list(names.LOG_DIRECTORY) if m.key.endswith(".json")}


@pytest.mark.requirement("R33")
@ON_S3_TOO
def test_a_table_is_imported_with_all_its_versions_and_the_times_of_their_files(
    any_store: Store, storage: StorageSettings, lake: Catalog
) -> None:
    put_log(any_store, dict(enumerate(HISTORY)))
    done = imported(lake, any_store, storage)
    assert (done.first, done.last, done.base, done.num_files) == (0, LAST, None, 6)
    table = lake.table("t")
    assert_as_in(any_store, lake)
    assert table.info().published == LAST
    times = [entry.timestamp for entry in reversed(table.history())]
    expected = [metas(any_store)[0].modified]
    for version in range(1, LAST + 1):
        expected.append(max(metas(any_store)[version].modified, expected[-1] + 1))
    assert times == expected


def test_what_a_commit_says_of_its_time_goes_before_the_time_of_its_file(there: Store, lake: Catalog) -> None:
    stated = encode_commit([CommitInfo(timestamp=5, in_commit_timestamp=1_700_000_000_001, operation="WRITE")])
    put_log(there, {**dict(enumerate(HISTORY)), 2: stated})
    imported(lake, there)
    assert lake.table("t").history(limit=2)[1].timestamp == 1_700_000_000_001


@pytest.mark.default_when(
    parameters=lambda those: those["any_place"] == "memory" or (those["any_place"], those["shape"]) == ("s3", "classic")
)
@pytest.mark.parametrize("with_commit", [True, False])
@pytest.mark.parametrize("shape", ["classic", "parts", "v2"])
@pytest.mark.requirement("R33")
def test_a_log_without_its_beginning_begins_with_its_checkpoint(
    any_store: Store, storage: StorageSettings, lake: Catalog, shape: str, with_commit: bool
) -> None:
    state = state_after(HISTORY[:3])
    match shape:
        case "classic":
            put_classic(any_store, 2, rows(state))
        case "parts":
            put_parts(any_store, state, parts=2)
        case _:
            put_v2(any_store, state, top="json", sidecars=("a.parquet", "b.parquet"))
    put_log(any_store, {version: HISTORY[version] for version in ([2, 3] if with_commit else [3])})
    done = imported(lake, any_store, storage)
    assert (done.first, done.last, done.num_files) == (2, 3, 6)
    assert done.base is not None
    table = lake.table("t")
    assert_as_in(any_store, lake, first=2)
    if not with_commit:
        with pytest.raises(NotFound):
            table.commit_file(2)
    with pytest.raises(NotFound):
        table.snapshot(version=1)


@pytest.mark.parametrize("is_ours", [True, False])
def test_later_checkpoints_build_on_the_first_unless_it_looks_like_one_of_ours(
    there: Store, lake: Catalog, is_ours: bool
) -> None:
    """Of such a one they would take over bytes, which nothing has compared with what was written."""
    if is_ours:
        put_log(there, dict(enumerate(HISTORY)))
        assert publish(unit_of(HISTORY[:3]), there).failure is None
        there.delete([key_of(version) for version in range(3)])
    else:
        put_classic(there, 2, rows(state_after(HISTORY[:3])))
        put_log(there, {3: HISTORY[3]})
    imported(lake, there)
    assert len(execute(lake, "SELECT digest FROM dl_checkpoints")) == (0 if is_ours else 1)
    assert_as_in(there, lake, first=2)


@pytest.mark.parametrize("with_commit", [True, False])
def test_a_checkpoint_alone_is_a_table(there: Store, lake: Catalog, with_commit: bool) -> None:
    put_classic(there, 3, rows(state_after(HISTORY)))
    put_log(there, {3: HISTORY[3]} if with_commit else {})
    imported(lake, there)
    assert_as_in(there, lake, first=3)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of more than some lines are large, and so are checkpoints of more than some rows."""
    monkeypatch.setattr(reading, "_SMALL_BYTES", 500)
    monkeypatch.setattr(reading, "read_blocks", partial(reading.read_blocks, block_bytes=1_000))
    monkeypatch.setattr(checkpoint_pieces, "_MOST_ROWS", 3)


@pytest.mark.usefixtures("small_blocks")
@ON_S3_TOO
def test_a_large_commit_is_stored_in_parts_and_is_one_version(
    any_store: Store, storage: StorageSettings, lake: Catalog
) -> None:
    large = commit(*(file(str(number)) for number in range(40)))
    put_log(any_store, {**dict(enumerate(HISTORY)), 4: large})
    imported(lake, any_store, storage)
    assert_as_in(any_store, lake, last=4)
    [[chunks, num_bytes]] = execute(lake, "SELECT num_chunks, num_bytes FROM dl_table_versions WHERE version = 4")
    assert num_bytes == len(large)
    assert chunks == len(large) // 1_000 + 1


# A log that changes meanwhile


def once(change: Callable[[], None]) -> Meddling:
    """A change after the log was read for the first time."""
    return lambda turn: change() if turn == 0 else None


@pytest.mark.requirement("R107")
@ON_S3_TOO
def test_a_table_that_grows_while_it_is_imported_is_followed(
    any_store: Store, storage: StorageSettings, lake: Catalog
) -> None:
    put_log(any_store, dict(enumerate(HISTORY)))

    def grow(turn: int) -> None:
        if turn < 3:
            put_log(any_store, {LAST + 1 + turn: commit(file(f"more-{turn}"))})

    assert imported(lake, any_store, storage, grow).last == LAST + 3
    assert_as_in(any_store, lake, last=LAST + 3)


def test_a_table_that_does_not_stop_growing_is_refused(there: Store, lake: Catalog) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    before = row_counts(lake)
    with pytest.raises(Refused, match="is being written to: it is at version 23"):
        imported(lake, there, meddling=lambda turn: put_log(there, {LAST + 1 + turn: commit(file(str(turn)))}))
    assert_nothing(lake, before)


@pytest.mark.requirement("R107")
@pytest.mark.default_on("memory", "disk", "s3")
def test_a_commit_that_is_replaced_is_noticed_and_read_again(
    any_store: Store, storage: StorageSettings, lake: Catalog
) -> None:
    put_log(any_store, dict(enumerate(HISTORY)))
    other = HISTORY[2].replace(b"day=", b"dax=")
    assert len(other) == len(HISTORY[2])
    assert other != HISTORY[2]
    imported(lake, any_store, storage, once(lambda: put_log(any_store, {2: other})))
    assert lake.table("t").commit_file(2) == other
    assert_as_in(any_store, lake)


@ON_S3_TOO
def test_a_table_that_does_not_stop_changing_is_refused(
    any_store: Store, storage: StorageSettings, lake: Catalog
) -> None:
    put_log(any_store, dict(enumerate(HISTORY)))
    before = row_counts(lake)
    with pytest.raises(Refused, match=f"changes while it is imported: {key_of(2)}"):
        imported(lake, any_store, storage, lambda turn: put_log(any_store, {2: commit(file(f"other-{'x' * turn}"))}))
    assert_nothing(lake, before)


def test_a_checkpoint_that_is_cleaned_up_meanwhile_gives_way_to_the_next(there: Store, lake: Catalog) -> None:
    put_log(there, {version: HISTORY[version] for version in (2, 3)})
    for version in (2, 3):
        put_classic(there, version, rows(state_after(HISTORY[: version + 1])))

    def clean_up() -> None:
        there.delete([f"{names.LOG_DIRECTORY}/{names.checkpoint_name(2)}", key_of(2)])

    assert imported(lake, there, meddling=once(clean_up)).first == 3
    assert_as_in(there, lake, first=3)


def test_a_log_whose_only_checkpoint_is_deleted_meanwhile_is_refused(there: Store, lake: Catalog) -> None:
    put_log(there, {3: HISTORY[3]})
    put_classic(there, 2, rows(state_after(HISTORY[:3])))
    before = row_counts(lake)
    with pytest.raises(InvalidInput, match="lacks the commits of versions 0 to 2, and there is no checkpoint"):
        imported(
            lake,
            there,
            meddling=lambda _: there.delete([f"{names.LOG_DIRECTORY}/{names.checkpoint_name(2)}"]),
        )
    assert_nothing(lake, before)


def when_complete(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Something happens when the log was looked at for the last time before the table becomes visible."""
    complete = Import.complete

    def completed(self: Import, **given: Any) -> Any:
        act()
        return complete(self, **given)

    monkeypatch.setattr(Import, "complete", completed)


@pytest.mark.requirement("R33")
@pytest.mark.default_on("sqlite", "postgresql")
def test_what_is_committed_in_the_last_moment_is_taken_in_as_it_is(
    there: Store, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    late = {LAST + 1: commit(file("late")), LAST + 2: commit(file("later"))}
    when_complete(monkeypatch, lambda: put_log(there, late))
    done = imported(catalog, there)
    assert (done.last, done.num_files) == (LAST + 2, 8)
    table = catalog.table("t")
    assert_as_in(there, catalog, last=LAST + 2)
    with mirror_of(catalog) as engine:
        assert engine.run(once=True).failures == []
    assert table.info().published == LAST + 2
    assert status_of(catalog, "t").failed == 0


def test_a_log_that_others_go_on_to_write_after_the_import_is_said_to_be_ahead(
    there: Store, lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    when_complete(monkeypatch, lambda: put_log(there, {LAST + 1: b'{"add":{"path":"x"}}\n'}))
    with pytest.raises(Refused, match=f"t is imported up to version {LAST}, and its log at") as caught:
        imported(lake, there)
    assert f"deltamirror commit t FILE --verbatim --at-version {LAST + 1}" in caught.value.hint
    assert lake.table("t").info().head == LAST


# delta-rs at the same time


class DeltaRs:
    """Appends to a table, as often as it is told; notes what it was told to be committed."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._rows = pa.table({"id": pa.array([1], pa.int64())})
        self.reported: list[int] = []

    def append(self) -> None:
        deltalake.write_deltalake(self._location, self._rows, mode="append")
        self.reported.append(deltalake.DeltaTable(self._location).version())


@pytest.mark.requirement("R107")
def test_what_delta_rs_commits_while_an_import_runs_is_in_sql(
    tmp_path: Path, lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It commits in a loop of its own; each waits for the other a few times, so that the two surely meet."""
    place = str(tmp_path / "t")
    store, writer = store_at(place, StorageSettings()), DeltaRs(place)
    writer.append()
    known_at_listing = list[int]()
    progress, stop, most = threading.Condition(), threading.Event(), [5]

    def write() -> None:
        while not stop.is_set():
            writer.append()
            with progress:
                progress.notify_all()
                progress.wait_for(lambda: stop.is_set() or len(writer.reported) < most[0])

    def wait_for_another(turn: int) -> None:
        if turn < 3:
            with progress:
                most[0] += 5
                progress.notify_all()
                # The next one may be in the log already, and not reported.
                target = len(writer.reported) + 2
                assert progress.wait_for(lambda: len(writer.reported) >= target, timeout=60)

    def list_noting(listed: Store) -> Any:
        known_at_listing.append(writer.reported[-1])
        return read_listing(listed)

    monkeypatch.setattr(foreign_log, "read_listing", list_noting)
    thread = threading.Thread(target=write)
    thread.start()
    try:
        done = imported(lake, store, meddling=wait_for_another)
    finally:
        with progress:
            stop.set()
            progress.notify_all()
        thread.join()
    assert len(known_at_listing) >= 5
    assert done.last >= known_at_listing[-1] > known_at_listing[0]
    assert_as_in(store, lake, last=done.last)
    # What came after the import's end is in the log alone, whole, and can be adopted.
    with mirroring(lake) as engine:
        assert adopted(engine).adopted == tuple(range(done.last + 1, writer.reported[-1] + 1))
    assert_as_in(store, lake, last=writer.reported[-1])
    assert deltalake.DeltaTable(place).to_pyarrow_table().num_rows == len(writer.reported)
