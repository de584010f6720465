import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from deltamirror.errors import Internal, NotFound
from deltamirror.storage.probe import probe
from deltamirror.storage.store import Changed, Created, ETag, Exists, Replaced, Store, rename
from tests.support.servers import azurite_server, s3_server

LOG = "_delta_log"
COMMIT = f"{LOG}/00000000000000000000.json"
POINTER = f"{LOG}/_last_checkpoint"
SPECIAL = [
    "día/ü€😀.json",
    "day=2024-01-01 10%3A00/a%2Fb.parquet",
    "100%.x",
    "a+b &=?#[]{}'\"<>|~^`.json",
    "x:y;z,@!$().json",
    " blank at both ends ",
]


def content(store: Store, key: str) -> bytes | None:
    found = store.read(key)
    return None if found is None else found.data


@pytest.mark.requirement("R45")
def test_an_object_is_created_once_and_never_replaced_by_a_create(any_store: Store) -> None:
    assert isinstance(any_store.create(COMMIT, b"first"), Created)
    assert any_store.create(COMMIT, b"second") == Exists()
    assert content(any_store, COMMIT) == b"first"


@pytest.mark.requirement("R45")
def test_an_object_whose_name_is_synced_later_is_there_and_never_replaced(any_store: Store) -> None:
    assert isinstance(any_store.create(COMMIT, b"first", synced=False), Created)
    assert any_store.create(COMMIT, b"second", synced=False) == Exists()
    any_store.sync(LOG)
    assert any_store.create(COMMIT, b"third") == Exists()
    assert content(any_store, COMMIT) == b"first"


@pytest.mark.requirement("R45")
def test_a_create_of_a_large_object_that_is_there_says_so_though_the_store_hangs_up(any_store: Store) -> None:
    large = b"x" * (12 * 1024 * 1024)
    assert isinstance(any_store.create(COMMIT, b"first"), Created)
    assert [any_store.create(COMMIT, large) for _ in range(5)] == [Exists()] * 5
    assert content(any_store, COMMIT) == b"first"


@pytest.mark.requirement("R44")
def test_of_sixteen_racing_creates_exactly_one_wins_and_its_bytes_stay(any_store: Store) -> None:
    for version in range(5):
        key = f"{LOG}/{version:020d}.json"
        barrier = Barrier(16)

        def attempt(number: int, key: str = key, barrier: Barrier = barrier) -> bool:
            barrier.wait()
            return isinstance(any_store.create(key, b"writer %d" % number), Created)

        with ThreadPoolExecutor(16) as pool:
            won = [number for number, created in enumerate(pool.map(attempt, range(16))) if created]
        assert len(won) == 1
        assert content(any_store, key) == b"writer %d" % won[0]


@pytest.mark.requirement("R45")
def test_put_replaces_whatever_is_there(any_store: Store) -> None:
    first = any_store.put("checkpoint", b"one")
    second = any_store.put("checkpoint", b"two!")
    assert content(any_store, "checkpoint") == b"two!"
    assert first != second


def test_a_replace_wins_only_against_the_content_that_it_knows(any_store: Store) -> None:
    created = any_store.create(POINTER, b"v10")
    assert isinstance(created, Created)
    moved = any_store.replace(POINTER, b"v20", if_match=created.etag)
    assert isinstance(moved, Replaced)
    assert any_store.replace(POINTER, b"v15", if_match=created.etag) == Changed()
    assert content(any_store, POINTER) == b"v20"
    assert isinstance(any_store.replace(POINTER, b"v30", if_match=moved.etag), Replaced)
    assert content(any_store, POINTER) == b"v30"


def test_a_replace_of_nothing_creates(any_store: Store) -> None:
    assert isinstance(any_store.replace(POINTER, b"v10", if_match=None), Replaced)
    assert any_store.replace(POINTER, b"v20", if_match=None) == Changed()
    assert content(any_store, POINTER) == b"v10"


def test_a_replace_of_an_object_that_is_gone_creates_none(any_store: Store) -> None:
    etag = any_store.put(POINTER, b"v10")
    any_store.delete([POINTER])
    assert any_store.replace(POINTER, b"v20", if_match=etag) == Changed()
    assert any_store.read(POINTER) is None


def test_every_way_of_looking_gives_the_etag_that_a_replace_takes(any_store: Store) -> None:
    written = any_store.put(POINTER, b"v1")
    head, read = any_store.head(POINTER), any_store.read(POINTER)
    assert head is not None
    assert read is not None
    listed = next(any_store.list(LOG))
    assert {head.etag, read.meta.etag, listed.etag, written} == {written}
    assert (head.key, head.size, listed.key, listed.size) == (POINTER, 2, POINTER, 2)
    assert abs(head.modified - time.time() * 1_000) < 3_600_000


def test_racing_replaces_never_lose_an_update(any_store: Store) -> None:
    any_store.create(POINTER, b"0")

    def increment(_: int) -> int:
        lost = 0
        while True:
            known = any_store.read(POINTER)
            assert known is not None
            if isinstance(
                any_store.replace(POINTER, b"%d" % (int(known.data) + 1), if_match=known.meta.etag), Replaced
            ):
                return lost
            lost += 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(increment, range(24)))
    assert content(any_store, POINTER) == b"24"


