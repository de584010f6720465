"""What is put aside comes back as it was, leaves no file behind, and says clearly where there is no room."""

import errno
import gc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror.deltalog.checkpoint.scratch import Gathering, Pile
from deltamirror.errors import CapacityExceeded

SCHEMA = pa.schema([("text", pa.large_string()), ("more", pa.struct([("number", pa.int64())]))])


def tables() -> list[pa.Table]:
    numbers = [range(3), range(3, 3), range(3, 1_000), range(1_000, 1_001)]
    rows = [[{"text": str(n), "more": None if n % 5 else {"number": n}} for n in some] for some in numbers]
    return [pa.Table.from_pylist(some, SCHEMA) for some in rows]


@pytest.mark.parametrize("most_bytes", [0, 100, 20_000, 10**9])
def test_tables_come_back_in_order(most_bytes: int) -> None:
    gathering = Gathering(SCHEMA, most_bytes)
    for table in tables():
        gathering.add(table)
    whole = gathering.whole()
    assert whole.equals(pa.concat_tables(tables()))
    del gathering
    gc.collect()
    assert whole.slice(990).equals(pa.concat_tables(tables()).slice(990)), "after all that held the file is gone"


def test_a_part_of_a_table_takes_the_room_of_that_part() -> None:
    (_, _, large, _) = tables()
    gathering = Gathering(SCHEMA, 0)
    gathering.add(large.slice(10, 5))
    assert gathering.whole().equals(large.slice(10, 5))
    assert gathering.whole().nbytes < 1_000


def test_no_table_at_all_has_the_schema() -> None:
    assert Gathering(SCHEMA).whole().equals(SCHEMA.empty_table())


@pytest.mark.parametrize("most_bytes", [0, 5, 10**9])
def test_bytes_come_back_in_order(most_bytes: int) -> None:
    pile = Pile(most_bytes)
    for piece in (b"one", b"", pa.py_buffer(b"two"), b"x" * 10_000):
        pile.add(piece)
    assert pile.size == 10_006
    assert pile.whole().to_pybytes() == b"onetwo" + b"x" * 10_000


def test_no_bytes_at_all_are_empty() -> None:
    assert Pile(0).whole().size == 0


def test_nothing_is_left_in_the_folder_of_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gathering, pile = Gathering(SCHEMA, 0), Pile(0)
    gathering.add(tables()[2])
    pile.add(b"x" * 1_000)
    kept = gathering.whole(), pile.whole()
    assert list(tmp_path.iterdir()) == []
    assert [kept[0].num_rows, kept[1].size] == [997, 1_000]


def test_a_folder_that_is_not_there_is_said_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(CapacityExceeded, match="gone") as raised:
        Gathering(SCHEMA, 0).add(tables()[2])
    assert "TMPDIR" in (raised.value.hint or "")
    with pytest.raises(CapacityExceeded, match="gone"):
        Pile(0).add(b"x")


def test_that_there_is_no_folder_at_all_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._get_default_tempdir", none)
    with pytest.raises(CapacityExceeded, match="No usable temporary directory") as raised:
        Pile(0).add(b"x")
    assert "TMPDIR" in (raised.value.hint or "")


def num_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_gatherings_share_a_file() -> None:
    pile, before = Pile(0), num_descriptors()
    shared = [Gathering(SCHEMA, 1_000, pile) for _ in range(50)]
    for table in tables():
        for each in shared:
            each.add(table)
    for each in shared:
        each.end()
    assert all(each.whole().equals(pa.concat_tables(tables())) for each in shared)
    assert num_descriptors() <= before + 2


def test_a_full_disk_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: Path("/dev/full").open("wb", buffering=0))  # noqa: SIM115
    fills: list[Callable[[], object]] = [lambda: Gathering(SCHEMA, 0).add(tables()[2]), lambda: Pile(0).add(b"x")]
    for fill in fills:
        with pytest.raises(CapacityExceeded, match="No space left") as raised:
            fill()
        assert "make room" in (raised.value.hint or "")
