"""The disk store follows no symbolic link below its folder, and opens neither pipes nor sockets nor devices there."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltamirror.errors import InvalidLocation
from deltamirror.storage import files
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.store import ETag, Exists

FILE = "_delta_log/00000000000000000000.json"
BEHIND = "_delta_log/_sidecars/a.parquet"
TAG = ETag("1")

OPERATIONS: dict[str, Callable[[DiskStore, str], Any]] = {
    "create": lambda store, key: store.create(key, b"x"),
    "replace": lambda store, key: store.replace(key, b"x", if_match=TAG),
    "put": lambda store, key: store.put(key, b"x"),
    "read": lambda store, key: store.read(key),
    "read a part": lambda store, key: store.read_range(key, 0, 1),
    "look at": lambda store, key: store.head(key),
    "delete": lambda store, key: store.delete([key]),
    "copy from": lambda store, key: store.copy(key, "copy"),
    "copy to": lambda store, key: store.copy("other", key),
    "list": lambda store, key: list(store.list(key.rpartition("/")[0])),
    "list folders": lambda store, key: store.folders(key.rpartition("/")[0]),
    "sweep": lambda store, key: store.sweep_temporaries(key.rpartition("/")[0], before=2**62),
}
TEMPORARY = ".x.00000000-0000-0000-0000-000000000000.tmp"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else, with files that look like those of a log."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("a.parquet", "00000000000000000000.json", TEMPORARY):
        (folder / name).write_bytes(b"precious")
    return folder


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    found = DiskStore(tmp_path / "table")
    found.create("other", b"x")
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("link", ["_delta_log", "_delta_log/_sidecars"])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_a_link_in_the_place_of_a_folder_is_refused(
    store: DiskStore, outside: Path, operation: Callable[[DiskStore, str], Any], link: str
) -> None:
    place = store.root / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    before = contents(outside)
    with pytest.raises(
        InvalidLocation, match=f"{link} is a symbolic link, and links inside of a table are not followed"
    ):
        operation(store, BEHIND if link != "_delta_log" else FILE)
    assert contents(outside) == before


@pytest.mark.parametrize("name", ["read", "read a part", "look at", "copy from"])
def test_a_link_in_the_place_of_a_file_is_not_read(store: DiskStore, outside: Path, name: str) -> None:
    (store.root / "_delta_log").mkdir()
    (store.root / FILE).symlink_to(outside / "00000000000000000000.json")
    with pytest.raises(InvalidLocation):
        OPERATIONS[name](store, FILE)
    assert store.create(FILE, b"x") == Exists()
    assert [meta.size for meta in store.list("_delta_log")] != [len(b"precious")]


def test_deleting_a_link_leaves_the_file_behind_it(store: DiskStore, outside: Path) -> None:
    (store.root / "_delta_log").mkdir()
    (store.root / FILE).symlink_to(outside / "00000000000000000000.json")
    before = contents(outside)
    store.delete([FILE])
    assert (contents(outside), (store.root / FILE).is_symlink()) == (before, False)


def test_a_link_in_the_place_of_the_pointers_lock_is_not_opened(store: DiskStore, outside: Path) -> None:
    pointer = "_delta_log/_last_checkpoint"
    store.create(pointer, b"x")
    (store.root / "_delta_log" / "._last_checkpoint.lock").symlink_to(outside / "made")
    with pytest.raises(InvalidLocation):
        store.replace(pointer, b"y", if_match=TAG)
    assert not (outside / "made").exists()


def test_the_table_itself_may_be_reached_through_a_link(store: DiskStore, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.root)
    linked = DiskStore(tmp_path / "link")
    linked.create(FILE, b"x")
    assert (store.root / FILE).read_bytes() == b"x"


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path.relative_to(Path.cwd())))  # addresses of sockets are short


SPECIAL: dict[str, Callable[[Path], None]] = {"pipe": os.mkfifo, "socket": listen}
OPENING = ("create", "read", "read a part", "look at", "copy from")


@pytest.mark.parametrize("name", OPENING)
@pytest.mark.parametrize("kind", SPECIAL)
def test_a_pipe_or_socket_in_the_place_of_a_file_is_not_opened(
    store: DiskStore, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    (store.root / "_delta_log").mkdir()
    monkeypatch.chdir(store.root)
    SPECIAL[kind](store.root / FILE)
    found = list[Exception]()

    def act() -> None:
        try:
            OPERATIONS[name](store, FILE)
        except InvalidLocation as error:
            found.append(error)

    thread = threading.Thread(target=act, daemon=True)  # the opening of a pipe would never end
    thread.start()
    thread.join(60)
    assert [FILE in str(error) for error in found] == [True]
    assert list(store.list("_delta_log")) == []
    assert [(each.key, each.what) for each in store.obstacles("_delta_log")] == [(FILE, f"is a {kind}")]


def test_a_device_is_not_opened() -> None:
    with pytest.raises(OSError, match="device in the place of a file is not opened"):
        files.opened(Path(os.devnull))


def test_a_pipe_in_the_place_of_the_pointers_lock_is_not_opened(store: DiskStore) -> None:
    pointer = "_delta_log/_last_checkpoint"
    store.create(pointer, b"x")
    os.mkfifo(store.root / "_delta_log" / "._last_checkpoint.lock")
    with pytest.raises(InvalidLocation, match="pipe"):
        store.replace(pointer, b"y", if_match=TAG)


@pytest.mark.parametrize("place", ["_delta_log", "_delta_log/_sidecars"])
def test_whatever_is_in_the_place_of_a_folder_is_named(store: DiskStore, outside: Path, place: str) -> None:
    path = store.root / place
    path.parent.mkdir(exist_ok=True)
    assert store.obstacles("_delta_log/_sidecars") == []
    path.symlink_to(outside)
    [found] = store.obstacles("_delta_log/_sidecars")
    assert (found.key, found.what, found.is_link) == (place, f"is a symbolic link to {outside}", True)
    path.unlink()
    path.write_bytes(b"x")
    [found] = store.obstacles("_delta_log/_sidecars")
    assert (found.key, found.what, found.is_link) == (place, "is a file", False)
