"""A COMMIT that is still on its way when its connection is given up is waited for, not guessed about."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from deltamirror import Add, Catalog, Transaction
from deltamirror.errors import CommitUnknown
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
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has looked and found nothing; its statement arrives; what it tries next must find that."""
    with Catalog(postgres_url) as catalog:
        catalog.init()
        table = catalog.create_table("t", location="memory://lake/t", schema="id long")
        real, delayed = catalog.database.append, list[SmallAppend]()

        def append(asked: SmallAppend) -> Answer:
            if not delayed:
                delayed.append(asked)
                raise CommitUnknown("the reply of COMMIT was lost: the connection broke")
            return real(asked)

        look = Committing._find_by_txn_id

        def looked(run: Committing) -> object:
            found = look(run)
            assert real(delayed[0]) is not None
            return found

        monkeypatch.setattr(catalog.database, "append", append)
        monkeypatch.setattr(Committing, "_find_by_txn_id", looked)
        assert table.append([_file("a")]).versions == {"t": 1}
        assert table.info().head == 1
