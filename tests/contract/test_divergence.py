"""A log that somebody else wrote to stops its table at once, over every database: nothing is published or committed."""

from pathlib import Path

import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import Conflict, Diverged
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.txnlog.queue.escalations import escalations_of
from deltamirror.txnlog.queue.quarantine import mark_diverged
from tests.support.lakes.lake import add, execute, paths
from tests.support.mirrors.local import append, log_of, make_table, mirror_of
from tests.support.mirrors.reconcilers import reconciled, reconciling

pytestmark = [pytest.mark.requirement("R39"), pytest.mark.default_on("sqlite")]

THEIRS = b'{"commitInfo":{"operation":"WRITE"}}\n'


def put(table: Table, version: int) -> Path:
    """A commit of somebody else."""
    path = log_of(table) / f"{version:020}.json"
    path.write_bytes(THEIRS)
    return path


def diverged_version(catalog: Catalog) -> int | None:
    [row] = execute(catalog, "SELECT diverged_version FROM dl_heads WHERE table_id = 1")
    found: int | None = row.diverged_version
    return found


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    """A table at version 1, published."""
    made = make_table(catalog, tmp_path)
    append(made)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
    return made


@pytest.mark.default_on("sqlite", "postgresql")
def test_publishing_that_meets_it_stops_the_table_without_another_try(catalog: Catalog, table: Table) -> None:
    append(table, 2)
    theirs = put(table, 2)
    with mirror_of(catalog) as engine:
        with pytest.raises(Diverged) as caught:
            engine.mirror("t")
        assert (caught.value.version, caught.value.found != caught.value.expected) == (2, True)
        (status,) = engine.status("t")
        assert (status.state, status.published, status.failed, status.escalations) == ("quarantined", 1, 1, 1)
        engine.run(once=True)
        [attempts] = execute(catalog, "SELECT attempts FROM dl_mirror_status WHERE version = 2")
        assert attempts.attempts == 1
    assert diverged_version(catalog) == 2
    assert theirs.read_bytes() == THEIRS


def test_the_next_commit_is_refused_and_names_both_versions(catalog: Catalog, table: Table) -> None:
    append(table, 2)
    put(table, 2)
    with mirror_of(catalog) as engine, pytest.raises(Diverged):
        engine.mirror("t")
    before = paths(table)
    for act in (lambda: append(table), lambda: table.remove([before[0]])):
        with pytest.raises(Diverged, match=r"wrote version 2 to the log of table 't'.*at version 3") as caught:
            act()
        assert (caught.value.exit_status, caught.value.table, caught.value.version) == (2, "t", 2)
        assert "deltamirror adopt t" in caught.value.hint
    assert (table.info().head, paths(table)) == (3, before)


def test_what_was_committed_under_a_token_is_still_answered(catalog: Catalog, table: Table) -> None:
    done = table.append([add("x")], token="mine")
    put(table, 2)
    with mirror_of(catalog) as engine, pytest.raises(Diverged):
        engine.mirror("t")
    again = table.append([add("x")], token="mine")
    assert (again.versions, again.already_applied) == (done.versions, True)


def test_commits_wait_in_the_database_where_that_is_asked_for(accepting: Catalog, tmp_path: Path) -> None:
    table = make_table(accepting, tmp_path)
    with reconciling(accepting) as engine:
        engine.run(once=True)
        put(table, 1)
        assert reconciled(engine, Strategy.SMART)[0].foreign == (1,)
        append(table, 2)
        engine.run(once=True)
        (status,) = engine.status("t")
        assert (status.state, status.head, status.published) == ("quarantined", 2, 0)
    assert (log_of(table) / f"{1:020}.json").read_bytes() == THEIRS


def test_other_tables_of_a_transaction_get_nothing_either(catalog: Catalog, table: Table, tmp_path: Path) -> None:
    other = make_table(catalog, tmp_path, "other")
    with catalog.database.write() as session:
        assert mark_diverged(session, 1, version=2, reason="because")
    both = catalog.transaction()
    both.append("other", [add("x")])
    both.append("t", [add("x")])
    with pytest.raises(Diverged):
        both.commit()
    assert (table.info().head, other.info().head) == (1, 0)
    append(other)


@pytest.mark.default_on("sqlite", "postgresql")
def test_a_table_is_marked_once_and_by_the_first_version(catalog: Catalog, table: Table) -> None:
    for version, news in ((5, True), (5, False), (3, True), (4, True)):
        with catalog.database.write() as session:
            assert mark_diverged(session, 1, version=version, reason=f"version {version}") is news
    assert diverged_version(catalog) == 3
    assert table.info().state == "quarantined"
    [row] = execute(catalog, "SELECT quarantine_reason FROM dl_tables")
    assert row.quarantine_reason == "version 5"
    with catalog.database.read() as connection:
        told = escalations_of(connection, 1)
    assert {(each.version, each.error_code) for each in told} == {(3, "diverged"), (4, "diverged"), (5, "diverged")}


def test_what_was_read_of_another_history_cannot_be_the_base_of_a_commit(catalog: Catalog, table: Table) -> None:
    append(table)
    first, second = paths(table)
    reading, altering, adding = catalog.transaction(), catalog.transaction(), catalog.transaction()
    reading.remove("t", [first])
    altering.set_metadata("t", properties={"delta.appendOnly": "true"})
    adding.append("t", [add("x")])
    execute(catalog, "UPDATE dl_heads SET lineage = 1")
    for stale in (reading, altering):
        with pytest.raises(Conflict, match="adopted since it was read") as caught:
            stale.commit()
        assert caught.value.reason == "log-adopted"
    adding.commit()
    append(table)
    with catalog.transaction() as tx:
        tx.remove("t", [second])
    assert first in paths(table)
