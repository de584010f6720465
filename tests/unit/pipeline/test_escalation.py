"""Failures that an operator has to look at: which they are, and the line that says so."""

import logging
from dataclasses import replace

import pytest

from deltamirror.config import MirrorSettings
from deltamirror.errors import PermissionDenied
from deltamirror.pipeline.failures.escalation import EscalationPolicy, tell
from deltamirror.pipeline.failures.policy import POLICIES, EscalatedWhen, Policy
from deltamirror.work import CheckpointOutcome, CommitOutcome, Failure, Lane, Lease, Stage

pytestmark = [pytest.mark.requirement("R83"), pytest.mark.requirement("R87")]

ESCALATES = EscalationPolicy(MirrorSettings(attempts=5))
LEASE = Lease(table_id=7, lane=Lane.COMMITS, owner="me", epoch=1, held_until=0.0)
FAILURE = Failure(error=PermissionDenied("no"), stage=Stage.PUT, version=3)
FAILED = CommitOutcome(table_id=7, table="sales.t", lease=LEASE, failure=FAILURE, attempt=1, retry_at=0)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.code)
def test_a_failure_escalates_at_once_past_attempts_or_never_by_its_class(policy: Policy) -> None:
    early, late = ESCALATES(policy.error("x"), 4), ESCALATES(policy.error("x"), 5)
    assert {
        EscalatedWhen.AT_ONCE: (True, True),
        EscalatedWhen.PAST_ATTEMPTS: (False, True),
        EscalatedWhen.NEVER: (False, False),
    }[policy.escalates] == (early, late)


def test_the_line_names_the_version_the_error_the_next_try_and_the_command(caplog: pytest.LogCaptureFixture) -> None:
    tell(FAILED)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == (
        "version 3 of table 'sales.t' failed once (permission-denied): no; next try 1970-01-01 00:00:00+00:00; "
        "`deltamirror report sales.t 3`"
    )


def test_the_line_tells_how_often_it_failed_and_of_a_quarantine(caplog: pytest.LogCaptureFixture) -> None:
    tell(replace(FAILED, attempt=4, retry_at=None))
    (record,) = caplog.records
    assert "failed 4 times (permission-denied): no; the table is quarantined; " in record.getMessage()


def test_a_checkpoint_is_told_of_as_one_and_a_success_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    tell(CheckpointOutcome(table_id=7, table="t", lease=LEASE, version=3, failure=FAILURE))
    tell(replace(FAILED, failure=None))
    (record,) = caplog.records
    assert record.getMessage().startswith("the checkpoint of version 3 of table 't' failed once")
