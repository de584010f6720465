"""Pieces of a checkpoint: values of bounded work that travel to the process that reads them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from deltamirror.delta import names
from deltamirror.delta.actions import Sidecar
from deltamirror.delta.lines import decode_commit
from deltamirror.deltalog.commits import read_whole
from deltamirror.deltalog.listing import CheckpointFiles
from deltamirror.deltalog.parquet import opened, rows_at_once, translated
from deltamirror.errors import InvalidInput
from deltamirror.storage.store import Meta, Store

_MOST_ROWS: Final = 100_000
_THREADS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows of one file: so many of these row groups, after some that are skipped. A JSON file is always whole."""

    meta: Meta
    groups: tuple[int, ...] = ()
    skip: int = 0
    rows: int = 0


def is_json(meta: Meta) -> bool:
    """Whether a file of a checkpoint has lines; otherwise it is Parquet."""
    return meta.key.endswith(".json")


def checkpoint_pieces(store: Store, files: CheckpointFiles) -> list[Piece]:
    """All rows of a checkpoint, those of its sidecars last, in pieces of at most some 100,000 rows, of fewer
    where these are long.

    Pieces of one row group lie next to each other: ``read_pieces`` decodes it once for all of them.
    """
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="pieces") as threads:
        tops = list(threads.map(partial(_top, store), files.metas))
        sidecars = [name for _, named in tops for name in named]
        below = threads.map(partial(_of_sidecar, store, files), sidecars)
        return [*chain.from_iterable(pieces for pieces, _ in tops), *chain.from_iterable(below)]


def named_sidecars(store: Store, meta: Meta) -> list[str]:
    """The names of the sidecars that a file of a checkpoint names. Nothing is read of these.

    A path is that of a URI; wherever it points to, the file is in the folder of this table's sidecars.
    """
    return _top(store, meta)[1]


def _top(store: Store, meta: Meta) -> tuple[list[Piece], list[str]]:
    """The pieces of a file that bears the version, and the names of the sidecars that it names."""
    if is_json(meta):
        actions = decode_commit(read_whole(store, meta), source=f"{store.location}/{meta.key}")
        pieces, paths = [Piece(meta=meta)], [each.path for each in actions if isinstance(each, Sidecar)]
    else:
        file = opened(store, meta)
        with translated(store, meta):
            pieces, paths = list(_cut(meta, file.metadata)), _sidecars(file)
    return pieces, [unquote(path.rpartition("/")[2]) for path in paths]


def _sidecars(file: pq.ParquetFile) -> list[str]:
    if "sidecar" not in file.schema_arrow.names:
        return []
    rows = file.read(columns=["sidecar.path"]).column("sidecar").drop_null().to_pylist()
    return [row["path"] for row in rows if row["path"] is not None]


def _of_sidecar(store: Store, files: CheckpointFiles, name: str) -> list[Piece]:
    key = f"{names.SIDECARS}/{name}"
    meta = store.head(key)
    if meta is None:
        raise InvalidInput(
            f"the checkpoint {files.name} in {store.location} has a sidecar {key}, which is not there",
            hint="bring it back from a backup, or begin with another checkpoint",
        )
    file = opened(store, meta)
    with translated(store, meta):
        return list(_cut(meta, file.metadata))


def _cut(meta: Meta, footer: pq.FileMetaData) -> Iterator[Piece]:
    """Small row groups share a piece, large ones have several."""
    groups: list[int] = []
    rows, most = 0, _MOST_ROWS
    for number in range(footer.num_row_groups):
        count, own = footer.row_group(number).num_rows, rows_at_once(footer, [number], most=_MOST_ROWS)
        if rows and rows + count > min(most, own):
            yield Piece(meta=meta, groups=tuple(groups), rows=rows)
            groups, rows, most = [], 0, _MOST_ROWS
        if count > own:
            yield from _slices(meta, number, count, own)
        else:
            groups.append(number)
            rows, most = rows + count, min(most, own)
    if rows:
        yield Piece(meta=meta, groups=tuple(groups), rows=rows)


def _slices(meta: Meta, number: int, count: int, most: int) -> Iterator[Piece]:
    for start in range(0, count, most):
        yield Piece(meta=meta, groups=(number,), skip=start, rows=min(most, count - start))
