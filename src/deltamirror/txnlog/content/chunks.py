"""A commit's bytes in SQL: the rows of ``dl_commit_chunks``."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, select

from deltamirror.delta import lines
from deltamirror.delta.actions import Action
from deltamirror.delta.chunks import Chunk
from deltamirror.errors import NotFound
from deltamirror.txnlog.database.access import Row
from deltamirror.txnlog.database.schema import chunks

_READ_AT_ONCE = 64


def chunk_row(chunk: Chunk, commit_id: int, number: int) -> Row:
    """The row of ``dl_commit_chunks``."""
    return commit_id, number, chunk.codec, chunk.raw_bytes, chunk.digest, chunk.data


def read_chunks(connection: Connection, commit_id: int) -> Iterator[Chunk]:
    """The chunks of a commit, in order, as they are stored."""
    c = chunks.c
    query = select(c.codec, c.raw_bytes, c.digest, c.data).where(c.commit_id == commit_id).order_by(c.chunk)
    for row in connection.execute(query.execution_options(yield_per=_READ_AT_ONCE)):
        yield Chunk(row.codec, row.raw_bytes, bytes(row.digest), bytes(row.data))


def chunks_numbered(connection: Connection, commit_id: int, numbers: Sequence[int]) -> list[Chunk]:
    """Some chunks of a commit that follow each other, as they are stored."""
    c = chunks.c
    some = (c.commit_id == commit_id) & (c.chunk >= numbers[0]) & (c.chunk <= numbers[-1])
    rows = connection.execute(select(c.codec, c.raw_bytes, c.digest, c.data).where(some).order_by(c.chunk)).all()
    return [Chunk(row.codec, row.raw_bytes, bytes(row.digest), bytes(row.data)) for row in rows]


def read_commit(connection: Connection, commit_id: int) -> Iterator[bytes]:
    """The bytes of a commit, chunk by chunk: joined, they are its file."""
    for chunk in read_chunks(connection, commit_id):
        yield chunk.decoded()


def commit_bytes(connection: Connection, commit_id: int) -> bytes:
    """The whole file of a commit."""
    return b"".join(read_commit(connection, commit_id))


def commit_actions(connection: Connection, commit_id: int) -> Iterator[Action]:
    """The actions of a commit, in order; NotFound where it was pruned."""
    is_there = False
    for data in read_commit(connection, commit_id):
        is_there = True
        yield from lines.decode_commit(data)
    if not is_there:
        hint = "`deltamirror table history` shows the versions that the catalog has"
        raise NotFound("the lines of a commit were pruned from the catalog", hint=hint)
