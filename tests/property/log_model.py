"""The dict that the log in SQL has to agree with, what Hypothesis draws for it, and faults in the middle of commits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from deltamirror import Add, Committed, Transaction
from deltamirror.errors import (
    CommitUnknown,
)
from deltamirror.txnlog.database.access import Database, Session

Files = dict[str, int]
"""Live files: path to size. Every add has a size of its own, so that adding a path again shows."""

NAMES = ("a", "b")
PARTITIONS = ("x", "y")

names = st.sampled_from(NAMES)
partitions = st.sampled_from(PARTITIONS)
spots = st.tuples(partitions, st.integers(0, 4))
some_spots = st.sets(spots, min_size=1, max_size=6)
apps = st.sampled_from(["app", "pp"])


class Interrupted(Exception):
    """What a statement raises that was chosen to fail."""


@dataclass(frozen=True)
class Fault:
    """Where a commit is disturbed: at the n-th statement, or at the n-th COMMIT, before or after it took place."""

    kind: str
    number: int


faults = st.one_of(
    st.none(),
    st.builds(Fault, st.just("statement"), st.integers(1, 24)),
    st.builds(Fault, st.sampled_from(["lost reply", "lost request"]), st.integers(1, 3)),
)


@dataclass(frozen=True)
class Version:
    """What one version of the model holds, and what its commit did."""

    files: Files
    properties: dict[str, str]
    apps: dict[str, int]
    timestamp: int
    touched: frozenset[str] = frozenset()
    """The partitions whose files it added or removed."""
    removed: frozenset[str] = frozenset()
    changes_metadata: bool = False


@dataclass
class ModelTable:
    """A table of the model: its versions, from 0 on."""

    versions: list[Version]
    app_versions: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def head(self) -> int:
        return len(self.versions) - 1

    @property
    def live(self) -> Files:
        return self.versions[-1].files

    def since(self, version: int) -> list[Version]:
        return self.versions[version + 1 :]


@dataclass(frozen=True)
class Tokened:
    """A transaction that was committed with a token."""

    table: ModelTable
    name: str
    files: list[Add]
    answer: Committed


@dataclass(frozen=True)
class Open:
    """A transaction that read one partition of a table, and has not committed yet."""

    transaction: Transaction
    name: str
    table: ModelTable
    version: int
    partition: str


def path_of(spot: tuple[str, int]) -> str:
    """The path of a file of a partition."""
    return f"p={spot[0]}/{spot[1]}.parquet"


@contextmanager
def disturbed(database: Database, fault: Fault | None) -> Iterator[None]:
    """Let one statement fail, or one COMMIT lose its request or its reply; once."""
    if fault is None:
        yield
        return
    passed = 0

    def is_due() -> bool:
        nonlocal passed
        passed += 1
        return passed == fault.number

    def failing(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_due():
                raise Interrupted
            return original(*args, **kwargs)

        return wrapper

    def losing(commit: Callable[[], object]) -> object:
        due = is_due()
        done = commit() if not due or fault.kind == "lost reply" else None
        if due:
            raise CommitUnknown("the reply of COMMIT was lost: by the test")
        return done

    with (
        mock.patch.multiple(Session, run=failing(Session.run), execute=failing(Session.execute))
        if (fault.kind == "statement")
        else mock.patch.object(database, "commit_by", losing)
    ):
        yield
