"""``validate``: every rule of log files, broken alone, is found by its name, in its place, with what to do."""

from dataclasses import replace
from pathlib import Path

import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.validation import RULES
from deltamirror.delta.validation.log_rules import LOG_RULES, rule_of
from deltamirror.deltalog.comparison import list_log
from deltamirror.ops.validate.sweep import LogSweep
from deltamirror.ops.validate.validating import Validated, validate_log
from deltamirror.storage.open import store_at
from tests.support.logs.broken import CORRUPTIONS, KINDS, Corruption, Log, made_log

pytestmark = pytest.mark.requirement("R68")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Log]:
    """A log of each kind, in order."""
    return {kind: made_log(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


def validated(log: Log) -> Validated:
    return validate_log(store_at(str(log.table), StorageSettings()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_of_ours_breaks_no_rule(logs: dict[str, Log], kind: str) -> None:
    found = validated(logs[kind])
    assert found.is_valid, found.findings
    assert found.readable


@pytest.mark.requirement("R94")
@pytest.mark.requirement("R69")
@pytest.mark.parametrize("case", CORRUPTIONS, ids=lambda case: case.rule)
def test_a_corruption_is_reported_by_its_exact_rule(logs: dict[str, Log], tmp_path: Path, case: Corruption) -> None:
    log = logs[case.kind].copied(tmp_path)
    case.damage(log)
    found = validated(log)
    assert found.counts.keys() == {case.rule, *case.also}, found.findings
    finding = next(each for each in found.findings if each.rule == case.rule)
    assert finding.file.startswith("_delta_log")
    assert finding.expected
    assert finding.found
    assert finding.remedy == rule_of(case.rule).remedy
    assert finding.file in finding.command


def test_a_checkpoint_that_comes_while_the_log_is_read_is_no_finding(logs: dict[str, Log], tmp_path: Path) -> None:
    log = logs["classic"].copied(tmp_path)
    store = store_at(str(log.table), StorageSettings())
    listed = list_log(store)
    earlier = {name: meta for name, meta in listed.others.items() if "checkpoint" not in name}
    assert list(LogSweep(store, replace(listed, others=earlier)).findings()) == []


def test_commits_older_than_the_first_checkpoint_are_not_judged_by_its_metadata(
    logs: dict[str, Log], tmp_path: Path
) -> None:
    log = logs["classic"].copied(tmp_path)
    for path in log.folder.glob("*.crc"):
        path.unlink()
    for version in (0, 1):
        log.commit(version).unlink()
    log.change_line("add", lambda body: body.update(partitionValues={"day": "1"}), version=2)
    assert validated(log).is_valid
    log.change_line("add", lambda body: body.update(partitionValues={"day": "1"}))
    assert validated(log).counts.keys() == {"add.partition.unknown"}


def test_no_rule_of_log_files_is_without_a_corruption() -> None:
    assert LOG_RULES.keys() <= {case.rule for case in CORRUPTIONS}
    assert not LOG_RULES.keys() & RULES.keys()


def test_rules_of_log_files_have_stable_ids_texts_and_remedies() -> None:
    for name, rule in LOG_RULES.items():
        assert (rule.id, bool(rule.text), bool(rule.remedy)) == (name, True, True)
