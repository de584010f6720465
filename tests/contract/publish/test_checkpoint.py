"""From a unit to a checkpoint in the log, over every kind of store: order, retries, other writers, bases."""

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from deltamirror.delta.actions import Remove
from deltamirror.delta.chunks import Chunk
from deltamirror.delta.lastcheckpoint import encode
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.errors import Internal, LeaseLost, NotFound, Unavailable
from deltamirror.publish.checkpoint import encoding, readback
from deltamirror.publish.checkpoint.equivalence import is_equivalent
from deltamirror.publish.checkpoint.grouping import row_groups
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.storage.store import Created, Data, Exists, Store
from deltamirror.work import CommitWork, Stage
from tests.support.logs.aside import as_if_large, in_small_groups
from tests.support.logs.checkpoint_attempts import (
    CLASSIC,
    KINDS,
    LATER,
    V2,
    attempt,
    pointer_of,
    replayed,
    stored,
    unit,
)
from tests.support.logs.checkpoint_tables import rows, table_of
from tests.support.logs.checkpoints import (
    STORY,
    base_of,
    carried,
    commit,
    first_commit,
    no_guard,
    objects,
    publish,
    put_commits,
)
from tests.support.stores.any_store import ON_S3_TOO
from tests.support.stores.recording import RecordingStore

pytestmark = [pytest.mark.default_on("memory"), pytest.mark.requirement("R9"), pytest.mark.requirement("R24")]
JSON_KEY = "_delta_log/00000000000000000003.json"
CHECKPOINT_KEY = "_delta_log/00000000000000000003.checkpoint.parquet"


