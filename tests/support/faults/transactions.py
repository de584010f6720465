"""Faults at chosen places of a commit: statements that fail, replies of COMMIT that are lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from deltamirror.errors import CommitUnknown
from deltamirror.txnlog.database.access import Database


class Fault(Exception):
    """What an injected fault raises: no error that anybody expects or tries again after."""


@contextmanager
def losing_replies(database: Database, *, turns: int = 1, happens: bool = True) -> Iterator[list[int]]:
    """Lose the replies of the first COMMITs; the commits themselves take place, or not. Counts the COMMITs."""
    real, calls = database.commit_by, [0]

    def commit_by(commit: Callable[[], object]) -> object:
        calls[0] += 1
        if calls[0] > turns:
            return real(commit)
        if happens:
            real(commit)
        raise CommitUnknown("the reply of COMMIT was lost: injected")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "commit_by", commit_by)
        yield calls


class _Counter:
    def __init__(self, fail_at: int | None) -> None:
        self.seen = 0
        self._fail_at = fail_at

    def step(self) -> None:
        self.seen += 1
        if self.seen == self._fail_at:
            raise Fault(f"before statement {self.seen}")


@contextmanager
def failing_at(database: Database, number: int | None) -> Iterator[_Counter]:
    """Raise before the n-th statement (rows in bulk and COMMIT are statements, too); ``None`` only counts them."""
    counter = _Counter(number)
    real_many, real_columns = database.insert_many, database.insert_columns
    real_commit, real_cursor = database.commit_by, database.compiled

    def insert_many(*arguments: Any) -> None:
        counter.step()
        real_many(*arguments)

    def insert_columns(*arguments: Any, **named: Any) -> None:
        counter.step()
        real_columns(*arguments, **named)

    def commit_by(commit: Callable[[], object]) -> object:
        counter.step()
        return real_commit(commit)

    def compiled(statement: Any) -> Any:
        counter.step()
        return real_cursor(statement)

    def before_execute(*_: Any) -> None:
        counter.step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "insert_many", insert_many)
        patch.setattr(database, "insert_columns", insert_columns)
        patch.setattr(database, "commit_by", commit_by)
        patch.setattr(database, "compiled", compiled)
        event.listen(database.engine, "before_cursor_execute", before_execute)
        try:
            yield counter
        finally:
            event.remove(database.engine, "before_cursor_execute", before_execute)
