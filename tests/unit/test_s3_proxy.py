"""The proxy whose access log other tests rely on: it notes what the store did, in order, and fails as it is told."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from msgspec.structs import replace

from deltamirror.config import StorageSettings
from deltamirror.errors import DeltaMirrorError, PermissionDenied, Unavailable
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Changed, Created, Exists, Replaced, Store
from tests.support.faults.rules import UNAVAILABLE, Answer, Delay, Fault, Reset, Silence, Throttle, Truncate
from tests.support.faults.s3_proxy import Access, S3Proxy, is_put, proxy_before
from tests.support.servers.seaweed_server import SeaweedServer

KEY = "_delta_log/00000000000000000000.json"


@pytest.fixture
def store(s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings) -> Store:
    """A store behind the proxy that does not try again by itself."""
    return store_at(f"s3://{s3_bucket}/t", replace(s3_proxy.settings(s3_settings), retries=0))


@pytest.fixture
def impatient(s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings) -> Store:
    """The same one, which does not wait for long either."""
    return store_at(f"s3://{s3_bucket}/t", replace(s3_proxy.settings(s3_settings), retries=0, timeout=1.0))


@pytest.fixture
def behind(s3_bucket: str, s3_settings: StorageSettings) -> Store:
    """The same place, past the proxy."""
    return store_at(f"s3://{s3_bucket}/t", s3_settings)


def writes(proxy: S3Proxy) -> list[Access]:
    return [access for access in proxy.log if access.method == "PUT"]


def first_write(proxy: S3Proxy) -> Access:
    """The one write; who did not wait for its end may come before it is noted."""
    deadline = time.monotonic() + 60
    while not (seen := writes(proxy)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (only,) = seen
    return only


def test_the_log_tells_keys_conditions_and_answers(store: Store, s3_proxy: S3Proxy, s3_bucket: str) -> None:
    created = store.create(KEY, b"1")
    assert isinstance(created, Created)
    assert isinstance(store.create(KEY, b"2"), Exists)
    assert isinstance(store.replace(KEY, b"3", if_match=created.etag), Replaced)
    assert isinstance(store.replace(KEY, b"4", if_match=created.etag), Changed)
    seen = [(access.key, access.if_none_match, access.status) for access in writes(s3_proxy)]
    path = f"{s3_bucket}/t/{KEY}"
    assert seen == [(path, "*", 200), (path, "*", 412), (path, None, 200), (path, None, 412)]
    assert [access.if_match for access in writes(s3_proxy)] == [None, None, created.etag, created.etag]


def test_a_key_with_special_characters_is_signed_forwarded_and_noted(
    store: Store, behind: Store, s3_proxy: S3Proxy, s3_bucket: str
) -> None:
    key = "city=São Paulo/a%2Fb #?&+;:@/x=y.parquet"
    store.put(key, b"x")
    assert [meta.key for meta in store.list()] == [meta.key for meta in behind.list()] == [key]
    assert writes(s3_proxy)[0].key == f"{s3_bucket}/t/{key}"


def test_large_objects_pass_whole(store: Store, behind: Store) -> None:
    data = bytes(range(256)) * 40_000
    store.put(KEY, data)
    for found in (store.read(KEY), behind.read(KEY)):
        assert found is not None
        assert found.data == data


def test_wrong_keys_are_the_servers_to_refuse(s3_proxy: S3Proxy, seaweed_server: SeaweedServer, s3_bucket: str) -> None:
    wrong = s3_proxy.settings(seaweed_server.settings(secret="wrong"))
    with pytest.raises(PermissionDenied):
        store_at(f"s3://{s3_bucket}/t", wrong).put(KEY, b"x")
    assert {access.status for access in s3_proxy.log} == {403}


def test_what_one_client_does_in_turn_is_complete_before_the_next_arrives(store: Store, s3_proxy: S3Proxy) -> None:
    for number in range(5):
        store.put(f"k{number}", b"x")
    for one, following in pairwise(writes(s3_proxy)):
        assert one.completed is not None
        assert one.completed < following.arrived


@pytest.fixture
def slow(seaweed_server: SeaweedServer) -> Iterator[S3Proxy]:
    """A proxy that delays."""
    seaweed_server.ensure_running()
    with proxy_before(seaweed_server, seed=7, slowest=0.1) as proxy:
        yield proxy


def test_delays_let_requests_overtake_one_another(slow: S3Proxy, s3_bucket: str, s3_settings: StorageSettings) -> None:
    store = store_at(f"s3://{s3_bucket}/t", slow.settings(s3_settings))
    threads = [threading.Thread(target=store.put, args=(f"k{number}", b"x")) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    completed = [access.completed or 0 for access in writes(slow)]
    assert len(completed) == 20
    assert completed != sorted(completed)


def test_a_refused_request_never_reaches_the_store(store: Store, behind: Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.fail(UNAVAILABLE, is_put)
    with pytest.raises(Unavailable):
        store.put(KEY, b"x")
    assert behind.read(KEY) is None
    store.put(KEY, b"x")
    assert [access.status for access in writes(s3_proxy)] == [503, 200]


LOST: dict[Fault, int | None] = {
    Reset.BEFORE: None,
    Reset.WITHIN: None,
    Reset.AFTER: 200,
    Silence.BEFORE: None,
    Silence.AFTER: 200,
    Truncate(0): 200,
}
"""What leaves a client without an answer, and what the store answered."""


@pytest.mark.requirement("R92")
@pytest.mark.parametrize("fault", [fault for fault in LOST if fault != Truncate(0)])
def test_a_write_without_an_answer_took_place_or_did_not(
    fault: Fault, store: Store, impatient: Store, behind: Store, s3_proxy: S3Proxy
) -> None:
    s3_proxy.fail(fault, is_put)
    with pytest.raises(Unavailable):
        (impatient if isinstance(fault, Silence) else store).put(KEY, b"x" * 1000)
    lost = first_write(s3_proxy)
    assert (lost.fault, lost.status) == (fault, LOST[fault])
    assert (behind.read(KEY) is not None) == (LOST[fault] == 200)


@pytest.mark.requirement("R92")
@pytest.mark.parametrize("fault", LOST)
def test_a_read_without_an_answer_is_no_answer(
    fault: Fault, store: Store, impatient: Store, behind: Store, s3_proxy: S3Proxy
) -> None:
    behind.put(KEY, b"x" * 1000)
    s3_proxy.fail(fault)
    with pytest.raises(Unavailable):
        (impatient if isinstance(fault, Silence) else store).read(KEY)
    found = store.read(KEY)
    assert found is not None
    assert found.data == b"x" * 1000


@pytest.mark.requirement("R92")
@pytest.mark.parametrize("fault", [Delay(0.1), Throttle(20_000)])
def test_what_is_late_is_whole(fault: Fault, store: Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.fail(fault, times=None)
    store.create(KEY, bytes(3_000))
    found = store.read(KEY)
    assert found is not None
    assert found.data == bytes(3_000)


@pytest.mark.requirement("R92")
def test_a_client_that_does_not_wait_for_what_is_late_gets_no_answer(impatient: Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.fail(Throttle(100), is_put)
    with pytest.raises(Unavailable):
        impatient.create(KEY, bytes(3_000))


@pytest.mark.requirement("R92")
@pytest.mark.parametrize("status", [403, 404, 409, 412, 429, 500, 503])
def test_an_answer_of_the_proxy_is_none_of_the_store(
    status: int, store: Store, behind: Store, s3_proxy: S3Proxy
) -> None:
    s3_proxy.fail(Answer(status, "Told", (("retry-after", "3"),)), is_put)
    with suppress(DeltaMirrorError):
        store.create(KEY, b"x")
    assert behind.read(KEY) is None
    assert [(access.status, access.completed) for access in writes(s3_proxy)] == [(status, None)]


@pytest.mark.requirement("R92")
def test_connections_are_refused_for_a_while(store: Store, behind: Store, s3_proxy: S3Proxy) -> None:
    store.put("a", b"x")
    with s3_proxy.refusing(), pytest.raises(Unavailable):
        store.put("b", b"x")
    store.put("c", b"x")
    assert [meta.key for meta in behind.list()] == ["a", "c"]


@pytest.mark.requirement("R92")
def test_the_seed_chooses_the_same_requests_again(
    seaweed_server: SeaweedServer, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    def befallen(seed: int) -> list[str]:
        with proxy_before(seaweed_server, seed=seed) as proxy:
            proxy.fail(Answer(409, "Told"), is_put, chance=0.4, times=None)
            store = store_at(f"s3://{s3_bucket}/t", proxy.settings(s3_settings))
            for number in range(20):
                with suppress(DeltaMirrorError):
                    store.put(f"{number}", b"x")
            proxy.heal()
            store.put("healed", b"x")
            return [access.key for access in proxy.log if access.fault]

    assert befallen(1) == befallen(1) != befallen(2)
    assert 3 < len(befallen(1)) < 15


def test_a_fault_befalls_as_many_requests_as_it_was_told_and_only_those_that_are_meant(
    store: Store, s3_proxy: S3Proxy
) -> None:
    s3_proxy.fail(UNAVAILABLE, lambda access: access.key.endswith("/b"), times=2)
    store.put("a", b"x")
    for _ in range(2):
        with pytest.raises(Unavailable):
            store.put("b", b"x")
    store.put("b", b"x")
    assert [access.status for access in writes(s3_proxy)] == [200, 503, 503, 200]


def test_a_server_that_is_down_is_down_behind_the_proxy_too(
    store: Store, s3_proxy: S3Proxy, seaweed_server: SeaweedServer
) -> None:
    seaweed_server.stop()
    with pytest.raises(Unavailable):
        store.put(KEY, b"x")
    assert [access.status for access in writes(s3_proxy)] == [None]
