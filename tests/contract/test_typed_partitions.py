"""Partitions are compared by value in conflicts and in listings: a log spells one value in many ways."""

import pytest

from deltamirror import Add, Catalog, Table
from deltamirror.delta.lines import encode_commit
from deltamirror.errors import Conflict, InvalidInput
from tests.support.lakes.lake import add, create

pytestmark = pytest.mark.requirement("R36")

UNTIMED = {"delta.enableInCommitTimestamps": "false"}

SPELLED = [
    ("timestamp", "2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00", "2024-01-02 00:00:00"),
    ("timestamp_ntz", "2024-01-01T00:00:00", "2024-01-01 00:00:00", "2024-01-02 00:00:00"),
    ("decimal(5,2)", "1.5", "1.50", "1.51"),
    ("integer", "7", "07", "8"),
    ("double", "1.0", "1", "1.5"),
]


def file(path: str, value: str | None) -> Add:
    return add(path, partition_values={"p": value})


def written_elsewhere(catalog: Catalog, table: Table, *files: Add) -> None:
    """A commit of another writer, who spells as it likes."""
    lines = b'{"commitInfo":{"isBlindAppend":true}}\n' + encode_commit(files)
    with catalog.transaction() as tx:
        tx.stage_lines(table.name, lines, at_version=table.info().head + 1)


@pytest.mark.parametrize(("kind", "read", "written", "other"), SPELLED)
def test_a_read_by_partition_meets_files_of_that_value(
    lake: Catalog, kind: str, read: str, written: str, other: str
) -> None:
    table = create(lake, schema=f"id long, p {kind}", partition_by=["p"], properties=UNTIMED)
    for value, meets in ((written, True), (other, False)):
        tx = lake.transaction()
        tx.read("t", partitions={"p": read})
        tx.append("t", [file(f"sum-{meets}", None)])
        written_elsewhere(lake, table, file(f"x-{meets}", value))
        if meets:
            with pytest.raises(Conflict) as caught:
                tx.commit()
            assert caught.value.reason == "concurrent-append"
        else:
            tx.commit()


@pytest.mark.parametrize(("kind", "read", "written", "other"), SPELLED)
def test_a_listing_by_partition_has_the_files_of_that_value(
    catalog: Catalog, kind: str, read: str, written: str, other: str
) -> None:
    table = create(catalog, schema=f"id long, p {kind}", partition_by=["p"], properties=UNTIMED)
    written_elsewhere(catalog, table, file("b", written), file("c", other), file("n", None))
    listed = {
        wanted: sorted(table.snapshot().files({"p": wanted}).column("path").to_pylist())
        for wanted in (read, written, other, None)
    }
    assert listed == {read: ["b"], written: ["b"], other: ["c"], None: ["n"]}


def test_a_partition_that_no_file_can_have_is_refused(lake: Catalog) -> None:
    table = create(lake, schema="id long, p integer", partition_by=["p"], properties=UNTIMED)
    with pytest.raises(InvalidInput, match="is no value of the partition column 'p'"):
        table.snapshot().files({"p": "seven"})
