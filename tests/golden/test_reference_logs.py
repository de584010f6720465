"""Every reference log is read as its writer meant it, or refused with the reason.

File times of these logs are those of a checkout, long after all tombstones expired. So they are taken from what the
commits say of themselves.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.lines import decode_commit
from deltamirror.deltalog.admission import require_importable
from deltamirror.deltalog.checkpoint.content import CheckpointState, replay
from deltamirror.deltalog.checkpoints import checkpoint_pieces, read_checkpoint, read_pieces
from deltamirror.deltalog.listing import LogListing, read_listing
from deltamirror.deltalog.reachable_versions import Reach, reach
from deltamirror.deltalog.states import commit_time, state_at
from deltamirror.deltalog.statistics import statistics_texts, zoned_times
from deltamirror.errors import DeltaMirrorError
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import assert_same_state
from tests.support.reference_logs.files import commit_files
from tests.support.reference_logs.golden import reference

pytestmark = [
    pytest.mark.requirement("R66"),
    pytest.mark.reference,
]

REFERENCE = reference()
GOOD = [REFERENCE.root / table for table in REFERENCE.tables if table not in REFERENCE.refused_logs]
WITH_CHECKPOINT = [table for table in GOOD if any((table / "_delta_log").glob("*.checkpoint.*"))]
TYPED = [
    path
    for log in REFERENCE.logs
    for path in sorted(log.rglob("*.parquet"))
    if REFERENCE.name_of(log) not in REFERENCE.retyped
    and {"stats", "stats_parsed"} <= {field.name for field in pq.read_schema(path).field("add").type}
]


def name(path: Path) -> str:
    return str(path.relative_to(REFERENCE.root))


def store_of(table: Path) -> Store:
    return store_at(str(table), StorageSettings())


def listing_of(table: Path) -> LogListing:
    """The listing, with the times that the commits state as those of their files."""
    listed = read_listing(store_of(table))
    commits = {
        version: replace(meta, modified=stated_time(table / meta.key) or 0) for version, meta in listed.commits.items()
    }
    return replace(listed, commits=commits)


def stated_time(path: Path) -> int | None:
    infos = [action for action in decode_commit(path.read_bytes()) if isinstance(action, CommitInfo)]
    return infos[0].timestamp if infos else None


def imported(table: Path) -> tuple[Reach, CheckpointState]:
    """What an import looks at first."""
    store = store_of(table)
    listing = read_listing(store)
    found, state = reach(listing), state_at(store, listing)
    require_importable(state.protocol, location=store.location)
    return found, state


@pytest.mark.parametrize("table", GOOD, ids=name)
def test_a_good_table_is_reached_from_its_beginning(table: Path) -> None:
    found, state = imported(table)
    assert found == Reach(0, len(list(commit_files(table / "_delta_log"))) - 1, None)
    assert state.version == found.last


@pytest.mark.parametrize("table", sorted(REFERENCE.refused_logs))
def test_a_bad_table_is_refused_with_the_reason(table: str) -> None:
    with pytest.raises(DeltaMirrorError, match=REFERENCE.refused_logs[table]) as caught:
        imported(REFERENCE.root / table)
    assert table in caught.value.message


@pytest.mark.parametrize("table", WITH_CHECKPOINT, ids=name)
def test_a_checkpoint_and_the_commits_after_it_give_what_all_commits_give(table: Path) -> None:
    store, listing = store_of(table), listing_of(table)
    commits = list(commit_files(table / "_delta_log"))
    committed_at = commit_time(listing, listing.last, data=commits[-1])
    expected = replay([[each] for each in commits], version=listing.last, committed_at=committed_at, base=None)
    assert_same_state(state_at(store, listing), expected)
    assert_same_state(state_at(store, replace(listing, checkpoints=())), expected)


@pytest.mark.parametrize("table", WITH_CHECKPOINT, ids=name)
def test_a_log_is_reached_from_its_checkpoint_when_the_commits_before_it_are_gone(table: Path) -> None:
    store, whole = store_of(table), listing_of(table)
    for base in whole.checkpoints:
        kept = {version: meta for version, meta in whole.commits.items() if version >= base.version}
        listing = replace(whole, commits=kept)
        found = reach(listing, from_version=base.version)
        assert (found.first, found.last) == (base.version, whole.last)
        # Without a commit, version 0 is reached from its checkpoint; with it, no checkpoint is needed.
        assert found.base == base or base.version == 0
        assert_same_state(state_at(store, listing, base.version), state_at(store, whole, base.version))


@pytest.mark.parametrize("table", WITH_CHECKPOINT, ids=name)
def test_the_pieces_of_a_checkpoint_are_the_checkpoint(table: Path) -> None:
    store = store_of(table)
    for files in read_listing(store).checkpoints:
        whole = read_checkpoint(store, files)
        pieces = [each for piece in checkpoint_pieces(store, files) for each in read_pieces(store, [piece])]
        others = [action for each in pieces for action in each.others]
        assert len(others) == 2 + len(whole.transactions) + len(whole.domains)
        assert all(each in others for each in (whole.protocol, whole.metadata, *whole.transactions, *whole.domains))
        assert pa.concat_tables([each.files for each in pieces]).equals(whole.files)
        assert pa.concat_tables([each.removes for each in pieces]).equals(whole.removes)


@pytest.mark.parametrize("path", TYPED, ids=lambda path: f"{name(path)[-90:]}")
def test_the_text_of_typed_statistics_is_the_one_that_the_reference_wrote_beside_them(path: Path) -> None:
    file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    for adds in file.read(columns=["add.stats", "add.stats_parsed"]).column("add").chunks:
        texts = statistics_texts(adds.field("stats_parsed"), zoned=zoned_times(file))
        # Java spells the smallest of all numbers with a digit more than it needs.
        assert pc.replace_substring(texts, "5.0E-324", "4.9E-324").to_pylist() == adds.field("stats").to_pylist()


def test_there_is_something_to_read_and_something_to_refuse() -> None:
    assert set(REFERENCE.tables) >= REFERENCE.refused_logs.keys()
    assert len(REFERENCE.logs) == REFERENCE.num_logs
    assert len(GOOD) == len(REFERENCE.tables) - len(REFERENCE.refused_logs)
    assert len(WITH_CHECKPOINT) >= REFERENCE.floors.with_checkpoint
    tombstones = [state_at(store_of(table), listing_of(table)).removes.num_rows for table in WITH_CHECKPOINT]
    assert sum(map(bool, tombstones)) >= REFERENCE.floors.with_tombstones
    assert len(TYPED) >= REFERENCE.floors.typed
