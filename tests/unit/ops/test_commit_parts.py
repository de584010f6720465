"""A log that is looked at in parts breaks the rules that it breaks as a whole."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from deltamirror.config import Settings, StorageSettings
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.states import state_at
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.validate.commit_sweep import Foundation
from deltamirror.ops.validate.validating import Validated, validate_log
from deltamirror.ops.verify import commit_parts
from deltamirror.ops.verify.commit_parts import CommitParts
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.storage.address import StoreAddress
from deltamirror.storage.open import store_at
from tests.support.logs.broken import CORRUPTIONS, KINDS, Corruption, Log, made_log

pytestmark = pytest.mark.requirement("R70")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Log]:
    """A log of each kind, in order."""
    return {kind: made_log(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


def before(version: int, *, logs: Sequence[Log]) -> Foundation | None:
    """What the database has: by the first of these logs that can be read."""
    for log in logs:
        store = store_at(str(log.table), StorageSettings())
        with suppress(DeltaMirrorError):
            state = state_at(store, read_listing(store), version - 1)
            return Foundation(version=version, protocol=state.protocol, metadata=state.metadata)
    return None


def in_parts(log: Log, *logs: Log) -> Validated:
    address = StoreAddress.of(str(log.table), StorageSettings())
    examine = partial(CommitParts, LocalInspector(Settings()), address, partial(before, logs=(log, *logs)))
    return validate_log(store_at(str(log.table), StorageSettings()), examine=examine)


def is_of_commits(case: Corruption) -> bool:
    return case.rule.partition(".")[0] not in {"checkpoint", "pointer", "compaction"}


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_in_order_breaks_no_rule_in_parts(
    logs: dict[str, Log], kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_parts, "_COMMITS", size)
    assert in_parts(logs[kind]).findings == ()


OF_COMMITS = [case for case in CORRUPTIONS if is_of_commits(case)]
ONE_OF_EACH_FAMILY = {case.rule.partition(".")[0]: case for case in OF_COMMITS}.values()
"""That the rules find the others, too, test_validate.py shows of whole logs."""


@pytest.mark.default_when(parameters=lambda those: those["case"] in ONE_OF_EACH_FAMILY)
@pytest.mark.parametrize("case", OF_COMMITS, ids=lambda case: case.rule)
def test_a_corruption_is_reported_by_its_exact_rule(
    logs: dict[str, Log], tmp_path: Path, case: Corruption, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_parts, "_COMMITS", 2)
    log = logs[case.kind].copied(tmp_path)
    case.damage(log)
    assert in_parts(log, logs[case.kind]).counts.keys() == {case.rule, *case.also}


def test_a_checksum_that_is_wrong_at_the_end_of_a_part_accuses_none_of_the_next(
    logs: dict[str, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_parts, "_COMMITS", 2)
    log = logs["classic"].copied(tmp_path)
    wrong = log.folder / f"{1:020}.crc"
    wrong.write_text(wrong.read_text().replace('"numFiles":', '"numFiles":7'))
    assert {each.file for each in in_parts(log, logs["classic"]).findings} == {f"_delta_log/{wrong.name}"}
