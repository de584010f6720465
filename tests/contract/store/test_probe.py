"""Requests that meet a moment of trouble: a probe refuses no store for it, and a bulk delete is done all the same."""

from functools import partial

import pytest
from msgspec.structs import replace

from deltamirror.config import StorageSettings
from deltamirror.errors import DeltaMirrorError
from deltamirror.storage.open import store_at
from deltamirror.storage.probe import probe
from tests.support.faults.rules import UNAVAILABLE, Answer, Fault, Reset, Truncate
from tests.support.faults.s3_proxy import Access, S3Proxy

FAULTS: dict[str, Fault] = {
    "conflict": Answer(409, "ConditionalRequestConflict"),
    "precondition": Answer(412, "PreconditionFailed"),
    "away": UNAVAILABLE,
    "slow down": Answer(503, "SlowDown"),
    "not done": Reset.BEFORE,
    "lost reply": Reset.AFTER,
    "cut off": Truncate(10),
}


@pytest.mark.requirement("R44")
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_trouble_with_any_request_is_passed_by_or_tried_again(
    fault: Fault, s3_proxy: S3Proxy, s3_bucket: str, s3_settings: StorageSettings
) -> None:
    def comes_after(requests: int, _: Access) -> bool:
        return len(s3_proxy.log) == requests

    store = store_at(f"s3://{s3_bucket}/t", s3_proxy.settings(s3_settings))
    probe(store)
    for number in range(len(s3_proxy.log)):
        begun = len(s3_proxy.log)
        s3_proxy.fail(fault, partial(comes_after, begun + number))
        try:
            probe(store)
        except DeltaMirrorError as error:
            assert error.retryable, error  # noqa: PT017 - it need not be raised
        s3_proxy.heal()
        assert [each.fault for each in s3_proxy.log[begun:]].count(fault) == 1


@pytest.mark.requirement("R45")
@pytest.mark.parametrize("fault", [Reset.BEFORE, Reset.AFTER])
def test_objects_are_deleted_though_the_connection_of_the_bulk_broke(
    s3_bucket: str, s3_settings: StorageSettings, s3_proxy: S3Proxy, fault: Reset
) -> None:
    store = store_at(f"s3://{s3_bucket}/t", replace(s3_proxy.settings(s3_settings), retries=0))
    for key in ("a", "b", "c"):
        store.create(key, b"x")
    s3_proxy.fail(fault, lambda access: access.method == "POST", times=1)
    store.delete(["a", "b"])
    assert [meta.key for meta in store.list()] == ["c"]
    assert [access.fault for access in s3_proxy.log].count(fault) == 1
