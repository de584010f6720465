"""A checkpoint in one file: its bytes, the files of others that may stay in its place, and all that is told of it."""

from dataclasses import replace
from hashlib import sha256
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import Remove
from deltamirror.deltalog.checkpoint import content, parquet
from deltamirror.deltalog.checkpoint.content import CheckpointState
from deltamirror.deltalog.checkpoint.state import tombstones_after
from deltamirror.errors import LeaseLost
from deltamirror.publish.checkpoint import classic, encoding
from deltamirror.publish.checkpoint.building import Built
from deltamirror.publish.checkpoint.classic import classic_state, write_classic
from deltamirror.publish.checkpoint.stitching import UnchangedGroups
from deltamirror.publish.checkpoint.summary import Written
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.work import Guard
from tests.support.logs.checkpoint_attempts import CLASSIC, replayed, unit
from tests.support.logs.checkpoint_tables import rows, table_of
from tests.support.logs.checkpoints import commit, objects
from tests.support.logs.commit_units import held

pytestmark = pytest.mark.requirement("R9")

NAME = "00000000000000000003.checkpoint.parquet"
KEY = f"_delta_log/{NAME}"
STATE = replayed(CLASSIC)
ROWS = rows(STATE)
SCHEMA = content.checkpoint_schema(ROWS.schema)
BACKWARDS = ROWS.take(pa.array(range(ROWS.num_rows - 1, -1, -1)))


@pytest.fixture
def store() -> Store:
    return store_at(f"memory://{uuid4()}/t", StorageSettings())


def written(store: Store, built: Built | None = None, *, guard: Guard = held, **fields: object) -> Written:
    return write_classic(built or built_of(STATE), unit(CLASSIC, **fields), store, guard=guard)


def built_of(state: CheckpointState) -> Built:
    return Built(state=state, num_files=state.files.num_rows)


def ours(*tables: pa.Table, schema: str = SCHEMA) -> pa.Buffer:
    """A file of our form, with a row group for each table."""
    return encoding.encoded(tables, ROWS.schema, schema, compression="snappy")


def theirs(table: pa.Table) -> bytes:
    """A file without any of the texts that we and Spark add to a footer."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False)
    return bytes(sink.getvalue())


def test_the_file_is_put_and_told_of(store: Store) -> None:
    found = written(store, compression="zstd")
    data = objects(store)[KEY]
    assert found == Written(
        version=3,
        name=NAME,
        digest=sha256(data).digest(),
        num_rows=ROWS.num_rows,
        num_files=6,
        num_bytes=len(data),
        schema=SCHEMA,
    )
    assert table_of(data).equals(parquet_form(ROWS))
    footer = parquet.opened(data).metadata
    assert footer.row_group(0).column(0).compression == "ZSTD"
    assert footer.metadata[parquet.SCHEMA_KEY] == SCHEMA.encode()


def parquet_form(table: pa.Table) -> pa.Table:
    """The table as a file gives it back."""
    return table_of(bytes(ours(table)))


def test_the_file_is_not_put_without_the_lease(store: Store) -> None:
    def lost() -> None:
        raise LeaseLost("another process has it")

    with pytest.raises(LeaseLost):
        written(store, guard=lost)
    assert objects(store) == {}


def test_a_file_of_the_same_content_stays_and_nothing_builds_on_it_if_it_looks_like_ours(store: Store) -> None:
    data = bytes(ours(BACKWARDS))
    store.put(KEY, data)
    found = written(store)
    assert objects(store) == {KEY: data}
    assert (found.digest, found.schema, found.num_bytes) == (None, SCHEMA, len(data))


def test_a_file_that_states_another_schema_stays_and_its_schema_is_not_told(store: Store) -> None:
    store.put(KEY, bytes(ours(BACKWARDS, schema="{}")))
    assert written(store).schema is None


def test_a_file_of_another_form_stays_and_is_a_base(store: Store) -> None:
    data = theirs(BACKWARDS)
    store.put(KEY, data)
    found = written(store)
    assert objects(store) == {KEY: data}
    assert (found.digest, found.schema) == (sha256(data).digest(), None)


def test_a_file_is_compared_with_the_unchanged_row_groups_too(store: Store) -> None:
    built = Built(
        state=replace(STATE, files=STATE.files.slice(0, 2)),
        num_files=6,
        unchanged=UnchangedGroups(_groups_of_files(), [1]),
    )
    data = bytes(ours(BACKWARDS))
    store.put(KEY, data)
    assert written(store, built).num_files == 6
    assert objects(store) == {KEY: data}
    store.delete([KEY])
    written(store, built)
    assert sorted(map(repr, table_of(objects(store)[KEY]).to_pylist())) == sorted(
        map(repr, parquet_form(ROWS).to_pylist())
    )


def _groups_of_files() -> pa.Buffer:
    """A file of ours whose second row group has the last four files of the state."""
    first, last = (rows(replace(STATE, files=part)) for part in (STATE.files.slice(0, 2), STATE.files.slice(2)))
    return ours(first, last.filter(pc.is_valid(pc.struct_field(last.column("add"), "path"))))


@pytest.mark.parametrize("data", [b"PAR1", theirs(pa.table({"x": [1]})), theirs(BACKWARDS.slice(1))])
def test_a_file_of_other_content_or_of_none_is_replaced(store: Store, data: bytes) -> None:
    store.put(KEY, data)
    assert written(store).num_rows == ROWS.num_rows
    assert table_of(objects(store)[KEY]).equals(parquet_form(ROWS))


@pytest.mark.parametrize(("deleted_at", "stays"), [(None, True), (0, True), (1, False)], ids=str)
def test_tombstones_that_expired_before_the_commit_may_be_in_a_file_and_no_others(
    store: Store, deleted_at: int | None, stays: bool
) -> None:
    """Other writers go by their clocks. A file without a time of its deletion was deleted at the beginning of time."""
    retention = -tombstones_after(STATE.metadata, committed_at=0)
    gone = Remove(path="gone", deletion_timestamp=deleted_at, data_change=True)
    found = content.replay([[data] for data in [*CLASSIC, commit(gone)]], version=3, committed_at=-1, base=None)
    data = theirs(rows(found))
    store.put(KEY, data)
    written(store, committed_at=retention)
    assert (objects(store)[KEY] == data) is stays


def test_the_state_of_a_file_is_read_unless_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = classic_state(ours(ROWS), version=3)
    assert found is not None
    assert (found.version, found.metadata, found.files.num_rows) == (3, STATE.metadata, 6)
    assert classic_state(b"PAR1", version=3) is None

    def exhausted(data: bytes) -> object:
        raise pa.ArrowMemoryError("no memory is left")

    monkeypatch.setattr(classic, "parquet_actions", exhausted)
    with pytest.raises(MemoryError):
        classic_state(ours(ROWS), version=3)
