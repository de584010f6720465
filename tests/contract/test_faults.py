"""A commit takes place as a whole or leaves no trace, wherever it fails; a lost reply is looked up, never guessed."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import text

from deltamirror import Catalog, Table
from deltamirror.config import WriterSettings
from deltamirror.errors import CommitUnknown, Unavailable
from deltamirror.txnlog.commit.request import Change, Request
from tests.support.faults.transactions import Fault, failing_at, losing_replies
from tests.support.lakes.lake import add, create, execute, opened, paths, remove_of, row_counts

FILES = [add(f"f{number}") for number in range(30)]


@pytest.fixture
def table(catalog: Catalog) -> Table:
    table = create(catalog, features=["domainMetadata"])
    table.append([add("old"), add("older")])
    create(catalog, "u")
    return table


def append(catalog: Catalog) -> None:
    catalog.table("t").append([add("a")])


def append_many_under_a_token(catalog: Catalog) -> None:
    catalog.table("t").append(FILES, token="many")


def change_everything(catalog: Catalog) -> None:
    with catalog.transaction(token="everything") as tx:
        tx.set_metadata("t", properties={"k": "v"})
        tx.upgrade_protocol("t", "deletionVectors")
        tx.append("t", [add("a")])
        tx.remove("t", ["old"])
        tx.set_transaction("t", "app", 1)
        tx.set_domain("t", "mine", "x")
        tx.append("u", [add("b")])


def create_another(catalog: Catalog) -> None:
    create(catalog, "v")


def drop(catalog: Catalog) -> None:
    catalog.drop_table("u", unpublished=True)


DEFAULT_ACTS = {
    "sqlite": {append, append_many_under_a_token, change_everything, create_another, drop},
    "duckdb": {append},
    "postgresql": {append, change_everything},
}
"""With which of them the default suite asks an engine whether it undoes what had begun."""


@pytest.mark.default_when(parameters=lambda those: those["act"] in DEFAULT_ACTS[those["lake_url"]])
@pytest.mark.requirement("R35")
@pytest.mark.parametrize(
    "act", [append, append_many_under_a_token, change_everything, create_another, drop], ids=lambda act: act.__name__
)
def test_a_fault_before_any_statement_leaves_nothing(
    catalog: Catalog, table: Table, act: Callable[[Catalog], None]
) -> None:
    before, heads = row_counts(catalog), execute(catalog, "SELECT * FROM dl_heads ORDER BY table_id")
    number = 0
    while True:
        number += 1
        try:
            with failing_at(catalog.database, number) as counter:
                act(catalog)
        except Fault:
            assert row_counts(catalog) == before, f"after a fault before statement {number}"
            assert execute(catalog, "SELECT * FROM dl_heads ORDER BY table_id") == heads
        else:
            break
    assert counter.seen == number - 1 >= 2  # the last run met no fault: every statement had its turn
    assert row_counts(catalog) != before


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R35")
def test_a_large_commit_leaves_nothing_wherever_it_fails(lake_url: str) -> None:
    with opened(lake_url, stage_above=10, chunk_lines=8) as catalog:
        table = create(catalog)
        table.append([add("old")])
        before, number = row_counts(catalog), 0
        while True:
            number += 1
            try:
                with failing_at(catalog.database, number), catalog.transaction() as tx:
                    tx.append("t", FILES)
                    tx.remove("t", ["old"])
            except Fault:
                catalog.writer.optimise(older_than=-60)  # what a fault of its own clearing left behind
                assert row_counts(catalog) == before, f"after a fault before statement {number}"
                assert paths(table) == ["old"]
            else:
                break
        assert len(paths(table)) == len(FILES)


@pytest.mark.default_when(parameters=lambda those: those["act"] in DEFAULT_ACTS[those["lake_url"]])
@pytest.mark.requirement("R35")
@pytest.mark.parametrize("act", [append, append_many_under_a_token, change_everything], ids=lambda act: act.__name__)
@pytest.mark.parametrize("happens", [True, False])
def test_a_lost_reply_is_resolved_by_looking(
    catalog: Catalog, table: Table, happens: bool, act: Callable[[Catalog], None]
) -> None:
    with losing_replies(catalog.database, happens=happens):
        act(catalog)
    assert table.info().head == 2
    [(found,)] = execute(catalog, "SELECT count(*) FROM dl_table_versions WHERE table_id = 1 AND version > 1")
    assert found == 1


@pytest.mark.requirement("R38")
def test_the_answer_after_a_lost_reply_is_the_whole_answer(catalog: Catalog, table: Table) -> None:
    changes = tuple(Change(table=name, actions=[add("a")]) for name in ("t", "u"))
    with losing_replies(catalog.database):
        done = catalog.writer.commit(Request(changes=changes))
    assert done.versions == {"t": 2, "u": 1}
    assert done.timestamp == table.snapshot(2).timestamp == catalog.table("u").snapshot(1).timestamp


@pytest.mark.requirement("R38")
def test_a_remove_whose_reply_is_lost_does_not_run_into_itself(catalog: Catalog, table: Table) -> None:
    with losing_replies(catalog.database):
        assert table.remove(["old"]).versions == {"t": 2}
    with losing_replies(catalog.database):
        assert catalog.writer.commit_at("t", 3, [remove_of(add("older"))]).versions == {"t": 3}
    assert table.info().head == 3


@pytest.mark.requirement("R38")
def test_a_large_commit_survives_the_loss_of_its_reply(lake_url: str) -> None:
    with opened(lake_url, stage_above=10, chunk_lines=8) as catalog:
        table = create(catalog)
        table.append([add("first")])
        with losing_replies(catalog.database, turns=0) as commits:
            table.append(FILES)
        for happens in (True, False):
            with LosingTheLast(catalog, commits[0], happens=happens):
                done = table.append([add(f"{happens}{number}") for number in range(30)])
            assert done.versions == {"t": table.info().head}
        assert len(paths(table)) == 91
        assert row_counts(catalog)["dl_stages"] == 0


class LosingTheLast:
    """Lose the reply of the n-th COMMIT only: the one that ratifies what was staged."""

    def __init__(self, catalog: Catalog, number: int, *, happens: bool) -> None:
        self._database, self._number, self._happens = catalog.database, number, happens
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        real, calls = self._database.commit_by, [0]

        def commit_by(commit: Callable[[], object]) -> object:
            calls[0] += 1
            lost = calls[0] == self._number
            done = real(commit) if not lost or self._happens else None
            if lost:
                raise CommitUnknown("lost")
            return done

        self._patch.setattr(self._database, "commit_by", commit_by)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


@pytest.mark.requirement("R38")
def test_a_commit_whose_replies_are_always_lost_is_given_up(lake_url: str) -> None:
    with opened(lake_url, writer=WriterSettings(retries=2, retry_base=0.001)) as catalog:
        table = create(catalog)
        with losing_replies(catalog.database, turns=100, happens=False), pytest.raises(CommitUnknown):
            table.append([add("a")])
        assert table.info().head == 0


@pytest.mark.postgres
@pytest.mark.requirement("R35")
def test_a_lock_that_is_held_too_long_is_no_lost_reply(postgres_url: str) -> None:
    with Catalog(postgres_url) as made:
        made.init()
        create(made).append([add("a")])
    with opened(postgres_url, busy_timeout=0.2) as catalog, catalog.database.engine.connect() as other:
        table = catalog.table("t")
        other.execute(text("SELECT * FROM dl_heads FOR UPDATE"))
        for token in (None, "general"):
            with pytest.raises(Unavailable):
                table.append([add("b")], token=token)
        other.rollback()
        assert table.info().head == 1


@pytest.fixture
def broken(postgres_url: str, caplog: pytest.LogCaptureFixture) -> Iterator[Table]:
    """A table whose catalog has idle connections that the server ended. None of them is worth a line in the log."""
    with Catalog(postgres_url) as catalog:
        catalog.init()
        table = create(catalog)
        table.append([add("a")])
        with psycopg.connect(postgres_url) as other:
            other.execute(  # and wait until they are gone, for a minute
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        yield table
    assert caplog.records == []


@pytest.mark.postgres
@pytest.mark.requirement("R38")
@pytest.mark.parametrize("token", [None, "general"])
def test_connections_that_broke_while_idle_go_unnoticed(broken: Table, token: str | None) -> None:
    assert broken.append([add("b")], token=token).versions == {"t": 2}


@pytest.mark.postgres
@pytest.mark.requirement("R35")
def test_a_look_at_the_catalog_does_not_notice_connections_that_broke_while_idle(broken: Table) -> None:
    assert broken.location == "file:///nowhere/lake/t"
    assert paths(broken) == ["a"]
