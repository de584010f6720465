"""The same inputs give identical lines, whatever database holds them."""

import re
import uuid
from pathlib import Path

import pytest

from deltamirror import Catalog, Cdc, DeletionVector
from deltamirror.txnlog.database.clock import CLOCK
from deltamirror.txnlog.database.engines.postgresql import PostgresqlDatabase
from tests.support.databases.catalogs import ENGINES
from tests.support.databases.emptied import lake_url_of
from tests.support.lakes.lake import add, create, opened

TIME = re.compile(rb'"(timestamp|inCommitTimestamp|createdTime|deletionTimestamp|lastUpdated)":\d{13}')
ENABLED = re.compile(rb'(delta\.inCommitTimestampEnablementTimestamp":")\d{13}')

pytestmark = [pytest.mark.requirement("R40"), pytest.mark.postgres]


def script(catalog: Catalog) -> None:
    """A life of a table with something of everything in it."""
    vector = DeletionVector(storage_type="p", path_or_inline_dv="file:///d", size_in_bytes=40, cardinality=2)
    stats = r'{"numRecords":3,"minValues":{"s":"\u0000"},"maxValues":{"s":"' + "\x7f\u2028😀" + '"}}'
    legacy = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2", "z": "1", "a": "2"}
    table = create(catalog, partition_by=["day"], properties=legacy, description="wörds")
    table.append([add(f"day=1/{number}", day="1", stats=stats, size=2**53 + number) for number in range(3)])
    table.append([add(f"day=x/{number}", day=None, tags={"b": "1", "a": "2"}) for number in range(30)])
    table.alter(properties={"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"})
    table.alter(features=["deletionVectors", "domainMetadata"])
    with catalog.transaction(operation="DELETE", parameters={"predicate": ["day = 1"]}, tags={"k": "v"}) as tx:
        tx.read("t", partitions={"day": 1})
        tx.remove("t", ["day=1/0", "day=1/1", "day=1/2"])
        tx.append("t", [add("day=1/2", day="1", stats=stats, deletion_vector=vector)])
        tx.stage("t", [Cdc(path="_change_data/c", partition_values={"day": None}, size=1, data_change=False)])
        tx.set_transaction("t", "app", 7)
        tx.set_domain("t", "mine", '{"x":1}')
    table.remove(["day=x/0"], token="token")
    table.append([add(f"many{number}", day="2") for number in range(60)])  # staged


def lines_of(url: str, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    numbers = iter(range(10_000))
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))
    with opened(url, stage_above=50, chunk_lines=7) as catalog:
        script(catalog)
        table = catalog.table("t")
        return [table.commit_file(version) for version in range(table.info().head + 1)]


def timeless(commit: bytes) -> bytes:
    return ENABLED.sub(rb"\1", TIME.sub(rb'"\1":0', commit))


def test_every_engine_writes_the_same_commits(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_engine = {name: lines_of(lake_url_of(name, request, tmp_path), monkeypatch) for name in ENGINES}
    first, *others = ([timeless(commit) for commit in commits] for commits in by_engine.values())
    assert len(first) == 8
    for other in others:
        assert other == first


@pytest.mark.usefixtures("compiled_anew")
def test_under_the_same_clock_the_times_are_the_same_too(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the one statement of PostgreSQL, which has the clock built in: a token makes it take the general road."""
    renderings = type(CLOCK)._compiler_dispatcher.specs  # type: ignore[attr-defined]
    for name in ENGINES:
        monkeypatch.setitem(renderings, name, lambda *_, **__: "1700000000000")
    monkeypatch.setattr(PostgresqlDatabase, "takes_small_appends", False)
    first, *others = (lines_of(lake_url_of(name, request, tmp_path), monkeypatch) for name in ENGINES)
    assert b'"timestamp":1700000000001' in first[1]
    for other in others:
        assert other == first
