"""Version checksums that a log lacks, written again where their content is certain."""

from collections.abc import Iterator, Sequence
from functools import partial

from deltamirror.delta.checksum import Checksum
from deltamirror.delta.names import LOG_DIRECTORY, checksum_name
from deltamirror.mirror.assembly import commit_data
from deltamirror.mirror.checksums import ChecksumChain, write_checksum
from deltamirror.ops.stored import stored_chunks
from deltamirror.pipeline.seeds import checksum_before
from deltamirror.storage.store import Store
from deltamirror.txnlog.backlog import commit_work, with_counts
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.kept import KeptLog

__all__ = ["write_checksums"]


def write_checksums(database: Database, log: KeptLog, store: Store, missing: Sequence[int]) -> int:
    """Write the ``.crc`` of published versions, which ascend, as far as they are certain; how many.

    They follow from SQL alone: whoever else writes one at the same time writes the same, so nobody needs a lease.
    """
    wanted, written = set(missing), 0
    for version, checksum in _certain(database, log, missing[0], missing[-1]) if missing else ():
        if version in wanted:
            write_checksum(store, f"{LOG_DIRECTORY}/{checksum_name(version)}", checksum, guard=_no_guard)
            written += 1
    return written


def _certain(database: Database, log: KeptLog, first: int, last: int) -> Iterator[tuple[int, Checksum]]:
    seed = checksum_before(database, log.table_id, log.name, version=first)
    if seed is None and first > 0:
        return
    with database.read() as connection:
        commits = commit_work(connection, log.table_id, first=first, last=last)
        counted = with_counts(connection, commits, before=0 if seed is None else seed.num_files)
    chain = ChecksumChain(seed)
    for work in counted:
        checksum = chain.following(work, commit_data(work, partial(stored_chunks, database), table=log.name))
        if checksum is None:
            return
        yield work.version, checksum


def _no_guard() -> None:
    """No lease can be lost."""
