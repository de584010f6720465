"""What is admitted leaves the table readable, and open for the commits that follow."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.timestamps import LAST_TIMESTAMP, MOST_AHEAD
from deltamirror.errors import InvalidAction, Refused
from deltamirror.txnlog.imports.parts import commit_parts
from tests.support.lakes.lake import add, create, execute, info_of, opened

pytestmark = pytest.mark.requirement("R5")

HOUR = 60 * 60 * 1000


def verbatim(catalog: Catalog, moment: int) -> None:
    line = b'{"commitInfo":{"inCommitTimestamp":%d,"timestamp":5}}\n' % moment
    with catalog.transaction() as tx:
        tx.stage_lines("t", line, at_version=1)


@pytest.fixture(params=[5000, 1], ids=["small", "staged"])
def sized(sqlite_lake: str, request: pytest.FixtureRequest) -> Iterator[Catalog]:
    """Commits of more than one action are large, or none is."""
    with opened(sqlite_lake, stage_above=request.param, chunk_lines=2) as found:
        yield found


def test_partition_values_are_written_as_the_reference_writer_does(sized: Catalog) -> None:
    table = create(sized, schema="id long, d decimal(5,2), t timestamp", partition_by=["d", "t"])
    spelled = {"d": "1.5", "t": "2024-01-01T00:00:00"}
    canonical = {"d": "1.50", "t": "2024-01-01T00:00:00.000000Z"}
    files = [add("a", partition_values=spelled), add("b", partition_values=canonical)]
    files.append(add("c", partition_values=spelled))
    table.append(files)
    written = [json.loads(line)["add"] for line in table.commit_file(1).splitlines()[1:]]
    assert [each["partitionValues"] for each in written] == [canonical] * 3
    found = table.snapshot().files().column("partition_values").to_pylist()
    assert [json.loads(each) for each in found] == [canonical] * 3


def test_a_time_far_ahead_of_the_clock_is_refused(catalog: Catalog) -> None:
    table = create(catalog)
    now = table.info().head_timestamp
    for moment in (now + MOST_AHEAD + HOUR, LAST_TIMESTAMP, 2**63 - 1):
        with pytest.raises(InvalidAction) as caught:
            verbatim(catalog, moment)
        assert (caught.value.field, caught.value.found) == ("inCommitTimestamp", str(moment))
    verbatim(catalog, now + MOST_AHEAD - HOUR)
    table.append([add("b")])
    assert info_of(table, 2)["inCommitTimestamp"] == now + MOST_AHEAD - HOUR + 1


def test_a_time_that_binds_no_reader_does_not_move_the_clock(lake: Catalog) -> None:
    table = create(lake, properties={"delta.enableInCommitTimestamps": "false"})
    now = table.info().head_timestamp
    line = b'{"commitInfo":{"inCommitTimestamp":%d,"timestamp":%d}}\n' % (2**63 - 1, 2**62)
    with lake.transaction() as tx:
        tx.stage_lines("t", line, at_version=1)
    assert now < tx.result.timestamp < now + MOST_AHEAD


def test_a_table_that_is_ahead_of_the_clock_takes_no_other_table_with_it(lake: Catalog) -> None:
    """Such a table may have been imported: its time is its own."""
    ahead, other = create(lake), create(lake, "other")
    later = ahead.info().head_timestamp + 2 * MOST_AHEAD
    execute(lake, f"UPDATE dl_heads SET committed_at = {later} WHERE table_id = {ahead.info().id}")
    tx = lake.transaction()
    tx.append("t", [add("a")])
    tx.append("other", [add("a")])
    with pytest.raises(Refused, match="a day ahead of the clock"):
        tx.commit()
    assert (ahead.info().head, other.info().head) == (0, 0)
    ahead.append([add("a")])
    assert info_of(ahead, 1)["inCommitTimestamp"] == later + 1


def test_a_history_after_which_no_commit_could_follow_is_not_imported() -> None:
    def parts(moment: int) -> list[object]:
        line = b'{"commitInfo":{"inCommitTimestamp":%d}}\n' % moment
        return list(commit_parts([line], table_id=1, version=0, modified=5, source="here"))

    assert parts(LAST_TIMESTAMP)
    with pytest.raises(InvalidAction, match=r"here, line 1: .*inCommitTimestamp"):
        parts(LAST_TIMESTAMP + 1)


@pytest.fixture
def stored(lake: Catalog, tmp_path: Path) -> Table:
    """A table with files of five bytes in its folder, and one beside it."""
    for name in ("t/a b.parquet", "t/c.parquet", "outside/x y.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    return lake.create_table("t", location=str(tmp_path / "t"), schema="id long")


def test_files_that_are_there_are_committed(stored: Table) -> None:
    stored.append([add("a%20b.parquet", size=5), add("c.parquet", size=5)], verify_files=True)
    assert stored.info().head == 1


def test_files_of_another_folder_are_looked_up_there(lake: Catalog, stored: Table, tmp_path: Path) -> None:
    for version, form in enumerate(("{}/x%20y.parquet", "file:{}/x%20y.parquet", "file://{}/x%20y.parquet"), 1):
        moment = stored.info().head_timestamp + 1
        path = form.format(tmp_path / "outside")
        lines = f'{{"commitInfo":{{"inCommitTimestamp":{moment}}}}}\n{{"add":{{"path":"{path}","partitionValues":{{}},'
        lines += '"size":5,"modificationTime":1,"dataChange":true}}\n'
        with lake.transaction() as tx:
            tx.stage_lines("t", lines.encode(), at_version=version, verify_files=True)
        with pytest.raises(InvalidAction, match="states 6 bytes; the file has 5"), lake.transaction() as tx:
            tx.stage_lines("t", lines.replace('"size":5', '"size":6').encode(), at_version=9, verify_files=True)


@pytest.mark.parametrize(
    ("path", "size", "rule", "problem"),
    [
        ("c.parquet", 6, "add.file.size", "c.parquet in .* states 6 bytes; the file has 5"),
        ("d.parquet", 5, "add.file.missing", "d.parquet in .* states 5 bytes; there is no such file"),
        ("../t/c.parquet", 5, "add.path.parent", "no '..'"),
    ],
)
def test_files_that_are_not_as_stated_are_refused(stored: Table, path: str, size: int, rule: str, problem: str) -> None:
    with pytest.raises(InvalidAction, match=problem) as caught:
        stored.append([add("a%20b.parquet", size=5), add(path, size=size)], verify_files=True)
    assert (caught.value.rule, caught.value.index) == (rule, 1)
    assert stored.info().head == 0


def test_many_files_are_looked_up(stored: Table, tmp_path: Path) -> None:
    names = [f"{number}.parquet" for number in range(1_500)]
    for name in names:
        (tmp_path / "t" / name).write_bytes(b"1")
    stored.append((add(name, size=1) for name in names), verify_files=True)
    with pytest.raises(InvalidAction) as caught:
        stored.append((add(name, size=1 + (name == names[-1])) for name in names), verify_files=True)
    assert caught.value.index == len(names) - 1
