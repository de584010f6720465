"""What the mirror measures of its own work is what SQL and the store say of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.delta.names import commit_name
from deltamirror.errors import Conflict, Unavailable
from deltamirror.ops.reconcile.reconciling import Strategy
from deltamirror.pipeline.run.execution import failed
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.work import CheckpointUnit, Outcome, Stage, Unit
from tests.support.lakes.lake import add, execute
from tests.support.mirrors.local import ScriptedRunner, append, local_settings, log_of, make_table, mirror_of
from tests.support.mirrors.reconcilers import reconciled, reconciling
from tests.support.monitoring.scraping import labels_of, own_labels, scraped, value

STAGES = ("read", "serialise", "upload", "verify")
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def labels() -> Iterator[None]:
    with own_labels():
        yield


@pytest.mark.requirement("R59")
def test_every_version_has_the_time_from_its_commit_to_its_object_in_sql_and_in_the_histogram(
    lake: Catalog, tmp_path: Path
) -> None:
    table = make_table(lake, tmp_path, "timed")
    append(table, 12)
    with mirror_of(lake) as engine:
        engine.run(once=True)
    rows = execute(
        lake,
        "SELECT s.version, s.published_at, s.updated_at, v.committed_at FROM dl_mirror_status s"
        " JOIN dl_table_versions v ON v.table_id = s.table_id AND v.version = s.version",
    )
    assert len(rows) == 13
    for version, published_at, updated_at, committed_at in rows:
        modified = (log_of(table) / commit_name(version)).stat().st_mtime_ns // 1_000_000
        assert max(modified, committed_at) <= published_at <= updated_at
    assert value("deltamirror_publish_seconds_count", table="timed") == 13
    told = value("deltamirror_publish_seconds_sum", table="timed")
    assert told == pytest.approx(sum(max(0, at - committed) for _, at, _, committed in rows) / 1_000)
    assert labels_of("deltamirror_publish_seconds_count", "table") >= {"timed"}


def test_what_is_counted_of_commits_is_what_sql_counts(lake: Catalog, tmp_path: Path) -> None:
    before = scraped()
    table = make_table(lake, tmp_path)
    append(table, 3)
    with pytest.raises(Conflict):
        lake.writer.commit_at("t", 2, [add("late")])
    after = scraped()

    def counted(name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return after.get(key, 0.0) - before.get(key, 0.0)

    [(transactions,)] = execute(lake, "SELECT count(DISTINCT txn_id) FROM dl_table_versions")
    assert counted("deltamirror_commits_total") == transactions == 4
    assert counted("deltamirror_commit_seconds_count", outcome="committed") == transactions
    assert counted("deltamirror_commit_seconds_count", outcome="conflict") == 1
    assert counted("deltamirror_open_seconds_count") >= 1


def test_attempts_failures_stages_and_checkpoints_are_counted(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path)
    append(table, 4)
    struck: list[Unit] = []

    def fail_once(unit: Unit) -> Outcome | None:
        if struck or isinstance(unit, CheckpointUnit):
            return None
        struck.append(unit)
        return failed(unit, Unavailable("the store is away"), Stage.PUT)

    names = {
        "failed": ("deltamirror_failures_total", {"class": "unavailable", "lane": "commits"}),
        "failures": ("deltamirror_attempts_total", {"lane": "commits", "outcome": "failure"}),
        "successes": ("deltamirror_attempts_total", {"lane": "commits", "outcome": "success"}),
        "checkpoints": ("deltamirror_attempts_total", {"lane": "checkpoints", "outcome": "success"}),
        "times": ("deltamirror_checkpoint_seconds_count", {}),
        "bytes": ("deltamirror_checkpoint_bytes_sum", {}),
        **{stage: ("deltamirror_stage_seconds_count", {"stage": stage}) for stage in (*STAGES, "checkpoint")},
    }
    before = {key: value(name, **labels) for key, (name, labels) in names.items()}
    with mirror_of(
        lake, runner=ScriptedRunner(InProcessRunner(lake.database, local_settings()), fail_once), checkpoint_interval=4
    ) as engine:
        engine.run(once=True)
        engine.run(once=True)
    counted = {key: value(name, **labels) - before[key] for key, (name, labels) in names.items()}
    [(num_bytes,)] = execute(lake, "SELECT num_bytes FROM dl_checkpoints")
    assert counted == {
        "failed": 1,
        "failures": 1,
        "successes": 1,
        "checkpoints": 1,
        "times": 1,
        "bytes": num_bytes,
        **dict.fromkeys((*STAGES, "checkpoint"), 1),
    }


def test_findings_of_a_reconciler_are_counted_by_kind(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path)
    append(table, 3)
    before = {kind: value("deltamirror_reconcile_findings_total", kind=kind) for kind in ("missing", "altered")}
    with reconciling(lake) as engine:
        engine.mirror("t")
        for version in (1, 2):
            (log_of(table) / commit_name(version)).unlink()
        reconciled(engine, Strategy.FULL)
    assert value("deltamirror_reconcile_findings_total", kind="missing") == before["missing"] + 2
    assert value("deltamirror_reconcile_findings_total", kind="altered") == before["altered"]


@pytest.mark.requirement("R63")
def test_the_status_of_a_table_says_which_stage_took_the_time(lake: Catalog, tmp_path: Path) -> None:
    table = make_table(lake, tmp_path)
    append(table, 3)
    with mirror_of(lake) as engine:
        engine.run(once=True)
        execute(lake, "UPDATE dl_mirror_status SET upload_us = 2000000 WHERE version = 2")
        (status,) = engine.status("t")
        assert engine.status()[0].stages is None
    assert status.stages is not None
    assert status.stages.versions == 4
    assert status.stages.upload_ms > 500 > status.stages.read_ms + status.stages.serialise_ms + status.stages.verify_ms


@pytest.mark.requirement("R17")
def test_the_reason_for_a_checkpoint_names_the_rate_and_the_bytes_that_were_measured(
    lake: Catalog, tmp_path: Path
) -> None:
    often, seldom = (make_table(lake, tmp_path, name) for name in ("often", "seldom"))
    append(often, 10)
    append(seldom, 2)
    for table, apart in ((often, 20), (seldom, HOUR)):
        execute(
            lake,
            "UPDATE dl_table_versions SET committed_at = :start + version * :apart, num_bytes = num_bytes"
            " WHERE table_id = :id",
            start=1_700_000_000_000,
            apart=apart,
            id=table.info().id,
        )
    sizes = {
        table.name: sum(len(table.commit_file(version)) for version in range(table.info().head + 1))
        for table in (often, seldom)
    }
    with mirror_of(lake, checkpoint_bytes=sizes["seldom"]) as engine:
        engine.run(once=True)
        found = {each.name: each.checkpoint for each in engine.status()}
    assert found["often"] is not None
    assert found["seldom"] is not None
    assert found["often"].reason == (
        f"interval of 10 versions; measured 10 commits of {sizes['often']:,} bytes, 50.0 a second"
    )
    assert found["seldom"].reason == (
        f"{sizes['seldom']:,} bytes of commits, of {sizes['seldom']:,}; "
        f"measured 2 commits of {sizes['seldom']:,} bytes, 1.0 an hour"
    )
