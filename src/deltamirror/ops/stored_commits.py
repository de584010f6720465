"""Commits as SQL has them."""

import hashlib
from collections.abc import Iterator

from deltamirror.delta.chunks import Chunk
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import fetch_chunks
from deltamirror.work import CommitWork


def stored_chunks(database: Database, work: CommitWork) -> Iterator[Chunk]:
    """The chunks of a commit, in order."""
    with database.read() as connection:
        yield from fetch_chunks(connection, work)


def file_digest(database: Database, work: CommitWork) -> str:
    """The sha256 of the file of a commit, however many chunks it has."""
    digest = hashlib.sha256()
    for chunk in stored_chunks(database, work):
        digest.update(chunk.decoded())
    return digest.hexdigest()
