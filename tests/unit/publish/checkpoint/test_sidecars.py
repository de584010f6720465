"""A V2 checkpoint: its sidecars, the file that names them, and what is told of both."""

import json
from dataclasses import replace
from hashlib import sha256
from uuid import UUID, uuid4, uuid5

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace as replaced

from deltamirror.config import StorageSettings
from deltamirror.delta import lines
from deltamirror.delta.actions import Action, CheckpointMetadata, Remove, Sidecar
from deltamirror.delta.lastcheckpoint import V2Checkpoint
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.layout import file_columns
from deltamirror.errors import InvalidInput, LeaseLost
from deltamirror.publish.checkpoint import sidecars
from deltamirror.publish.checkpoint.sidecars import read_top, write_v2
from deltamirror.publish.checkpoint.summary import Written
from deltamirror.publish.checkpoint.unchanged_sidecars import UnchangedSidecars
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import Guard
from tests.support.logs.checkpoint_attempts import V2, replayed, unit
from tests.support.logs.checkpoint_tables import table_of
from tests.support.logs.checkpoints import COMMITTED_AT, commit, objects
from tests.support.logs.commit_units import held

pytestmark = pytest.mark.requirement("R9")

NAMESPACE = UUID("5f0c6b0e-6f0e-5d5a-9d53-7b0c3f6f2c1d")
"""Another one would let a second attempt put all files again, under other names."""
STATE = replayed(V2)
OTHERS: list[Action] = [STATE.protocol, STATE.metadata, *STATE.domains, *STATE.transactions]
SCHEMA = content.checkpoint_schema(file_columns(STATE.metadata, STATE.protocol))


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def written(
    store: Store,
    state: CheckpointState = STATE,
    *,
    guard: Guard = held,
    unchanged: UnchangedSidecars | None = None,
    **fields: object,
) -> Written:
    return write_v2(state, unit(V2, **fields), store, guard=guard, unchanged=unchanged)


def unique(data: bytes) -> str:
    return str(uuid5(NAMESPACE, f"{STATE.metadata.id}/3/{sha256(data).hexdigest()}"))


def sidecars_in(store: Store) -> list[Sidecar]:
    """As the store knows them, in the order of their names."""
    return [
        Sidecar(path=meta.key.rpartition("/")[2], size_in_bytes=meta.size, modification_time=meta.modified)
        for meta in sorted(store.list(), key=lambda meta: meta.key)
        if meta.key.startswith("_delta_log/_sidecars/")
    ]


def top_in(store: Store) -> tuple[str, bytes]:
    (found,) = ((key, data) for key, data in objects(store).items() if "_sidecars" not in key)
    return found


def head_of(store: Store, **tags: str) -> CheckpointMetadata:
    size = sum(each.size_in_bytes for each in sidecars_in(store))
    counted = {"sidecarNumActions": "7", "sidecarSizeInBytes": str(size), "numOfAddFiles": "6"}
    return CheckpointMetadata(version=3, tags={**counted, **tags})


def test_sidecars_are_named_after_their_places_and_their_content(store: Store) -> None:
    written(store)
    found = {key: data for key, data in objects(store).items() if "_sidecars" in key}
    assert sorted(found) == [
        f"_delta_log/_sidecars/00000000000000000003.checkpoint.{part:010}.0000000003.{unique(data)}.parquet"
        for part, data in enumerate((found[key] for key in sorted(found)), 1)
    ]


def test_sidecars_hold_all_file_actions_in_order_each_a_range(store: Store) -> None:
    written(store, compression="zstd")
    found = [objects(store)[f"_delta_log/_sidecars/{each.path}"] for each in sidecars_in(store)]
    assert [table_of(data).num_rows for data in found] == [3, 3, 1]
    assert {parquet.opened(data).metadata.row_group(0).column(0).compression for data in found} == {"ZSTD"}
    assert {parquet.opened(data).metadata.metadata[parquet.SCHEMA_KEY].decode() for data in found} == {SCHEMA}
    paths = [(row["add"] or row["remove"])["path"] for data in found for row in table_of(data).to_pylist()]
    assert paths == [*STATE.files.column("path").to_pylist(), *STATE.removes.column("path").to_pylist()]


def test_tombstones_follow_on_files_within_a_sidecar(store: Store) -> None:
    gone = [Remove(path=f"gone-{n}", deletion_timestamp=COMMITTED_AT, data_change=True) for n in range(5)]
    few = replayed([V2[0], V2[3], commit(), commit(*gone)])
    written(store, replace(few, files=pa.concat_tables([few.files] * 2)))
    found = [table_of(objects(store)[f"_delta_log/_sidecars/{each.path}"]).to_pylist() for each in sidecars_in(store)]
    names = [["add" if row["add"] else row["remove"]["path"] for row in each] for each in found]
    assert names == [["add", "add", "gone-0"], ["gone-1", "gone-2", "gone-3"], ["gone-4"]]


