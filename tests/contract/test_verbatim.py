"""Commits of other writers are stored untouched, at the one version that they belong to (G8)."""

from collections.abc import Iterator, Sequence

import pytest

from deltamirror import Catalog, Committed, Table
from deltamirror.delta.lines import decode_commit
from deltamirror.errors import Conflict, InvalidAction, InvalidInput, InvalidLine
from deltamirror.txnlog.commit.request import Change, Request
from tests.support.databases.catalogs import ENGINES
from tests.support.lakes.lake import add, create, opened, paths, row_counts

pytestmark = [pytest.mark.requirement("R37"), pytest.mark.default_on("sqlite")]

INFO = b'{"commitInfo":{"timestamp":1700000000000,"operation":"WRITE","operationParameters":{},"x":{"y":[1.50]}}}\n'
FILE = b'{"add":{"path":"%s","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
UNTIMED = {"delta.enableInCommitTimestamps": "false"}


@pytest.fixture(params=[5000, 2], ids=["small", "staged"])
def catalog(lake_url: str, request: pytest.FixtureRequest) -> Iterator[Catalog]:
    """Commits of more than two lines are large, or none is."""
    with opened(lake_url, stage_above=request.param, chunk_lines=2) as found:
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return create(catalog, properties=UNTIMED)


def send(catalog: Catalog, lines: bytes, version: int = 1) -> Committed:
    with catalog.transaction() as tx:
        tx.stage_lines("t", lines, at_version=version)
    return tx.result


ODD = [
    INFO + FILE % b"a" + FILE % b"b" + FILE % b"c",
    INFO + b'{"add": {"size":1, "path":"a" , "unknown":{"deep":[null]},"partitionValues":{}, "modificationTime":1,'
    b' "dataChange":true}}\n' + FILE % b"b",
    FILE % b"a" + INFO + FILE % b"b" + FILE % b"c",
    INFO + FILE % b"\\u0061",
    (INFO + FILE % b"a" + FILE % b"b").replace(b"\n", b"\r\n"),
    INFO + b"\n \n" + FILE % b"a" + b"\n" + FILE % b"b",
    INFO + FILE % b"a" + FILE % b"b" + b"\n\n",
    (INFO + FILE % b"a" + FILE % b"b").removesuffix(b"\n"),
]


@pytest.mark.default_on(*ENGINES)
@pytest.mark.default_when(parameters=lambda those: those["lake_url"] == "sqlite" or not those["number"] % 4)
@pytest.mark.parametrize("number", range(len(ODD)))
def test_lines_are_stored_byte_for_byte(catalog: Catalog, table: Table, number: int) -> None:
    lines = ODD[number]
    assert send(catalog, lines).versions == {"t": 1}
    assert table.commit_file(1) == lines
    entry = table.history(1)[0]
    assert (entry.kind, entry.num_bytes) == ("verbatim", len(lines))
    assert entry.num_lines == sum(bool(line.strip()) for line in lines.splitlines())
    assert paths(table) == sorted("abc"[: lines.count(b'"add"')])
    table.append([add("z")])
    assert "z" in paths(table)


WHOLE = INFO + FILE % b"a" + FILE % b"b" + FILE % b"c"


@pytest.mark.default_on("sqlite")
@pytest.mark.parametrize("lines", [WHOLE.decode().splitlines(), WHOLE.splitlines()], ids=["texts", "bytes"])
def test_lines_that_lost_their_ends_are_lines(catalog: Catalog, table: Table, lines: Sequence[str | bytes]) -> None:
    with catalog.transaction() as tx:
        tx.stage_lines("t", iter(lines), at_version=1)
    assert table.commit_file(1) == WHOLE
    change = Change(table="t", lines=[line.rstrip() for line in (INFO, FILE % b"d", FILE % b"e")], at_version=2)
    catalog.writer.commit(Request(changes=(change,)))
    assert len(table.commit_file(2).splitlines()) == 3


@pytest.mark.parametrize("lines", [WHOLE.replace(b"\n", b"\r"), WHOLE.replace(b"\n", b"\r").splitlines(keepends=True)])
def test_lines_that_end_with_carriage_returns_alone_are_lines(
    catalog: Catalog, table: Table, lines: bytes | list[bytes]
) -> None:
    with catalog.transaction() as tx:
        tx.stage_lines("t", lines, at_version=1)
    assert table.commit_file(1).strip() == WHOLE.replace(b"\n", b"\r\n").strip()
    assert len(decode_commit(table.commit_file(1))) == 4


