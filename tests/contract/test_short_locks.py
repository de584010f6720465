"""Nothing bulky happens while a table is locked: it is compared before, and only the rest under the lock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.delta.actions import Action
from deltamirror.errors import Conflict
from deltamirror.txnlog.commit import committing, conflicts, ratification, staging
from deltamirror.txnlog.commit.ratification import lock_heads
from deltamirror.txnlog.commit.request import Change, Request
from deltamirror.txnlog.content.chunks import commit_actions
from deltamirror.txnlog.database.access import Database, Session
from tests.support.lakes.lake import add, adds_of, create, opened, remove_of

pytestmark = pytest.mark.requirement("R36")

BULK = 40
"""More than may be read under the lock in these tests."""


class Watch:
    """Counts the actions of other commits that are read while heads are locked, and while they are not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_locked = False
        self.locked = self.unlocked = 0
        self._write = Database.write
        monkeypatch.setattr(ratification, "LINES_UNDER_LOCK", BULK // 2)
        monkeypatch.setattr(committing, "lock_heads", self._lock_heads)
        monkeypatch.setattr(Database, "write", self._writing())
        for module in (staging, conflicts):
            monkeypatch.setattr(module, "commit_actions", self._actions)

    def _lock_heads(self, *arguments: Any) -> object:
        found = lock_heads(*arguments)
        self.is_locked = True
        return found

    def _writing(self) -> Callable[..., Any]:
        @contextmanager
        def write(database: Database, *args: Any, **kwargs: Any) -> Iterator[Session]:
            try:
                with self._write(database, *args, **kwargs) as session:
                    yield session
            finally:
                self.is_locked = False

        return write

    def _actions(self, *arguments: Any) -> Iterator[Action]:
        for action in commit_actions(*arguments):
            self.locked += self.is_locked
            self.unlocked += not self.is_locked
            yield action


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


@pytest.fixture
def catalog(lake_url: str) -> Iterator[Catalog]:
    with opened(lake_url, stage_above=10, chunk_lines=8) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog)
    table.append([add(f"old{number}") for number in range(15)])
    return table


def interrupted(files: list[Add], act: Callable[[], object]) -> Iterator[Add]:
    """A stream at whose end, while it is being staged, something else happens."""
    yield from files[:-1]
    act()
    yield files[-1]


def bulk(size: int) -> list[Add]:
    return [add(f"both{number}", size=size) for number in range(BULK)]


def test_a_large_append_behind_a_large_winner_is_compared_before_the_lock(table: Table, watch: Watch) -> None:
    files = [add(f"mine{number}", size=7) for number in range(15)]
    table.append(interrupted(files, lambda: table.append(bulk(5))))
    assert watch.locked == 0
    assert watch.unlocked >= BULK
    assert len(adds_of(table.snapshot().files())) == 15 + 15 + BULK


@pytest.mark.default_on("sqlite", "postgresql")
def test_what_comes_while_it_is_compared_is_compared_too(
    table: Table, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first winner comes while the stage is written, the second while the first is compared, the third is small."""
    later: list[Callable[[], object]] = [
        lambda: table.append([add("both1", size=6)]),
        lambda: table.append(bulk(5)),
    ]
    caught_up = ratification.caught_up

    def caught_up_then_act(*arguments: Any) -> Any:
        done = caught_up(*arguments)
        if later:
            later.pop()()
        return done

    monkeypatch.setattr("deltamirror.txnlog.commit.preparation.caught_up", caught_up_then_act)
    files = [add(f"both{number}", size=7) for number in range(15)]
    table.append(interrupted(files, lambda: table.append(bulk(4))))
    sizes = {path: file.size for (path, _), file in adds_of(table.snapshot().files()).items()}
    assert [sizes[f"both{number}"] for number in range(BULK)] == [7] * 15 + [5] * (BULK - 15)
    assert 0 < watch.locked <= BULK // 2
    assert not later


def test_a_conflict_with_a_large_winner_is_found_before_the_lock(catalog: Catalog, table: Table, watch: Watch) -> None:
    def removes() -> Iterator[Action]:
        yield from (remove_of(add(f"old{number}")) for number in range(15))
        table.append(bulk(5))

    with pytest.raises(Conflict) as caught:
        catalog.writer.commit(Request(changes=(Change(table="t", actions=removes()),)))
    assert caught.value.reason == "concurrent-append"
    assert watch.locked == 0
    assert watch.unlocked >= BULK


@pytest.mark.default_on("sqlite", "postgresql")
def test_who_is_always_left_behind_gets_its_turn(table: Table, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    caught_up, rounds = ratification.caught_up, iter(range(100))

    def caught_up_then_act(*arguments: Any) -> Any:
        done = caught_up(*arguments)
        number = next(rounds)
        table.append([add(f"winner{number}-{file}") for file in range(BULK)])
        return done

    monkeypatch.setattr("deltamirror.txnlog.commit.preparation.caught_up", caught_up_then_act)
    files = [add(f"mine{number}") for number in range(15)]
    table.append(interrupted(files, lambda: table.append(bulk(4))))
    assert next(rounds) < 20
    assert watch.locked >= BULK