@KINDS
@pytest.mark.requirement("R8")
@ON_S3_TOO
def test_the_checkpoint_holds_the_state_of_its_version(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    outcome = publish(unit(commits, num_files=6), any_store)
    assert is_equivalent(stored(any_store, outcome), replayed(commits))
    assert (outcome.version, outcome.num_files) == (3, 6)
    assert outcome.num_bytes == sum(
        len(data) for key, data in objects(any_store).items() if "checkpoint" in key and key != POINTER_KEY
    )


@KINDS
@pytest.mark.requirement("R15")
def test_the_pointer_says_what_the_checkpoint_is(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    outcome = publish(unit(commits), any_store)
    pointer = pointer_of(any_store)
    assert pointer.version == 3
    assert pointer.size == outcome.num_rows
    assert pointer.size_in_bytes == outcome.num_bytes
    assert pointer.num_of_add_files == 6


@pytest.mark.requirement("R15")
def test_a_classic_pointer_has_the_schema_of_the_file(any_store: Store) -> None:
    put_commits(any_store, CLASSIC)
    publish(unit(CLASSIC), any_store)
    footer = parquet.opened(objects(any_store)[CHECKPOINT_KEY]).metadata.metadata
    pointer = pointer_of(any_store)
    assert bytes(pointer.checkpoint_schema or b"") == footer[parquet.SCHEMA_KEY]
    assert pointer.v2_checkpoint is None


@pytest.mark.requirement("R15")
def test_a_v2_pointer_names_the_files_and_repeats_the_actions_that_are_not_files(any_store: Store) -> None:
    put_commits(any_store, V2)
    outcome = publish(unit(V2), any_store)
    lines = objects(any_store)[f"_delta_log/{outcome.name}"].splitlines()
    v2 = pointer_of(any_store).v2_checkpoint
    assert v2 is not None
    assert v2.path == outcome.name
    assert [bytes(action) for action in v2.non_file_actions or ()] == [*lines[4:], lines[0]]
    assert [json.loads(line)["sidecar"]["path"] for line in lines[1:4]] == [s.path for s in v2.sidecar_files or ()]


def test_a_v2_checkpoint_has_the_lines_of_the_reference_in_its_order(any_store: Store) -> None:
    put_commits(any_store, V2)
    outcome = publish(unit(V2), any_store)
    lines = [json.loads(line) for line in objects(any_store)[f"_delta_log/{outcome.name}"].splitlines()]
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["checkpointMetadata", *["sidecar"] * 3, "protocol", "metaData", "domainMetadata", "txn"]
    tags = lines[0]["checkpointMetadata"]["tags"]
    sizes = [line["sidecar"]["sizeInBytes"] for line in lines[1:4]]
    assert list(tags) == ["sidecarNumActions", "sidecarSizeInBytes", "numOfAddFiles", "sidecarFileSchema"]
    assert (tags["sidecarNumActions"], tags["sidecarSizeInBytes"], tags["numOfAddFiles"]) == ("7", str(sum(sizes)), "6")
    assert [field["name"] for field in json.loads(tags["sidecarFileSchema"])["fields"]] == ["add", "remove"]


@ON_S3_TOO
def test_sidecars_are_of_bounded_size_and_hold_ranges_of_paths(any_store: Store) -> None:
    put_commits(any_store, V2)
    publish(unit(V2), any_store)
    sidecars = {key: table_of(data) for key, data in sorted(objects(any_store).items()) if "_sidecars" in key}
    assert [table.num_rows for table in sidecars.values()] == [3, 3, 1]
    assert all(table.column_names == ["add", "remove"] for table in sidecars.values())
    rows = [row for table in sidecars.values() for row in table.to_pylist()]
    added = [row["add"]["path"] for row in rows if row["add"]]
    assert added == sorted(added)
    assert [row["remove"]["path"] for row in rows if row["remove"]] == ["day=1/first-0.parquet"]


@KINDS
def test_the_commit_is_seen_then_the_checkpoint_is_put_and_read_then_the_pointer_moves(
    any_store: Store, commits: list[bytes]
) -> None:
    put_commits(any_store, commits)
    recorded = RecordingStore(any_store)
    outcome = publish(unit(commits), recorded)
    top = f"_delta_log/{outcome.name}"
    assert recorded.calls[0] == ("head", JSON_KEY)
    assert recorded.puts[-2:] == [top, POINTER_KEY]
    assert all("_sidecars/" in key for key in recorded.puts[:-2])
    assert recorded.calls.index(("create", top)) < len(recorded.calls) - 1 - recorded.calls[::-1].index(("read", top))
    for key in recorded.puts[:-2]:
        last_read = len(recorded.calls) - 1 - recorded.calls[::-1].index(("read", key))
        assert recorded.calls.index(("create", key)) < last_read < recorded.calls.index(("create", top))


@KINDS
def test_a_checkpoint_never_comes_before_its_commit(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits[:-1])
    recorded = RecordingStore(any_store)
    outcome = attempt(unit(commits), recorded)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, NotFound)
    assert (outcome.failure.stage, outcome.failure.key) == (Stage.CHECK, JSON_KEY)
    assert recorded.puts == []


def _number_of_puts(commits: list[bytes]) -> int:
    return 2 if commits is CLASSIC else 5


@pytest.mark.parametrize(
    ("commits", "fail_at"),
    [(commits, n) for commits in (CLASSIC, V2) for n in range(1, _number_of_puts(commits) + 1)],
    ids=lambda value: value if isinstance(value, int) else "classic" if value is CLASSIC else "v2",
)
@pytest.mark.parametrize("lost_reply", [False, True], ids=["not put", "reply lost"])
@pytest.mark.default_on("memory")
@pytest.mark.requirement("R21")
def test_a_failure_at_any_put_is_cured_by_a_second_attempt_that_leaves_nothing_behind(
    any_store: Store, commits: list[bytes], fail_at: int, lost_reply: bool
) -> None:
    put_commits(any_store, commits)
    published = objects(any_store)
    outcome = attempt(unit(commits), RecordingStore(any_store, fail_at=fail_at, lost_reply=lost_reply))
    is_last = fail_at == _number_of_puts(commits)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, Unavailable)
    assert outcome.failure.stage == (Stage.POINTER if is_last else Stage.PUT)
    assert (POINTER_KEY in objects(any_store)) is (is_last and lost_reply)
    assert published.items() <= objects(any_store).items(), "commits are not touched"
    second = publish(unit(commits), any_store)
    assert is_equivalent(stored(any_store, second), replayed(commits))
    assert pointer_of(any_store).version == 3
    assert len(objects(any_store)) == len(commits) + _number_of_puts(commits)


