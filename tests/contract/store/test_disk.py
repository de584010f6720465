"""What is particular to a disk: names, syncs, side files, and the complaints of the operating system."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import (
    CapacityExceeded,
    DeltaMirrorError,
    InvalidLocation,
    PermissionDenied,
    Transient,
    Unavailable,
    Unsupported,
)
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.open import store_at
from deltamirror.storage.presence import has_delta_log
from deltamirror.storage.store import Changed, Created, ETag, Exists, Replaced

KEY = "_delta_log/00000000000000000000.json"


@pytest.fixture
def disk(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "lake" / "table")


def everything(disk: DiskStore) -> set[str]:
    return {str(path.relative_to(disk.root)) for path in disk.root.rglob("*") if path.is_file()}


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the disk, in order."""
    calls: list[str] = []

    def note(name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def noted(*args: Any, **options: Any) -> Any:
            calls.append(describe(*args))
            return real(*args, **options)

        monkeypatch.setattr(os, name, noted)

    def name_of(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name.rpartition(".")[2]

    note("fsync", lambda descriptor: f"sync {name_of(descriptor)}")
    note("link", lambda _, target: f"link {Path(target).name}")
    note("mkdir", lambda path, *_: f"mkdir {Path(path).name}")
    return calls


@pytest.mark.requirement("R44")
def test_bytes_are_on_disk_before_the_name_and_the_name_before_the_answer(disk: DiskStore, traced: list[str]) -> None:
    disk.create(KEY, b"x")
    made = ["lake", "table", "_delta_log"]
    assert [call for call in traced if call.startswith("mkdir")][-3:] == [f"mkdir {name}" for name in made]
    for name in made:
        assert traced[traced.index(f"mkdir {name}") + 1].startswith("sync")
    assert traced[-3:] == ["sync tmp", "link 00000000000000000000.json", "sync _delta_log"]


@pytest.mark.requirement("R44")
def test_a_lost_race_syncs_the_folder_for_a_winner_that_may_have_died(disk: DiskStore, traced: list[str]) -> None:
    disk.create(KEY, b"x")
    traced.clear()
    assert disk.create(KEY, b"y") == Exists()
    assert traced == ["sync _delta_log"]


@pytest.mark.requirement("R44")
def test_names_may_be_synced_together_each_after_its_bytes(disk: DiskStore, traced: list[str]) -> None:
    disk.create("_delta_log/a", b"x")
    traced.clear()
    disk.create("_delta_log/b", b"x", synced=False)
    disk.create("_delta_log/c", b"x", synced=False)
    assert disk.create("_delta_log/b", b"y", synced=False) == Exists()
    disk.sync("_delta_log")
    assert traced == ["sync tmp", "link b", "sync tmp", "link c", "sync _delta_log"]


def test_a_folder_that_is_gone_or_is_a_link_is_not_synced_in_silence(disk: DiskStore, tmp_path: Path) -> None:
    with pytest.raises(DeltaMirrorError):
        disk.sync("_delta_log")
    disk.root.mkdir(parents=True)
    (disk.root / "_delta_log").symlink_to(tmp_path)
    with pytest.raises(DeltaMirrorError, match="symbolic link"):
        disk.sync("_delta_log")


@pytest.mark.requirement("R44")
def test_nothing_but_the_objects_is_left_behind(disk: DiskStore) -> None:
    assert isinstance(disk.create(KEY, b"x"), Created)
    assert disk.create(KEY, b"y") == Exists()
    etag = disk.put("_delta_log/p", b"1")
    assert isinstance(disk.replace("_delta_log/p", b"2", if_match=etag), Replaced)
    assert disk.replace("_delta_log/p", b"3", if_match=etag) == Changed()
    assert disk.replace("no/folder", b"3", if_match=ETag("x")) == Changed()
    disk.copy(KEY, "copy")
    assert everything(disk) == {KEY, "_delta_log/p", "copy"}


@pytest.mark.requirement("R44")
@pytest.mark.parametrize("write", ["create", "put", "replace", "copy", "delete"])
def test_a_stale_checksum_of_hadoop_goes_when_its_file_is_written_or_deleted(disk: DiskStore, write: str) -> None:
    disk.put("source", b"source")
    side = disk.root / "_delta_log" / ".00000000000000000000.json.crc"
    side.parent.mkdir(parents=True)
    etag = ETag("") if write == "create" else disk.put(KEY, b"before")
    side.write_bytes(b"stale")
    assert [meta.key for meta in disk.list("_delta_log")] == ([] if write == "create" else [KEY])
    match write:
        case "create":
            disk.create(KEY, b"x")
        case "put":
            disk.put(KEY, b"x")
        case "replace":
            assert isinstance(disk.replace(KEY, b"x", if_match=etag), Replaced)
        case "copy":
            disk.copy("source", KEY)
        case "delete":
            disk.delete([KEY])
    assert not side.exists()


def test_a_file_that_exists_keeps_its_checksum_when_a_create_loses(disk: DiskStore) -> None:
    disk.put(KEY, b"theirs")
    side = disk.root / "_delta_log" / ".00000000000000000000.json.crc"
    side.write_bytes(b"theirs, and right")
    assert disk.create(KEY, b"ours") == Exists()
    assert side.exists()


def test_contents_written_within_one_tick_of_the_clock_have_different_etags(disk: DiskStore) -> None:
    assert len({disk.put("p", b"%04d" % number) for number in range(50)}) == 50


@pytest.mark.requirement("R43")
@pytest.mark.crash
def test_a_writer_killed_at_any_moment_leaves_no_short_object(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.crashes.torn_writes", str(tmp_path / "table"), "60"],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("killed 60, wrote "), done.stdout
    disk = DiskStore(tmp_path / "table")
    left = [name for name in everything(disk) if name.endswith(".tmp")]
    assert left, "no writer was killed in the middle of a write"
    assert disk.sweep_temporaries(before=2**53) == len(left)
    assert all(not name.endswith(".tmp") for name in everything(disk))
    # The lock that a killed writer held is free.
    known = disk.head("_delta_log/_last_checkpoint")
    assert known is not None
    assert isinstance(disk.replace("_delta_log/_last_checkpoint", b"after", if_match=known.etag), Replaced)


COMPLAINTS = [
    (errno.ENOSPC, CapacityExceeded),
    (errno.EDQUOT, CapacityExceeded),
    (errno.EFBIG, CapacityExceeded),
    (errno.EACCES, PermissionDenied),
    (errno.EPERM, PermissionDenied),
    (errno.EROFS, PermissionDenied),
    (errno.ENOTDIR, InvalidLocation),
    (errno.ENAMETOOLONG, InvalidLocation),
    (errno.EMFILE, Transient),
    (errno.EIO, Unavailable),
    (errno.ESTALE, Unavailable),
]


@pytest.mark.requirement("R47")
@pytest.mark.parametrize(("number", "kind"), COMPLAINTS, ids=lambda value: errno.errorcode.get(value, None))
@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_complaint_of_the_disk_is_one_of_our_errors_and_leaves_nothing(
    disk: DiskStore, monkeypatch: pytest.MonkeyPatch, step: str, number: int, kind: type[DeltaMirrorError]
) -> None:
    disk.put("there", b"before")

    def complain(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, step, complain)
    for use in (lambda: disk.create("k", b"x"), lambda: disk.put("there", b"x"), lambda: disk.copy("there", "k")):
        with pytest.raises(DeltaMirrorError) as caught:
            use()
        assert type(caught.value) is kind
        assert str(disk.root) in caught.value.message
        assert caught.value.hint
    monkeypatch.undo()
    assert everything(disk) == {"there"}
    found = disk.read("there")
    assert found is not None
    assert found.data == b"before"


@pytest.mark.requirement("R47")
def test_a_full_device_is_told_from_a_real_write(disk: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def to_the_full_device(path: Any, flags: int, *mode: int) -> int:
        return real("/dev/full", os.O_WRONLY) if str(path).endswith(".tmp") else real(path, flags, *mode)

    monkeypatch.setattr(os, "open", to_the_full_device)
    with pytest.raises(CapacityExceeded, match="No space left"):
        disk.create("k", b"x")


def test_a_file_system_without_links_is_refused(disk: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(Unsupported, match="no hard links"):
        disk.create("k", b"x")
    assert everything(disk) == set()


def test_a_location_that_is_a_file_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(InvalidLocation, match="is a file"):
        store_at(str(file), StorageSettings())
    for use in (lambda s: s.create("k", b"x"), lambda s: s.read("k"), lambda s: list(s.list()), lambda s: s.head("k")):
        with pytest.raises(InvalidLocation, match="Not a directory"):
            use(DiskStore(file / "table"))


def test_a_folder_in_the_place_of_an_object_is_no_object(disk: DiskStore) -> None:
    disk.put("folder/inside", b"x")
    assert disk.read("folder") is None
    assert disk.head("folder") is None
    assert disk.read_range("folder", 0, 1) is None
    disk.delete(["folder"])
    with pytest.raises(InvalidLocation):
        disk.create("folder", b"x")
    assert [meta.key for meta in disk.list()] == ["folder/inside"]


def test_a_log_is_present_when_there_is_an_object_in_it(tmp_path: Path) -> None:
    assert not has_delta_log(str(tmp_path / "table"))
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    assert not has_delta_log(str(tmp_path / "table"))
    (tmp_path / "table" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    assert has_delta_log(str(tmp_path / "table"))
