"""Calls of stores end in time, whatever the store does, and leave few threads behind."""

import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror.config import StorageSettings
from deltamirror.errors import LeaseLost, Unavailable
from deltamirror.storage import calls as module
from deltamirror.storage import files
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.calls import MOST_HUNG, BoundedStore, StoreCalls
from deltamirror.storage.disk import DiskStore
from deltamirror.storage.object_store import LARGE
from deltamirror.storage.open import Stores, open_store, store_at
from deltamirror.storage.store import ETag, Meta, Store

HASTY = replace(StorageSettings(), timeout=0.05)
HERE = "file:///lake/t"


class Mount:
    """A disk that does not answer until it is back; what was asked of it then comes back."""

    def __init__(self) -> None:
        self.asked: list[threading.Thread] = []
        self.is_back = threading.Event()

    def __call__(self) -> str:
        self.asked.append(threading.current_thread())
        self.is_back.wait(120)
        return "an answer"


@pytest.fixture
def mount() -> Iterator[Mount]:
    dead = Mount()
    yield dead
    dead.is_back.set()


def asked(calls: StoreCalls, act: Callable[[], str], *, location: str = HERE, seconds: float | None = 0.02) -> str:
    return calls.run(act, location=location, doing="look at", seconds=seconds)


def test_a_call_that_hangs_is_given_up_and_said_to_have_no_answer(mount: Mount) -> None:
    with pytest.raises(Unavailable, match=r"cannot look at file:///lake/t: no answer within 0\.02 s") as caught:
        asked(StoreCalls(), mount)
    assert "mount" in caught.value.hint


def test_while_a_call_hangs_others_fail_there_at_once_and_elsewhere_succeed(mount: Mount) -> None:
    calls = StoreCalls()
    with pytest.raises(Unavailable):
        asked(calls, mount)
    with pytest.raises(Unavailable, match="an earlier call has been hanging there"):
        asked(calls, mount, seconds=None)
    assert len(mount.asked) == 1
    assert asked(calls, lambda: "well", location="file:///lake/other", seconds=60) == "well"


def test_retries_leave_a_bounded_number_of_threads_and_all_goes_on_when_the_disk_is_back(
    mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_REST", 0.0)
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.05)
    calls = StoreCalls()
    for _ in range(5 * MOST_HUNG):
        with pytest.raises(Unavailable):
            asked(calls, mount)
    assert len(mount.asked) == MOST_HUNG
    mount.is_back.set()
    for thread in mount.asked:
        thread.join(120)  # they end by themselves when they have been idle for a while
    assert not any(thread.is_alive() for thread in mount.asked)
    assert asked(calls, mount, seconds=60) == "an answer"


def test_a_call_that_comes_back_late_lets_the_next_one_through_at_once(mount: Mount) -> None:
    calls = StoreCalls()
    with pytest.raises(Unavailable):
        asked(calls, mount)
    mount.is_back.set()
    [hung] = mount.asked
    while calls._hanging:
        hung.join(0.01)
    assert asked(calls, mount, seconds=60) == "an answer"


def test_whoever_waits_when_calls_are_given_up_waits_no_longer(mount: Mount) -> None:
    calls, ended = StoreCalls(), list[type[BaseException]]()

    def wait() -> None:
        try:
            asked(calls, mount, seconds=None)
        except LeaseLost as error:
            ended.append(type(error))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    while not mount.asked:
        waiting.join(0.01)
    calls.give_up()
    waiting.join(120)
    assert ended == [LeaseLost]
    with pytest.raises(LeaseLost, match="the service stops"):
        asked(calls, lambda: "well")


def test_what_a_store_raises_the_caller_gets(tmp_path: Path) -> None:
    def fail() -> str:
        raise KeyError("an error")

    with pytest.raises(KeyError, match="an error"):
        asked(StoreCalls(), fail, seconds=60)


def test_threads_are_used_again(tmp_path: Path) -> None:
    calls = StoreCalls()
    used = {asked(calls, lambda: str(threading.get_ident()), seconds=60) for _ in range(20)}
    assert len(used) == 1


def test_a_folder_that_hangs_when_it_is_opened_is_given_up(mount: Mount, tmp_path: Path) -> None:
    def opening(address: StoreAddress) -> DiskStore:
        mount()
        return DiskStore(tmp_path)

    with pytest.raises(Unavailable, match="cannot open"):
        Stores(opening).at(StoreAddress.of(str(tmp_path), HASTY))


OPERATIONS: dict[str, Callable[..., object]] = {
    "create": lambda store: store.create("k", b"x"),
    "sync": lambda store: store.sync("f"),
    "replace": lambda store: store.replace("k", b"x", if_match=None),
    "put": lambda store: store.put("k", b"x"),
    "read": lambda store: store.read("k"),
    "read_range": lambda store: store.read_range("k", 0, 2**30),
    "head": lambda store: store.head("k"),
    "list": lambda store: list(store.list()),
    "walk": lambda store: list(store.walk()),
    "folders": lambda store: store.folders(),
    "obstacles": lambda store: store.obstacles("f"),
    "delete": lambda store: store.delete(["k"]),
    "copy": lambda store: store.copy("k", "l"),
    "sweep_temporaries": lambda store: store.sweep_temporaries(before=0),
}
OF_ANY_SIZE = ("copy", "sweep_temporaries")
"""The operations of which nothing says how much they move."""


