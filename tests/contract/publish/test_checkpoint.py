"""From a unit to a checkpoint in the log, over every kind of store: order, retries, other writers, bases."""

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from deltamirror.delta.actions import Remove
from deltamirror.delta.chunks import Chunk
from deltamirror.delta.lastcheckpoint import LastCheckpoint, Trust, decode, encode
from deltamirror.deltalog.checkpoint import content, parquet, scratch
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.errors import CapacityExceeded, Internal, LeaseLost, NotFound, Unavailable
from deltamirror.publish.checkpoint import encoding, readback
from deltamirror.publish.checkpoint.equivalence import is_equivalent
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.storage.store import Created, Data, Exists, Store
from deltamirror.work import CheckpointBase, CheckpointOutcome, CheckpointUnit, CommitWork, Guard, Stage
from tests.support.logs.aside import as_if_large, in_small_groups
from tests.support.logs.checkpoint_tables import rows, state_of_table, table_of
from tests.support.logs.checkpoints import (
    COMMITTED_AT,
    STORY,
    base_of,
    carried,
    commit,
    file,
    first_commit,
    no_guard,
    objects,
    publish,
    put_commits,
    unit_of,
)
from tests.support.stores.recording import RecordingStore

pytestmark = [pytest.mark.default_on("memory", "s3"), pytest.mark.requirement("R9"), pytest.mark.requirement("R24")]

CLASSIC = [first_commit(), *STORY]
V2 = [first_commit(v2=True), *STORY]
KINDS = pytest.mark.parametrize("commits", [CLASSIC, V2], ids=["classic", "v2"])
JSON_KEY = "_delta_log/00000000000000000003.json"
CHECKPOINT_KEY = "_delta_log/00000000000000000003.checkpoint.parquet"
LATER = [commit(file("fourth")), commit(file("fifth", day="2"))]


def unit(commits: list[bytes], **fields: Any) -> CheckpointUnit:
    """Small sidecars, so that there are several."""
    return unit_of(commits, sidecar_actions=3, **fields)


def attempt(wanted: CheckpointUnit, store: Store, *, guard: Guard = no_guard) -> CheckpointOutcome:
    return publish_checkpoint(wanted, store, fetch=carried, guard=guard)


def replayed(commits: list[bytes], *, without: int = 0) -> CheckpointState:
    """The state that a replay of all commits but the last ones gives."""
    kept = commits[: len(commits) - without]
    version = len(commits) - 1
    return content.replay(
        [[data] for data in kept], version=version, committed_at=COMMITTED_AT + version * 1_000, base=None
    )


def stored(store: Store, outcome: CheckpointOutcome) -> CheckpointState:
    """What the checkpoint in the store says, with all of its files."""
    top = objects(store)[f"_delta_log/{outcome.name}"]
    assert sha256(top).digest() == outcome.digest
    if not outcome.name.endswith(".json"):
        return state_of_table(table_of(top), version=outcome.version)
    actions = [line for line in top.splitlines() if not line.startswith((b'{"checkpointMetadata"', b'{"sidecar"'))]
    others = [b"\n".join(actions) + b"\n"]
    at = COMMITTED_AT + outcome.version * 1_000
    bare = rows(content.replay([others], version=outcome.version, committed_at=at, base=None))
    paths = [json.loads(line)["sidecar"]["path"] for line in top.splitlines() if line.startswith(b'{"sidecar"')]
    sidecars = [table_of(objects(store)[f"_delta_log/_sidecars/{path}"]) for path in paths]
    return state_of_table(pa.concat_tables([bare, *sidecars], promote_options="permissive"), version=outcome.version)


def pointer_of(store: Store) -> LastCheckpoint:
    reading = decode(objects(store)[POINTER_KEY])
    assert reading.trust is Trust.VERIFIED
    assert reading.pointer is not None
    return reading.pointer


@KINDS
@pytest.mark.requirement("R8")
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


def test_a_checkpoint_of_another_writer_with_the_same_content_is_kept(any_store: Store) -> None:
    put_commits(any_store, CLASSIC)
    table = rows(replayed(CLASSIC))
    backwards = table.take(pa.array(range(table.num_rows - 1, -1, -1)))
    theirs = _put_checkpoint(any_store, backwards)
    recorded = RecordingStore(any_store)
    outcome = publish(unit(CLASSIC), recorded)
    assert recorded.puts == [POINTER_KEY]
    assert objects(any_store)[CHECKPOINT_KEY] == theirs
    assert (outcome.digest, outcome.num_bytes) == (sha256(theirs).digest(), len(theirs))
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
    data = bytes(encoding.encoded(table.to_batches(), table.schema, "{}", compression="zstd", row_group_bytes=1))
    store.create(CHECKPOINT_KEY, data)
    return data


