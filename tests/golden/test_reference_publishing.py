"""Publishing the commits of Delta Lake on Spark gives the log that it wrote: commits and checksums, byte for byte."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from deltamirror.config import StorageSettings
from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.checksum import checksum_from_totals, decode, encode
from deltamirror.delta.lines import decode_commit
from deltamirror.delta.replay import State, replay
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from tests.support.logs.commit_units import commit_key, log_of, publish, unit_of, work_of
from tests.support.reference_logs.files import commit_files, without_empty_tags
from tests.support.reference_logs.golden import reference

pytestmark = [pytest.mark.requirement("R66"), pytest.mark.requirement("R15"), pytest.mark.reference]

REFERENCE = reference()
CURRENT = REFERENCE.collections[REFERENCE.current]
LOGS = REFERENCE.logs_in(REFERENCE.current)


def seed_of(commits: list[bytes]) -> bytes:
    """The checksum of a whole state, as the planner makes one."""
    actions = [decode_commit(data) for data in commits]
    state = replay(actions)
    info = next((action for action in actions[-1] if isinstance(action, CommitInfo)), None)
    return encode(checksum_from_totals(**facts(state), info=info))


def facts(state: State) -> dict[str, Any]:
    files = list(state.files.values())
    vectors = [add.deletion_vector.cardinality for add in files if add.deletion_vector is not None]
    return {
        "sizes": pa.array([add.size for add in files], pa.int64()),
        "cardinalities": pa.array(vectors, pa.int64()),
        "files": files,
        "transactions": state.txns.values(),
        "domains": state.domains.values(),
        "protocol": state.protocol,
        "metadata": state.metadata,
    }


def published(log: Path, *, at_once: int) -> Store:
    """The log, published in units of so many versions, each seeded by the one before or by the state."""
    store = store_at(f"memory://{uuid4()}/t", StorageSettings())
    commits, seed = list(commit_files(log)), None
    for start in range(0, len(commits), at_once):
        part = commits[start : start + at_once]
        unit = unit_of([work_of(start + number, data) for number, data in enumerate(part)], checksum=seed)
        outcome = publish(unit, store)
        assert (outcome.failure, outcome.checksum_failure, len(outcome.published)) == (None, None, len(part))
        seed = outcome.checksum
        if seed is None or lists_nothing(seed):
            seed = seed_of(commits[: start + len(part)])
    return store


def lists_nothing(seed: bytes) -> bool:
    found = decode(seed)
    return found is None or (found.all_files is None and found.num_files <= 50)


def written_checksums(log: Path) -> dict[str, bytes]:
    return {
        commit_key(int(path.stem), "crc"): without_empty_tags(path.read_bytes())
        for path in sorted(log.glob("[0-9]*.crc"))
    }


def differing(at_once: int) -> Iterator[tuple[str, bytes | None]]:
    """The checksums that do not come out as the reference writer has them, and what is there instead."""
    for log in LOGS:
        ours = log_of(published(log, at_once=at_once))
        for key, theirs in written_checksums(log).items():
            if ours.get(key) != theirs:
                yield f"{REFERENCE.name_of(log)} {key}", ours.get(key)


@pytest.mark.parametrize("at_once", [1, 2, 4, 100])
def test_every_checksum_is_the_one_that_the_reference_writer_wrote(at_once: int) -> None:
    assert sum(len(written_checksums(log)) for log in LOGS) == CURRENT.checksums
    found = dict(differing(at_once))
    assert found.keys() == after_unchecked(at_once)
    assert all(ours is None or lists_nothing(ours) for ours in found.values())


def after_unchecked(at_once: int) -> set[str]:
    """In one unit with a version that has no checksum, or one that lists no files, there is none to go on from."""
    return {
        f"{table} {commit_key(version, 'crc')}"
        for table, (unchecked, others) in REFERENCE.unchecked.items()
        for version in others
        if version // at_once == unchecked // at_once
    }


@pytest.mark.requirement("R1")
def test_every_commit_is_the_one_that_the_reference_writer_wrote() -> None:
    for log in LOGS:
        ours = {key: data for key, data in log_of(published(log, at_once=3)).items() if key.endswith(".json")}
        assert ours == {commit_key(version): data for version, data in enumerate(commit_files(log))}
