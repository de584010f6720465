"""Every class of failure has one entry that says what becomes of it."""

import re

import pytest

from deltamirror import errors
from deltamirror.errors import DeltaMirrorError, Diverged, Throttled, Unavailable
from deltamirror.pipeline.failures.policy import (
    POLICIES,
    STORE_CODES,
    EscalatedWhen,
    Policy,
    Severity,
    policy_of,
    speaks_of_store,
)
from deltamirror.work import Failure, Stage
from scripts.check_links import ROOT, anchors
from tests.support.interfaces.command_lines import command_paths

CLASSES = [getattr(errors, name) for name in errors.__all__ if name != "DeltaMirrorError"]


@pytest.mark.requirement("R82")
def test_every_error_has_one_entry_with_severity_and_remedy() -> None:
    assert POLICIES.keys() == {cls.code for cls in CLASSES}
    assert sorted(policy.error.__name__ for policy in POLICIES.values()) == sorted(cls.__name__ for cls in CLASSES)
    assert all(policy.remedy for policy in POLICIES.values())


@pytest.mark.requirement("R85")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda policy: policy.code)
def test_every_error_leads_to_a_section_of_a_guide_and_names_a_command(policy: Policy) -> None:
    name, _, section = policy.guide.partition("#")
    assert section in anchors(ROOT / "docs" / "guides" / name)
    typed = re.findall(r"`deltamirror ([a-z -]+)", policy.remedy)
    assert any(words.startswith(path) for words in typed for path in command_paths()), policy.remedy


@pytest.mark.requirement("R83")
def test_only_what_passes_by_itself_speaks_of_the_store() -> None:
    assert set(STORE_CODES) == {"unavailable", "throttled", "transient"}
    for policy in POLICIES.values():
        assert not policy.speaks_of_store or (policy.is_retried and policy.severity is Severity.WARNING)


@pytest.mark.requirement("R83")
def test_what_no_retry_cures_is_told_at_once_and_what_may_pass_later() -> None:
    in_the_mirror = [policy for policy in POLICIES.values() if policy.escalates is not EscalatedWhen.NEVER]
    for policy in in_the_mirror:
        late = policy.escalates is EscalatedWhen.PAST_ATTEMPTS
        assert late == ((policy.is_retried and not policy.passes) or policy.code == "invalid-input")
        assert late or policy.severity in (Severity.ERROR, Severity.CRITICAL)


@pytest.mark.requirement("R83")
@pytest.mark.parametrize(
    ("error", "stage", "counts"),
    [
        (Unavailable("x"), Stage.PUT, True),
        (Unavailable("x"), Stage.OPEN, True),
        (Throttled("x"), Stage.POINTER, True),
        (Unavailable("the database"), Stage.FETCH, False),
        (Unavailable("the database"), Stage.LEASE, False),
        (Unavailable("either"), Stage.BUILD, False),
        (Diverged("x"), Stage.PUT, False),
    ],
)
def test_a_failure_speaks_of_the_store_where_only_the_store_was_asked(
    error: DeltaMirrorError, stage: Stage, counts: bool
) -> None:
    assert speaks_of_store(Failure(error=error, stage=stage, version=0)) is counts


def test_a_code_of_a_later_release_is_taken_for_a_defect() -> None:
    assert policy_of("from-the-future") is POLICIES["internal"]
