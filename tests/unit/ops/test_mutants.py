"""Deliberate defects in what publishes: ``validate`` finds each of them in the log."""

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
import pytest

from deltamirror.delta import lines, names
from deltamirror.delta.actions import Action
from deltamirror.errors import DeltaMirrorError
from deltamirror.ops.validate.validating import validate_log
from deltamirror.publish.checkpoint.publishing import publish_checkpoint
from deltamirror.publish.checksums import ChecksumChain, write_checksum
from deltamirror.storage.store import Store
from tests.support.imports.foreign_logs import store_in_memory
from tests.support.logs.broken import CHECKPOINT, KINDS, NEWEST, made_log
from tests.support.logs.checkpoints import carried, no_guard, unit_of
from tests.support.logs.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.requirement("R65")

Commits = Sequence[Sequence[Action]]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Commits]:
    """The actions of a table's commits, for each form of checkpoints."""
    logs = {kind: made_log(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}
    return {
        kind: [lines.decode_commit(log.commit(version).read_bytes()) for version in range(NEWEST + 1)]
        for kind, log in logs.items()
    }


def publish(history: Commits, store: Store) -> None:
    """Serialise commits, and put them with their checkpoint and their checksums, by the functions of the product."""
    commits, chain = [lines.encode_commit(actions) for actions in history], ChecksumChain(None)
    for version, data in enumerate(commits):
        store.put(f"{names.LOG_DIRECTORY}/{names.commit_name(version)}", data)
    outcome = publish_checkpoint(unit_of(commits[: CHECKPOINT + 1]), store, fetch=carried, guard=no_guard)
    if outcome.failure is not None:
        raise outcome.failure.error
    for version, actions in enumerate(history):
        checksum = chain.after(version, actions)
        assert checksum is not None
        write_checksum(store, f"{names.LOG_DIRECTORY}/{names.checksum_name(version)}", checksum, guard=no_guard)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_defect_the_log_breaks_no_rule(histories: dict[str, Commits], kind: str) -> None:
    store = store_in_memory()
    publish(histories[kind], store)
    assert validate_log(store).findings == ()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_no_defect_gets_past_validation(histories: dict[str, Commits], mutant: Mutant) -> None:
    store = store_in_memory()
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        with suppress(DeltaMirrorError, pa.ArrowException):  # which stops at a defect in the lines, after it put them
            publish(histories[mutant.kind], store)
    assert not validate_log(store).is_valid


def test_there_are_fifty_of_them() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 50
