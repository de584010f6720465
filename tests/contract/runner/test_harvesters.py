"""What everybody who reads the log of an imported table makes of it: this process, and each kind of Spark."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deltamirror.config import Settings, StorageSettings
from deltamirror.deltalog.checkpoints import checkpoint_pieces
from deltamirror.deltalog.listing import read_listing
from deltamirror.errors import InvalidInput, InvalidLine, LogChanged, Unavailable
from deltamirror.pipeline.run.log_reading import LocalHarvester
from deltamirror.pipeline.run.slices import LogSlice, base_slices, commit_slices
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.txnlog.imports.parts import BasePart, CommitPart
from tests.support.imports.foreign_logs import HISTORY, put_log, put_parts, state_after
from tests.support.imports.importers import key_of
from tests.support.logs.checkpoints import commit, file
from tests.support.spark.runner_driver import harvested
from tests.support.spark.runners import Rig

NO_SETTINGS = StorageSettings()
LAST = 40
NEAR = pytest.mark.default_on("process", "local")
"""What does not depend on how executors are reached; that the others read a log as well, Spark Connect shows on S3."""


def store_in(folder: Path) -> Store:
    return store_at(str(folder / "t"), NO_SETTINGS)


def put_table(store: Store) -> None:
    """A checkpoint of version 2 in three files, and commits up to version 40, one of them large."""
    put_parts(store, state_after(HISTORY[:3]), parts=3)
    put_log(store, {2: HISTORY[2], 3: HISTORY[3], 5: commit(*(file(f"large-{number}") for number in range(4_000)))})
    put_log(store, {version: commit(file(str(version))) for version in range(4, LAST + 1) if version != 5})


def slices_of(store: Store, settings: StorageSettings = NO_SETTINGS) -> list[LogSlice]:
    """Many slices: one for each piece, and one for each commit."""
    listing, address = read_listing(store), StoreAddress.of(store.location, settings)
    [base] = listing.checkpoints
    found = checkpoint_pieces(store, base)
    pieces = base_slices(found, table_id=7, address=address, version=2, modified=base.metas[0].modified)
    commits = [commit_slices([each], table_id=7, address=address) for each in sorted(listing.commits.items())]
    return [*pieces, *(each for some in commits for each in some)]


def places(parts: Sequence[BasePart | CommitPart]) -> list[tuple[int, int]]:
    return [(part.version if isinstance(part, CommitPart) else -1, part.part) for part in parts]


@NEAR
@pytest.mark.requirement("R33")
def test_a_log_is_the_same_parts_in_the_same_order_whoever_reads_it(any_rig: Rig, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    put_table(store)
    parts, error = any_rig.harvest(slices_of(store))
    assert error is None
    assert places(parts) == sorted(places(parts))
    assert [version for version, _ in places(parts)] == [-1] * 3 + list(range(2, LAST + 1))
    assert (parts, error) == harvested(LocalHarvester(Settings()), slices_of(store))


@pytest.mark.default_on("connect")  # whose driver has no keys
def test_a_log_on_s3_is_read_with_the_executors_own_keys(
    any_rig: Rig, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    store = store_at(f"s3://{s3_bucket}/t", s3_settings)
    put_table(store)
    slices = slices_of(store, s3_settings)
    parts, error = any_rig.harvest(slices)
    assert error is None
    assert (parts, error) == harvested(LocalHarvester(Settings(storage=s3_settings)), slices)


@NEAR
def test_a_slice_that_is_too_large_for_a_job_is_read_by_the_driver(any_rig: Rig, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    put_table(store)
    slices = slices_of(store)
    slices[6] = replace(slices[6], num_bytes=1 << 30)
    parts, error = any_rig.harvest(slices)
    assert (parts, error) == harvested(LocalHarvester(Settings()), slices)


@NEAR
@pytest.mark.requirement("R107")
def test_what_is_wrong_with_a_commit_is_told_after_what_comes_before_it(any_rig: Rig, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    put_table(store)
    put_log(store, {30: HISTORY[1][:-20]})
    parts, error = any_rig.harvest(slices_of(store))
    assert isinstance(error, InvalidLine)
    assert error.message.startswith(f"{store.location}/{key_of(30)}, line ")
    assert error.source == f"{store.location}/{key_of(30)}"
    # Whole batches come before it, and none after it.
    assert places(parts) == places(harvested(LocalHarvester(Settings()), slices_of(store))[0])[: len(parts)]


@NEAR
def test_a_file_that_is_gone_and_a_store_that_is_down_are_told_as_such(any_rig: Rig, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    put_table(store)
    slices = slices_of(store)
    store.delete([key_of(20)])
    assert isinstance(any_rig.harvest(slices)[1], LogChanged)
    down = StorageSettings(
        endpoint="http://127.0.0.1:1", allow_http=True, region="nowhere", connect_timeout=1, timeout=2, retries=0
    )
    away = replace(slices[-1], address=StoreAddress.of("s3://bucket/t", down))
    assert isinstance(any_rig.harvest([away])[1], Unavailable)


@NEAR
def test_a_damaged_checkpoint_is_named(any_rig: Rig, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    put_table(store)
    slices = slices_of(store)
    damaged = store.put(slices[0].pieces[0].meta.key, b"PAR1" * 100)
    meta = replace(slices[0].pieces[0].meta, size=400, etag=damaged)
    broken = replace(slices[0], pieces=tuple(replace(piece, meta=meta) for piece in slices[0].pieces))
    parts, error = any_rig.harvest([broken, *slices[3:]])
    assert parts == []
    assert isinstance(error, InvalidInput)
    assert "is no Parquet file" in error.message
