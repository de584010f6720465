"""A checkpoint that the reference writer left in the log says what ours would say, and stays."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltamirror.config import StorageSettings
from deltamirror.deltalog.pointer import POINTER_KEY
from deltamirror.storage.open import store_at
from tests.support.logs.checkpoints import publish, put_commits, unit_of
from tests.support.reference_logs.files import commit_files, has_texts
from tests.support.reference_logs.golden import reference
from tests.support.stores.recording import RecordingStore

pytestmark = [pytest.mark.requirement("R9"), pytest.mark.requirement("R24"), pytest.mark.reference]

REFERENCE = reference()


def _checkpoints() -> Iterator[Path]:
    for log in REFERENCE.of_spark:
        yield from filter(has_texts, sorted(log.glob("*.checkpoint.parquet")))


CHECKPOINTS = list(_checkpoints())


def _id(path: Path) -> str:
    return f"{REFERENCE.name_of(path.parent)}-{int(path.name[:20])}"


def _committed_at(data: bytes) -> int:
    infos = [msgspec.json.decode(line)["commitInfo"] for line in data.splitlines() if line.startswith(b'{"commitInfo"')]
    return int(infos[0]["timestamp"])


def test_there_are_checkpoints_of_the_reference() -> None:
    assert len(CHECKPOINTS) >= REFERENCE.floors.classic - 1


@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=_id)
def test_a_checkpoint_of_the_reference_is_found_to_hold_our_state(checkpoint: Path) -> None:
    version = int(checkpoint.name[:20])
    commits = list(commit_files(checkpoint.parent))[: version + 1]
    store = store_at(f"memory://{_id(checkpoint)}/table", StorageSettings())
    put_commits(store, commits)
    store.create(f"_delta_log/{checkpoint.name}", checkpoint.read_bytes())
    recorded = RecordingStore(store)
    outcome = publish(unit_of(commits, committed_at=_committed_at(commits[-1])), recorded)
    assert recorded.puts == [POINTER_KEY]
    assert outcome.num_bytes == checkpoint.stat().st_size
