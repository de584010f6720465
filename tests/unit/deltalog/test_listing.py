"""One listing tells what a log has; where there is none, the error tells what is there instead."""

import errno
import os
from pathlib import Path

import pytest

from deltamirror.config import StorageSettings
from deltamirror.deltalog.listing import read_listing
from deltamirror.errors import InvalidInput, NotFound, PermissionDenied
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import (
    HISTORY,
    put_classic,
    put_log,
    put_parts,
    put_v2,
    state_after,
    store_in_memory,
)
from tests.support.logs.checkpoint_tables import rows


@pytest.fixture
def store() -> Store:
    return store_in_memory()


def test_a_listing_has_commits_checkpoints_compactions_and_checksums(any_store: Store) -> None:
    put_log(any_store, dict(enumerate(HISTORY)))
    put_classic(any_store, 1, rows(state_after(HISTORY[:2])))
    for name in (f"{2:020d}.crc", f"{1:020d}.{2:020d}.compacted.json", "_last_checkpoint", "_sidecars/x.parquet"):
        any_store.put(f"_delta_log/{name}", b"{}\n")
    found = read_listing(any_store)
    assert sorted(found.commits) == [0, 1, 2, 3]
    assert found.commits[2].size == len(HISTORY[2])
    assert [(each.version, each.kind, each.name) for each in found.checkpoints] == [
        (1, "classic", f"{1:020d}.checkpoint.parquet")
    ]
    assert [(each.first, each.last) for each in found.compactions] == [(1, 2)]
    assert list(found.checksums) == [2]
    assert (found.location, found.last) == (any_store.location, 3)


def test_files_of_the_folder_that_are_none_of_the_log_are_passed_over(store: Store) -> None:
    put_log(store, {0: HISTORY[0]})
    for name in ("0.json", "00000000000000000009/00000000000000000008.json", "_staged_commits/x.json", "a.json"):
        store.put(f"_delta_log/{name}", b"{}\n")
    assert list(read_listing(store).commits) == [0]


@pytest.mark.parametrize("name", ["7.json", f"{1:026}.json", "5.checkpoint.parquet", f"{1:020}.checkpoint.1.1.parquet"])
def test_a_log_that_spark_reads_otherwise_is_refused_by_the_name_of_the_object(store: Store, name: str) -> None:
    put_log(store, {0: HISTORY[0]})
    store.put(f"_delta_log/{name}", b"{}\n")
    with pytest.raises(InvalidInput, match=f"_delta_log/{name}") as refused:
        read_listing(store)
    assert "move it out of the log" in refused.value.hint


def test_a_checkpoint_in_parts_counts_when_all_parts_are_there(store: Store) -> None:
    put_log(store, dict(enumerate(HISTORY)))
    put_parts(store, state_after(HISTORY[:3]), parts=3, only=(1, 3))
    put_parts(store, state_after(HISTORY), parts=2)
    (found,) = read_listing(store).checkpoints
    assert (found.version, found.kind) == (3, "parts")
    assert [meta.key[-31:-8] for meta in found.metas] == ["t.0000000001.0000000002", "t.0000000002.0000000002"]


def test_of_several_checkpoints_of_a_version_the_simplest_comes_first(store: Store) -> None:
    state = state_after(HISTORY)
    put_v2(store, state, top="json")
    put_parts(store, state, parts=2)
    put_classic(store, 3, rows(state))
    assert [each.kind for each in read_listing(store).checkpoints] == ["classic", "parts", "v2"]


def test_an_empty_checkpoint_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_bytes(HISTORY[0])
    (log / f"{0:020d}.checkpoint.parquet").touch()
    assert read_listing(store_at(str(tmp_path), StorageSettings())).checkpoints == ()


def test_an_empty_folder_is_not_found(any_store: Store) -> None:
    with pytest.raises(NotFound, match="there is nothing at") as caught:
        read_listing(any_store)
    assert any_store.location in caught.value.message
    assert caught.value.hint


def test_data_files_without_a_log_are_no_table(any_store: Store) -> None:
    any_store.put("day=1/part-0.parquet", b"PAR1")
    with pytest.raises(InvalidInput, match="files, but no Delta log") as caught:
        read_listing(any_store)
    assert "CONVERT TO DELTA" in caught.value.hint


def test_an_iceberg_table_is_named_as_one(store: Store) -> None:
    store.put("data/part-0.parquet", b"PAR1")
    store.put("metadata/v1.metadata.json", b"{}")
    with pytest.raises(InvalidInput, match="an Iceberg table"):
        read_listing(store)


def test_an_iceberg_table_that_has_a_delta_log_is_a_delta_table(store: Store) -> None:
    put_log(store, {0: HISTORY[0]})
    store.put("metadata/v1.metadata.json", b"{}")
    assert list(read_listing(store).commits) == [0]


def test_the_log_itself_is_not_the_table(tmp_path: Path) -> None:
    put_log(store_at(str(tmp_path), StorageSettings()), {0: HISTORY[0]})
    with pytest.raises(InvalidInput, match="is a log, and not a table") as caught:
        read_listing(store_at(str(tmp_path / "_delta_log"), StorageSettings()))
    assert caught.value.hint == "give the folder above it"


def test_a_log_without_commits_and_checkpoints_is_refused(store: Store) -> None:
    store.put("_delta_log/_last_checkpoint", b'{"version":3}')
    put_parts(store, state_after(HISTORY), parts=2, only=(2,))
    with pytest.raises(InvalidInput, match="neither a commit nor a complete checkpoint"):
        read_listing(store)


def test_who_may_not_list_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_at(str(tmp_path), StorageSettings())
    put_log(store, {0: HISTORY[0]})

    def scandir(folder: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionDenied, match="cannot list"):
        read_listing(store)
