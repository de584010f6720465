"""The thread that compares logs lasts as long as the service, whatever it meets."""

import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from deltamirror import Catalog, MirrorEngine
from deltamirror.ops.reconcile import background
from deltamirror.ops.reconcile.background import BackgroundReconciler
from deltamirror.ops.reconcile.reconciling import Reconciler, TableReconciled
from deltamirror.txnlog.queue.expected_objects import KeptLog, kept_logs
from tests.support.mirrors.local import (
    append,
    committed_files,
    following,
    local_settings,
    log_of,
    make_table,
    mirror_of,
    published_files,
    until,
)
from tests.support.mirrors.reconcilers import comparing_every, reconciler_of

pytestmark = pytest.mark.requirement("R52")

SECRET = "postgresql://me:hunter2@db/lake"


def test_a_defect_is_told_and_the_other_logs_are_compared_and_so_is_this_one_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Reconciler.look
    broken, compared = iter([True]), {name: threading.Event() for name in ("a", "b")}

    def looked(self: Reconciler, log: KeptLog) -> TableReconciled:
        if log.name == "a" and not compared["b"].is_set():
            raise RuntimeError(f"cannot read {SECRET}")
        found = look(self, log)
        compared[log.name].set()
        return found

    def listed(*arguments: Any, **options: Any) -> list[KeptLog]:
        if next(broken, False):
            raise KeyError(SECRET)
        return kept_logs(*arguments, **options)

    monkeypatch.setattr(Reconciler, "look", looked)
    monkeypatch.setattr(background, "kept_logs", listed)
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        for name in ("a", "b"):
            make_table(catalog, tmp_path, name)
        with mirror_of(catalog) as engine, reconciler_of(engine) as (reconciler, _):
            engine.run(once=True)
            with BackgroundReconciler(catalog.database, reconciler, live=comparing_every(0.1), ending=engine.ending):
                assert compared["b"].wait(60)
                assert compared["a"].wait(60)
    told = [record.getMessage() for record in caplog.records if record.name == background.__name__]
    assert [text.partition(":")[0] for text in told[:2]] == [
        "the logs are not compared",
        "the log of table 'a' was not compared",
    ]
    assert "hunter2" not in caplog.text


def test_the_service_of_a_python_program_brings_back_what_is_gone_from_a_log_as_that_of_the_command_line_does(
    tmp_path: Path,
) -> None:
    settings = local_settings()
    settings = replace(settings, reconcile=replace(settings.reconcile, interval=0.1))
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as catalog:
        catalog.init()
        table = make_table(catalog, tmp_path)
        append(table, 2)
        with MirrorEngine(settings=settings, database=catalog.database) as engine:
            engine.run(once=True)
            for path in log_of(table).glob(f"{1:020d}.*"):
                path.unlink()
            with following(engine):
                until(lambda: published_files(table) == committed_files(table))
