"""Version checksums as they follow from SQL: held against those of a log, and written again."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final

from deltamirror.delta.checksum import Checksum, encode
from deltamirror.delta.names import LOG_DIRECTORY, checksum_name
from deltamirror.ops.stored_commits import stored_chunks
from deltamirror.pipeline.plan.checksum_seeds import checksum_before
from deltamirror.publish.assembly import commit_data
from deltamirror.publish.checksums import ChecksumChain, is_true, write_checksum
from deltamirror.storage.store import Store
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.queue.backlog import checksum_seed, commit_work, with_counts
from deltamirror.txnlog.queue.expected_objects import KeptLog
from deltamirror.work import ExpectedObject

_MOST_CHAINS: Final = 10
_WINDOW: Final = 10_000


def expected_checksums(database: Database, log: KeptLog, versions: Sequence[int]) -> Iterator[ExpectedObject]:
    """The ``.crc`` of versions, which ascend, as we would write them; only those that are certain."""
    for version, checksum in _certain(database, log, versions):
        data = encode(checksum)
        pieces = ((len(data), hashlib.sha256(data).digest()),)
        yield ExpectedObject(version=version, key=_key(version), pieces=pieces)


def wrong_checksums(
    database: Database, log: KeptLog, store: Store, versions: Sequence[int], *, suspects: Collection[int]
) -> Iterator[int]:
    """Those of some versions, suspects among them, whose ``.crc`` ``write_checksums`` would replace, or create.

    The versions ascend. A suspect has other bytes than ours would have, as one of another writer, which is kept where
    it is true.
    """
    for version, checksum in _certain(database, log, versions):
        if version in suspects:
            found = store.read(_key(version))
            if found is None or not is_true(found.data, checksum):
                yield version


def write_checksums(database: Database, log: KeptLog, store: Store, versions: Sequence[int]) -> int:
    """Write the ``.crc`` of published versions, which ascend, as far as they are certain; how many.

    They follow from SQL alone: two processes that write one at the same time write the same, so none needs a lease.
    """
    certain = _certain(database, log, versions)
    return sum(write_checksum(store, _key(version), checksum, guard=_no_guard) for version, checksum in certain)


def _certain(database: Database, log: KeptLog, versions: Sequence[int]) -> Iterator[tuple[int, Checksum]]:
    """Those of some versions. A chain that ends at a commit begins anew after it, for what counting all files costs."""
    wanted = set(versions)
    for _ in range(_MOST_CHAINS):
        if not versions:
            return
        first = ended = versions[0]
        with database.read() as connection:
            stored = checksum_seed(connection, log.table_id, first - 1)
        seed = checksum_before(database, log.table_id, log.name, stored, version=first)
        if seed is None and first > 0:
            return  # there are too many files to list, and will be so at the next version
        for version, checksum in _chain(database, log, seed, range(first, versions[-1] + 1)):
            ended = version + 1
            if version in wanted:
                yield version, checksum
        versions = [version for version in versions if version > ended]


def _chain(database: Database, log: KeptLog, seed: Checksum | None, versions: range) -> Iterator[tuple[int, Checksum]]:
    """One after the other, up to the first that is not certain."""
    chain, num_files = ChecksumChain(seed), 0 if seed is None else seed.num_files
    for start in versions[::_WINDOW]:
        with database.read() as connection:
            commits = commit_work(connection, log.table_id, first=start, last=min(start + _WINDOW - 1, versions[-1]))
            counted = with_counts(connection, commits, before=num_files)
        for work in counted:
            checksum = chain.following(work, commit_data(work, partial(stored_chunks, database), table=log.name))
            if checksum is None:
                return
            num_files = checksum.num_files
            yield work.version, checksum


def _key(version: int) -> str:
    return f"{LOG_DIRECTORY}/{checksum_name(version)}"


def _no_guard() -> None:
    """No lease can be lost."""
