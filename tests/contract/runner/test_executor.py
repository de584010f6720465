"""The executor's side of a job, in this process: what it needs of its environment, and what it says without."""

import gc
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deltamirror.config import StorageSettings
from deltamirror.errors import InvalidSettings, PermissionDenied
from deltamirror.pipeline.run import execution
from deltamirror.pipeline.run.spark import executor
from deltamirror.storage.address import StoreAddress
from deltamirror.work import CommitUnit, Outcome
from tests.support.logs.checkpoints import first_commit
from tests.support.logs.checkpoints import unit_of as checkpoint_of
from tests.support.logs.commit_units import unit_of, work_of


@pytest.fixture(autouse=True)
def another_process() -> Iterator[None]:
    """An executor keeps its resources for the life of its process."""
    kept = (executor._resources, executor._settings, executor._keep_what_is_loaded)
    for each in kept:
        each.cache_clear()
    yield
    for each in kept:
        each.cache_clear()
    gc.freeze()  # as the tests began


def ran(unit: CommitUnit, *, fetches: bool = False) -> Outcome:
    (answer,) = executor.run_units(iter([pickle.dumps(unit)]), threads=2, fetches=fetches)
    outcome: Outcome = pickle.loads(answer)  # noqa: S301  our own bytes
    return outcome


def error_of(outcome: Outcome, kind: type) -> str:
    assert outcome.failure is not None
    assert type(outcome.failure.error) is kind
    return f"{outcome.failure.error.message} {outcome.failure.error.hint}"


def test_an_executor_without_the_stores_keys_names_the_variables(
    s3_bucket: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", "hunter2")
    unit = unit_of([work_of(0, first_commit())], location="/nowhere")
    address = StoreAddress.of(f"s3://{s3_bucket}/t", s3_settings)
    told = error_of(ran(_at(unit, address)), PermissionDenied)
    assert "DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY" in told
    assert "hunter2" not in told


def _at(unit: CommitUnit, address: StoreAddress) -> CommitUnit:
    return CommitUnit(table_id=unit.table_id, table=unit.table, address=address, lease=unit.lease, commits=unit.commits)


def test_an_executor_without_the_catalog_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DELTAMIRROR_CATALOG__URL", raising=False)
    outcome = ran(unit_of([work_of(0, first_commit())]), fetches=True)
    assert "DELTAMIRROR_CATALOG__URL" in error_of(outcome, InvalidSettings)


def test_an_executor_with_wrong_settings_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTAMIRROR_STORAGE__RETRIES", "many")
    outcome = ran(unit_of([work_of(0, first_commit())]))
    assert "DELTAMIRROR_STORAGE__RETRIES" in error_of(outcome, InvalidSettings)


def test_what_travels_holds_no_credentials(s3_settings: StorageSettings) -> None:
    unit = unit_of([work_of(0, first_commit())])
    item = pickle.dumps(_at(unit, StoreAddress.of("s3://bucket/t", s3_settings)))
    assert s3_settings.secret_access_key is not None
    assert b"s3://bucket/t" in item
    assert s3_settings.secret_access_key.reveal().encode() not in item


def test_what_a_worker_process_has_loaded_is_no_garbage_to_look_at_after_each_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.unfreeze()
    ran(unit_of([work_of(0, first_commit())], location=str(tmp_path)))
    kept = gc.get_freeze_count()
    assert kept > len(gc.get_objects())
    frozen_again: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen_again.append(None))
    ran(unit_of([work_of(0, first_commit())], location=str(tmp_path)))
    assert frozen_again == []
    assert gc.get_freeze_count() <= kept  # what later tasks make is not kept; what the first one left may go


def test_a_checkpoint_gives_way_to_commits_in_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nice: dict[str, int] = {}

    def noting(name: str, publish: Callable[..., Outcome]) -> Callable[..., Outcome]:
        def noted(*arguments: object, **options: object) -> Outcome:
            nice[name] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            return publish(*arguments, **options)

        return noted

    for name in ("publish_checkpoint", "publish_commits"):
        monkeypatch.setattr(execution, name, noting(name, getattr(execution, name)))
    before = os.getpriority(os.PRIO_PROCESS, 0)
    address = StoreAddress.of(str(tmp_path), StorageSettings())
    checkpoint = replace(checkpoint_of([first_commit()]), address=address)
    units = [checkpoint, unit_of([work_of(0, first_commit())], location=str(tmp_path))]
    list(executor.run_units(iter(map(pickle.dumps, units)), threads=1, fetches=False))
    assert nice == {"publish_checkpoint": max(before, 10), "publish_commits": before}
