"""The state of any version of a log that can be had, whatever it is made of."""

from dataclasses import replace

import pytest

from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.lines import encode_commit
from deltamirror.deltalog.listing import LogListing, read_listing
from deltamirror.deltalog.reachable_versions import reach
from deltamirror.deltalog.states import commit_time, state_at
from deltamirror.errors import InvalidAction, InvalidInput, InvalidLine, NotFound, Unsupported
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import (
    HISTORY,
    assert_same_state,
    put_classic,
    put_log,
    put_v2,
    state_after,
    store_in_memory,
)
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import COMMITTED_AT, commit, file

DAY = 24 * 3_600_000


@pytest.fixture
def store() -> Store:
    return store_in_memory()


def listing_of(store: Store, *, modified: int = COMMITTED_AT) -> LogListing:
    """The listing, as if all files had been written at one time."""
    found = read_listing(store)
    commits = {version: replace(meta, modified=modified) for version, meta in found.commits.items()}
    checkpoints = tuple(
        replace(each, metas=tuple(replace(meta, modified=modified) for meta in each.metas))
        for each in found.checkpoints
    )
    return replace(found, commits=commits, checkpoints=checkpoints)


@pytest.mark.parametrize("version", [0, 1, 2, 3, None])
def test_the_state_of_every_version_is_what_its_commits_give(store: Store, version: int | None) -> None:
    put_log(store, dict(enumerate(HISTORY)))
    put_classic(store, 2, rows(state_after(HISTORY[:3])))
    last = 3 if version is None else version
    assert_same_state(state_at(store, listing_of(store), version), state_after(HISTORY[: last + 1]))


@pytest.mark.parametrize("top", ["json", "parquet"])
def test_a_checkpoint_takes_the_place_of_all_before_it_and_of_its_own_commit(store: Store, top: str) -> None:
    put_log(store, {3: HISTORY[3]})
    put_v2(store, state_after(HISTORY[:3]), top=top)
    assert_same_state(state_at(store, listing_of(store), 2), state_after(HISTORY[:3]))
    assert_same_state(state_at(store, listing_of(store)), state_after(HISTORY))
    with pytest.raises(NotFound, match=r"version 1 of the log at .* lacks the commits of versions 0 to 1"):
        state_at(store, listing_of(store), 1)


@pytest.mark.parametrize(("first", "last"), [(1, 2), (0, 2), (2, 3), (1, 3)])
def test_a_compaction_takes_the_place_of_a_missing_commit(store: Store, first: int, last: int) -> None:
    put_log(store, {version: data for version, data in enumerate(HISTORY) if version != 2})
    compacted = b"".join(HISTORY[first : last + 1]).replace(ADD_OF_REMOVED, b"")
    store.put(f"_delta_log/{first:020d}.{last:020d}.compacted.json", compacted)
    listing = listing_of(store)
    assert_same_state(state_at(store, listing), state_after(HISTORY))
    with pytest.raises(InvalidInput, match="lacks the commits of version 2"):
        reach(listing)


ADD_OF_REMOVED = encode_commit([file("first-0")])


def test_a_compaction_that_goes_beyond_a_version_is_of_no_use_for_it(store: Store) -> None:
    put_log(store, {version: data for version, data in enumerate(HISTORY) if version != 2})
    store.put(f"_delta_log/{1:020d}.{3:020d}.compacted.json", b"".join(HISTORY[1:]))
    with pytest.raises(NotFound, match=r"version 2 of the log at .* lacks the commits of version 2"):
        state_at(store, listing_of(store), 2)


def test_a_gap_below_the_last_version_is_an_error_of_the_log(store: Store) -> None:
    put_log(store, {0: HISTORY[0], 3: HISTORY[3]})
    with pytest.raises(InvalidInput, match=r"version 3 of the log at .* lacks the commits of versions 1 to 2"):
        state_at(store, listing_of(store))


@pytest.mark.parametrize("version", [-1, 4])
def test_a_version_that_the_log_does_not_have_is_not_found(store: Store, version: int) -> None:
    put_log(store, dict(enumerate(HISTORY)))
    with pytest.raises(NotFound, match="it ends at 3"):
        state_at(store, listing_of(store), version)


def test_tombstones_are_kept_for_a_week_from_the_time_of_the_version(store: Store) -> None:
    put_log(store, dict(enumerate(HISTORY)))
    put_classic(store, 3, rows(state_after(HISTORY)))
    for days, kept in ((6, 1), (8, 0)):
        assert state_at(store, listing_of(store, modified=COMMITTED_AT + days * DAY)).removes.num_rows == kept


@pytest.mark.parametrize(
    ("tail", "kind", "message"),
    [
        (b'{"add":{"path":"x"', InvalidLine, "line 4: not JSON"),
        (b'{"add":{"path":"x"}}', InvalidAction, "line 4: add.partitionValues is missing"),
        (b'{"unheardOf":{}}', Unsupported, "line 4: unknown action 'unheardOf'"),
    ],
)
def test_a_damaged_commit_is_named_by_file_and_line(
    store: Store, tail: bytes, kind: type[Exception], message: str
) -> None:
    put_log(store, {**dict(enumerate(HISTORY)), 3: HISTORY[3] + tail})
    with pytest.raises(kind, match=rf"^{store.location}/_delta_log/{3:020d}\.json, {message}"):
        state_at(store, listing_of(store))


def test_a_log_without_metadata_is_named_by_its_location(store: Store) -> None:
    put_log(store, {0: b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'})
    with pytest.raises(InvalidAction, match=f"^{store.location}: the log states no metaData"):
        state_at(store, listing_of(store))


def test_the_time_of_a_commit_is_its_own_statement_else_that_of_its_file(store: Store) -> None:
    put_log(store, dict(enumerate(HISTORY)))
    listing = listing_of(store)
    stated = encode_commit([CommitInfo(in_commit_timestamp=5, timestamp=7, operation="WRITE")])
    assert commit_time(listing, 2, data=stated + HISTORY[2]) == 5
    assert commit_time(listing, 0, data=HISTORY[0]) == COMMITTED_AT
    assert commit_time(listing, 2, data=HISTORY[2]) == COMMITTED_AT + 2
    assert commit_time(listing, 2, data=HISTORY[2] + stated) == COMMITTED_AT + 2
    assert commit_time(listing, 2, data=b'{"commitInfo":') == COMMITTED_AT + 2
    with pytest.raises(NotFound, match="no file of version 9"):
        commit_time(listing, 9, data=None)


def test_a_time_in_the_commit_decides_which_tombstones_have_expired(store: Store) -> None:
    late = commit(file("late")).replace(
        b'"timestamp"', b'"inCommitTimestamp":%d,"timestamp"' % (COMMITTED_AT + 9 * DAY)
    )
    put_log(store, dict(enumerate([*HISTORY, late])))
    assert state_at(store, listing_of(store), 3).removes.num_rows == 1
    assert state_at(store, listing_of(store), 4).removes.num_rows == 0
