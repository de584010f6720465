"""What a transaction-log writer promises, whatever stores the log."""

import pytest

from deltamirror import Catalog, Metadata, SqlTxnLogWriter, TxnLogWriter
from deltamirror.delta.definition import TableDefinition
from deltamirror.delta.schema import from_ddl
from deltamirror.errors import AlreadyExists, CommitUnknown, Conflict, InvalidInput, NotFound, Refused
from deltamirror.txnlog.commit.request import Change, Operation, Request
from tests.support.faults.transactions import losing_replies
from tests.support.lakes.lake import add, execute, info_of, remove_of, row_counts

pytestmark = [pytest.mark.requirement("R34"), pytest.mark.requirement("R87")]

DAY = 24 * 60 * 60 * 1000


def definition(name: str = "t", **more: object) -> TableDefinition:
    return TableDefinition(
        name=name,
        location=f"memory://lake/{name}",
        schema=from_ddl("id long"),
        **more,  # type: ignore[arg-type]
    )


@pytest.fixture
def writer(catalog: Catalog) -> TxnLogWriter:
    writer: TxnLogWriter = catalog.writer
    writer.create_table(definition())
    return writer


def test_the_sql_writer_has_every_method_of_the_contract() -> None:
    promised = {name for name in vars(TxnLogWriter) if not name.startswith("_")}
    assert promised == {
        "begin",
        "commit",
        "commit_at",
        "create_table",
        "drop_table",
        "exists",
        "metadata",
        "next_version",
        "optimise",
        "retained_from",
    }
    assert promised <= set(dir(SqlTxnLogWriter))


def test_creating_a_table_commits_its_version_0(catalog: Catalog) -> None:
    done = catalog.writer.create_table(definition())
    assert done.versions == {"t": 0}
    assert catalog.table("t").info().head_timestamp == done.timestamp
    assert info_of(catalog.table("t"), 0)["operation"] == "CREATE TABLE"


def test_a_table_is_created_once(writer: TxnLogWriter) -> None:
    with pytest.raises(AlreadyExists):
        writer.create_table(definition())


def test_a_transaction_commits_what_was_staged(writer: TxnLogWriter, catalog: Catalog) -> None:
    transaction = writer.begin()
    transaction.stage(Change(table="t", actions=[add("a"), add("b")]))
    assert writer.next_version("t") == 1
    assert transaction.commit().versions == {"t": 1}
    assert catalog.table("t").snapshot().files().num_rows == 2


def test_a_transaction_that_is_not_committed_leaves_nothing(writer: TxnLogWriter, catalog: Catalog) -> None:
    before = row_counts(catalog)
    writer.begin().stage(Change(table="t", actions=[add("a")]))
    assert row_counts(catalog) == before


def test_begin_takes_a_token_that_makes_the_commit_idempotent(writer: TxnLogWriter) -> None:
    answers = []
    for _ in range(2):
        transaction = writer.begin(token="once")
        transaction.stage(Change(table="t", actions=[add("a")]))
        answers.append(transaction.commit())
    assert [answer.versions for answer in answers] == [{"t": 1}, {"t": 1}]
    assert [answer.already_applied for answer in answers] == [False, True]
    assert writer.next_version("t") == 2


def test_commit_at_takes_exactly_the_version(writer: TxnLogWriter, catalog: Catalog) -> None:
    done = writer.commit_at("t", 1, [add("a")], operation=Operation(name="LOAD", user_metadata="by hand"))
    assert done.versions == {"t": 1}
    assert (info_of(catalog.table("t"), 1)["operation"], info_of(catalog.table("t"), 1)["userMetadata"]) == (
        "LOAD",
        "by hand",
    )


@pytest.mark.parametrize(("version", "reason"), [(0, "version-taken"), (1, "version-taken"), (3, "version-ahead")])
def test_commit_at_another_version_is_a_conflict(writer: TxnLogWriter, version: int, reason: str) -> None:
    writer.commit_at("t", 1, [add("a")])
    with pytest.raises(Conflict) as caught:
        writer.commit_at("t", version, [add("b")])
    error = caught.value
    assert (error.table, error.read_version, error.actual_version, error.reason) == ("t", version - 1, 1, reason)
    assert writer.next_version("t") == 2


def test_a_change_comes_after_the_version_that_it_was_computed_from(writer: TxnLogWriter) -> None:
    with pytest.raises(InvalidInput, match="computed from version 1"):
        writer.commit(Request(changes=(Change(table="t", actions=[add("a")], read_version=1, at_version=1),)))
    exact = Change(table="t", actions=[add("a")], read_version=0, at_version=1)
    assert writer.commit(Request(changes=(exact,))).versions == {"t": 1}


