"""A store that keeps its promises is never refused for a moment of trouble, whichever request of the probe it meets."""

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import DeltaMirrorError
from deltamirror.storage.open import store_at
from deltamirror.storage.probe import probe
from tests.support.fault_rules import UNAVAILABLE, Answer, Fault, Reset, Truncate
from tests.support.s3_proxy import S3Proxy

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
    store = store_at(f"s3://{s3_bucket}/t", s3_proxy.settings(s3_settings))
    probe(store)
    for number in range(len(s3_proxy.log)):
        begun = len(s3_proxy.log)
        s3_proxy.fail(fault, lambda _, begun=begun, number=number: len(s3_proxy.log) == begun + number)
        try:
            probe(store)
        except DeltaMirrorError as error:
            assert error.retryable, error  # noqa: PT017 - it need not be raised
        s3_proxy.heal()
        assert [each.fault for each in s3_proxy.log[begun:]].count(fault) == 1
