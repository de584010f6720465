"""A checkpoint of any shape says the same as the commits that it stands for; piece by piece, it says all of it."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamirror.delta.actions import DeletionVector, Txn
from deltamirror.deltalog import checkpoint_pieces as log_pieces
from deltamirror.deltalog import checkpoints as log_checkpoints
from deltamirror.deltalog import parquet as log_parquet
from deltamirror.deltalog.checkpoint.content import CheckpointState, replay
from deltamirror.deltalog.checkpoints import checkpoint_pieces, read_checkpoint, read_pieces
from deltamirror.deltalog.listing import CheckpointFiles, read_listing
from deltamirror.errors import CapacityExceeded, DeltaMirrorError, InvalidInput, Transient, Unsupported
from deltamirror.ops.validate.checkpoints import CheckpointCounts, file_findings
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import (
    HISTORY,
    assert_same_state,
    put_classic,
    put_parts,
    put_v2,
    state_after,
    store_in_memory,
)
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import COMMITTED_AT, commit, file, first_commit

STATE = state_after(HISTORY)
MANY = state_after([first_commit(), commit(Txn(app_id="a", version=1), *(file(f"f-{n:04d}") for n in range(1_000)))])


@pytest.fixture
def store() -> Store:
    return store_in_memory()


def only_checkpoint(store: Store) -> CheckpointFiles:
    (found,) = read_listing(store).checkpoints
    return found


def in_order(state: CheckpointState) -> CheckpointState:
    return replay([], version=state.version, committed_at=COMMITTED_AT, base=state)


@pytest.mark.parametrize("top", ["json", "parquet"])
@pytest.mark.parametrize("sidecars", [("a.parquet",), ("a.parquet", "b%20c.parquet", "s3://x/_sidecars/d.parquet")])
def test_a_checkpoint_with_sidecars_reads_as_the_state(store: Store, top: str, sidecars: tuple[str, ...]) -> None:
    put_v2(store, STATE, top=top, sidecars=[name.rpartition("/")[2].replace("%20", " ") for name in sidecars])
    found = only_checkpoint(store)
    data = store.read(found.metas[0].key)
    assert data is not None
    if top == "json":
        listed = data.data.replace(b"b c.parquet", b"b%20c.parquet").replace(b'"d.', b'"s3://x/_sidecars/d.')
        store.put(found.metas[0].key, listed)
    assert_same_state(in_order(read_checkpoint(store, only_checkpoint(store))), STATE)


@pytest.mark.parametrize("parts", [2, 5])
def test_a_checkpoint_in_parts_reads_as_the_state(store: Store, parts: int) -> None:
    put_parts(store, STATE, parts=parts)
    assert_same_state(in_order(read_checkpoint(store, only_checkpoint(store))), STATE)


def test_a_checkpoint_in_lines_alone_reads_as_the_state(store: Store) -> None:
    without_domain = HISTORY[:3]
    lines = b'{"checkpointMetadata":{"version":2}}\n' + b"".join(without_domain)
    lines += b'{"domainMetadata":{"domain":"gone","configuration":"","removed":true}}\n'
    store.put(f"_delta_log/{2:020d}.checkpoint.0f5e8a1e-0000-4000-8000-000000000000.json", lines)
    found = read_checkpoint(store, only_checkpoint(store))
    assert found.domains == ()
    assert found.files.num_rows == 6
    assert found.removes.column("path").to_pylist() == ["day=1/first-0.parquet"]


@pytest.mark.parametrize("row_group_size", [pytest.param(1, marks=pytest.mark.elsewhere), 7, 400, 5_000])
def test_pieces_are_bounded_and_together_the_checkpoint(
    store: Store, monkeypatch: pytest.MonkeyPatch, row_group_size: int
) -> None:
    monkeypatch.setattr(log_pieces, "_MOST_ROWS", 300)
    monkeypatch.setattr(log_checkpoints, "_BATCH_ROWS", 70)
    put_classic(store, 1, rows(MANY), row_group_size=row_group_size)
    pieces = pickle.loads(pickle.dumps(checkpoint_pieces(store, only_checkpoint(store))))  # noqa: S301 - our own
    assert sum(piece.rows for piece in pieces) == rows(MANY).num_rows
    assert all(0 < piece.rows <= 300 for piece in pieces)
    assert len(pieces) <= 6
    one_by_one = [each for piece in pieces for each in read_pieces(store, [piece])]
    in_a_row = list(read_pieces(store, pieces))
    for one, other in zip(one_by_one, in_a_row, strict=True):
        assert (one.others, one.files, one.removes) == (other.others, other.files, other.removes)
    assert [action for each in one_by_one for action in each.others] == [
        MANY.protocol,
        MANY.metadata,
        Txn(app_id="a", version=1),
    ]
    assert pa.concat_tables([each.files for each in one_by_one]).equals(MANY.files)
    assert_same_state(read_checkpoint(store, only_checkpoint(store)), MANY)


@pytest.mark.parametrize("row_group_size", [7, 60, 400])
@pytest.mark.parametrize("most_bytes", [1, 100_000])
def test_rows_of_long_texts_are_decoded_few_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch, most_bytes: int, row_group_size: int
) -> None:
    texts = [f'{{"numRecords":{number},"others":"{str(number) * 3_000}"}}' for number in range(100, 200)]
    state = state_after([first_commit(), commit(*(file(f"f-{text[14:17]}", stats=text) for text in texts))])
    most, found = max(1, most_bytes // len(texts[0])), list[int]()
    monkeypatch.setattr(log_parquet, "_DECODED_BYTES", most_bytes)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted(pq.ParquetFile.iter_batches, found))
    put_classic(store, 1, rows(state), row_group_size=row_group_size)
    pieces = checkpoint_pieces(store, only_checkpoint(store))
    assert max(piece.rows for piece in pieces) <= most
    assert pa.concat_tables([each.files for each in read_pieces(store, pieces)]).equals(state.files)
    assert max(found) <= most
    found.clear()
    (meta,) = only_checkpoint(store).metas
    assert list(file_findings(store, meta, CheckpointCounts())) == []
    assert 0 < max(found) <= most


def counted(iter_batches: Callable[..., Iterator[pa.RecordBatch]], counts: list[int]) -> Callable[..., object]:
    def batches(*args: object, **options: object) -> Iterator[pa.RecordBatch]:
        for batch in iter_batches(*args, **options):
            counts.append(batch.num_rows)
            yield batch

    return batches


def test_a_large_file_is_read_by_ranges(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parquet, "_WHOLE_BYTES", 100)
    put_classic(store, 1, rows(MANY), row_group_size=100)
    assert_same_state(read_checkpoint(store, only_checkpoint(store)), MANY)
    store.put(only_checkpoint(store).metas[0].key, b"PAR1 and something else")
    with pytest.raises(InvalidInput, match=r"checkpoint\.parquet in memory://.* is no Parquet file"):
        read_checkpoint(store, only_checkpoint(store))


def test_a_large_file_that_is_gone_is_to_be_tried_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parquet, "_WHOLE_BYTES", 100)
    put_classic(store, 1, rows(MANY))
    found = only_checkpoint(store)
    (piece,) = checkpoint_pieces(store, found)
    store.delete([found.metas[0].key])
    with pytest.raises(Transient, match="is not what it was"):
        list(read_pieces(store, [piece]))


def test_a_row_group_that_unpacks_to_more_than_any_writer_makes_is_not_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_parts(store, MANY, parts=2)
    monkeypatch.setattr(log_parquet, "LARGEST_ROW_GROUP", 1000)
    with pytest.raises(CapacityExceeded, match=r"\.parquet in .* the limit is 1,000"):
        checkpoint_pieces(store, only_checkpoint(store))


def plain_rows(**changes: Any) -> pa.Table:
    """A checkpoint as a writer makes it who leaves out what is empty, and says no more than the protocol asks for."""
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": [], "writerFeatures": []}
    metadata = {"id": "t", "format": {"provider": "parquet"}, "schemaString": '{"type":"struct","fields":[]}'}
    add = {"path": "a", "size": 1, "modificationTime": 2, "dataChange": True}
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 3, "cardinality": 4}
    rows: list[dict[str, Any]] = [
        {"protocol": protocol},
        {"metaData": metadata},
        {"add": {**add, **changes}},
        {"add": {**add, "path": "b", "deletionVector": vector}},
        {"remove": {"path": "c", "dataChange": True}},
        {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}},
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([pa.field(name, kind) for name, kind in _kinds(rows).items()]))


def _kinds(rows: list[dict[str, Any]]) -> dict[str, pa.DataType]:
    return {
        name: pa.array([row.get(name) for row in rows]).type for name in dict.fromkeys(n for row in rows for n in row)
    }


def test_what_a_sparing_writer_leaves_out_is_empty(store: Store) -> None:
    put_classic(store, 4, plain_rows())
    found = read_checkpoint(store, only_checkpoint(store))
    assert (found.protocol.reader_features, found.protocol.writer_features) == (None, None)
    assert (found.metadata.partition_columns, found.metadata.configuration, found.metadata.format.options) == (
        [],
        {},
        {},
    )
    assert found.domains == ()
    assert found.files.column("partitionValues").to_pylist() == [[], []]
    assert found.files.column("dataChange").to_pylist() == [False, False]
    assert found.removes.column("dataChange").to_pylist() == [False]
    assert found.removes.column("partitionValues").to_pylist() == [None]
    expected = DeletionVector(storage_type="u", path_or_inline_dv="x", offset=1, size_in_bytes=3, cardinality=4)
    none, vector = found.files.column("deletionVector").to_pylist()
    assert none is None
    assert (vector["storageType"], vector["offset"], vector["maxRowIndex"]) == (expected.storage_type, 1, None)


def test_a_row_without_a_path_is_no_file(store: Store) -> None:
    put_classic(store, 4, plain_rows(path=None, size=None, modificationTime=None))
    assert read_checkpoint(store, only_checkpoint(store)).files.column("path").to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("table", "kind", "message"),
    [
        (plain_rows(size=None), InvalidInput, "an add has no size"),
        (plain_rows().drop(["protocol"]), InvalidInput, "states no protocol"),
        (plain_rows().drop(["metaData"]), InvalidInput, "states no metaData"),
        (pa.table({"add": [{"x": 1}]}), InvalidInput, "not the columns of a checkpoint"),
        (pa.table({"add": [1]}), InvalidInput, "not the columns of a checkpoint"),
        (pa.table({"txn": [1]}), InvalidInput, "not the columns of a checkpoint"),
        (pa.table({"a": [1]}), Unsupported, "unknown action 'a'"),
    ],
)
def test_what_is_no_checkpoint_is_an_error_that_names_the_file(
    store: Store, table: pa.Table, kind: type[DeltaMirrorError], message: str
) -> None:
    put_classic(store, 4, table)
    with pytest.raises(kind, match=message) as caught:
        read_checkpoint(store, only_checkpoint(store))
    assert f"{4:020d}.checkpoint.parquet" in caught.value.message
    assert store.location in caught.value.message


def test_an_unknown_action_that_no_row_has_does_no_harm(store: Store) -> None:
    put_classic(store, 3, rows(STATE).append_column("later", pa.nulls(rows(STATE).num_rows, pa.int64())))
    assert_same_state(read_checkpoint(store, only_checkpoint(store)), STATE)


def test_a_missing_sidecar_is_an_error_that_names_it(store: Store) -> None:
    put_v2(store, STATE, top="json")
    store.delete(["_delta_log/_sidecars/a.parquet"])
    with pytest.raises(InvalidInput, match=r"has a sidecar _delta_log/_sidecars/a\.parquet, which is not there"):
        read_checkpoint(store, only_checkpoint(store))


def test_a_damaged_line_of_a_checkpoint_is_named(store: Store) -> None:
    put_v2(store, STATE, top="json")
    key = only_checkpoint(store).metas[0].key
    store.put(key, b'{"checkpointMetadata":{"version":3}}\n{"protocol":')
    with pytest.raises(InvalidInput, match=rf"{key}, line 2: not JSON"):
        read_checkpoint(store, only_checkpoint(store))