@pytest.mark.requirement("R45")
def test_what_is_missing_is_none_to_readers_and_fine_to_delete(any_store: Store) -> None:
    assert any_store.read("no/such") is None
    assert any_store.head("no/such") is None
    assert any_store.read_range("no/such", 0, 10) is None
    any_store.put("there", b"x")
    any_store.delete(["no/such", "there", "neither"])
    any_store.delete([])
    assert any_store.read("there") is None


def test_a_range_ends_where_the_object_ends(any_store: Store) -> None:
    any_store.put("data", b"0123456789")
    assert any_store.read_range("data", 0, 4) == b"0123"
    assert any_store.read_range("data", 6, 4) == b"6789"
    assert any_store.read_range("data", 6, 100) == b"6789"
    assert any_store.read_range("data", 10, 5) == b""
    assert any_store.read_range("data", 50, 5) == b""


@pytest.mark.parametrize("key", SPECIAL)
def test_any_character_of_a_key_is_kept_as_it_is(any_store: Store, key: str) -> None:
    any_store.create(key, key.encode())
    assert content(any_store, key) == key.encode()
    assert [meta.key for meta in any_store.list()] == [key]
    assert any_store.create(key, b"other") == Exists()
    any_store.delete([key])
    assert list(any_store.list()) == []


@pytest.mark.parametrize("key", ["", "/absolute", "a//b", "a/", "../up", "a/./b", "a/../b", "line\nbreak", "nul\0"])
def test_a_key_that_leaves_the_store_is_refused(any_store: Store, key: str) -> None:
    for use in (any_store.read, any_store.head, lambda k: any_store.put(k, b"x"), lambda k: any_store.delete([k])):
        with pytest.raises(Internal):
            use(key)


@pytest.mark.requirement("R43")
def test_an_empty_object_is_never_written(any_store: Store) -> None:
    for write in (
        lambda: any_store.create("empty", b""),
        lambda: any_store.put("empty", b""),
        lambda: any_store.replace("empty", b"", if_match=None),
        lambda: any_store.replace("empty", b"", if_match=ETag("x")),
    ):
        with pytest.raises(Internal, match="empty object"):
            write()
    assert any_store.head("empty") is None


@pytest.mark.requirement("R45")
def test_a_copy_replaces_its_target_and_keeps_its_source(any_store: Store) -> None:
    any_store.put("a", b"original")
    any_store.put("b/c", b"in the way")
    any_store.copy("a", "b/c")
    assert (content(any_store, "a"), content(any_store, "b/c")) == (b"original", b"original")
    with pytest.raises(NotFound):
        any_store.copy("no/such", "d")


@pytest.mark.requirement("R45")
def test_a_renamed_object_has_one_name(any_store: Store) -> None:
    any_store.put("a", b"original")
    rename(any_store, "a", "b/c")
    assert [meta.key for meta in any_store.list()] == ["b/c"]
    with pytest.raises(NotFound):
        rename(any_store, "a", "d")


@pytest.mark.default_on("memory", "disk", "s3", "azure")  # versitygw speaks to the client of s3
def test_a_big_object_comes_back_whole_however_it_was_written(any_store: Store) -> None:
    data = os.urandom(1 << 20) * 65
    assert isinstance(any_store.create("created", memoryview(data)), Created)
    any_store.put("put", data)
    assert content(any_store, "created") == data
    head = any_store.head("put")
    assert head is not None
    assert head.size == len(data)
    assert any_store.read_range("put", len(data) - 9, 9) == data[-9:]
    assert any_store.read_range("put", 1, 2 * len(data)) == data[1:]
    assert any_store.read_range("put", len(data), 2 * len(data)) == b""


@pytest.mark.requirement("R44")
def test_a_store_that_keeps_its_promises_passes_the_probe_which_leaves_nothing(any_store: Store) -> None:
    probe(any_store)
    assert list(any_store.list()) == []
    assert any_store.sweep_temporaries(before=2**53) == 0


@pytest.mark.requirement("R44")
def test_temporaries_of_crashed_writers_are_not_listed_and_swept_when_old(any_store: Store) -> None:
    left = f"{LOG}/.00000000000000000007.json.12345678-1234-1234-1234-123456789abc.tmp"
    any_store.put(left, b"torn")
    any_store.put(COMMIT, b"whole")
    assert [meta.key for meta in any_store.list()] == [COMMIT]
    assert any_store.sweep_temporaries(LOG, before=1_000) == 0
    assert any_store.sweep_temporaries(LOG, before=2**53) == 1
    assert any_store.read(left) is None
    assert content(any_store, COMMIT) == b"whole"


def test_a_store_travels_as_its_address(any_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    any_store.put("a", b"seen by both")
    travelling = pickle.dumps(any_store)
    assert s3_server.SECRET_KEY.encode() not in travelling
    assert azurite_server.KEY.encode() not in travelling
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET_KEY)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", azurite_server.KEY)
    arrived: Store = pickle.loads(travelling)  # noqa: S301  our own bytes
    assert arrived.location == any_store.location
    assert content(arrived, "a") == b"seen by both"
