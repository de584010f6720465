"""An import has one owner at a time; one that broke off is gone on with, by whoever begins it again."""

import os
import socket
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamirror import Catalog
from deltamirror.config import StorageSettings
from deltamirror.deltalog import checkpoint_pieces
from deltamirror.deltalog import commits as reading
from deltamirror.errors import CommitUnknown, LeaseLost, Refused, Throttled
from deltamirror.ops.imports.importing import ImportOrder
from deltamirror.pipeline.service.owners import is_gone, owner_name
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.txnlog.imports.importing import Import
from tests.support.faults.transactions import losing_replies
from tests.support.imports.foreign_logs import HISTORY, put_classic, put_log, state_after
from tests.support.imports.importers import assert_as_in, imported, importer_of
from tests.support.imports.parts import abandon, begun
from tests.support.lakes.lake import execute, row_counts
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import commit, file

LAST = len(HISTORY) - 1


@pytest.fixture
def there(tmp_path: Path) -> Store:
    """An empty place on the disk."""
    return store_at(str(tmp_path / "lake" / "t"), StorageSettings())


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits of more than some lines are large, and so are checkpoints of more than some rows."""
    monkeypatch.setattr(reading, "_SMALL_BYTES", 500)
    monkeypatch.setattr(reading, "read_blocks", partial(reading.read_blocks, block_bytes=1_000))
    monkeypatch.setattr(checkpoint_pieces, "_MOST_ROWS", 3)


def test_of_two_importers_of_one_location_the_second_is_refused(there: Store, catalog: Catalog) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    refused: list[str] = []

    def second(_: int) -> None:
        with pytest.raises(Refused, match="is being imported by") as caught:
            imported(catalog, there)
        refused.append(str(caught.value))

    imported(catalog, there, meddling=second)
    assert len(refused) == 1
    assert_as_in(there, catalog)


def test_one_importer_takes_a_location_once_at_a_time(there: Store, lake: Catalog) -> None:
    put_log(there, dict(enumerate(HISTORY)))

    def second(_: int) -> None:
        with pytest.raises(Refused, match="is being imported already"):
            importer.run(ImportOrder(location=there.location, name="other"))

    with importer_of(lake, meddling=second) as (importer, _):
        importer.run(ImportOrder(location=there.location, name="t"))
    assert [info.name for info in lake.tables()] == ["t"]


def test_an_importer_that_was_taken_for_dead_stores_nothing_more(there: Store, lake: Catalog) -> None:
    put_log(there, dict(enumerate(HISTORY)))

    def second(turn: int) -> None:
        put_log(there, {LAST + 1: commit(file("more"))})
        abandon(lake)
        imported(lake, there)

    with pytest.raises(LeaseLost):
        imported(lake, there, meddling=second)
    assert_as_in(there, lake, last=LAST + 1)


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def owner(host: str, process: int) -> str:
    return f"{host}:{process}:abc"


def test_an_owner_is_gone_if_its_process_was_here_and_has_ended() -> None:
    here = socket.gethostname()
    assert is_gone(owner(here, dead_process()))
    assert not is_gone(owner(here, os.getpid()))
    assert not is_gone(owner(here, 1))
    assert not is_gone(owner("elsewhere", dead_process()))
    assert not is_gone("somebody")
    assert not is_gone(f"{here}:x:y")
    assert not is_gone(owner_name())
    assert owner_name() != owner_name()


def test_an_import_whose_process_died_goes_on_at_once(there: Store, catalog: Catalog) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    begun(catalog, location=there.location, owner=owner(socket.gethostname(), dead_process()))
    imported(catalog, there)
    assert_as_in(there, catalog)
    assert row_counts(catalog)["dl_imports"] == 0


@pytest.mark.parametrize("host", [socket.gethostname(), "elsewhere"])
def test_an_import_whose_process_may_live_is_left_alone_for_a_minute(there: Store, lake: Catalog, host: str) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    begun(lake, location=there.location, owner=owner(host, os.getpid()))
    with pytest.raises(Refused, match=f"is being imported by {host}:"):
        imported(lake, there)
    abandon(lake)
    imported(lake, there)
    assert_as_in(there, lake)


# Going on


class Broken(Exception):
    """The end of a process."""


def breaks(catalog: Catalog, store: Store, *, after: int) -> bool:
    """An import of this process that ends when so many parts are stored, if it has more; its owner is dead then."""
    stored, store_parts = count(1), Import.store

    def storing(self: Import, parts: Any) -> None:
        if next(stored) > after:
            raise Broken
        store_parts(self, parts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Import, "store", storing)
        try:
            imported(catalog, store)
        except Broken:
            leave_to_others(catalog)
            return True
    return False


def leave_to_others(catalog: Catalog) -> None:
    execute(catalog, f"UPDATE dl_imports SET owner = '{owner(socket.gethostname(), dead_process())}'")


def put_large_log(store: Store) -> None:
    """A checkpoint of version 2 in several pieces, its commit, and then a large one."""
    put_classic(store, 2, rows(state_after(HISTORY[:3])), row_group_size=3)
    put_log(store, {2: HISTORY[2], 3: commit(*(file(f"large-{number}") for number in range(30))), 4: HISTORY[3]})


@pytest.mark.usefixtures("small_blocks")
def test_an_import_goes_on_with_the_part_that_it_broke_off_before(there: Store, lake: Catalog) -> None:
    put_large_log(there)
    places: list[tuple[int, int]] = []
    while breaks(lake, there, after=len(places)):
        assert lake.tables() == []
        [[version, part]] = execute(lake, "SELECT next_version, next_part FROM dl_imports")
        places.append((version, part))
        with importer_of(lake) as (importer, harvester):
            importer.run(ImportOrder(location=there.location, name="t"))
        assert_as_in(there, lake, first=2, last=4)
        # Pieces of the base that are stored are not read again, nor commits; of the one in between all is read.
        assert harvester.slices[0].version == version
        assert all(each.part >= part for each in harvester.slices if each.pieces)
        lake.drop_table("t")
    assert_as_in(there, lake, first=2, last=4)
    assert places == sorted(set(places))
    in_base_and_its_commit = [part for version, part in places if version == 2]
    in_large_commit = [part for version, part in places if version == 3]
    assert in_base_and_its_commit == list(range(len(in_base_and_its_commit)))
    assert in_large_commit == list(range(len(in_large_commit)))
    assert min(len(in_base_and_its_commit), len(in_large_commit)) > 3
    assert places[-1] == (4, 0)


def test_a_base_that_was_written_again_meanwhile_is_read_from_its_beginning(
    there: Store, lake: Catalog, small_blocks: None
) -> None:
    put_large_log(there)
    assert breaks(lake, there, after=2)
    table = rows(state_after(HISTORY[:3]))
    put_classic(there, 2, pa.concat_tables([table.slice(4), table.slice(0, 4)]), row_group_size=3)
    imported(lake, there)
    assert_as_in(there, lake, first=2, last=4)


def test_a_commit_that_was_replaced_meanwhile_is_noticed(there: Store, lake: Catalog) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    assert breaks(lake, there, after=3)
    put_log(there, {1: commit(file("another"))})
    imported(lake, there)
    assert_as_in(there, lake)


# Stores and databases in trouble


def test_a_throttled_store_breaks_an_import_off_and_it_is_gone_on_with(there: Store, lake: Catalog) -> None:
    put_log(there, dict(enumerate(HISTORY)))

    def throttled(turn: int) -> None:
        if turn == 0:
            raise Throttled("the store asks for fewer requests")

    with importer_of(lake, meddling=throttled) as (importer, harvester):
        with pytest.raises(Throttled):
            importer.run(ImportOrder(location=there.location, name="t"))
        assert row_counts(lake)["dl_imports"] == 1
        harvester.slices.clear()
        importer.run(ImportOrder(location=there.location, name="t"))
        assert harvester.slices == []
    assert_as_in(there, lake)


def test_an_import_whose_last_reply_was_lost_has_happened(
    there: Store, lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    complete = Import.complete

    def completed(self: Import, **given: Any) -> Any:
        self._store_ends()
        monkeypatch.setattr(Import, "_store_ends", lambda _: None)
        with losing_replies(lake.database):
            return complete(self, **given)

    monkeypatch.setattr(Import, "complete", completed)
    assert imported(lake, there).last == LAST
    assert_as_in(there, lake)


def test_an_import_whose_last_commit_did_not_happen_is_gone_on_with(
    there: Store, lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_log(there, dict(enumerate(HISTORY)))
    complete = Import.complete

    def completed(self: Import, **given: Any) -> Any:
        with losing_replies(lake.database, turns=100, happens=False):
            return complete(self, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Import, "complete", completed)
        with pytest.raises(CommitUnknown):
            imported(lake, there)
    assert lake.tables() == []
    leave_to_others(lake)
    imported(lake, there)
    assert_as_in(there, lake)