@pytest.mark.parametrize("version", [-1, -5, 2**63])
@pytest.mark.parametrize("kind", ["read_version", "at_version"])
@pytest.mark.default_on("sqlite")  # no database is asked
def test_versions_are_counted_from_0(writer: TxnLogWriter, kind: str, version: int) -> None:
    with pytest.raises(InvalidInput, match="names version"):
        writer.commit(Request(changes=(Change(table="t", actions=[add("a")], **{kind: version}),)))  # type: ignore[arg-type]
    assert writer.next_version("t") == 1


def test_a_transaction_that_failed_is_not_committed_in_part(writer: TxnLogWriter, catalog: Catalog) -> None:
    """Its streams are used up: what is left of it would be taken for all of it."""
    tx = catalog.transaction()
    tx.append("t", [add("a")])
    tx.set_transaction("t", "app", 1)
    with losing_replies(catalog.database, turns=100, happens=False), pytest.raises(CommitUnknown):
        tx.commit()
    with pytest.raises(InvalidInput, match="has failed"):
        tx.commit()
    with pytest.raises(InvalidInput):
        tx.append("t", [add("b")])
    assert catalog.table("t").info().head == 0


def test_a_transaction_is_committed_once(writer: TxnLogWriter) -> None:
    transaction = writer.begin()
    transaction.stage(Change(table="t", actions=[add("a")]))
    transaction.commit()
    with pytest.raises(InvalidInput):
        transaction.commit()
    assert writer.next_version("t") == 2


def test_a_table_is_changed_once_in_a_transaction(writer: TxnLogWriter) -> None:
    change = Change(table="t", actions=[add("a")])
    with pytest.raises(InvalidInput):
        writer.commit(Request(changes=(change, change)))


def test_a_transaction_without_actions_is_refused(writer: TxnLogWriter) -> None:
    with pytest.raises(InvalidInput):
        writer.commit(Request(changes=(Change(table="t"),)))
    with pytest.raises(InvalidInput):
        writer.begin().commit()


def test_exists_and_next_version_follow_the_log(writer: TxnLogWriter) -> None:
    assert writer.exists("t")
    assert not writer.exists("u")
    assert writer.next_version("t") == 1
    writer.commit_at("t", 1, [add("a")])
    assert writer.next_version("t") == 2
    with pytest.raises(NotFound):
        writer.next_version("u")


def test_metadata_is_that_of_the_head(writer: TxnLogWriter, catalog: Catalog) -> None:
    first = writer.metadata("t")
    assert isinstance(first, Metadata)
    catalog.table("t").alter(properties={"owner": "me"})
    assert writer.metadata("t").configuration == {**first.configuration, "owner": "me"}
    with pytest.raises(NotFound):
        writer.metadata("u")


def test_a_dropped_table_is_gone_and_takes_no_commits(writer: TxnLogWriter) -> None:
    with pytest.raises(Refused):
        writer.drop_table("t")
    writer.drop_table("t", unpublished=True)
    assert not writer.exists("t")
    for act in (lambda: writer.commit_at("t", 1, [add("a")]), lambda: writer.drop_table("t")):
        with pytest.raises(NotFound):
            act()


def test_retention_keeps_the_version_that_was_current_when_it_began(writer: TxnLogWriter, catalog: Catalog) -> None:
    for version in (1, 2, 3):
        writer.commit_at("t", version, [add(f"f{version}")])
    assert writer.retained_from("t") == 0
    for version, days in ((0, 50), (1, 40), (2, 31)):
        sql = "UPDATE dl_table_versions SET committed_at = committed_at - :ago WHERE version = :version"
        execute(catalog, sql, ago=days * DAY, version=version)
    assert writer.retained_from("t") == 2  # thirty days ago, version 2 was current
    catalog.table("t").alter(properties={"delta.logRetentionDuration": "interval 45 days"})
    assert writer.retained_from("t") == 0


def test_optimise_has_nothing_to_do_without_orphans(writer: TxnLogWriter, catalog: Catalog) -> None:
    writer.commit_at("t", 1, [add("a")])
    before = row_counts(catalog)
    assert writer.optimise(older_than=0) == 0
    assert row_counts(catalog) == before


def test_a_remove_needs_a_file_that_the_table_has(writer: TxnLogWriter, catalog: Catalog) -> None:
    before = row_counts(catalog)
    with pytest.raises(InvalidInput) as caught:
        writer.commit_at("t", 1, [remove_of(add("a"))])
    assert getattr(caught.value, "rule", "") == "remove.path.not-in-table"
    assert row_counts(catalog) == before
