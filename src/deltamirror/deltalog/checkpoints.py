"""A checkpoint of any writer: in one file, in parts, or with sidecars; whole, or piece by piece."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror.delta.actions import Add, DomainMetadata, Metadata, Protocol, Remove, Txn
from deltamirror.delta.lines import decode_commit
from deltamirror.deltalog import statistics
from deltamirror.deltalog.checkpoint.blocks import in_threads
from deltamirror.deltalog.checkpoint.decoded import adds_table, removes_table
from deltamirror.deltalog.checkpoint.layout import FILES, REMOVES, STATS_PARSED
from deltamirror.deltalog.checkpoint.reading import CheckpointActions, actions_of_table, state_of_actions
from deltamirror.deltalog.checkpoint.row_groups import gathered
from deltamirror.deltalog.checkpoint.state import CheckpointState
from deltamirror.deltalog.checkpoint_pieces import Piece, checkpoint_pieces
from deltamirror.deltalog.commits import read_whole
from deltamirror.deltalog.listing import CheckpointFiles
from deltamirror.deltalog.parquet import opened, rows_at_once, translated
from deltamirror.errors import InvalidInput, Unsupported
from deltamirror.storage.store import Meta, Store

__all__ = ["Piece", "checkpoint_pieces", "placed", "read_checkpoint", "read_pieces"]

_BATCH_ROWS: Final = 100_000
_OTHERS: Final = ("txn", "metaData", "protocol", "domainMetadata")
_TRACELESS: Final = frozenset({"cdc", "checkpointMetadata", "commitInfo", "sidecar"})
"""The actions of a checkpoint that are no part of a state."""


def read_checkpoint(store: Store, files: CheckpointFiles) -> CheckpointState:
    """What a checkpoint says; InvalidInput where it cannot be read. Files and removes are in the order of its rows."""
    runs = [list(run) for _, run in groupby(checkpoint_pieces(store, files), key=_source)]
    whole = gathered(chain.from_iterable(in_threads(lambda run: list(read_pieces(store, run)), runs)))
    with placed(f"the checkpoint {files.name} in {store.location}"):
        return state_of_actions(whole, version=files.version)


def read_pieces(store: Store, pieces: Sequence[Piece]) -> Iterator[CheckpointActions]:
    """The actions of each piece, in order: others, files, removes. Neighbours of one row group are decoded once.

    What the row group has before the first of them is decoded, and dropped.
    """
    for (meta, groups), run in groupby(pieces, key=_source):
        if groups:
            yield from _of_parquet(store, list(run))
        else:
            yield from (_of_lines(store, meta) for _ in run)


def _source(piece: Piece) -> tuple[Meta, tuple[int, ...]]:
    return piece.meta, piece.groups


def _of_lines(store: Store, meta: Meta) -> CheckpointActions:
    actions = decode_commit(read_whole(store, meta), source=f"{store.location}/{meta.key}")
    kept = (each for each in actions if isinstance(each, Protocol | Metadata | Txn | DomainMetadata))
    return CheckpointActions(
        others=[each for each in kept if not (isinstance(each, DomainMetadata) and each.removed)],
        files=adds_table([(0, each) for each in actions if isinstance(each, Add)]).select(FILES.names),
        removes=removes_table([(0, each) for each in actions if isinstance(each, Remove)]).select(REMOVES.names),
    )


def _of_parquet(store: Store, pieces: Sequence[Piece]) -> Iterator[CheckpointActions]:
    """Pieces of the same row groups, each of which begins where the one before it ends, or later."""
    meta, groups = pieces[0].meta, pieces[0].groups
    file = opened(store, meta)
    with translated(store, meta):
        columns = list(_columns(file, groups))
        typed, zoned = f"add.{STATS_PARSED}" in columns, statistics.zoned_times(file)
        most = rows_at_once(file.metadata, groups, most=_BATCH_ROWS)
        batches = file.iter_batches(most, row_groups=list(groups), columns=columns)
    cursor = _Cursor(batches)
    for piece in pieces:
        with translated(store, meta):
            cursor.until(piece.skip)
            table = pa.Table.from_batches(cursor.until(piece.skip + piece.rows))
            table = statistics.with_texts(table, zoned=zoned) if typed else table
        with placed(f"{meta.key} in {store.location}"):
            _refuse_unknown(table)
            actions = actions_of_table(table)
        yield actions


class _Cursor:
    """Rows of batches, taken in order."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None
        self._at = 0

    def until(self, place: int) -> list[pa.RecordBatch]:
        """The rows from where it stands to a place, which is where it stands then."""
        taken = []
        while self._at < place:
            batch = next(self._batches, None) if self._rest is None else self._rest
            if batch is None:
                raise ValueError("it has fewer rows than it says")
            part = batch.slice(0, place - self._at)
            taken.append(part)
            self._rest = batch.slice(part.num_rows) if part.num_rows < batch.num_rows else None
            self._at += part.num_rows
        return taken


def _columns(file: pq.ParquetFile, groups: Sequence[int]) -> Iterator[str]:
    """What is to be read: typed columns, which are most of a file, only where there is no text instead."""
    wanted = {"add": [*FILES.names, *statistics.needed_columns(file, groups)], "remove": REMOVES.names}
    for field in file.schema_arrow:
        if field.name in wanted and _has_path(field.type):
            yield from (f"{field.name}.{each.name}" for each in field.type if each.name in wanted[field.name])
        elif field.name not in _TRACELESS:
            yield field.name


def _has_path(kind: pa.DataType) -> bool:
    """Otherwise all of the column is read, so that decoding its actions says what is wrong with it."""
    return bool(pa.types.is_struct(kind)) and kind.get_field_index("path") >= 0


def _refuse_unknown(table: pa.Table) -> None:
    for name in set(table.column_names) - {"add", "remove", *_OTHERS}:
        if table.column(name).null_count < table.num_rows:
            raise Unsupported(f"a checkpoint has an unknown action {name!r}", features=(name,))


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Errors about the input, or about features in it that we do not know, name the place."""
    try:
        yield
    except (InvalidInput, Unsupported) as error:
        raise replace(error, message=f"{where}: {error.message}") from error