def test_the_top_file_names_the_sidecars_and_has_all_other_actions(store: Store) -> None:
    written(store)
    key, data = top_in(store)
    head = head_of(store, sidecarFileSchema=SCHEMA)
    assert data == lines.encode_commit([head, *sidecars_in(store), *OTHERS])
    assert key == f"_delta_log/00000000000000000003.checkpoint.{unique(data)}.json"


@pytest.mark.parametrize(("longest", "is_there"), [(len(SCHEMA), True), (len(SCHEMA) - 1, False)])
def test_a_schema_that_is_too_long_is_left_out(
    store: Store, longest: int, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecars, "_LONGEST_SCHEMA", longest)
    written(store)
    tags = json.loads(top_in(store)[1].splitlines()[0])["checkpointMetadata"]["tags"]
    assert ("sidecarFileSchema" in tags) is is_there
    assert tags == head_of(store, **({"sidecarFileSchema": SCHEMA} if is_there else {})).tags


def test_the_checkpoint_is_told_of_with_all_of_its_files(store: Store) -> None:
    found = written(store)
    key, data = top_in(store)
    name, head, meta = key.removeprefix("_delta_log/"), head_of(store, sidecarFileSchema=SCHEMA), store.head(key)
    assert meta is not None
    assert found == Written(
        version=3,
        name=name,
        digest=sha256(data).digest(),
        num_rows=1 + 3 + 4 + 7,
        num_files=6,
        num_bytes=len(data) + sum(each.size_in_bytes for each in sidecars_in(store)),
        v2=V2Checkpoint(
            path=name,
            size_in_bytes=len(data),
            modification_time=meta.modified,
            non_file_actions=tuple(msgspec.Raw(lines.encode(each)) for each in [*OTHERS, head]),
            sidecar_files=tuple(sidecars_in(store)),
        ),
    )


def test_a_table_without_file_actions_has_a_top_file_alone(store: Store) -> None:
    found = written(store, replace(STATE, files=STATE.files.slice(0, 0), removes=STATE.removes.slice(0, 0)))
    assert list(objects(store)) == [f"_delta_log/{found.name}"]
    assert (found.num_rows, found.num_files) == (1 + 4, 0)


@pytest.mark.parametrize("number", range(4))
def test_other_bytes_in_the_place_of_a_file_do_not_stay(store: Store, number: int) -> None:
    written(store)
    before = objects(store)
    key = sorted(before)[number]
    store.put(key, b"other")
    written(store)
    assert objects(store)[key] == before[key]


@pytest.mark.parametrize("allowed", [0, 3])
def test_nothing_is_put_without_the_lease(store: Store, allowed: int) -> None:
    answers = iter([None] * allowed)

    def guard() -> None:
        if next(answers, LeaseLost) is LeaseLost:
            raise LeaseLost("another process has it")

    with pytest.raises(LeaseLost):
        written(store, guard=guard)
    assert len(sidecars_in(store)) == len(objects(store)) == allowed


def test_a_top_file_is_read_back_and_tells_which_sidecars_it_meant(store: Store) -> None:
    written(store)
    key, data = top_in(store)
    top = read_top(data, source=key)
    first, second, _ = sidecars_in(store)
    assert (top.metadata, list(top.sidecars), list(top.others)) == (STATE.metadata, sidecars_in(store), OTHERS)
    digest = sha256(objects(store)[f"_delta_log/_sidecars/{first.path}"]).digest()
    assert top.is_as_written(first, 3, digest)
    assert not top.is_as_written(second, 3, digest)
    assert top.is_as_written(first, 4, digest)
    assert not top.is_as_written(first, 2, digest)
    assert not top.is_as_written(replaced(first, path="x"), 3, digest)
    assert top.is_named(key, 3, sha256(data).digest())
    assert not top.is_named(key, 4, sha256(data).digest())


def test_sidecars_that_are_unchanged_are_named_after_the_others_and_counted(store: Store) -> None:
    older = Sidecar(path="older.parquet", size_in_bytes=70, modification_time=7)
    found = written(store, unchanged=UnchangedSidecars(named=[older], num_actions=5, num_files=4))
    [v2] = [found.v2] if found.v2 else []
    head, *_ = json.loads(top_in(store)[1].splitlines()[0]).values()
    assert v2.sidecar_files == (*sidecars_in(store), older)
    assert (found.num_rows, found.num_files) == (1 + 4 + 4 + 7 + 5, 6 + 4)
    assert found.num_bytes == len(top_in(store)[1]) + sum(each.size_in_bytes for each in v2.sidecar_files)
    tags = {name: head["tags"][name] for name in ("sidecarNumActions", "sidecarSizeInBytes", "numOfAddFiles")}
    total = sum(each.size_in_bytes for each in v2.sidecar_files)
    assert tags == {"sidecarNumActions": "12", "sidecarSizeInBytes": str(total), "numOfAddFiles": "10"}


def test_a_file_that_is_no_top_file_is_told_by_its_name() -> None:
    with pytest.raises(InvalidInput, match=r"x\.json"):
        read_top(b"{\n", source="x.json")
    with pytest.raises(ValueError, match="not enough values"):
        read_top(lines.encode_commit([STATE.protocol]), source="x.json")
