"""What does not get on by itself is escalated: once, said in the log once, and closed when it succeeds after all."""

import logging
from pathlib import Path

import pytest

from deltamirror import Catalog
from deltamirror.errors import Unavailable
from deltamirror.ops.reconcile.repair import repair
from deltamirror.ops.reconcile.table_logs import Logs
from deltamirror.pipeline.run.inspection import LocalInspector
from deltamirror.pipeline.run.local.runner import InProcessRunner
from deltamirror.txnlog.queue.escalations import Escalation, escalations_of
from deltamirror.work import CommitOutcome, CommitUnit, Failure, Outcome, Stage, Unit
from tests.support.mirrors.local import ScriptedRunner, append, local_settings, log_of, make_table, mirror_of

pytestmark = [pytest.mark.requirement("R54"), pytest.mark.default_on("sqlite")]


def escalated(catalog: Catalog) -> list[Escalation]:
    with catalog.database.read() as connection:
        return escalations_of(connection, 1)


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.default_on("sqlite", "postgresql")
@pytest.mark.requirement("R51")
def test_a_version_is_escalated_past_the_last_of_its_attempts_once_and_closed_when_published(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_table(catalog, tmp_path)
    append(table)
    away = [True]

    def script(unit: Unit) -> Outcome | None:
        if not away[0] or not isinstance(unit, CommitUnit):
            return None
        failure = Failure(error=Unavailable("the store is away"), stage=Stage.PUT, version=unit.commits[0].version)
        return CommitOutcome(table_id=unit.table_id, lease=unit.lease, failure=failure)

    runner = ScriptedRunner(InProcessRunner(catalog.database, local_settings()), script)
    with mirror_of(catalog, runner=runner, attempts=3, breaker_enabled=False) as engine:
        for _ in range(2):
            with pytest.raises(Unavailable):
                engine.mirror("t")
        assert (escalated(catalog), errors_in(caplog)) == ([], [])
        for _ in range(2):
            assert engine.run(once=True).failures
        [found] = escalated(catalog)
        assert (found.version, found.lane, found.error_code, found.closed_at) == (0, "commits", "unavailable", None)
        [line] = errors_in(caplog)
        assert "version 0 of table 't' failed 3 times (unavailable): the store is away; next try 2" in line
        assert line.endswith("; `deltamirror report t 0`")
        assert engine.status("t")[0].escalations == 1
        away[0] = False
        engine.mirror("t")
        assert engine.status("t")[0].escalations == 0
        [closed] = escalated(catalog)
        assert closed.closed_at is not None
        assert closed.closed_at >= closed.opened_at


def test_what_no_retry_cures_is_escalated_at_once_and_opened_again_if_it_comes_back(
    catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_table(catalog, tmp_path)
    with mirror_of(catalog) as engine:
        engine.run(once=True)
        append(table)
        theirs = log_of(table) / "00000000000000000001.json"
        theirs.write_bytes(b"{}\n")
        for _ in range(3):
            engine.run(once=True)
        [first] = escalated(catalog)
        assert (first.version, first.error_code, first.closed_at) == (1, "diverged", None)
        [line] = errors_in(caplog)
        assert line.endswith("; the table is quarantined; `deltamirror report t 1`")
        theirs.unlink()
        with Logs(engine, LocalInspector(engine.settings)) as logs:
            repair(logs, "t")
        assert [each.closed_at is None for each in escalated(catalog)] == [False]
