"""Protocol versions appear where they change, and every commit has a time of its own, later than the one before."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from sqlalchemy import select

from deltamirror import Catalog, Protocol, Table
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.timestamps import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from deltamirror.errors import InvalidInput, NotFound
from deltamirror.txnlog.database.clock import CLOCK
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, create, execute, info_of, paths

pytestmark = pytest.mark.default_on("sqlite")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEGACY = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}


def protocol_lines(table: Table) -> dict[int, bytes]:
    found = {}
    for version in range(table.info().head + 1):
        for line in table.commit_file(version).splitlines():
            if line.startswith(b'{"protocol"'):
                found[version] = line
    return found


@pytest.mark.requirement("R4")
def test_the_protocol_is_written_at_creation_and_when_it_changes(catalog: Catalog) -> None:
    table = create(catalog, properties=LEGACY)
    table.append([add("a")])
    table.alter(features=["deletionVectors"])
    table.append([add("b")])
    assert protocol_lines(table) == {
        0: b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
        2: b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],'
        b'"writerFeatures":["deletionVectors","invariants","appendOnly"]}}',
    }
    assert table.snapshot(1).protocol == Protocol(min_reader_version=1, min_writer_version=2)
    assert table.snapshot(2).protocol == table.snapshot(3).protocol == decode_commit(table.commit_file(2))[1]


@pytest.mark.requirement("R4")
def test_an_upgrade_to_what_the_table_has_is_no_commit(catalog: Catalog) -> None:
    table = create(catalog, features=["deletionVectors"])
    table.alter(features=["deletionVectors"])
    assert table.info().head == 0


@pytest.mark.requirement("R4")
def test_a_downgrade_is_refused(catalog: Catalog) -> None:
    table = create(catalog, features=["deletionVectors"])
    with pytest.raises(InvalidInput, match="protocol"), catalog.transaction() as tx:
        tx.stage("t", [Protocol(min_reader_version=1, min_writer_version=2)])
    assert table.info().head == 0


@pytest.mark.requirement("R6")
def test_the_time_of_a_commit_is_the_same_everywhere(catalog: Catalog) -> None:
    table = create(catalog)
    done = [table.append([add(name)]) for name in ("a", "b")]
    stored = execute(catalog, "SELECT version, committed_at FROM dl_table_versions ORDER BY version")
    for version, committed_at in stored:
        info = info_of(table, version)
        assert committed_at == info["timestamp"] == info["inCommitTimestamp"] == table.snapshot(version).timestamp
    assert [answer.timestamp for answer in done] == [time for _, time in stored[1:]]


@pytest.mark.default_on(*ENGINES)
@pytest.mark.requirement("R6")
@pytest.mark.parametrize("timestamped", [True, False])
def test_times_increase_even_when_the_clock_steps_back(catalog: Catalog, timestamped: bool) -> None:
    table = create(catalog, properties={"delta.enableInCommitTimestamps": str(timestamped).lower()})
    ahead = table.info().head_timestamp + 86_400_000
    execute(catalog, "UPDATE dl_heads SET committed_at = :ahead", ahead=ahead)
    table.append([add("a")])
    table.append([add("b")], token="through the general path")
    table.remove(["a"])
    found = [info_of(table, version) for version in (1, 2, 3)]
    assert [info["timestamp"] for info in found] == [ahead + 1, ahead + 2, ahead + 3]
    assert [info.get("inCommitTimestamp") for info in found] == [
        info["timestamp"] if timestamped else None for info in found
    ]


@pytest.mark.default_on(*ENGINES)
@pytest.mark.requirement("R6")
def test_the_time_is_the_databases_own(catalog: Catalog) -> None:
    with catalog.database.read() as connection:
        from_clock = int(connection.execute(select(CLOCK)).scalar_one())
    found = create(catalog).info().head_timestamp
    assert abs(found - from_clock) < 60_000


@pytest.mark.requirement("R6")
def test_turning_on_commit_times_later_says_since_when_they_hold(catalog: Catalog) -> None:
    table = create(catalog, properties=LEGACY)
    table.append([add("a")])
    assert "inCommitTimestamp" not in info_of(table, 1)
    table.alter(properties={"delta.enableInCommitTimestamps": "true"})
    info, properties = info_of(table, 2), table.snapshot().metadata.configuration
    assert next(iter(info)) == "inCommitTimestamp"
    assert properties[ENABLEMENT_VERSION] == "2"
    assert properties[ENABLEMENT_TIMESTAMP] == str(info["inCommitTimestamp"]) == str(info["timestamp"])
    table.alter(properties={"k": "v"})
    after = table.snapshot().metadata.configuration
    assert (after[ENABLEMENT_VERSION], after[ENABLEMENT_TIMESTAMP]) == ("2", str(info["timestamp"]))


@pytest.mark.requirement("R6")
def test_a_table_that_begins_with_commit_times_says_nothing_of_their_enablement(catalog: Catalog) -> None:
    properties = create(catalog).snapshot().metadata.configuration
    assert not {ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP} & properties.keys()


@pytest.mark.requirement("R6")
def test_metadata_is_carried_unchanged(catalog: Catalog) -> None:
    table = create(catalog, description="für Ünï\n", partition_by=["day"], properties={"a.b": "c", "B": ""})
    line = next(line for line in table.commit_file(0).splitlines() if line.startswith(b'{"metaData"'))
    found = msgspec.json.decode(line)["metaData"]
    assert list(found) == [
        "id",
        "description",
        "format",
        "schemaString",
        "partitionColumns",
        "configuration",
        "createdTime",
    ]
    assert found["format"] == {"provider": "parquet", "options": {}}
    assert found["createdTime"] == info_of(table, 0)["timestamp"]
    assert table.snapshot().metadata == decode_commit(line)[0]


def spread(catalog: Catalog) -> tuple[Table, list[int]]:
    """A table whose versions 0 to 3 lie a second apart, at odd milliseconds."""
    table = create(catalog)
    for name in "abc":
        table.append([add(name)])
    start = 1_714_564_800_001
    for version in range(4):
        sql = "UPDATE dl_table_versions SET committed_at = :time WHERE version = :version"
        execute(catalog, sql, time=start + 1_000 * version, version=version)
    return table, [start + 1_000 * version for version in range(4)]


@pytest.mark.default_on(*ENGINES)
@pytest.mark.requirement("R6")
def test_time_travel_finds_the_version_that_was_current(catalog: Catalog) -> None:
    table, times = spread(catalog)
    for version, time in enumerate(times):
        assert table.snapshot(as_of=time).version == version
        assert table.snapshot(as_of=time + 999).version == version
    assert table.snapshot(as_of=times[-1] + 10**9).version == 3
    assert paths(table, as_of=times[2]) == ["a", "b"]


@pytest.mark.requirement("R6")
def test_every_way_to_write_a_time_means_the_same_millisecond(catalog: Catalog) -> None:
    table, times = spread(catalog)
    for version, time in enumerate(times):
        moment = EPOCH + timedelta(milliseconds=time)
        naive = moment.replace(tzinfo=None)
        elsewhere = moment.astimezone(datetime.strptime("+0530", "%z").tzinfo)
        for spelling in (moment, naive, elsewhere, moment.isoformat(), naive.isoformat(), elsewhere.isoformat()):
            assert table.snapshot(as_of=spelling).version == version, spelling


@pytest.mark.requirement("R6")
def test_no_millisecond_is_lost_in_a_fraction(catalog: Catalog) -> None:
    table, _ = spread(catalog)
    awkward = 2_165_497_250_430  # as seconds in a float, times 1000, it is a little less
    execute(catalog, "UPDATE dl_table_versions SET committed_at = :time WHERE version = 3", time=awkward)
    assert table.snapshot(as_of=EPOCH + timedelta(milliseconds=awkward)).version == 3


@pytest.mark.requirement("R6")
def test_a_time_before_the_table_is_not_found(catalog: Catalog) -> None:
    table, times = spread(catalog)
    with pytest.raises(NotFound, match=r"begins at 2024-05-01T12:00:00\.001"):
        table.snapshot(as_of=times[0] - 1)
    for wrong in ({"version": 1, "as_of": times[1]}, {"as_of": "yesterday"}):
        with pytest.raises(InvalidInput):
            table.snapshot(**wrong)