def test_no_operation_of_stores_is_forgotten_here() -> None:
    assert OPERATIONS.keys() == {name for name, found in vars(Store).items() if name[0] != "_" and callable(found)}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_of_a_disk_is_given_up(
    operation: str, mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the time of a small call, unless it may move much: other tables wait for that."""
    limits = replace(HASTY, transfer_timeout=0.05) if operation in OF_ANY_SIZE else HASTY
    store = Stores(open_store).at(StoreAddress.of(str(tmp_path), limits))
    for name in OPERATIONS:
        monkeypatch.setattr(DiskStore, name, lambda *_, **__: mount())
    with pytest.raises(Unavailable, match=r"no answer within 0\.05 s"):
        OPERATIONS[operation](store)


def test_names_are_synced_at_once_unless_that_is_left_to_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, synced = store_at(str(tmp_path), StorageSettings()), list[Path]()
    (tmp_path / "f").mkdir()
    monkeypatch.setattr(files, "sync_folder", synced.append)
    store.create("f/a", b"x", synced=False)
    assert synced == []
    store.sync("f")
    assert synced == [tmp_path / "f"]
    store.create("f/b", b"x")
    assert synced == [tmp_path / "f"] * 2


def test_objects_can_be_made_to_count_though_a_call_hangs(
    mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checksum that hangs must not keep commits from counting."""
    store = BoundedStore(DiskStore(tmp_path), StoreCalls(), HASTY)
    monkeypatch.setattr(DiskStore, "create", lambda *_, **__: mount())
    with pytest.raises(Unavailable):
        store.create("f/a.crc", b"x", synced=False)
    with pytest.raises(Unavailable, match="an earlier call has been hanging there"):
        store.head("f/a.json")
    (tmp_path / "f").mkdir()
    store.sync("f")


@pytest.mark.parametrize(
    ("gives_up", "location", "is_own"), [(False, "s3://b/t", True), (True, "s3://b/t", False), (False, HERE, False)]
)
def test_an_owner_that_never_gives_up_calls_remote_stores_by_its_own_threads(
    gives_up: bool, location: str, is_own: bool, tmp_path: Path
) -> None:
    """Their clients end the calls in time; a disk is never waited for without end."""
    threads = list[threading.Thread]()

    def opening() -> Store:
        threads.append(threading.current_thread())
        return DiskStore(tmp_path)

    store = StoreCalls(gives_up=gives_up).bounded(opening, location, HASTY)
    assert (threads == [threading.current_thread()]) is is_own
    assert isinstance(store, DiskStore) is is_own
    arrived = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own
    assert isinstance(arrived, DiskStore) is location.startswith("s3:")


def test_calls_that_make_others_count_are_bounded_too(mount: Mount) -> None:
    calls = StoreCalls()
    for _ in range(2 * MOST_HUNG):
        with pytest.raises(Unavailable):
            calls.run(mount, location=HERE, doing="sync", seconds=0.02, is_final=True)
    assert len(mount.asked) == MOST_HUNG


def test_a_small_object_has_little_time_however_much_is_asked_for(
    mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(str(tmp_path), HASTY)
    store.create("k", b"small")
    for name in ("read", "read_range"):
        monkeypatch.setattr(DiskStore, name, lambda *_, **__: mount())
    with pytest.raises(Unavailable, match=r"no answer within 0\.05 s"):
        store.read_range("k", 0, 2**30)


@pytest.mark.parametrize(("size", "allowed"), [(LARGE, "0.05"), (LARGE + 1, "0.1")])
def test_a_large_object_has_the_time_of_a_transfer(
    mount: Mount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, allowed: str
) -> None:
    store = BoundedStore(DiskStore(tmp_path), StoreCalls(), replace(HASTY, transfer_timeout=0.1))
    begun, begin = threading.Event(), StoreCalls._begin

    def begin_reading(*arguments: Any, **options: Any) -> None:
        """The time runs from the moment at which the object is being read."""
        begin(*arguments, **options)
        assert begun.wait(120)

    def read(*_: object) -> str:
        begun.set()
        return mount()

    monkeypatch.setattr(StoreCalls, "_begin", begin_reading)
    monkeypatch.setattr(DiskStore, "head", lambda *_: Meta("k", size=size, modified=0, etag=ETag("")))
    monkeypatch.setattr(DiskStore, "read", read)
    with pytest.raises(Unavailable, match=rf"no answer within {allowed} s"):
        store.read("k")


def test_a_listing_of_many_pages_is_whole_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)
    store = store_at(str(tmp_path), StorageSettings())
    for key in "bdaec":
        store.create(key, b"x")
    assert [meta.key for meta in store.list()] == list("abcde")
