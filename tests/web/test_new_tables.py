"""Locations become tables of the catalog when a job first meets them, where the settings of the server allow it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from deltamirror import Catalog
from deltamirror.delta.names import commit_name
from deltamirror.txnlog.access.tokens import Right
from tests.support.interfaces.commit_clients import UNTIMED, Writer, commit_lines, writer_of
from tests.support.interfaces.status_pages import Answer, Served, served
from tests.support.lakes.lake import create

pytestmark = pytest.mark.requirement("R36")


@pytest.fixture
def page(lake: Catalog, tmp_path: Path) -> Iterator[Served]:
    new, old = f"{tmp_path}/a b/new", f"{tmp_path}/old/"
    with served(lake, create_below=f"s3://bucket, {new}", import_below=f"file:{old}") as found:
        yield found


@pytest.fixture
def writer(page: Served) -> Writer:
    return writer_of(page)


@pytest.fixture
def first(lake: Catalog) -> bytes:
    """Lines of a version 0."""
    return create(lake, "model", properties=UNTIMED).commit_file(0)


def make(writer: Writer, location: Path | str, lines: bytes = b"") -> Answer:
    return writer.post(f"/tables?location={quote(str(location))}", lines)


def log_at(location: Path, lines: bytes, version: int = 0) -> Path:
    """The file of a version, put there by a writer that knows nothing of the server."""
    log = location / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / commit_name(version)).write_bytes(lines)
    return log


def test_a_first_version_makes_a_table_that_is_named_by_its_folders(
    page: Served, writer: Writer, tmp_path: Path, first: bytes
) -> None:
    location = tmp_path / "a b" / "new" / "sales" / "ord ers"
    assert writer.get(f"/tables?location={quote(str(location))}").json["creates"] is True
    made, again = (make(writer, location, first) for _ in range(2))
    assert (made.status, made.json["table"], made.json["head"]) == (201, "sales.ord_ers", 0)
    assert (again.status, again.json) == (201, made.json), "a lost reply is answered by the same table"
    assert (location / "_delta_log" / commit_name(0)).read_bytes() == first
    assert page.catalog.table("sales.ord_ers").commit_file(0) == first
    assert writer.commit("sales.ord_ers", 1, commit_lines("a")).status == 201
    other = make(writer, location, first + b"\n")
    assert (other.status, other.json["code"], other.json["head"]) == (409, "conflict", 1)


def test_of_writers_that_create_one_table_at_once_one_wins(
    page: Served, writer: Writer, tmp_path: Path, first: bytes
) -> None:
    location = tmp_path / "a b" / "new" / "t"
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda number: make(writer, location, first + b"\n" * number), range(4)))
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    [won] = [number for number, answer in enumerate(answers) if answer.status == 201]
    assert page.catalog.table("t").commit_file(0) == first + b"\n" * won


def test_a_first_version_that_was_put_before_a_crash_is_taken_in_by_the_next_request(
    page: Served, writer: Writer, tmp_path: Path, first: bytes
) -> None:
    location = tmp_path / "a b" / "new" / "t"
    log_at(location, first)
    assert make(writer, location, first).status == 201
    assert page.catalog.table("t").info().published == 0


@pytest.mark.parametrize("version", [0, 3])
def test_a_log_that_is_there_is_never_begun_anew(
    page: Served, writer: Writer, tmp_path: Path, first: bytes, version: int
) -> None:
    location = tmp_path / "a b" / "new" / "t"
    log = log_at(location, b"{}\n", version)
    assert make(writer, location, first).json["code"] == "conflict"
    assert [(each.name, each.read_bytes()) for each in log.iterdir()] == [(commit_name(version), b"{}\n")]
    assert [table.name for table in page.catalog.tables()] == ["model"]


def test_a_table_that_lies_there_is_imported_with_its_history(
    page: Served, writer: Writer, tmp_path: Path, first: bytes
) -> None:
    location = tmp_path / "old" / "t"
    log_at(location, first)
    log_at(location, commit_lines("a"), 1)
    told = writer.get(f"/tables?location={quote(str(location))}")
    assert (told.status, told.json["creates"], told.json["imports"]) == (404, False, True)
    made, again = (make(writer, location) for _ in range(2))
    assert (made.status, made.json["table"], made.json["head"], made.json["published"]) == (201, "t", 1, 1)
    assert (again.status, again.json) == (201, made.json)
    assert page.catalog.table("t").commit_file(1) == commit_lines("a")


def test_nothing_becomes_a_table_where_the_settings_or_the_token_do_not_allow_it(
    page: Served, writer: Writer, tmp_path: Path, first: bytes
) -> None:
    new, old = tmp_path / "a b" / "new" / "t", tmp_path / "old" / "t"
    log_at(old, first)
    other, reader = writer_of(page, "other", tables="sales.*"), writer_of(page, "reader", Right.READ)
    asked = {
        tmp_path / "t": (writer, first, 403),
        tmp_path / "a b" / "newer": (writer, first, 403),
        tmp_path / "a b" / "new": (writer, first, 403),
        new: (writer, b"", 409),
        old: (writer, first, 409),
        new.parent / "u": (other, first, 403),
        new.parent / "v": (reader, first, 403),
    }
    for location, (sender, lines, status) in asked.items():
        assert make(sender, location, lines).status == status, location
    for stranger in (other, reader):
        told = stranger.get(f"/tables?location={quote(str(new))}")
        assert (told.status, "creates" in told.json) == (404, False)
    assert [table.name for table in page.catalog.tables()] == ["model"]
    assert not new.exists()


def test_a_name_that_is_taken_is_refused_before_anything_is_put(
    page: Served, writer: Writer, tmp_path: Path, first: bytes
) -> None:
    location = tmp_path / "a b" / "new" / "model"
    assert make(writer, location, first).json["code"] == "already-exists"
    assert not location.exists()


PROTOCOL = b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
MANAGED = b"""{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["catalogManaged"],\
"writerFeatures":["catalogManaged","inCommitTimestamp"]}}\n"""
UNKNOWN = b'{"protocol":{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["notKnown"]}}\n'


@pytest.mark.parametrize(
    ("protocol", "code"),
    [
        (b"no JSON\n", "invalid-line"),
        (b"", "invalid-input"),
        (MANAGED, "unsupported"),
        (UNKNOWN, "invalid-action"),
    ],
)
def test_a_first_version_that_is_refused_leaves_no_table_that_jobs_would_write_without_us(
    page: Served, writer: Writer, tmp_path: Path, first: bytes, protocol: bytes, code: str
) -> None:
    location = tmp_path / "a b" / "new" / "t"
    assert PROTOCOL in first
    told = make(writer, location, first.replace(PROTOCOL, protocol))
    assert (told.status, told.json["code"]) == (422, code), told.text
    assert not location.exists()


def test_a_wrong_setting_is_told_as_such_and_no_location_passes_for_a_stranger(lake: Catalog, tmp_path: Path) -> None:
    with served(lake, create_below="ftp://x/y") as page:
        told = writer_of(page).get(f"/tables?location={quote(str(tmp_path))}")
    assert (told.status, told.json["code"]) != (404, "not-found")
    assert "serve.create_below" in told.json["detail"]
    assert told.json["code"] != "invalid-location"