def test_lines_are_the_same_with_and_without_their_ends_to_a_token(lake: Catalog) -> None:
    create(lake, properties=UNTIMED)
    for lines in (WHOLE, WHOLE.splitlines(), WHOLE.splitlines(keepends=True), WHOLE.decode().splitlines()):
        with lake.transaction(token="once") as tx:
            tx.stage_lines("t", lines, at_version=1)
        assert tx.result.versions == {"t": 1}


def test_a_verbatim_commit_names_its_version(catalog: Catalog, table: Table) -> None:
    with pytest.raises(InvalidInput, match="names no version"):
        catalog.writer.commit(Request(changes=(Change(table="t", lines=[INFO]),)))
    for version in (0, 2):
        with pytest.raises(Conflict):
            send(catalog, INFO + FILE % b"a", version)
    assert table.info().head == 0


def test_the_operation_and_its_time_are_those_of_the_writer(catalog: Catalog, table: Table) -> None:
    later = table.info().head_timestamp + 1_000
    done = send(catalog, INFO.replace(b"1700000000000", str(later).encode()) + FILE % b"a")
    assert done.timestamp == table.snapshot().timestamp == later
    assert (table.history(1)[0].operation, table.history(1)[0].is_blind_append) == ("WRITE", False)


@pytest.mark.default_on(*ENGINES)
def test_a_time_before_that_of_the_head_is_moved_after_it(catalog: Catalog, table: Table) -> None:
    assert send(catalog, INFO + FILE % b"a").timestamp == table.snapshot(0).timestamp + 1


def timed(moment: int) -> bytes:
    return b'{"commitInfo":{"inCommitTimestamp":%d,"timestamp":5}}\n' % moment


@pytest.mark.requirement("R6")
def test_commit_times_have_to_increase(catalog: Catalog) -> None:
    table = create(catalog)
    head = table.info().head_timestamp
    before = row_counts(catalog)
    for moment in (head, head - 1, 0):
        with pytest.raises(InvalidAction) as caught:
            send(catalog, timed(moment) + FILE % b"a" + FILE % b"b")
        assert (caught.value.field, caught.value.found) == ("inCommitTimestamp", str(moment))
    assert row_counts(catalog) == before
    assert send(catalog, timed(head + 1) + FILE % b"a" + FILE % b"b").timestamp == head + 1


@pytest.mark.requirement("R6")
def test_a_commit_without_its_time_is_refused_where_commits_carry_it(catalog: Catalog) -> None:
    table = create(catalog)
    later = table.info().head_timestamp + 1
    for lines in (
        INFO + FILE % b"a" + FILE % b"b",
        FILE % b"a" + FILE % b"b" + timed(later),
        FILE % b"a" + FILE % b"b" + FILE % b"c",
    ):
        with pytest.raises(InvalidAction):
            send(catalog, lines)
    assert table.info().head == 0


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{", InvalidLine),
        (b'{"unknown":{}}', Exception),
        (b'{"add":{"path":"a"}}', InvalidAction),
        (FILE.rstrip() % b"a", InvalidAction),
        (b'{"commitInfo":{}}', InvalidAction),
        (b"[]", InvalidLine),
    ],
)
@pytest.mark.default_on("sqlite")
def test_a_line_that_is_no_action_leaves_nothing(
    catalog: Catalog, table: Table, line: bytes, error: type[Exception]
) -> None:
    before = row_counts(catalog)
    with pytest.raises(error):
        send(catalog, INFO + FILE % b"a" + FILE % b"b" + line + b"\n")
    assert row_counts(catalog) == before


def test_removes_of_unknown_files_are_tombstones_of_the_writer(catalog: Catalog, table: Table) -> None:
    """Another writer's log may remove what was never there, as a checkpoint that was cleaned up leaves it."""
    gone = b'{"remove":{"path":"gone","dataChange":true}}\n'
    send(catalog, INFO + FILE % b"a" + gone + FILE % b"b")
    assert paths(table) == ["a", "b"]
    assert table.commit_file(1).count(gone) == 1


def test_progress_of_another_writer_counts(catalog: Catalog, table: Table) -> None:
    txn = b'{"txn":{"appId":"loader","version":%d}}\n'
    send(catalog, INFO + txn % 5 + FILE % b"a" + FILE % b"b")
    with catalog.transaction() as tx:
        tx.set_transaction("t", "loader", 5)
    assert (tx.result.already_applied, tx.result.versions) == (True, {"t": 1})
