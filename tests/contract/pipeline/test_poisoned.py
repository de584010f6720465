"""One table that cannot be worked on never holds up the others: it fails by itself, and the status says why."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltamirror import Catalog, Table
from deltamirror.errors import DeltaMirrorError, Internal, InvalidInput, Transient, Unavailable
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.pipeline.service import lanes
from deltamirror.txnlog.queue.claims import Claim
from deltamirror.work import CheckpointUnit, Outcome, Unit
from tests.support.lakes.lake import execute
from tests.support.mirrors.local import (
    ScriptedRunner,
    append,
    committed_files,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
)

pytestmark = pytest.mark.requirement("R83")

UNTIMED = {"delta.enableInCommitTimestamps": "false"}
INFO = {"commitInfo": {"timestamp": 1_700_000_000_000, "operation": "SET TBLPROPERTIES", "operationParameters": {}}}
HOURS = {"retry_base": 3600.0, "retry_max": 3600.0}


@pytest.fixture
def catalog(lake: Catalog) -> Catalog:
    """One database is enough: what is planned and run does not depend on which it is."""
    return lake


def checkpoints(table: Table) -> list[int]:
    return sorted(int(path.name[:20]) for path in log_of(table).glob("*.checkpoint.parquet"))


def set_verbatim(catalog: Catalog, table: Table, **properties: str) -> None:
    """Another writer's commit, with properties that ours would refuse."""
    metadata = json.loads(next(line for line in table.commit_file(0).splitlines() if line.startswith(b'{"metaData"')))
    metadata["metaData"]["configuration"] |= {f"delta.{key}": value for key, value in properties.items()}
    with catalog.transaction() as tx:
        lines = "".join(json.dumps(line) + "\n" for line in (INFO, metadata))
        tx.stage_lines(table.name, lines.encode(), at_version=table.info().head + 1)


def scripted(catalog: Catalog, script: Callable[[Unit], Outcome | None]) -> ScriptedRunner:
    return ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)


