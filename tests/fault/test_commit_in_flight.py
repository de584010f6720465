"""A COMMIT that is still on its way when its connection is given up is waited for, not guessed about."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from deltamirror import Add, Catalog, Committed, Transaction, errors
from deltamirror.config import Settings, WriterSettings
from deltamirror.errors import CommitUnknown, Conflict, DeltaMirrorError, InvalidInput, NotFound
from deltamirror.txnlog.commit.committing import Committing
from deltamirror.txnlog.database.appends.small_append import Answer, SmallAppend

pytestmark = [pytest.mark.postgres, pytest.mark.requirement("R35"), pytest.mark.requirement("R38")]


class _Delayed:
    """Takes the first COMMIT away from its client, which sees its connection break, and delivers it later."""

    def __init__(self, catalog: Catalog, url: str) -> None:
        self._url = url
        self._real = catalog.database.commit_by
        self._delivery: threading.Timer | None = None

    def __call__(self, commit: Callable[[], object]) -> object:
        if self._delivery is not None:
            return self._real(commit)
        transaction: Any = commit
        pooled = transaction.__self__.connection.connection
        taken = pooled.dbapi_connection
        # The client's side of the connection is gone: what it rolls back from here on is another one.
        pooled.dbapi_connection = pooled._connection_record.dbapi_connection = psycopg.connect(self._url)
        self._delivery = threading.Timer(0.3, lambda: (taken.commit(), taken.close()))
        self._delivery.start()
        raise CommitUnknown("the reply of COMMIT was lost: the connection broke")

    def join(self) -> None:
        assert self._delivery is not None
        self._delivery.join()


def _remove(tx: Transaction) -> None:
    tx.remove("t", ["a"])


def _progress(tx: Transaction) -> None:
    tx.set_transaction("t", "app", 1)


def _append(tx: Transaction) -> None:
    tx.read("t", files=["a"])
    tx.append("t", [_file("b")])


def _file(path: str) -> Add:
    return Add(path=path, partition_values={}, size=1, modification_time=1, data_change=True)


def _every_error() -> list[type[DeltaMirrorError]]:
    """All classes of errors that the package has."""
    found = [DeltaMirrorError]
    for each in found:
        found += each.__subclasses__()
    return [each for each in found[1:] if each.__module__ == errors.__name__]


@pytest.fixture
def lake(postgres_url: str) -> Iterator[Catalog]:
    settings = Settings(writer=WriterSettings(retries=2, retry_base=0.001, retry_max=0.002))
    with Catalog(postgres_url, settings=settings) as catalog:
        catalog.init()
        yield catalog


@pytest.fixture
def delayed(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> "_DelayedAppend":
    return _DelayedAppend(lake, monkeypatch)


class _DelayedAppend:
    """Takes the first append to each table away from its writer, and delivers the last one when it is told to."""

    def __init__(self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = catalog.database.append
        self._asked: dict[int, SmallAppend] = {}
        monkeypatch.setattr(catalog.database, "append", self._append)

    def _append(self, asked: SmallAppend) -> Answer:
        if asked.table_id in self._asked:
            return self._real(asked)
        self._asked[asked.table_id] = asked
        raise CommitUnknown("the reply of COMMIT was lost: the connection broke")

    def arrive(self) -> Answer:
        """Deliver it; what becomes of it."""
        return self._real(list(self._asked.values())[-1])


@pytest.mark.parametrize("token", [None, "token"])
@pytest.mark.parametrize("change", [_remove, _progress, _append])
def test_a_commit_under_way_is_neither_repeated_nor_taken_for_a_conflict(
    change: Callable[[Transaction], None], token: str | None, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Catalog(postgres_url) as catalog:
        catalog.init()
        table = catalog.create_table("t", location="/lake/t", schema="id long")
        table.append([_file("a")])
        delayed = _Delayed(catalog, postgres_url)
        monkeypatch.setattr(catalog.database, "commit_by", delayed)
        with catalog.transaction(token=token) as tx:
            change(tx)
        delayed.join()
        assert tx.result.versions == {"t": 2}
        assert table.info().head == 2


def test_a_statement_that_arrives_after_its_retry_commits_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one-statement append is its own COMMIT: delayed on the way, it meets the version of its own retry."""
    with Catalog(postgres_url) as catalog:
        catalog.init()
        table = catalog.create_table("t", location="memory://lake/t", schema="id long")
        real, delayed = catalog.database.append, list[SmallAppend]()

        def append(asked: SmallAppend) -> Answer:
            if not delayed:
                delayed.append(asked)
                raise CommitUnknown("the reply of COMMIT was lost: the connection broke")
            return real(asked)

        monkeypatch.setattr(catalog.database, "append", append)
        assert table.append([_file("a")]).versions == {"t": 1}
        assert real(replace(delayed[0], files=())) is None
        assert table.info().head == 1


