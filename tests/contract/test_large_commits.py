"""A large commit is staged before any lock: the same bytes, and nothing of it is visible until it is ratified."""

import hashlib
from collections.abc import Iterator

import msgspec
import pytest

from deltamirror import Add, Catalog, Cdc, DomainMetadata, Table, Txn
from deltamirror.delta.actions import Action
from deltamirror.errors import Conflict, InvalidAction, TokenReused, Unavailable
from deltamirror.txnlog.commit.request import Change, Request
from deltamirror.txnlog.commit.staging import StagedBody
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import (
    add,
    adds_of,
    body_of,
    create,
    execute,
    info_of,
    opened,
    paths,
    remove_of,
    row_counts,
)

pytestmark = pytest.mark.default_on("sqlite", "postgresql")
"""Every statement of a stage is on DuckDB as well: those tests say so."""

MANY = [add(f"f{number:02}", day=str(number % 3), stats='{"numRecords":1}') for number in range(25)]


@pytest.fixture
def catalog(lake_url: str) -> Iterator[Catalog]:
    """A catalog in which more than ten lines are many."""
    with opened(lake_url, stage_above=10, chunk_lines=4) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return make(catalog, "t")


def make(catalog: Catalog, name: str) -> Table:
    table = create(catalog, name, partition_by=["day"], features=["domainMetadata", "changeDataFeed"])
    table.append(MANY[:5])
    return table


def mixed() -> list[Action]:
    return [
        Txn(app_id="loader", version=4, last_updated=1),
        *MANY[5:],
        DomainMetadata(domain="mine", configuration="{}", removed=False),
        *(remove_of(file) for file in MANY[:4]),
    ]


def chunks_of(catalog: Catalog, table: Table, version: int) -> list[bytes]:
    sql = (
        "SELECT c.digest FROM dl_commit_chunks c JOIN dl_table_versions v ON v.commit_id = c.commit_id "
        "WHERE v.table_id = :table AND v.version = :version ORDER BY c.chunk"
    )
    return [bytes(row.digest) for row in execute(catalog, sql, table=table.info().id, version=version)]


@pytest.mark.default_on(*ENGINES)
def test_a_staged_commit_has_the_bytes_of_a_small_one(lake_url: str, catalog: Catalog, table: Table) -> None:
    catalog.writer.commit_at("t", 2, mixed())
    with_snapshot = table.snapshot(), body_of(table, 2)
    catalog.close()
    with opened(lake_url) as patient:
        small = make(patient, "small")
        patient.writer.commit_at("small", 2, mixed())
        assert with_snapshot[1] == body_of(small, 2)
        assert adds_of(small.snapshot().files()) == adds_of(patient.table("t").snapshot().files())
        assert small.snapshot().transactions() == patient.table("t").snapshot().transactions()
        assert small.snapshot().domain_metadata() == patient.table("t").snapshot().domain_metadata()
        mine_info, their_info = info_of(small, 2), info_of(patient.table("t"), 2)
        for key in ("operation", "operationParameters", "isBlindAppend", "readVersion", "isolationLevel"):
            assert mine_info[key] == their_info[key]
        mine, theirs = small.history(1)[0], patient.table("t").history(1)[0]
        assert (mine.num_added, mine.num_removed, mine.num_lines, mine.operation) == (
            theirs.num_added, theirs.num_removed, theirs.num_lines, theirs.operation,
        )  # fmt: skip


def test_a_plain_append_tells_the_same_of_itself_however_large(lake_url: str, catalog: Catalog) -> None:
    for name, files in (("large", MANY), ("small", MANY[:5])):
        create(catalog, name, partition_by=["day"]).append(files)
    large, small = (info_of(catalog.table(name), 1) for name in ("large", "small"))
    assert large["operationMetrics"] == {"numFiles": "25", "numOutputRows": "25", "numOutputBytes": "2500"}
    assert small["operationMetrics"] == {"numFiles": "5", "numOutputRows": "5", "numOutputBytes": "500"}
    assert large["isBlindAppend"] is small["isBlindAppend"] is True
    assert large.keys() == small.keys()


def test_the_digest_of_several_chunks_is_that_of_their_digests(catalog: Catalog, table: Table) -> None:
    table.append([add(f"g{number}", day="x") for number in range(25)])
    digests = chunks_of(catalog, table, 2)
    assert len(digests) == 1 + 7  # commitInfo; 25 lines, four to a chunk
    entry = table.history(1)[0]
    assert entry.digest == hashlib.sha256(b"".join(digests)).hexdigest()
    assert hashlib.sha256(table.commit_file(2).partition(b"\n")[0] + b"\n").digest() == digests[0]
    assert (entry.num_lines, entry.num_bytes) == (26, len(table.commit_file(2)))
    assert row_counts(catalog)["dl_stages"] == 0


def test_metadata_and_protocol_may_come_with_many_files(catalog: Catalog, table: Table) -> None:
    with catalog.transaction() as tx:
        tx.set_metadata("t", properties={"k": "v"})
        tx.upgrade_protocol("t", "deletionVectors")
        tx.append("t", [add(f"g{number}", day="x") for number in range(25)])
    kinds = [next(iter(msgspec.json.decode(line))) for line in table.commit_file(2).splitlines()]
    assert kinds == ["commitInfo", "metaData", "protocol", *["add"] * 25]
    assert table.snapshot().metadata.configuration["k"] == "v"


