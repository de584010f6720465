"""From the commits alone, the rows and the schema of every checkpoint that Delta Lake on Spark wrote beside them.

The reference drops tombstones by its clock when it writes a checkpoint, we by the commit time of the version. These
logs were written in one go, with a week of retention, so both keep the same ones: rows are compared as they are.
Releases before 4.1 have no ``stats_parsed``, still older ones lack further fields: of such checkpoints, the fields that
they have are compared. The order of map entries and of rows, which depend on shuffles, do not count.
"""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from deltamirror.delta.actions import CommitInfo
from deltamirror.delta.lines import decode_commit
from deltamirror.deltalog.checkpoint.content import CheckpointState, checkpoint_schema, file_rows, replay
from tests.support.logs.checkpoint_rows import assert_same_rows, fields, reference
from tests.support.logs.checkpoint_tables import rows, state_of_table
from tests.support.reference_logs.files import commit_files, has_texts
from tests.support.reference_logs.golden import reference as reference_set

pytestmark = [
    pytest.mark.requirement("R9"),
    pytest.mark.requirement("R10"),
    pytest.mark.reference,
]

REFERENCE = reference_set()

SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
TABLES = REFERENCE.of_spark
CLASSIC = [path for log in TABLES for path in sorted(log.glob("*.checkpoint.parquet"))]
SIDECARS = [path for log in TABLES for path in sorted(log.glob("_sidecars/*.0000000001.0000000001.*.parquet"))]
CURRENT = [path for path in CLASSIC if REFERENCE.is_current(path)]
POINTERS = [
    log / "_last_checkpoint" for log in TABLES if REFERENCE.is_current(log) and any(log.glob("*.checkpoint.parquet"))
]
POINTERS_WITH_SCHEMA = [path for path in POINTERS if path.exists() and '"checkpointSchema":' in path.read_text()]
PARTS = [log for log in TABLES if any(log.glob("*.checkpoint.0000000001.*.parquet"))]
CURRENT_SIDECARS = [path for path in SIDECARS if REFERENCE.is_current(path)]


def label(path: Path) -> str:
    log = next(each for each in path.parents if each.name == "_delta_log")
    return f"{REFERENCE.name_of(log)}-{int(path.name[:20])}"


def state_at(path: Path) -> CheckpointState:
    """The state at the version of a checkpoint, from the commits of its log."""
    log = next(each for each in path.parents if each.name == "_delta_log")
    version = int(path.name[:20])
    commits = list(commit_files(log))[: version + 1]
    assert len(commits) == version + 1
    return replay([[commit] for commit in commits], version=version, committed_at=time_of(commits), base=None)


def time_of(commits: list[bytes]) -> int:
    infos = (action for commit in commits for action in decode_commit(commit) if isinstance(action, CommitInfo))
    return max((info.timestamp or 0 for info in infos), default=0)


@pytest.mark.parametrize("path", CLASSIC, ids=label)
def test_the_rows_of_a_checkpoint_are_those_of_the_reference(path: Path) -> None:
    ours, theirs = rows(state_at(path)), reference(path).read()
    assert_same_rows(ours, theirs)
    dropped = {name for name, _ in fields(theirs.schema)} - {name for name, _ in fields(ours.schema)}
    dropped = {name for name in dropped if name.split(".")[0] not in ("cdc", "commitInfo")}
    assert dropped <= {"remove.tags"}, "Delta before 1.0 had these"


@pytest.mark.parametrize("path", SIDECARS, ids=label)
def test_the_rows_of_a_sidecar_are_those_of_the_reference(path: Path) -> None:
    assert_same_rows(file_rows(state_at(path)), reference(path).read())


@pytest.mark.parametrize("log", PARTS, ids=REFERENCE.name_of)
def test_the_rows_of_a_checkpoint_in_parts_are_those_of_the_reference(log: Path) -> None:
    parts = sorted(log.glob("*.checkpoint.*.parquet"))
    assert_same_rows(rows(state_at(parts[0])), pa.concat_tables([reference(part).read() for part in parts]))


@pytest.mark.parametrize("path", CURRENT, ids=label)
def test_the_schema_of_a_checkpoint_is_that_of_the_reference(path: Path) -> None:
    state, theirs = state_at(path), reference(path)
    ours = rows(state)
    assert list(fields(ours.schema)) == list(fields(theirs.schema_arrow))
    assert checkpoint_schema(ours.schema) == theirs.metadata.metadata[SCHEMA_KEY].decode()


@pytest.mark.parametrize("path", CURRENT_SIDECARS, ids=label)
def test_the_schema_of_a_sidecar_is_that_of_the_reference(path: Path) -> None:
    state, theirs = state_at(path), reference(path)
    ours = file_rows(state)
    assert list(fields(ours.schema)) == list(fields(theirs.schema_arrow))
    assert checkpoint_schema(ours.schema) == theirs.metadata.metadata[SCHEMA_KEY].decode()


@pytest.mark.parametrize("pointer", POINTERS_WITH_SCHEMA, ids=lambda path: REFERENCE.name_of(path.parent))
def test_the_schema_in_the_pointer_is_that_of_the_reference(pointer: Path) -> None:
    text = pointer.read_text()
    version = json.loads(text)["version"]
    state = state_at(pointer.with_name(f"{version:020}.checkpoint.parquet"))
    assert f'"checkpointSchema":{checkpoint_schema(rows(state).schema)},' in text


@pytest.mark.parametrize("path", [path for path in CLASSIC if has_texts(path)], ids=label)
def test_a_checkpoint_of_the_reference_reads_as_the_state_that_its_commits_give(path: Path) -> None:
    ours = state_at(path)
    theirs = replay(
        [],
        version=ours.version,
        committed_at=0,
        base=state_of_table(reference(path).read(), version=ours.version),
    )
    assert (theirs.protocol, theirs.metadata) == (ours.protocol, ours.metadata)
    assert (theirs.transactions, theirs.domains) == (ours.transactions, ours.domains)
    assert theirs.files.equals(ours.files)
    assert theirs.removes.equals(ours.removes)


def test_there_are_checkpoints_of_the_reference_to_compare_with() -> None:
    assert len(CLASSIC) >= REFERENCE.floors.classic
    assert len(CURRENT) >= REFERENCE.floors.current
    assert len(CURRENT_SIDECARS) >= REFERENCE.floors.sidecars
    assert len(POINTERS_WITH_SCHEMA) >= REFERENCE.floors.pointers_with_schema
    assert len(PARTS) >= 1
