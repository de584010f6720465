"""The bounds of lines and of blank lines hold on every road: up to a bound all is taken, beyond it nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deltamirror import Add, Catalog
from deltamirror.cli import commit as commit_command
from deltamirror.delta import bounds, lines
from deltamirror.deltalog import commits
from deltamirror.errors import CapacityExceeded, InvalidLine
from tests.support.imports.adoptions import PLAIN, adopted, mirror, mirroring
from tests.support.imports.foreign_logs import HISTORY, put_log, store_in_memory
from tests.support.imports.importers import imported
from tests.support.lakes.lake import add, create, opened
from tests.support.mirrors.local import log_of

pytestmark = pytest.mark.requirement("R5")

# Longer than every other line of these logs.
FILE = add("b.parquet", tags={"t": "x" * 3_000})
LINE = lines.encode(FILE)
BLANKS = 10
Bound = Callable[[], None]
Road = Callable[[Catalog, Path, bytes, Bound], None]


def limit_lines(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (bounds, lines, commits, commit_command):
        monkeypatch.setattr(module, "LONGEST_LINE", size)


def limit_blanks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (lines, commits):
        monkeypatch.setattr(module, "MOST_BLANKS", size)


def authored(lake: Catalog, _: Path, data: bytes, bound: Bound) -> None:
    table = create(lake)
    bound()
    table.append([action for action in lines.decode_commit(data) if isinstance(action, Add)])


def staged(lake: Catalog, folder: Path, data: bytes, bound: Bound) -> None:
    with opened(str(lake.database.engine.url), stage_above=0) as staging:
        authored(staging, folder, data, bound)


def streamed(lake: Catalog, _: Path, data: bytes, bound: Bound) -> None:
    create(lake)
    bound()
    with lake.transaction() as tx:
        tx.stage("t", lines.read_ndjson(data.splitlines(keepends=True), source="pipe"))


def verbatim(lake: Catalog, _: Path, data: bytes, bound: Bound) -> None:
    create(lake, properties=PLAIN)
    bound()
    with lake.transaction() as tx:
        tx.stage_lines("t", data, at_version=1)


def brought(lake: Catalog, _: Path, data: bytes, bound: Bound) -> None:
    """By an import: what its harvester runs, Spark's executors run, too."""
    store = store_in_memory()
    put_log(store, {0: HISTORY[0], 1: b'{"commitInfo":{"operation":"WRITE"}}\n' + data})
    bound()
    imported(lake, store)


def brought_in_blocks(lake: Catalog, folder: Path, data: bytes, bound: Bound) -> None:
    """As a commit is that is too large to be read at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commits, "_SMALL_BYTES", 0)
        brought(lake, folder, data, bound)


def taken_over(lake: Catalog, folder: Path, data: bytes, bound: Bound) -> None:
    table = lake.create_table("t", location=str(folder / "lake"), schema="id long", properties=PLAIN)
    with mirroring(lake) as engine:
        mirror(engine)
        (log_of(table) / f"{1:020}.json").write_bytes(b'{"commitInfo":{"operation":"WRITE"}}\n' + data)
        bound()
        adopted(engine)


FOREIGN = [streamed, verbatim, brought, brought_in_blocks, taken_over]


@pytest.mark.parametrize("road", [authored, staged, *FOREIGN])
def test_a_line_at_the_bound_is_taken(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, road: Road
) -> None:
    road(lake, tmp_path, LINE + b"\n", lambda: limit_lines(monkeypatch, len(LINE)))
    assert lake.table("t").info().head == 1


@pytest.mark.parametrize("road", [authored, staged, *FOREIGN])
def test_a_line_beyond_the_bound_is_refused(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, road: Road
) -> None:
    with pytest.raises((InvalidLine, CapacityExceeded), match=f"a line of more than {len(LINE) - 1:,} bytes"):
        road(lake, tmp_path, LINE + b"\n", lambda: limit_lines(monkeypatch, len(LINE) - 1))


@pytest.mark.parametrize("blanks", [b"\n" * BLANKS, b"\n  \r\n" * 2, b" \t" * 5])
@pytest.mark.parametrize("road", FOREIGN)
def test_blank_lines_up_to_the_bound_are_taken(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, road: Road, blanks: bytes
) -> None:
    road(lake, tmp_path, LINE + b"\n" + blanks, lambda: limit_blanks(monkeypatch, BLANKS))
    assert lake.table("t").info().head == 1


@pytest.mark.parametrize("blanks", [b"\n" * (BLANKS + 1), b"\n  \r\n\n \n   \n", b" \t" * 5 + b"\n"])
@pytest.mark.parametrize("road", FOREIGN)
def test_blank_lines_beyond_the_bound_are_refused(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, road: Road, blanks: bytes
) -> None:
    with pytest.raises((InvalidLine, CapacityExceeded), match="more than 10 bytes of blank lines"):
        road(lake, tmp_path, LINE + b"\n" + blanks, lambda: limit_blanks(monkeypatch, BLANKS))


def test_blanks_are_counted_as_they_are_in_a_stream() -> None:
    data = b"\n \n{}  \n\t\n  {}\r\n\r\n\n{}\n  "
    expected = sum(len(line) for line in data.splitlines(keepends=True) if line.isspace())
    assert bounds.blank_bytes(data) == expected
    assert bounds.blank_bytes(b"") == 0
    assert bounds.blank_bytes(b" \n ") == 3