def test_a_statement_that_arrives_between_the_look_and_the_retry_is_the_commit(
    lake: Catalog, delayed: "_DelayedAppend", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has looked and found nothing; its statement arrives; what it tries next must find that."""
    table = lake.create_table("t", location="memory://lake/t", schema="id long")
    _after_first_look(monkeypatch, delayed.arrive)
    assert table.append([_file("a")]).versions == {"t": 1}
    assert table.info().head == 1


def _after_first_look(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen once, when the writer has looked for what it did, and found nothing."""
    look, todo = Committing._find_by_txn_id, [happens]

    def looked(run: Committing) -> object:
        found = look(run)
        if todo:
            assert found is None
            todo.pop()()
        return found

    monkeypatch.setattr(Committing, "_find_by_txn_id", looked)


def _altered(lake: Catalog) -> None:
    with lake.transaction() as tx:
        tx.set_metadata("t", schema="id long, more long")


def _renamed(lake: Catalog) -> None:
    lake.rename_table("t", "other")


@pytest.mark.parametrize("change", [_altered, _renamed])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_table_that_changed_since_a_lost_reply_is_no_reason_to_take_back_what_was_committed(
    arrives: bool,
    change: Callable[[Catalog], None],
    lake: Catalog,
    delayed: "_DelayedAppend",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files are deleted again only of a commit that does not take place, neither before nor after that is said."""
    table = lake.create_table("t", location=tmp_path / "t", schema="id long")

    def happens() -> None:
        if arrives:
            assert delayed.arrive() is not None
        change(lake)

    _after_first_look(monkeypatch, happens)
    rows = pa.table({"id": [1]})
    if arrives:
        assert table.append(rows).versions == {"t": 1}
    else:
        with pytest.raises((Conflict, NotFound)):
            table.append(rows)
        assert delayed.arrive() is None
    [name] = [each.name for each in lake.tables()]
    named = {add.path for add in lake.table(name).snapshot().adds()}
    assert {path.name for path in (tmp_path / "t").glob("*.parquet")} == named
    assert len(named) == arrives


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_at_a_version_that_its_own_lost_statement_has_is_that_one(
    arrives: bool, lake: Catalog, delayed: "_DelayedAppend", monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create_table("t", location="memory://lake/t", schema="id long")
    _after_first_look(monkeypatch, delayed.arrive if arrives else partial(table.append, [_file("b")]))

    def commit() -> Committed:
        with lake.transaction() as tx:
            tx.stage("t", [_file("a")], at_version=1)
        return tx.result

    if arrives:
        assert commit().versions == {"t": 1}
    else:
        with pytest.raises(Conflict, match="version 1"):
            commit()
        assert delayed.arrive() is None
    assert table.info().head == 1


def test_a_database_that_cannot_be_asked_leaves_a_commit_unknown_and_its_files_there(
    lake: Catalog, delayed: "_DelayedAppend", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it answers: it may have another password by then, be read-only, or be upgraded."""
    for error in _every_error():
        table = lake.create_table(error.__name__, location=tmp_path / error.__name__, schema="id long")
        with monkeypatch.context() as patch:
            patch.setattr(Committing, "_find_by_txn_id", _raising(error))
            with pytest.raises(CommitUnknown, match="cannot be asked"):
                table.append(pa.table({"id": [1]}))
        assert delayed.arrive() is not None
        assert table.to_arrow().column("id").to_pylist() == [1], error


def test_whatever_ends_a_commit_whose_reply_was_lost_its_files_stay_while_it_may_take_place(
    lake: Catalog, delayed: "_DelayedAppend", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was found of it at first; its statement arrives once the writer has given up, or shortly before."""
    for error in _every_error():
        table = lake.create_table(error.__name__, location=tmp_path / error.__name__, schema="id long")
        # It says that the table has changed: so that has what has arrived by now, and takes nothing that arrives later.
        settles = issubclass(error, Conflict | InvalidInput | NotFound)
        with monkeypatch.context() as patch:
            patch.setattr(Committing, "_ratify", _raising(error, after=delayed.arrive if settles else None))
            if settles:
                assert table.append(pa.table({"id": [1]})).versions == {error.__name__: 1}
            else:
                with pytest.raises(CommitUnknown):
                    table.append(pa.table({"id": [1]}))
                assert delayed.arrive() is not None
        assert table.to_arrow().column("id").to_pylist() == [1], error


def _raising(error: type[DeltaMirrorError], *, after: Callable[[], object] | None = None) -> Callable[..., None]:
    def fails(*_: object) -> None:
        if after is not None:
            after()
        raise error("it does not tell")

    return fails
