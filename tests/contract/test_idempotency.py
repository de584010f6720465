"""A transaction that is sent again is not applied again: its token tells, or the progress that it records (G2)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import text

from deltamirror import Add, Catalog, Committed, Table, Txn
from deltamirror.config import WriterSettings
from deltamirror.delta.actions import Action
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import Conflict, InvalidAction, TokenReused
from deltamirror.txnlog.commit.request import Change, Request
from deltamirror.txnlog.commit.tokens import TokenUse
from deltamirror.txnlog.content.superseded import txn_token
from tests.support.databases.catalogs import ENGINES
from tests.support.faults.transactions import losing_replies
from tests.support.lakes.lake import add, create, execute, opened, paths, remove_of, row_counts

pytestmark = [pytest.mark.requirement("R38"), pytest.mark.default_on("sqlite", "postgresql")]
"""Every statement, and every race, is on DuckDB as well: those tests say so."""


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return create(catalog)


def at_once(act: Callable[[int], Committed], times: int = 6) -> list[Committed]:
    """The answers to the same act in several threads that begin together."""
    barrier = Barrier(times)

    def wait_and_act(number: int) -> Committed:
        barrier.wait()
        return act(number)

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(wait_and_act, range(times)))


def one_answer(answers: list[Committed]) -> dict[str, int]:
    """All answers name the same versions and time, and one of them is the first."""
    assert len({(tuple(sorted(answer.versions.items())), answer.timestamp) for answer in answers}) == 1
    assert [answer.already_applied for answer in answers].count(False) == 1
    return dict(answers[0].versions)


@pytest.mark.default_on(*ENGINES)
def test_a_token_sent_again_gets_the_first_answer(catalog: Catalog, table: Table) -> None:
    answers = [table.append([add("a")], token="t1")]
    table.append([add("between")])
    before = row_counts(catalog)
    answers += [table.append([add("a")], token="t1") for _ in range(2)]
    assert one_answer(answers) == {"t": 1}
    assert row_counts(catalog) == before


@pytest.mark.default_on(*ENGINES)
def test_a_token_sent_at_once_by_many_is_applied_once(catalog: Catalog, table: Table) -> None:
    assert one_answer(at_once(lambda _: table.append([add("a")], token="t1"))) == {"t": 1}
    assert table.info().head == 1


def test_a_token_with_other_content_is_an_error(catalog: Catalog, table: Table) -> None:
    table.append([add("a")], token="t1")
    before = row_counts(catalog)
    other: list[Callable[[], object]] = [
        lambda: table.append([add("b")], token="t1"),
        lambda: table.append([add("a", size=7)], token="t1"),
        lambda: table.append([add("a"), add("b")], token="t1"),
        lambda: table.remove(["a"], token="t1"),
        lambda: catalog.writer.commit(Request(changes=(Change(table="t", actions=[]),), token="t1")),
    ]
    for act in other:
        with pytest.raises(TokenReused) as caught:
            act()
        assert caught.value.token == "t1"
    assert row_counts(catalog) == before


def test_a_token_belongs_to_the_whole_transaction(catalog: Catalog, table: Table) -> None:
    create(catalog, "u")

    def send(*names: str) -> Committed:
        with catalog.transaction(token="both") as tx:
            for name in names:
                tx.append(name, [add("a")])
        return tx.result

    assert one_answer([send("t", "u"), send("t", "u")]) == {"t": 1, "u": 1}
    for other in (("t",), ("u",)):
        with pytest.raises(TokenReused):
            send(*other)


def test_a_token_used_at_once_for_different_tables_belongs_to_one_of_them(catalog: Catalog, table: Table) -> None:
    create(catalog, "u")

    def send(number: int) -> Committed | TokenReused:
        try:
            return catalog.table("tu"[number % 2]).append([add("a")], token="contested")
        except TokenReused as error:
            return error

    barrier = Barrier(6)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda number: (barrier.wait(), send(number))[1], range(6)))
    assert sum(isinstance(answer, TokenReused) for answer in answers) == 3
    assert catalog.table("t").info().head + catalog.table("u").info().head == 1


def test_a_token_outlives_what_it_removed(catalog: Catalog, table: Table) -> None:
    table.append([add("a"), add("b")])
    first = table.remove(["a"], token="gone")
    assert one_answer([first, table.remove(["a"], token="gone")]) == {"t": 2}
    with pytest.raises(TokenReused):
        table.remove(["b"], token="gone")
    assert paths(table) == ["b"]


def test_removes_sent_at_once_under_one_token_take_place_once(catalog: Catalog, table: Table) -> None:
    table.append([add("a"), add("b")])
    assert one_answer(at_once(lambda _: table.remove(["a"], token="gone"))) == {"t": 2}
    actions = [remove_of(add("b"))]
    request = Request(changes=(Change(table="t", actions=actions),), token="complete")
    assert one_answer(at_once(lambda _: catalog.writer.commit(request))) == {"t": 3}


@pytest.mark.default_on(*ENGINES)
def test_an_exact_version_sent_at_once_under_one_token_is_taken_once(catalog: Catalog, table: Table) -> None:
    request = Request(changes=(Change(table="t", actions=[add("a")], at_version=1),), token="exact")
    assert one_answer(at_once(lambda _: catalog.writer.commit(request))) == {"t": 1}


def test_an_exact_version_of_any_size_is_answered_again(sqlite_lake: str) -> None:
    """A large commit is known by its token once all of it was read, and its version is taken by itself."""
    many, other = ([add(f"{name}{number}") for number in range(9)] for name in "fg")
    with opened(sqlite_lake, stage_above=3) as catalog:
        create(catalog, properties={"delta.enableInCommitTimestamps": "false"})

        def send(actions: list[Add], *, verbatim: bool, at_version: int) -> Committed:
            with catalog.transaction(token=str(at_version)) as tx:
                if verbatim:
                    tx.stage_lines("t", encode_commit(actions), at_version=at_version)
                else:
                    tx.stage("t", actions, at_version=at_version)
            return tx.result

        for version, is_verbatim in enumerate((True, False), 1):
            answers = [send(many, verbatim=is_verbatim, at_version=version) for _ in range(2)]
            assert one_answer(answers) == {"t": version}
        before = row_counts(catalog)
        with pytest.raises(TokenReused):
            send(other, verbatim=True, at_version=1)
        with pytest.raises(Conflict, match="the next version is 3"), catalog.transaction(token="another") as tx:
            tx.stage("t", other, at_version=1)
        assert row_counts(catalog) == before


def test_alterations_are_idempotent_by_their_token(catalog: Catalog, table: Table) -> None:
    def alter(value: str) -> Committed:
        with catalog.transaction(token="alter") as tx:
            tx.set_metadata("t", properties={"k": value})
        return tx.result

    assert one_answer([alter("v"), alter("v")]) == {"t": 1}
    with pytest.raises(TokenReused):
        alter("w")


def test_a_token_of_a_refused_transaction_is_free(catalog: Catalog, table: Table) -> None:
    with pytest.raises(InvalidAction):
        table.append([add("a", size=-1)], token="t1")
    assert table.append([add("a")], token="t1").versions == {"t": 1}


def progress(catalog: Catalog, version: int, *files: str, tables: str = "t") -> Committed:
    with catalog.transaction() as tx:
        for name in tables:
            tx.append(name, [add(file) for file in files])
            tx.set_transaction(name, "loader", version)
    return tx.result


@pytest.mark.default_on(*ENGINES)
def test_progress_at_or_below_the_latest_is_already_applied(catalog: Catalog, table: Table) -> None:
    assert progress(catalog, 3, "a").versions == {"t": 1}
    assert progress(catalog, 7, "b").versions == {"t": 2}
    before = row_counts(catalog)
    for version, recorded in ((7, 2), (3, 1), (5, 2), (0, 2)):  # where no commit recorded it, the latest did
        answer = progress(catalog, version, "c")
        assert (answer.already_applied, answer.versions) == (True, {"t": recorded})
        assert answer.timestamp == table.snapshot(recorded).timestamp
    assert row_counts(catalog) == before
    assert progress(catalog, 8, "c").already_applied is False


@pytest.mark.default_on(*ENGINES)
def test_progress_sent_at_once_by_many_is_applied_once(catalog: Catalog, table: Table) -> None:
    assert one_answer(at_once(lambda _: progress(catalog, 1, "a"))) == {"t": 1}


def test_progress_that_others_recorded_since_the_reading_is_applied(catalog: Catalog, table: Table) -> None:
    """Both computed the same step; the second learns that it is done, not that it is in conflict."""
    table.append([add("old")])
    twins = [catalog.transaction(), catalog.transaction()]
    for tx in twins:
        tx.remove("t", ["old"])
        tx.append("t", [add("rewritten")])
        tx.set_transaction("t", "loader", 1)
    assert one_answer([tx.commit() for tx in twins]) == {"t": 2}


def test_progress_is_recognised_after_its_removes_by_path_took_place(catalog: Catalog, table: Table) -> None:
    table.append([add("old")])
    answers = []
    for _ in range(2):
        with catalog.transaction() as tx:
            tx.remove("t", ["old"])
            tx.set_transaction("t", "loader", 1)
        answers.append(tx.result)
    assert one_answer(answers) == {"t": 2}


def test_applications_do_not_know_each_other(catalog: Catalog, table: Table) -> None:
    for app_id in ("a", "b", "A"):
        with catalog.transaction() as tx:
            tx.set_transaction("t", app_id, 1)
        assert not tx.result.already_applied
    assert {name: txn.version for name, txn in table.snapshot().transactions().items()} == {"a": 1, "b": 1, "A": 1}


def test_progress_in_some_of_the_tables_is_a_conflict(catalog: Catalog, table: Table) -> None:
    create(catalog, "u")
    progress(catalog, 1, "a")
    before = row_counts(catalog)
    with pytest.raises(Conflict) as caught:
        progress(catalog, 1, "a", tables="tu")
    assert (caught.value.reason, caught.value.table) == ("partly-applied", "u")
    assert row_counts(catalog) == before


def record(catalog: Catalog, app_versions: dict[str, int], *, at_version: int | None = None) -> Committed:
    actions = [Txn(app_id=app_id, version=version) for app_id, version in app_versions.items()]
    with catalog.transaction() as tx:
        tx.stage("t", actions, at_version=at_version)
    return tx.result


@pytest.mark.parametrize("second", [{"A": 5, "B": 1}, {"A": 9, "B": 1}])
def test_an_application_never_goes_back(lake: Catalog, second: dict[str, int]) -> None:
    """Two applications in one commit: what one of them has done is not done again for the sake of the other."""
    table = create(lake)
    record(lake, {"A": 9})
    with pytest.raises(Conflict) as caught:
        record(lake, second)
    assert (caught.value.reason, caught.value.table) == ("partly-applied", "t")
    assert "of A already, but not of B" in caught.value.message
    assert {name: txn.version for name, txn in table.snapshot().transactions().items()} == {"A": 9}
    assert record(lake, {"A": 10, "B": 1}).versions == {"t": 2}
    assert record(lake, {"A": 9, "B": 1}).already_applied


@pytest.mark.parametrize(
    ("app_version", "at_version", "reason"),
    [(4, 1, "version-taken"), (5, 3, "already-applied"), (9, 3, "already-applied"), (7, 9, "version-ahead")],
)
def test_a_named_version_is_that_version_or_a_refusal(
    lake: Catalog, app_version: int, at_version: int, reason: str
) -> None:
    table = create(lake)
    record(lake, {"A": 5, "B": 1})
    record(lake, {"A": 9})
    with pytest.raises(Conflict) as caught:
        record(lake, {"A": app_version}, at_version=at_version)
    assert caught.value.reason == reason
    assert table.info().head == 2
    again = record(lake, {"A": 9}, at_version=2)
    assert (again.already_applied, again.versions) == (True, {"t": 2})


def test_lines_of_another_writer_say_of_applications_what_they_say(lake: Catalog) -> None:
    table = create(lake, properties={"delta.enableInCommitTimestamps": "false"})
    record(lake, {"A": 9})
    with lake.transaction() as tx:
        tx.stage_lines("t", b'{"txn":{"appId":"A","version":5}}\n', at_version=2)
    assert (tx.result.already_applied, tx.result.versions) == (False, {"t": 2})
    assert table.snapshot().transactions()["A"].version == 5


def test_the_content_of_a_token_is_all_that_is_asked_for(lake: Catalog) -> None:
    """Lines of another writer count, too, beside files that are removed elsewhere; the order of mappings does not."""
    create(lake).append([add("old")])
    create(lake, "u", properties={"delta.enableInCommitTimestamps": "false"})

    def send(line: bytes, **properties: str) -> Committed:
        with lake.transaction(token="mixed") as tx:
            tx.remove("t", ["old"])
            tx.set_metadata("t", properties=properties)
            tx.stage_lines("u", line, at_version=1)
        return tx.result

    line = b'{"commitInfo":{"operation":"WRITE"}}\n'
    assert one_answer([send(line, a="1", b="2"), send(line, b="2", a="1")]) == {"t": 2, "u": 1}
    with pytest.raises(TokenReused):
        send(b'{"commitInfo":{"operation":"OTHER"}}\n', a="1", b="2")


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_a_token_does_not_answer_for_a_table_that_was_made_again(catalog: Catalog, commits: int) -> None:
    create(catalog).append([add("a")], token="once")
    catalog.drop_table("t", unpublished=True)
    table = create(catalog)
    for number in range(commits):
        table.append([add(str(number))])
    with pytest.raises(Conflict) as caught:
        table.append([add("a")], token="once")
    assert (caught.value.reason, caught.value.table) == ("table-replaced", "t")
    assert table.append([add("a")], token="another").versions == {"t": commits + 1}


@pytest.mark.default_on(*ENGINES)
def test_a_token_of_a_dropped_table_keeps_its_answer(catalog: Catalog) -> None:
    table = create(catalog)
    first = table.append([add("a")], token="once")
    catalog.drop_table("t", unpublished=True)
    assert table.append([add("a")], token="once").versions == first.versions


def test_a_transaction_that_came_back_from_a_log_is_not_applied_again(catalog: Catalog, table: Table) -> None:
    """A restored database lacks the token; the log that was adopted has the id of its transaction."""
    first = table.append([add("a")], token="once")
    adopted = txn_token(TokenUse("once", token_content(catalog)).txn_id)
    execute(catalog, "UPDATE dl_commit_tokens SET token = :adopted", adopted=adopted)
    table.remove(["a"])
    execute(catalog, "DELETE FROM dl_files")  # as pruning does
    again = table.append([add("a")], token="once")
    assert (again.versions, again.already_applied, paths(table)) == (first.versions, True, [])


def token_content(catalog: Catalog) -> bytes:
    with catalog.database.read() as connection:
        return bytes(connection.execute(text("SELECT content FROM dl_commit_tokens")).scalar_one())


@pytest.mark.parametrize("names", ["t", "tu"])
def test_a_commit_that_shows_up_after_the_look_is_not_repeated(
    catalog: Catalog, table: Table, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is lost, the log does not have the transaction yet, and when it is tried again it does."""
    create(catalog, "u")
    monkeypatch.setattr("deltamirror.txnlog.commit.committing.Committing._find_by_txn_id", lambda _: None)
    with losing_replies(catalog.database), catalog.transaction() as tx:
        for name in names:
            tx.append(name, [add("a")])
    assert tx.result.versions == dict.fromkeys(names, 1)
    assert [catalog.table(name).info().head for name in names] == [1] * len(names)


