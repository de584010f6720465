"""A service that has had its share of checkpoints publishes commits first, unless a log has grown too long."""

from pathlib import Path

import pytest

from deltamirror import Catalog
from tests.support.mirrors.local import append, make_table, mirror_of

pytestmark = pytest.mark.requirement("R18")


def test_only_late_checkpoints_are_written_while_a_service_rests_from_them(lake: Catalog, tmp_path: Path) -> None:
    early, late = (make_table(lake, tmp_path, name) for name in ("early", "late"))
    with mirror_of(lake) as engine:
        commits, checkpoints = engine._commits, engine._checkpoints
        checkpoints.pace.worked(3_600.0)
        append(early, 10)
        for number in range(1, 6):
            append(late, 10)
            for job in commits.jobs():
                list(job.run())
                job.close()
            taken = [(job, job.tables) for job in checkpoints.jobs()]
            assert [tables for _, tables in taken] == ([("late",)] if number == 5 else [])
            for job, _ in taken:
                list(job.run())
                job.close()
        written = {each.name: each.checkpoint and each.checkpoint.version for each in engine.status()}
        assert written == {"early": None, "late": 50}
        assert engine.mirror("early").checkpoint == 10  # asked for by name, it does not wait


def test_a_run_that_ends_when_nothing_is_due_leaves_no_checkpoint_behind(lake: Catalog, tmp_path: Path) -> None:
    every = {"delta.checkpointInterval": "1"}
    for number in range(20):  # more than one job has
        append(make_table(lake, tmp_path, f"t{number}", properties=every))
    with mirror_of(lake) as engine:
        assert engine.run(once=True).checkpoints == 20