@KINDS
@ON_S3_TOO
def test_a_second_attempt_after_success_puts_nothing(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    first = publish(unit(commits), any_store)
    before = objects(any_store)
    recorded = RecordingStore(any_store)
    second = publish(unit(commits), recorded)
    assert recorded.puts == []
    assert objects(any_store) == before
    assert replace(second, milliseconds=0) == replace(first, milliseconds=0)


@KINDS
def test_whoever_loses_the_lease_midway_puts_nothing_more(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    for allowed in range(_number_of_puts(commits)):
        turns = count()

        def guard(turns: Iterable[int] = turns, allowed: int = allowed) -> None:
            if next(iter(turns)) >= allowed:
                raise LeaseLost("injected")

        recorded = RecordingStore(any_store)
        outcome = attempt(unit(commits), recorded, guard=guard)
        assert outcome.failure is not None
        assert isinstance(outcome.failure.error, LeaseLost)
        assert len(recorded.puts) == allowed
        assert POINTER_KEY not in objects(any_store)
        _delete_checkpoint(any_store)


def _delete_checkpoint(store: Store) -> None:
    store.delete([key for key in objects(store) if "checkpoint" in key])


@ON_S3_TOO
def test_a_checkpoint_of_another_writer_with_the_same_content_is_kept(any_store: Store) -> None:
    put_commits(any_store, CLASSIC)
    table = rows(replayed(CLASSIC))
    backwards = table.take(pa.array(range(table.num_rows - 1, -1, -1)))
    theirs = _put_checkpoint(any_store, backwards)
    recorded = RecordingStore(any_store)
    outcome = publish(unit(CLASSIC), recorded)
    assert recorded.puts == [POINTER_KEY]
    assert objects(any_store)[CHECKPOINT_KEY] == theirs
    assert (outcome.digest, outcome.num_bytes) == (None, len(theirs))  # it looks like ours: nothing builds on it
    pointer = pointer_of(any_store)
    assert (pointer.size, pointer.size_in_bytes) == (table.num_rows, len(theirs))


def test_tombstones_that_had_expired_at_the_commit_may_be_in_a_kept_checkpoint(any_store: Store) -> None:
    """Other writers go by their clocks, which may be behind."""
    put_commits(any_store, CLASSIC)
    old = Remove(path="day=1/old.parquet", deletion_timestamp=1, data_change=True)
    earlier = content.replay([[data] for data in [*CLASSIC, commit(old)]], version=3, committed_at=0, base=None)
    theirs = _put_checkpoint(any_store, rows(earlier))
    assert earlier.removes.num_rows == 2
    publish(unit(CLASSIC), any_store)
    assert objects(any_store)[CHECKPOINT_KEY] == theirs


@pytest.mark.parametrize(
    "wrong",
    [
        lambda state: replace(state, files=state.files.slice(1)),
        lambda state: replace(state, files=pa.concat_tables([state.files, state.files.slice(0, 1)])),
        lambda state: replace(state, removes=state.removes.slice(0, 0)),
        lambda state: replace(state, transactions=()),
        lambda state: replace(state, domains=()),
        lambda state: replace(state, files=_with_other_size(state.files)),
    ],
    ids=["file missing", "file twice", "tombstone missing", "no transaction", "no domain", "other size"],
)
def test_a_checkpoint_of_another_writer_with_other_content_is_replaced(any_store: Store, wrong: Any) -> None:
    put_commits(any_store, CLASSIC)
    _put_checkpoint(any_store, rows(wrong(replayed(CLASSIC))))
    publish(unit(CLASSIC), any_store)
    readback.check(objects(any_store)[CHECKPOINT_KEY], rows(replayed(CLASSIC)))


def _with_other_size(files: pa.Table) -> pa.Table:
    sizes = pa.array([size + 1 for size in files.column("size").to_pylist()], pa.int64())
    return files.set_column(files.schema.get_field_index("size"), files.schema.field("size"), sizes)


def _put_checkpoint(store: Store, table: pa.Table) -> bytes:
    groups = row_groups(table.to_batches(), table.schema, 1)
    data = bytes(encoding.encoded(groups, table.schema, "{}", compression="zstd"))
    store.create(CHECKPOINT_KEY, data)
    return data


@pytest.mark.parametrize("garbage", [b"PAR1", b"\x00" * 100], ids=["half", "zeros"])
@ON_S3_TOO
def test_an_unreadable_checkpoint_is_replaced(any_store: Store, garbage: bytes) -> None:
    put_commits(any_store, CLASSIC)
    any_store.create(CHECKPOINT_KEY, garbage)
    outcome = publish(unit(CLASSIC), any_store)
    assert is_equivalent(stored(any_store, outcome), replayed(CLASSIC))


def test_another_table_in_the_place_of_a_checkpoint_is_replaced(any_store: Store) -> None:
    put_commits(any_store, CLASSIC)
    _put_checkpoint(any_store, pa.table({"x": pa.array([1])}))
    outcome = publish(unit(CLASSIC), any_store)
    assert is_equivalent(stored(any_store, outcome), replayed(CLASSIC))


class _Corrupting(RecordingStore):
    """A store that says yes, and keeps something else."""

    def create(self, key: str, data: Data, **options: bool) -> Created | Exists:
        is_meant = "checkpoint" in key and key != POINTER_KEY
        return super().create(key, bytes(data)[:-1] + b"?" if is_meant else data, **options)

    def replace(self, key: str, data: Data, **known: Any) -> Any:
        return super().replace(key, bytes(data)[:-1] + b"?" if key != POINTER_KEY else data, **known)


@KINDS
@pytest.mark.parametrize("compared", [nullcontext, as_if_large], ids=["as a whole", "in pieces"])
def test_the_pointer_stays_where_the_store_gives_back_something_else(
    any_store: Store, commits: list[bytes], compared: Callable[[], AbstractContextManager[None]]
) -> None:
    put_commits(any_store, commits)
    with compared():
        outcome = attempt(unit(commits), _Corrupting(any_store))
    assert outcome.failure is not None
    assert outcome.failure.stage is Stage.PUT
    assert POINTER_KEY not in objects(any_store)


@KINDS
def test_a_large_checkpoint_has_the_bytes_of_a_small_one(any_store: Store, commits: list[bytes]) -> None:
    """Whatever is put aside on the way, and wherever tables are divided, in several row groups."""
    put_commits(any_store, commits)
    with in_small_groups():
        publish(unit(commits, row_group_bytes=1), any_store)
        expected = objects(any_store)
        _delete_checkpoint(any_store)
        with as_if_large():
            publish(unit(commits, row_group_bytes=1), any_store)
    contents = _contents(objects(any_store))
    assert contents == _contents(expected)
    assert max(parquet.opened(data).num_row_groups for data in contents) > (2 if commits is CLASSIC else 0)


@KINDS
def test_the_checkpoint_after_a_large_one_has_the_rows_of_one_from_all_lines(
    any_store: Store, commits: list[bytes]
) -> None:
    more = [*commits, *LATER]
    put_commits(any_store, more)
    with in_small_groups(), as_if_large():
        first = publish(unit(commits, row_group_bytes=1), any_store)
        following = publish(unit(more, base=base_of(first), row_group_bytes=1), any_store)
        assert is_equivalent(stored(any_store, following), replayed(more))
        recorded = RecordingStore(any_store)
        whole = publish(unit(more, row_group_bytes=1), recorded)
        if commits is V2:  # it has sidecars of its own
            assert is_equivalent(stored(any_store, whole), replayed(more))
        else:
            assert recorded.puts == []


def _contents(found: dict[str, bytes]) -> list[bytes]:
    """The Parquet files: those beside them say when each was written."""
    return sorted(data for key, data in found.items() if key.endswith(".parquet"))


@KINDS
def test_a_count_that_differs_from_the_catalog_publishes_nothing(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    recorded = RecordingStore(any_store)
    outcome = attempt(unit(commits, num_files=7), recorded)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, Internal)
    assert "6 files" in outcome.failure.error.message
    assert recorded.puts == []


def _with_damaged_data(chunk: Chunk) -> Chunk:
    return replace(chunk, data=chunk.data[:-1] + b"?")


@pytest.mark.parametrize(
    "damage",
    [
        lambda chunks: [_with_damaged_data(chunks[0]), *chunks[1:]],
        lambda chunks: [chunks[0], _with_damaged_data(chunks[1])],
        lambda chunks: chunks[:1],
        lambda chunks: [],
    ],
    ids=["plain chunk", "compressed chunk", "chunk missing", "no chunks"],
)
def test_a_commit_that_is_damaged_in_the_database_is_not_built_into_a_checkpoint(any_store: Store, damage: Any) -> None:
    def fetch(work: CommitWork) -> Iterable[Chunk]:
        chunks = list(carried(work))
        return damage(chunks) if work.version == 2 else chunks

    put_commits(any_store, CLASSIC)
    recorded = RecordingStore(any_store)
    outcome = publish_checkpoint(unit(CLASSIC), recorded, fetch=fetch, guard=no_guard)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, Internal)
    assert outcome.failure.stage is Stage.BUILD
    assert recorded.puts == []


@pytest.mark.parametrize("missing", [0, 1, 3], ids=str)
def test_a_plan_with_a_gap_publishes_nothing(any_store: Store, missing: int) -> None:
    put_commits(any_store, CLASSIC)
    whole = unit(CLASSIC)
    gap = replace(whole, commits=tuple(work for work in whole.commits if work.version != missing))
    outcome = attempt(gap, any_store)
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, Internal)
    assert POINTER_KEY not in objects(any_store)


