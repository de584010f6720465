"""Units of commits from plain bytes, and the stores that they are published to."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from deltamirror.config import StorageSettings
from deltamirror.delta.chunks import Chunk, commit_digest, compressed_chunk, plain_chunk
from deltamirror.publish.commits import publish_commits
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.store import Store
from deltamirror.work import CommitOutcome, CommitUnit, CommitWork, Guard, Lane, Lease

LEASE = Lease(table_id=1, lane=Lane.COMMITS, owner="me", epoch=1, held_until=0.0)

Answer: TypeAlias = Callable[[str, str], object]


def work_of(version: int, data: bytes, *, lines: int | None = None, **fields: Any) -> CommitWork:
    """A commit with its chunks: one, or a plain first line and ``lines`` to each compressed one."""
    chunks = (plain_chunk(data),) if lines is None else _chunks(data, lines)
    return CommitWork(
        version=version,
        commit_id=1000 + version,
        committed_at=version,
        digest=commit_digest(chunk.digest for chunk in chunks),
        num_bytes=len(data),
        num_chunks=len(chunks),
        chunks=chunks,
        **fields,
    )


def _chunks(data: bytes, lines: int) -> tuple[Chunk, ...]:
    first, *others = data.splitlines(keepends=True)
    parts = (b"".join(others[at : at + lines]) for at in range(0, len(others), lines))
    return (plain_chunk(first), *(compressed_chunk(part) for part in parts))


def unit_of(commits: Iterable[CommitWork], *, location: str = "memory://here/t", **fields: Any) -> CommitUnit:
    """A unit of these commits."""
    address = StoreAddress.of(location, StorageSettings())
    return CommitUnit(table_id=1, table="sales.t", address=address, lease=LEASE, commits=tuple(commits), **fields)


def carried(work: CommitWork) -> Sequence[Chunk]:
    """The chunks that a commit carries."""
    return work.chunks or ()


def held() -> None:
    """A lease that nobody takes away."""


def publish(unit: CommitUnit, store: Store, *, guard: Guard = held, **fields: Any) -> CommitOutcome:
    """Publish a unit that carries its chunks."""
    return publish_commits(unit, store, fetch=carried, guard=guard, **fields)


def commit_key(version: int, suffix: str = "json") -> str:
    """The key of a commit, spelled out."""
    return f"_delta_log/{version:020d}.{suffix}"


def log_of(store: Store) -> dict[str, bytes]:
    """All objects of a store, by key."""
    found = {meta.key: store.read(meta.key) for meta in store.list()}
    return {key: each.data for key, each in found.items() if each is not None}


@dataclass
class Calls:
    """What a store was asked: operation and key, in order of the answers."""

    made: list[tuple[str, str]] = field(default_factory=list)

    def of(self, operation: str) -> list[str]:
        """The keys that one operation was called with."""
        return [key for name, key in self.made if name == operation]


def watched(store: Store, *, before: Answer | None = None, after: Answer | None = None) -> tuple[Store, Calls]:
    """The store with somebody in front of it.

    ``before`` may raise, or answer in place of the store; ``after`` may raise when the store has done its work.
    """
    calls = Calls()
    return cast("Store", _Watched(store, calls, before or _silent, after or _silent)), calls


def _silent(operation: str, key: str) -> object:
    return None


@dataclass(frozen=True)
class _Watched:
    store: Store
    calls: Calls
    before: Answer
    after: Answer

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.store, name)
        if not callable(operation):
            return operation

        def call(key: str, *arguments: Any, **options: Any) -> Any:
            answer = self.before(name, key)
            if answer is None:
                answer = operation(key, *arguments, **options)
            self.calls.made.append((name, key))
            self.after(name, key)
            return answer

        return call
