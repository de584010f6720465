"""The proxy whose access log other tests rely on: it notes what the store did, in order, and fails as it is told."""

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from msgspec.structs import replace

from deltamirror.config import StorageSettings
from deltamirror.errors import PermissionDenied, Unavailable
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Changed, Created, Exists, Replaced, Store
from tests.support.recording_proxy import Access, Fault, RecordingProxy, proxy_before
from tests.support.seaweed_server import SeaweedServer

KEY = "_delta_log/00000000000000000000.json"


@pytest.fixture
def store(recording_proxy: RecordingProxy, s3_bucket: str, s3_settings: StorageSettings) -> Store:
    """A store behind the proxy that does not try again by itself."""
    return store_at(f"s3://{s3_bucket}/t", replace(recording_proxy.settings(s3_settings), retries=0))


@pytest.fixture
def behind(s3_bucket: str, s3_settings: StorageSettings) -> Store:
    """The same place, past the proxy."""
    return store_at(f"s3://{s3_bucket}/t", s3_settings)


def writes(proxy: RecordingProxy) -> list[Access]:
    return [access for access in proxy.log if access.method == "PUT"]


def is_put(access: Access) -> bool:
    return access.method == "PUT"


def test_the_log_tells_keys_conditions_and_answers(
    store: Store, recording_proxy: RecordingProxy, s3_bucket: str
) -> None:
    created = store.create(KEY, b"1")
    assert isinstance(created, Created)
    assert isinstance(store.create(KEY, b"2"), Exists)
    assert isinstance(store.replace(KEY, b"3", if_match=created.etag), Replaced)
    assert isinstance(store.replace(KEY, b"4", if_match=created.etag), Changed)
    seen = [(access.key, access.if_none_match, access.status) for access in writes(recording_proxy)]
    path = f"{s3_bucket}/t/{KEY}"
    assert seen == [(path, "*", 200), (path, "*", 412), (path, None, 200), (path, None, 412)]
    assert [access.if_match for access in writes(recording_proxy)] == [None, None, created.etag, created.etag]


def test_a_key_with_special_characters_is_signed_forwarded_and_noted(
    store: Store, behind: Store, recording_proxy: RecordingProxy, s3_bucket: str
) -> None:
    key = "city=São Paulo/a%2Fb #?&+;:@/x=y.parquet"
    store.put(key, b"x")
    assert [meta.key for meta in store.list()] == [meta.key for meta in behind.list()] == [key]
    assert writes(recording_proxy)[0].key == f"{s3_bucket}/t/{key}"


def test_large_objects_pass_whole(store: Store, behind: Store) -> None:
    data = bytes(range(256)) * 40_000
    store.put(KEY, data)
    for found in (store.read(KEY), behind.read(KEY)):
        assert found is not None
        assert found.data == data


def test_wrong_keys_are_the_servers_to_refuse(
    recording_proxy: RecordingProxy, seaweed_server: SeaweedServer, s3_bucket: str
) -> None:
    wrong = recording_proxy.settings(seaweed_server.settings(secret="wrong"))
    with pytest.raises(PermissionDenied):
        store_at(f"s3://{s3_bucket}/t", wrong).put(KEY, b"x")
    assert {access.status for access in recording_proxy.log} == {403}


def test_what_one_client_does_in_turn_is_complete_before_the_next_arrives(
    store: Store, recording_proxy: RecordingProxy
) -> None:
    for number in range(5):
        store.put(f"k{number}", b"x")
    for one, following in pairwise(writes(recording_proxy)):
        assert one.completed is not None
        assert one.completed < following.arrived


@pytest.fixture
def slow(seaweed_server: SeaweedServer) -> Iterator[RecordingProxy]:
    """A proxy that delays."""
    seaweed_server.ensure_running()
    with proxy_before(seaweed_server, seed=7, slowest=0.1) as proxy:
        yield proxy


def test_delays_let_requests_overtake_one_another(
    slow: RecordingProxy, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    store = store_at(f"s3://{s3_bucket}/t", slow.settings(s3_settings))
    threads = [threading.Thread(target=store.put, args=(f"k{number}", b"x")) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    completed = [access.completed or 0 for access in writes(slow)]
    assert len(completed) == 20
    assert completed != sorted(completed)


def test_a_refused_request_never_reaches_the_store(
    store: Store, behind: Store, recording_proxy: RecordingProxy
) -> None:
    recording_proxy.fail(Fault.UNAVAILABLE, is_put)
    with pytest.raises(Unavailable):
        store.put(KEY, b"x")
    assert behind.read(KEY) is None
    store.put(KEY, b"x")
    assert [access.status for access in writes(recording_proxy)] == [503, 200]


@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.RESET_AFTER])
def test_a_reset_connection_leaves_the_object_or_does_not(
    fault: Fault, store: Store, behind: Store, recording_proxy: RecordingProxy
) -> None:
    recording_proxy.fail(fault, is_put)
    with pytest.raises(Unavailable):
        store.create(KEY, b"x")
    assert (behind.read(KEY) is not None) == (fault is Fault.RESET_AFTER)
    (lost,) = writes(recording_proxy)
    assert (lost.fault, lost.status) == (fault, 200 if fault is Fault.RESET_AFTER else None)


def test_a_fault_befalls_as_many_requests_as_it_was_told_and_only_those_that_are_meant(
    store: Store, recording_proxy: RecordingProxy
) -> None:
    recording_proxy.fail(Fault.UNAVAILABLE, lambda access: access.key.endswith("/b"), times=2)
    store.put("a", b"x")
    for _ in range(2):
        with pytest.raises(Unavailable):
            store.put("b", b"x")
    store.put("b", b"x")
    assert [access.status for access in writes(recording_proxy)] == [200, 503, 503, 200]


def test_a_server_that_is_down_is_down_behind_the_proxy_too(
    store: Store, recording_proxy: RecordingProxy, seaweed_server: SeaweedServer
) -> None:
    seaweed_server.stop()
    with pytest.raises(Unavailable):
        store.put(KEY, b"x")
    assert [access.status for access in writes(recording_proxy)] == [None]
