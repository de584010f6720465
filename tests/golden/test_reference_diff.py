"""Of the reference logs, what the commits alone say equals what their checkpoints, and the commits after them, say."""

from dataclasses import replace
from pathlib import Path

import pytest

from deltamirror.config import StorageSettings
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.states import state_at
from deltamirror.ops.diff.comparing import compare
from deltamirror.storage.open import store_at
from tests.support.reference_logs.golden import reference

pytestmark = pytest.mark.reference

REFERENCE = reference()
WHOLE = [
    log
    for log in REFERENCE.logs
    if REFERENCE.name_of(log) not in REFERENCE.refused_logs
    and (log / f"{0:020}.json").exists()
    and any(log.glob("*.checkpoint.*"))
]


def test_there_are_logs_with_checkpoints() -> None:
    assert len(WHOLE) >= REFERENCE.floors.with_checkpoint


@pytest.mark.parametrize("log", WHOLE, ids=REFERENCE.name_of)
def test_a_checkpoint_says_what_the_commits_before_it_said(log: Path) -> None:
    store = store_at(str(log.parent), StorageSettings())
    listing = read_listing(store)
    found = compare(state_at(store, listing), state_at(store, replace(listing, checkpoints=())))
    assert found.equal, found.first
