"""Slices of a log that is imported: what one task reads, and the parts that it makes of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from deltamirror.deltalog.checkpoints import Piece, read_pieces
from deltamirror.deltalog.commits import read_commits
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Meta, Store
from deltamirror.txnlog.imports.parts import BasePart, CommitPart, base_part, commit_parts

Part: TypeAlias = CommitPart | BasePart

_MOST_COMMITS: Final = 500
_MOST_BYTES: Final = 4 * 1024 * 1024
_MOST_ROWS: Final = 50_000
_ROW_BYTES: Final = 300
"""About what a row of a checkpoint comes to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """Commit files of consecutive versions, or pieces of the checkpoint that the first version comes from."""

    table_id: int
    address: StoreAddress
    version: int
    """Of the first commit, or of the checkpoint."""
    commits: tuple[Meta, ...] = ()
    pieces: tuple[Piece, ...] = ()
    part: int = 0
    """The number of the first piece."""
    modified: int = 0
    """The time of the checkpoint (ms)."""
    num_bytes: int
    """About how many bytes its parts come to."""


def base_slices(
    pieces: Sequence[Piece], *, table_id: int, address: StoreAddress, version: int, modified: int, part: int = 0
) -> Iterator[LogSlice]:
    """The pieces of a checkpoint from the one with the number ``part`` on; those that are decoded together in one."""
    numbered = list(enumerate(pieces))[part:]
    for _, run in groupby(numbered, key=lambda each: (each[1].meta.key, each[1].groups)):
        numbers, together = zip(*run, strict=True)
        yield LogSlice(
            table_id=table_id,
            address=address,
            version=version,
            pieces=together,
            part=numbers[0],
            modified=modified,
            num_bytes=sum(piece.rows for piece in together) * _ROW_BYTES,
        )


def commit_slices(commits: Iterable[tuple[int, Meta]], *, table_id: int, address: StoreAddress) -> Iterator[LogSlice]:
    """Commits of consecutive versions in slices of bounded size; a large commit is one of its own."""
    some: list[tuple[int, Meta]] = []
    size = 0

    def taken() -> LogSlice:
        metas = tuple(meta for _, meta in some)
        return LogSlice(table_id=table_id, address=address, version=some[0][0], commits=metas, num_bytes=size)

    for version, meta in commits:
        if some and (len(some) == _MOST_COMMITS or size + meta.size > _MOST_BYTES):
            yield taken()
            some, size = [], 0
        some.append((version, meta))
        size += meta.size
    if some:
        yield taken()


def read_slice(work: LogSlice, store: Store) -> Iterator[Part]:
    """The parts of a slice, in order, as they are read; a large commit is never in memory as a whole."""
    for number, found in enumerate(read_pieces(store, work.pieces), work.part):
        place = {"table_id": work.table_id, "version": work.version, "part": number, "modified": work.modified}
        yield base_part(found.files, found.removes, found.others, **place)
    for number, blocks in enumerate(read_commits(store, work.commits)):
        meta = work.commits[number]
        yield from commit_parts(
            blocks,
            table_id=work.table_id,
            version=work.version + number,
            modified=meta.modified,
            source=f"{store.location}/{meta.key}",
        )


def batches_of(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """The same parts, as many at a time as are stored in one transaction."""
    some: list[Part] = []
    rows = 0
    for part in parts:
        some.append(part)
        rows += 1 + len(part.added) + len(part.removed)
        if rows >= _MOST_ROWS:
            yield some
            some, rows = [], 0
    if some:
        yield some