def test_metadata_after_many_files_is_refused(catalog: Catalog, table: Table) -> None:
    before, metadata = row_counts(catalog), table.snapshot().metadata
    with pytest.raises(InvalidAction) as caught:
        catalog.writer.commit_at("t", 2, [*MANY[5:], msgspec.structs.replace(metadata, name="late")])
    assert caught.value.rule == "commit.foundation-late"
    assert row_counts(catalog) == before


def test_removes_of_files_that_are_not_there_leave_nothing(catalog: Catalog, table: Table) -> None:
    before = row_counts(catalog)
    with pytest.raises(InvalidAction) as caught:
        catalog.writer.commit(Request(changes=(Change(table="t", actions=[*MANY[5:], remove_of(add("no", day="x"))]),)))
    assert caught.value.rule == "remove.path.not-in-table"
    assert row_counts(catalog) == before


@pytest.mark.parametrize(
    "wrong",
    [add("x", day="x", size=-1), add("f06", day="0"), Cdc(path="c", partition_values={}, size=1, data_change=True)],
)
@pytest.mark.default_on("sqlite")
def test_an_invalid_action_in_the_stream_leaves_nothing(catalog: Catalog, table: Table, wrong: Action) -> None:
    before = row_counts(catalog)
    with pytest.raises(InvalidAction) as caught:
        catalog.writer.commit_at("t", 2, iter([*MANY[5:20], wrong, *MANY[20:]]))
    assert (caught.value.index, caught.value.table) == (15, "t")
    assert row_counts(catalog) == before


@pytest.mark.default_on(*ENGINES)
def test_a_stream_that_breaks_leaves_nothing(catalog: Catalog, table: Table) -> None:
    def broken() -> Iterator[Add]:
        yield from MANY[5:20]
        raise ZeroDivisionError

    before = row_counts(catalog)
    with pytest.raises(ZeroDivisionError):
        table.append(broken())
    assert row_counts(catalog) == before


def test_a_conflict_leaves_nothing_of_the_stage(catalog: Catalog, table: Table) -> None:
    before = row_counts(catalog)
    with pytest.raises(Conflict):
        catalog.writer.commit_at("t", 7, MANY[5:])
    assert row_counts(catalog) == before


def test_a_large_commit_is_idempotent_by_its_token(catalog: Catalog, table: Table) -> None:
    answers = [table.append(iter(MANY[5:]), token="large") for _ in range(2)]
    assert [(answer.versions, answer.already_applied) for answer in answers] == [({"t": 2}, False), ({"t": 2}, True)]
    before = row_counts(catalog)
    with pytest.raises(TokenReused):
        table.append(iter(MANY[6:]), token="large")
    assert row_counts(catalog) == before


def orphan(catalog: Catalog, table: Table) -> int:
    """What a writer that died after staging leaves behind; the id of its commit."""
    request = Request(changes=(Change(table="t", actions=[*MANY[5:], remove_of(MANY[0])]),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltamirror.txnlog.commit.committing.Committing._ratify", die)
        patch.setattr("deltamirror.txnlog.commit.committing.Committing._discard_stages", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            catalog.writer.commit(request)
    [(commit_id,)] = execute(catalog, "SELECT commit_id FROM dl_stages")
    return int(commit_id)


def die(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_orphaned_stage_is_invisible(catalog: Catalog, table: Table) -> None:
    orphan(catalog, table)
    assert paths(table) == [file.path for file in MANY[:5]]
    assert table.info().head == 1
    table.remove(["f00"])  # the orphan's remove ended nothing
    table.append([MANY[7]])
    assert paths(table) == ["f01", "f02", "f03", "f04", "f07"]


@pytest.mark.default_on(*ENGINES)
def test_orphans_are_swept_once_they_are_old(catalog: Catalog, table: Table) -> None:
    before = row_counts(catalog)
    orphan(catalog, table)
    assert row_counts(catalog) != before
    assert catalog.writer.optimise(older_than=3600) == 0
    execute(catalog, "UPDATE dl_stages SET touched_at = touched_at - 3700000")
    assert catalog.writer.optimise(older_than=3600) == 1
    assert row_counts(catalog) == before
    assert paths(table) == [file.path for file in MANY[:5]]


@pytest.mark.default_on(*ENGINES)
def test_a_stage_that_was_swept_under_its_writer_is_not_committed(
    catalog: Catalog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, fill = row_counts(catalog), StagedBody.fill

    def slowly(self: StagedBody, *rest: object) -> object:
        staged = fill(self, *rest)  # type: ignore[arg-type]
        assert catalog.writer.optimise(older_than=-60) == 1
        return staged

    monkeypatch.setattr(StagedBody, "fill", slowly)
    with pytest.raises(Unavailable, match="swept"):
        table.append(MANY[5:])
    assert row_counts(catalog) == before
    assert table.info().head == 1


@pytest.mark.default_on(*ENGINES)
def test_every_commit_may_be_staged(lake_url: str, catalog: Catalog, table: Table) -> None:
    """However small the limit is, what may be committed does not depend on it."""
    catalog.close()
    with opened(lake_url, stage_above=0, chunk_lines=1) as eager:
        again = eager.table("t")
        again.append([MANY[6]])
        again.alter(properties={"k": "v"})
        again.remove(["f06"])
        assert again.info().head == 4
        assert paths(again) == [file.path for file in MANY[:5]]
