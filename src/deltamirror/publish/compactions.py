"""Log compaction files: a range of commits in one, which readers may take in their place (``X.Y.compacted.json``).

Each holds the lines of its commits, as they are, that no later one of them replaces. Removes stay, however old, and so
do domains that are removed: they end what lies before the range.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from deltamirror.delta import lines
from deltamirror.delta.actions import Add, Cdc, CommitInfo, DomainMetadata, Remove, Txn, Version
from deltamirror.delta.names import LOG_DIRECTORY, Compaction
from deltamirror.delta.replay import reconciliation_key
from deltamirror.storage.store import Created, Store

MOST_BYTES: Final = 64 * 1024 * 1024
"""Commits with more than that in all are left as they are: reading them is what costs, not opening them."""


def full_ranges(*, after: int, upto: int, length: int) -> Iterator[range]:
    """The versions of each compaction that begins after a version and is complete by another.

    Every ``length`` versions there is one, from version 0 on, whichever service writes it, and whenever.
    """
    first = -(-(after + 1) // length) * length
    for begin in range(first, upto - length + 2, length):
        yield range(begin, begin + length)


def compacted_lines(commits: Iterable[bytes]) -> bytes:
    """What remains of consecutive commits, in the order in which it was committed."""
    left: dict[object, bytes] = {}
    for line in (line.strip() for commit in commits for line in commit.split(b"\n")):
        if line and (key := _key(line)) is not None:
            left.pop(key, None)
            left[key] = line
    return b"".join(map(lines.with_end, left.values()))


def put_compaction(store: Store, versions: range, commits: Iterable[bytes]) -> int:
    """Write the compaction of some versions, and tell how many bytes it has; 0 where there is one."""
    data = compacted_lines(commits)
    name = Compaction(Version(versions.start), Version(versions[-1])).name
    return len(data) if isinstance(store.create(f"{LOG_DIRECTORY}/{name}", data), Created) else 0


def _key(line: bytes) -> object:
    """Lines with equal keys replace each other; None: the line belongs to its commit alone."""
    match lines.decode(line):
        case CommitInfo() | Cdc():
            return None
        case Add() | Remove() as action:
            return reconciliation_key(action)
        case Txn(app_id=app):
            return Txn, app
        case DomainMetadata(domain=domain):
            return DomainMetadata, domain
        case action:
            return type(action)