@KINDS
@pytest.mark.requirement("R15")
@ON_S3_TOO
def test_an_older_checkpoint_that_comes_late_does_not_move_the_pointer_back(
    any_store: Store, commits: list[bytes]
) -> None:
    more = [*commits, *LATER]
    put_commits(any_store, more)
    publish(unit(more), any_store)
    late = publish(unit(commits), any_store)
    assert f"_delta_log/{late.name}" in objects(any_store)
    assert pointer_of(any_store).version == 5


@KINDS
def test_a_damaged_pointer_does_not_stop_a_checkpoint(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    any_store.create(POINTER_KEY, b'{"version":')
    publish(unit(commits), any_store)
    assert pointer_of(any_store).version == 3


@KINDS
def test_a_table_without_files_has_a_checkpoint_too(any_store: Store, commits: list[bytes]) -> None:
    empty = [commits[0], commit()]
    put_commits(any_store, empty)
    outcome = publish(unit(empty), any_store)
    assert (outcome.num_files, stored(any_store, outcome).files.num_rows) == (0, 0)
    assert encode(pointer_of(any_store)) == objects(any_store)[POINTER_KEY]


def test_sidecars_need_both_the_feature_and_the_policy(any_store: Store) -> None:
    only_policy = [first_commit(configuration={"delta.checkpointPolicy": "v2"}), *STORY]
    put_commits(any_store, only_policy)
    assert publish(unit(only_policy), any_store).name == CHECKPOINT_KEY.removeprefix("_delta_log/")