def test_the_answer_names_all_tables_of_the_transaction(catalog: Catalog, table: Table) -> None:
    create(catalog, "u")

    def send() -> Committed:
        actions: dict[str, list[Action]] = {"t": [Txn(app_id="loader", version=1), add("a")], "u": [add("b")]}
        changes = tuple(Change(table=name, actions=each) for name, each in actions.items())
        return catalog.writer.commit(Request(changes=changes))

    assert one_answer([send(), send()]) == {"t": 1, "u": 1}


@pytest.mark.postgres
def test_a_token_sent_at_once_needs_no_second_try(postgres_url: str) -> None:
    """Both have found the token unused, and wait for the table: whoever comes second finds the first."""
    with Catalog(postgres_url) as made:
        made.init()
    impatient = {"writer": WriterSettings(retries=0)}
    with (
        opened(postgres_url, **impatient) as catalog,
        opened(postgres_url, **impatient) as second,
        ThreadPoolExecutor(2) as threads,
    ):
        table = create(catalog)
        with catalog.database.engine.connect() as other:
            other.execute(text("SELECT * FROM dl_heads FOR UPDATE"))
            tables = (table, second.table("t"))
            sent = [threads.submit(each.append, [add("a")], token="one") for each in tables]
            waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
            while other.execute(waiting).scalar_one() < 2:
                other.execute(text("SELECT pg_sleep(0.01)"))
        answers = [future.result() for future in sent]
        assert sorted(answer.already_applied for answer in answers) == [False, True]
        assert table.info().head == 1
