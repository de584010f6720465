"""What services ask again and again costs by what waits, and not by all that was ever published and written."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest
from sqlalchemy import Connection, Table, event, select

from deltamirror import Catalog
from deltamirror.config import Switch
from deltamirror.errors import Unavailable
from deltamirror.txnlog.database.schema import checkpoints, mirror_status, versions
from deltamirror.txnlog.queue.backlog import request_checkpoint
from deltamirror.txnlog.queue.breakers import failing_share, make_store_due
from deltamirror.txnlog.queue.claims import claim_in_store, overdue
from deltamirror.txnlog.queue.gauges import mirror_gauges
from deltamirror.txnlog.queue.overview import Show, Wanted, tables_page, totals
from deltamirror.txnlog.queue.status import all_status, table_status
from deltamirror.txnlog.queue.waiting import waiting_commits
from deltamirror.work import CheckpointOutcome, Failure, Lane, Stage
from tests.support.databases.costs import counted
from tests.support.lakes.lake import add, create, execute, opened
from tests.support.mirrors.claims import HOUR, claimed, end_leases, failed, record, work_on

pytestmark = [pytest.mark.requirement("R91")]
ON_ROWS: Final = pytest.mark.parametrize("catalog_url", ["sqlite", "postgresql"], indirect=True)
"""DuckDB looks at columns, and has no such indexes."""

START, FEW, MANY = 30_000, 300, 12_000
"""With which version the tables begin, and how many versions lie before it."""
CODES: Final = (Unavailable.code,)
STORE: Final = "file:"
ON: Final = Switch()


@pytest.fixture
def catalog(catalog_url: str) -> Iterator[Catalog]:
    """In a database of its own: PostgreSQL counts what is left in indexes of rows that were deleted."""
    with opened(catalog_url) as found:
        found.init()
        yield found


@pytest.fixture
def histories(catalog: Catalog) -> None:
    """A table of which all is done, one with a version and a checkpoint that wait, and one where both failed."""
    for name in ("done", "waiting", "failing"):
        table = create(catalog, name)
        begin_late(catalog, table.info().id)
        work_on(catalog, name)
        measured = "read_us = 1, serialise_us = 1, upload_us = 1, verify_us = 1"
        execute(catalog, f"UPDATE dl_mirror_status SET {measured} WHERE version = :start", start=START)
        ask_for_checkpoint(catalog, name, START)
        execute(catalog, "UPDATE dl_checkpoints SET state = 'SUCCESS' WHERE version = :start", start=START)
    for name in ("waiting", "failing"):
        catalog.table(name).append([add("a")])
        work_on(catalog, name)
        ask_for_checkpoint(catalog, name, START + 1)
        catalog.table(name).append([add("b")])


def begin_late(catalog: Catalog, table_id: int) -> None:
    """Let the first version of a table be another one than 0."""
    for table in ("dl_table_versions", "dl_mirror_status", "dl_metadata", "dl_protocols"):
        execute(catalog, f"UPDATE {table} SET version = :start WHERE table_id = :id", start=START, id=table_id)
    head = "version = :start, metadata_version = :start, protocol_version = :start"
    execute(catalog, f"UPDATE dl_heads SET {head} WHERE table_id = :id", start=START, id=table_id)
    execute(catalog, "UPDATE dl_tables SET published_version = :last WHERE table_id = :id", last=START - 1, id=table_id)


def ask_for_checkpoint(catalog: Catalog, name: str, version: int) -> None:
    with catalog.database.write() as session:
        request_checkpoint(session, catalog.table(name).info().id, version, reason="a test")


def lengthen(catalog: Catalog, *, first: int, last: int) -> None:
    """Let these versions of each table be published, too, each with a checkpoint."""
    with catalog.database.write() as session:
        for source in (versions, mirror_status, checkpoints):
            for row in session.execute(select(source).where(source.c.version == START)).all():
                own = {"commit_id": row.table_id << 32} if source is versions else {}
                session.insert_many(source, [like(source, row._asdict(), each, own) for each in range(first, last)])
        if catalog.database.name == "postgresql":
            session.connection.exec_driver_sql("ANALYZE")


def like(source: Table, row: dict[str, object], version: int, own: dict[str, int]) -> tuple[object, ...]:
    values = {**row, "version": version, **{name: each + version for name, each in own.items()}}
    return tuple(values[column.name] for column in source.columns)


def fail(catalog: Catalog) -> None:
    """The next version and the newest checkpoint of one table fail, once more."""
    table_ids = [catalog.table("failing").info().id]
    execute(catalog, "UPDATE dl_checkpoints SET next_attempt_at = NULL WHERE state = 'FAILED'")
    end_leases(catalog.database)
    [found] = claimed(catalog, table_ids=table_ids)
    record(catalog, failed(found.lease, START + 2))
    [found] = claimed(catalog, lane=Lane.CHECKPOINTS, table_ids=table_ids)
    failure = Failure(error=Unavailable("away"), stage=Stage.PUT, version=found.checkpoint, key="k")
    outcome = CheckpointOutcome(table_id=found.table_id, lease=found.lease, version=found.checkpoint, failure=failure)
    record(catalog, outcome)
    end_leases(catalog.database)


def plan(catalog: Catalog) -> None:
    found = claimed(catalog)
    assert [each.name for each in found] == ["waiting"]
    with catalog.database.read() as connection:
        [waiting] = waiting_commits(connection, found, most=100).values()
    assert [each.version for each in waiting.commits] == [START + 2]
    assert (waiting.last_checkpoint, waiting.written_checkpoint) == (START + 1, START)


def claim_checkpoints(catalog: Catalog) -> None:
    assert [(each.name, each.checkpoint) for each in claimed(catalog, lane=Lane.CHECKPOINTS)] == [
        ("waiting", START + 1)
    ]
    assert claimed(catalog, lane=Lane.CHECKPOINTS) == []


def probe(catalog: Catalog) -> None:
    for lane in (Lane.COMMITS, Lane.CHECKPOINTS):
        assert claim_in_store(catalog.database, STORE, lane=lane, owner="me", seconds=HOUR, codes=CODES)


def look_for_overdue(catalog: Catalog) -> None:
    with catalog.database.read() as connection:
        overdue(connection, ON, seconds=0, limit=5)


def recover(catalog: Catalog) -> None:
    with catalog.database.write() as session:
        make_store_due(session, STORE, CODES)
    own = {"id": catalog.table("failing").info().id, "start": START}
    for table in ("dl_mirror_status", "dl_checkpoints"):
        due = f"SELECT next_attempt_at FROM {table} WHERE table_id = :id AND version > :start AND state = 'FAILED'"
        assert execute(catalog, due, **own) == [(None,)]


def measure_failures(catalog: Catalog) -> None:
    with catalog.database.write() as session:
        assert failing_share(session, STORE, CODES, switch=ON) == pytest.approx(100 / 3)


def scrape(catalog: Catalog) -> None:
    with catalog.database.read() as connection:
        assert [each.checkpoint_age for each in mirror_gauges(connection, ON).tables] == [0, 1, 1]


def count(catalog: Catalog) -> None:
    with catalog.database.read() as connection:
        assert totals(connection).failing == 1


def list_tables(catalog: Catalog) -> None:
    with catalog.database.read() as connection:
        assert [each.name for each in tables_page(connection, Wanted(show=Show.FAILING)).tables] == ["failing"]


def tell_status(catalog: Catalog) -> None:
    with catalog.database.read() as connection:
        found = all_status(connection, ON)
        assert [each.checkpoint and each.checkpoint.version for each in found] == [START] * 3
        assert [each.name for each in found if each.checkpoint_error] == ["failing"]
        table_status(connection, "done", ON)


ACTS: Final[tuple[Callable[[Catalog], None], ...]] = (
    plan, claim_checkpoints, probe, look_for_overdue, recover, measure_failures, scrape, count, list_tables,
    tell_status,
)  # fmt: skip


@ON_ROWS
@pytest.mark.usefixtures("histories")
def test_what_was_published_and_written_long_ago_is_not_read(catalog: Catalog) -> None:
    taken: dict[str, list[int]] = {act.__name__: [] for act in ACTS}
    for first, last in ((START - FEW, START), (START - MANY, START - FEW)):
        lengthen(catalog, first=first, last=last)
        for act in ACTS:
            fail(catalog)
            with counted(catalog) as cost:
                act(catalog)
            taken[act.__name__].append(cost.count)
    assert {name: costs for name, costs in taken.items() if not 0 < costs[1] < 2 * costs[0]} == {}


def test_to_publish_a_version_changes_no_index(postgres_url: str) -> None:
    """PostgreSQL would write to all indexes of the table if a column of one of them changed."""
    changed = list[tuple[int, int]]()

    def look(connection: Connection) -> None:
        cursor = connection.connection.cursor()
        cursor.execute(
            "SELECT pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)"
            " FROM pg_class WHERE relname = 'dl_mirror_status'"
        )
        changed.extend(cursor.fetchall())

    with opened(postgres_url) as catalog:
        catalog.init()
        create(catalog).append([add("a")])
        event.listen(catalog.database.engine, "commit", look)
        work_on(catalog)
    assert (2, 2) in changed
    assert {updated for updated, in_place in changed if updated != in_place} == set()
