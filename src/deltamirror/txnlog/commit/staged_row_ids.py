"""Row ids of staged commits: given before the lock, for the version that comes next if no other commit does.

Where another one was faster, the ids are moved: in the lines and in the file rows of the stage, outside of the lock.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, case, update

from deltamirror.delta import lines
from deltamirror.delta.actions import DomainMetadata
from deltamirror.delta.chunks import Chunk, compressed_chunk
from deltamirror.delta.rowtracking import RowIds, row_tracking_domain
from deltamirror.txnlog.commit.input import InputBlock
from deltamirror.txnlog.content.chunks import chunks_numbered
from deltamirror.txnlog.database.access import Session
from deltamirror.txnlog.database.schema import chunks, files


@dataclass(frozen=True, slots=True)
class StagedIds:
    """The ids that a stage's files have: those above ``start``, up to ``end``, of commit ``version``."""

    version: int
    start: int
    end: int

    def moved(self, *, version: int, start: int) -> "StagedIds":
        """The ids of the same files in another place."""
        return StagedIds(version, start, start + self.end - self.start)

    @property
    def domain(self) -> DomainMetadata | None:
        """The action that records how far the table has come; None if the files have no rows that are new."""
        return row_tracking_domain(self.end) if self.end > self.start else None


def numbered(blocks: Iterable[InputBlock], ids: RowIds) -> Iterator[InputBlock]:
    """The blocks with row ids in their adds."""
    index = 0
    for block in blocks:
        actions = ids.number(block.actions, index=index)
        index += len(actions)
        yield InputBlock(lines.encode_commit(actions), actions)


def moved_chunks(
    connection: Connection, commit_id: int, numbers: Sequence[int], *, old: StagedIds, new: StagedIds
) -> list[Chunk]:
    """Chunks of a stage, with the new ids in their lines."""
    stored = chunks_numbered(connection, commit_id, numbers)
    return [compressed_chunk(_moved_lines(chunk.decoded(), old, new)) for chunk in stored]


def replace_chunks(session: Session, commit_id: int, numbers: Sequence[int], packed: Sequence[Chunk]) -> None:
    """Store chunks in the place of those that have these numbers."""
    values = [
        {"number": number, "raw_bytes": chunk.raw_bytes, "digest": chunk.digest, "data": chunk.data}
        for number, chunk in zip(numbers, packed, strict=True)
    ]
    mine = (chunks.c.commit_id == commit_id) & (chunks.c.chunk == bindparam("number"))
    session.execute(update(chunks).where(mine), values)


def move_rows(
    session: Session, table_id: int, commit_id: int, ordinals: range, *, old: StagedIds, new: StagedIds
) -> None:
    """Give the file rows of a stage their new ids."""
    c = files.c
    session.execute(
        update(files)
        .where(c.table_id == table_id, c.commit_id == commit_id, c.ordinal >= ordinals.start, c.ordinal < ordinals.stop)
        .where(c.default_row_commit_version == old.version)
        .values(
            base_row_id=case((c.base_row_id > old.start, c.base_row_id + (new.start - old.start)), else_=c.base_row_id),
            default_row_commit_version=new.version,
        )
    )


def _moved_lines(data: bytes, old: StagedIds, new: StagedIds) -> bytes:
    # Inside of a JSON string the quotes would be escaped: this matches members only.
    given = re.compile(rb'"baseRowId":(\d+),"defaultRowCommitVersion":%d(?=[,}])' % old.version)
    shift = new.start - old.start

    def move(found: re.Match[bytes]) -> bytes:
        base = int(found[1])
        return b'"baseRowId":%d,"defaultRowCommitVersion":%d' % (
            base + shift if base > old.start else base,
            new.version,
        )

    return given.sub(move, data)