def poison_planning(patch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    """Let the planning of one table raise, in both lanes."""
    for function in ("plan_commits", "plan_checkpoint"):
        plan = getattr(lanes, function)

        def poisoned(
            database: object, claim: Claim, *more: object, plan: Callable[..., object] = plan, **options: object
        ) -> object:
            if claim.name == name:
                raise error
            return plan(database, claim, *more, **options)

        patch.setattr(lanes, function, poisoned)


@pytest.mark.requirement("R8")
@pytest.mark.requirement("R21")
@pytest.mark.parametrize("value", ["0", "often"])
def test_an_interval_that_nobody_can_read_holds_up_no_commit_and_checkpoints_are_as_without_it(
    catalog: Catalog, tmp_path: Path, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    table, other = (make_table(catalog, tmp_path, name, properties=UNTIMED) for name in ("t", "other"))
    set_verbatim(catalog, table, checkpointInterval=value)
    append(table, 3)
    append(other)
    with mirror_of(catalog, checkpoint_interval=2) as engine:
        summary = engine.run(once=True)
    assert (summary.versions, summary.failures) == (7, [])
    assert published_files(table) == committed_files(table)
    assert published_files(other) == committed_files(other)
    assert checkpoints(table) == [4]
    [(reason,)] = execute(catalog, "SELECT reason FROM dl_checkpoints")
    assert "interval of 2 versions" in reason
    assert "delta.checkpointInterval" in reason
    assert "delta.checkpointInterval" in caplog.text


@pytest.mark.requirement("R21")
def test_a_retention_that_nobody_can_read_fails_the_checkpoint_of_its_table_and_nothing_else(
    catalog: Catalog, tmp_path: Path
) -> None:
    table, other = (make_table(catalog, tmp_path, name, properties=UNTIMED) for name in ("t", "other"))
    with mirror_of(catalog, checkpoint_interval=2) as engine:
        append(table, 2)
        engine.run(once=True)
        set_verbatim(catalog, table, deletedFileRetentionDuration="soon")
        append(table)
        append(other, 2)
        engine.run(once=True)
        (status,) = engine.status("t")
        assert (status.published, status.error) == (4, None)
        assert status.checkpoint_error is not None
        found = status.checkpoint_error
        assert (found.version, found.code, found.stage) == (4, "invalid-input", "plan")
        assert "delta.deletedFileRetentionDuration" in found.message
        assert found.next_attempt_at is not None
        assert (checkpoints(table), checkpoints(other)) == ([2], [2])
        with pytest.raises(InvalidInput, match="deletedFileRetentionDuration"):
            engine.checkpoint("t")
        table.alter(properties={"delta.deletedFileRetentionDuration": "interval 1 day"})
        engine.run(once=True)
        assert engine.checkpoint("t") == 5
        assert engine.status("t")[0].checkpoint_error is None


@pytest.mark.requirement("R21")
def test_a_property_that_nobody_can_read_fails_its_checkpoint_and_leaves_those_before_as_bases(
    catalog: Catalog, tmp_path: Path
) -> None:
    table = make_table(catalog, tmp_path, properties=UNTIMED)
    with mirror_of(catalog, checkpoint_interval=2) as engine:
        for _ in range(2):
            append(table, 2)
            engine.run(once=True)
        set_verbatim(catalog, table, dataSkippingNumIndexedCols="many")
        append(table)
        engine.run(once=True)
        found = engine.status("t")[0].checkpoint_error
        assert found is not None
        assert (found.version, found.code, found.stage, found.attempts) == (6, "invalid-input", "build", 1)
        assert "delta.dataSkippingNumIndexedCols" in found.message
        assert found.next_attempt_at is not None
        digests = execute(catalog, "SELECT version, digest IS NOT NULL FROM dl_checkpoints ORDER BY version")
        assert [(version, bool(is_known)) for version, is_known in digests] == [(2, True), (4, True), (6, False)]
        table.alter(properties={"delta.dataSkippingNumIndexedCols": "1"})
        engine.run(once=True)
        assert engine.checkpoint("t") == 7
        assert engine.status("t")[0].checkpoint_error is None


@pytest.mark.parametrize(
    ("error", "code"), [(InvalidInput("nobody can read it"), "invalid-input"), (KeyError("lost"), "internal")]
)
def test_a_table_that_cannot_be_planned_fails_and_the_others_go_on(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    poisoned, fine = (make_table(catalog, tmp_path, name) for name in ("poisoned", "fine"))
    with mirror_of(catalog, checkpoint_interval=2) as engine:
        engine.run(once=True)
        for table in (poisoned, fine):
            append(table, 2)
        with monkeypatch.context() as patch:
            poison_planning(patch, "poisoned", error)
            summary = engine.run(once=True)
            with pytest.raises(DeltaMirrorError, match=str(error).strip("'")):
                engine.mirror("poisoned")
        assert (summary.versions, [each.version for each in summary.failures]) == (2, [1])
        assert published_files(fine) == committed_files(fine)
        assert checkpoints(fine) == [2]
        (status,) = engine.status("poisoned")
        assert (status.published, status.failed, status.leases) == (0, 1, ())
        assert status.error is not None
        assert (status.error.version, status.error.code, status.error.stage) == (1, code, "plan")
        assert status.error.next_attempt_at is not None
        assert engine.run(once=True).versions == 2
    assert published_files(poisoned) == committed_files(poisoned)


def test_a_database_that_is_away_while_a_table_is_planned_is_to_be_blamed_on_no_table(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(catalog, tmp_path)
    with mirror_of(catalog) as engine:
        with monkeypatch.context() as patch:
            poison_planning(patch, "t", Unavailable("the database is away"))
            with pytest.raises(Unavailable, match="the database is away"):
                engine.run(once=True)
        (status,) = engine.status("t")
        assert (status.failed, status.pending, status.leases) == (0, 1, ())
        assert engine.run(once=True).versions == 1


@pytest.mark.requirement("R21")
def test_a_checkpoint_whose_job_fails_as_a_whole_fails_by_itself_and_others_get_their_turn(
    catalog: Catalog, tmp_path: Path
) -> None:
    poisoned, fine = (make_table(catalog, tmp_path, name) for name in ("poisoned", "fine"))

    def script(unit: Unit) -> Outcome | None:
        if isinstance(unit, CheckpointUnit) and unit.table == "poisoned":
            raise Internal("Spark cannot run the units: ExecutorLostFailure, exit code 137")
        return None

    for table in (poisoned, fine):
        append(table, 2)
    with mirror_of(catalog, runner=scripted(catalog, script), checkpoint_interval=2, **HOURS) as engine:
        engine.run(once=True)
        assert (checkpoints(poisoned), checkpoints(fine)) == ([], [2])
        (status,) = engine.status("poisoned")
        assert (status.published, status.leases) == (2, ())
        assert status.checkpoint_error is not None
        found = status.checkpoint_error
        assert (found.version, found.code, found.stage, found.attempts) == (2, "transient", "run", 1)
        assert "exit code 137" in found.message
        assert found.next_attempt_at is not None


def test_of_commits_whose_job_fails_as_a_whole_the_one_that_makes_it_fail_is_found(
    catalog: Catalog, tmp_path: Path
) -> None:
    tables = {name: make_table(catalog, tmp_path, name) for name in ("a", "poisoned", "z")}

    def script(unit: Unit) -> Outcome | None:
        if unit.table == "poisoned":
            raise RuntimeError("an outcome that cannot be unpickled")
        return None

    runner = scripted(catalog, script)
    with mirror_of(catalog, runner=runner, **HOURS) as engine:
        summary = engine.run(once=True)
        assert (summary.versions, [type(each.error) for each in summary.failures]) == (2, [Transient])
        assert [[unit.table for unit in job] for job in runner.jobs] == [["a", "poisoned", "z"], ["poisoned"], ["z"]]
        (status,) = engine.status("poisoned")
        assert status.error is not None
        assert (status.error.code, status.error.stage, status.error.attempts) == ("transient", "run", 1)
        assert "cannot be unpickled" in status.error.message
        with pytest.raises(Transient, match="cannot be unpickled"):
            engine.mirror("poisoned")
    assert [published_files(tables[name]) == committed_files(tables[name]) for name in "az"] == [True, True]