@pytest.mark.parametrize("garbage", [b"PAR1", b"\x00" * 100], ids=["half", "zeros"])
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

    def create(self, key: str, data: Data) -> Created | Exists:
        return super().create(key, bytes(data)[:-1] + b"?" if "checkpoint" in key and key != POINTER_KEY else data)

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
def test_a_large_checkpoint_and_the_next_have_the_bytes_of_small_ones(any_store: Store, commits: list[bytes]) -> None:
    """Whatever is put aside on the way, and wherever tables are divided, in several row groups."""
    more = [*commits, *LATER]
    put_commits(any_store, more)
    with in_small_groups():
        publish(unit(commits, row_group_bytes=1), any_store)
        publish(unit(more, row_group_bytes=1), any_store)
        expected = objects(any_store)
        _delete_checkpoint(any_store)
        with as_if_large():
            first = publish(unit(commits, row_group_bytes=1), any_store)
            publish(unit(more, base=base_of(first), row_group_bytes=1), any_store)
            recorded = RecordingStore(any_store)
            publish(unit(more, row_group_bytes=1), recorded)
            assert recorded.puts == []
    contents = _contents(objects(any_store))
    assert contents == _contents(expected)
    assert max(parquet.opened(data).num_row_groups for data in contents) > (2 if commits is CLASSIC else 0)


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
def test_a_checkpoint_from_a_base_is_the_one_from_the_whole_log(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    base = base_of(publish(unit(commits), any_store))
    more = [*commits, *LATER]
    put_commits(any_store, more)
    outcome = publish(unit(more, base=base), any_store)
    assert outcome.base == 3
    whole = replayed(more)
    assert is_equivalent(stored(any_store, outcome), whole)
    assert pointer_of(any_store).version == 5


def _unusable(base: CheckpointBase, store: Store, commits: list[bytes]) -> bool:
    more = [*commits, *LATER]
    put_commits(store, more)
    recorded = RecordingStore(store)
    outcome = attempt(unit(more, base=base), recorded)
    assert outcome.failure is None
    assert recorded.puts == []
    return outcome.base_unusable


@KINDS
def test_a_base_that_is_gone_is_reported(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    base = base_of(publish(unit(commits), any_store))
    any_store.delete([f"_delta_log/{base.name}"])
    assert _unusable(base, any_store, commits)


@KINDS
def test_a_base_that_somebody_changed_is_reported(any_store: Store, commits: list[bytes]) -> None:
    put_commits(any_store, commits)
    base = base_of(publish(unit(commits), any_store))
    any_store.put(f"_delta_log/{base.name}", objects(any_store)[f"_delta_log/{base.name}"] + b"\n")
    assert _unusable(base, any_store, commits)


@pytest.mark.parametrize("name", ["x.checkpoint.parquet", "x.checkpoint.u.json"])
def test_a_base_that_cannot_be_read_is_reported(any_store: Store, name: str) -> None:
    name = name.replace("x", f"{3:020d}")
    any_store.create(f"_delta_log/{name}", b"nonsense")
    digest = sha256(b"nonsense").digest()
    base = CheckpointBase(version=3, committed_at=COMMITTED_AT + 3_000, name=name, digest=digest)
    assert _unusable(base, any_store, CLASSIC)


def _sidecar_of(store: Store) -> str:
    return next(key for key in objects(store) if "_sidecars/" in key)


def test_a_base_whose_sidecar_is_gone_is_reported(any_store: Store) -> None:
    put_commits(any_store, V2)
    base = base_of(publish(unit(V2), any_store))
    any_store.delete([_sidecar_of(any_store)])
    assert _unusable(base, any_store, V2)


def test_a_base_whose_sidecar_was_changed_is_reported(any_store: Store) -> None:
    put_commits(any_store, V2)
    base = base_of(publish(unit(V2), any_store))
    one, other = [key for key in sorted(objects(any_store)) if "_sidecars/" in key][:2]
    any_store.put(one, objects(any_store)[other])
    assert _unusable(base, any_store, V2)


@KINDS
def test_a_base_that_lacks_tombstones_because_their_retention_grew_is_reported(
    any_store: Store, commits: list[bytes]
) -> None:
    short = {"delta.deletedFileRetentionDuration": "interval 1 second"}
    longer = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    is_v2 = commits is V2
    begun = [first_commit(v2=is_v2, configuration=short), *STORY]
    put_commits(any_store, begun)
    base = base_of(publish(unit(begun), any_store))
    more = [*begun, first_commit(v2=is_v2, configuration=longer)]
    put_commits(any_store, more)
    outcome = attempt(unit(more, base=base), any_store)
    assert outcome.base_unusable
    assert stored(any_store, publish(unit(more), any_store)).removes.num_rows == 1


def test_a_store_that_fails_while_the_base_is_read_does_not_condemn_it(any_store: Store) -> None:
    class Failing(RecordingStore):
        def read_range(self, key: str, start: int, length: int) -> bytes | None:
            raise Unavailable("injected")

    put_commits(any_store, CLASSIC)
    base = base_of(publish(unit(CLASSIC), any_store))
    more = [*CLASSIC, *LATER]
    put_commits(any_store, more)
    outcome = attempt(unit(more, base=base), Failing(any_store))
    assert not outcome.base_unusable
    assert outcome.failure is not None
    assert outcome.failure.stage is Stage.BUILD


@KINDS
def test_a_full_disk_while_the_base_is_read_does_not_condemn_it(
    any_store: Store, commits: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_commits(any_store, [*commits, *LATER])
    base = base_of(publish(unit(commits), any_store))

    def full(table: pa.Table) -> pa.Buffer:
        raise CapacityExceeded("injected")

    monkeypatch.setattr(scratch, "_serialized", full)
    with as_if_large():
        outcome = attempt(unit([*commits, *LATER], base=base), any_store)
    assert not outcome.base_unusable
    assert outcome.failure is not None
    assert isinstance(outcome.failure.error, CapacityExceeded)


@KINDS
@pytest.mark.requirement("R15")
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
