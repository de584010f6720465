"""From settings to Spark, without one: what executors inherit, who fetches, and what Spark's complaints mean."""

import pickle
import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from deltamirror.config import CatalogSettings, Settings, SparkSettings, load
from deltamirror.errors import DeltaMirrorError, Internal, InvalidSettings, LeaseLost, MissingExtra, Unavailable
from deltamirror.executors.failures import from_spark, translated
from deltamirror.pipeline.run.spark import jobs as jobs_module
from deltamirror.pipeline.run.spark.environment import exported_environment
from deltamirror.pipeline.run.spark.runner import SparkRunner
from deltamirror.work import CheckpointOutcome, Failure, Lane, Lease, Stage
from tests.support.logs.checkpoints import first_commit
from tests.support.logs.commit_units import unit_of, work_of
from tests.support.servers.ports import held_port


def test_executors_inherit_the_file_and_the_flags_over_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake.toml").write_text('[storage]\nsecret_access_key = "hidden"\naccess_key_id = "me"\n')
    monkeypatch.chdir(tmp_path)
    flags = {"catalog.url": "postgresql://me:hunter2@db/lake"}
    loaded = load(environment={}, config=Path("lake.toml"), flags=flags)
    exported = exported_environment(loaded)
    assert exported == {
        "DELTAMIRROR_CONFIG": str(tmp_path / "lake.toml"),
        "DELTAMIRROR_CATALOG__URL": "postgresql://me:hunter2@db/lake",
    }
    monkeypatch.chdir("/")
    assert load(environment=exported).settings == loaded.settings


def test_what_the_environment_says_is_inherited_without_our_doing() -> None:
    loaded = load(environment={"DELTAMIRROR_STORAGE__REGION": "here"}, folder=Path("/nowhere"))
    assert exported_environment(loaded) == {}


@pytest.mark.parametrize(
    ("url", "lines", "fetches"),
    [
        ("postgresql://db/lake", "auto", True),
        ("postgresql+psycopg://db/lake", "auto", True),
        ("postgres://db/lake", "auto", True),
        ("sqlite:///lake.db", "auto", False),
        ("duckdb:///lake.duckdb", "auto", False),
        ("postgresql://db/lake", "carried", False),
        ("sqlite:///lake.db", "fetched", True),
    ],
)
def test_executors_fetch_from_a_server_unless_told_otherwise(url: str, lines: str, fetches: bool) -> None:
    settings = Settings(catalog=CatalogSettings(url=url), spark=SparkSettings(lines=lines))  # type: ignore[arg-type]
    assert SparkRunner(settings).fetches is fetches


@pytest.mark.parametrize(("lines", "warned"), [("carried", True), ("fetched", False)])
def test_a_checkpoint_whose_lease_ended_by_the_clock_of_an_executor_is_told(
    lines: Any, warned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease = Lease(table_id=1, lane=Lane.CHECKPOINTS, owner="me", epoch=1, held_until=1.0)
    lost = Failure(error=LeaseLost("the lease of table 't' ended", table="t"), stage=Stage.LEASE, version=10)
    outcome = CheckpointOutcome(table_id=1, lease=lease, version=10, failure=lost)
    runner = SparkRunner(Settings(spark=SparkSettings(lines=lines)))
    monkeypatch.setattr(runner, "job", lambda *_: iter([[pickle.dumps(outcome)]]))
    [[found]] = runner.run([unit_of([work_of(0, first_commit())])])
    assert found.failure is not None
    assert ("checkpoint.lease" in caplog.text) is warned


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_spark_that_is_not_there_is_known_at_once(scheme: str) -> None:
    with held_port() as port:
        runner = SparkRunner(Settings(spark=SparkSettings(master=f"{scheme}://127.0.0.1:{port}/;token=hunter2")))
        with pytest.raises(Unavailable, match=f"127.0.0.1:{port}") as raised:
            runner.start()
    assert "hunter2" not in str(raised.value.as_json())
    runner.close()


def test_a_spark_that_is_just_starting_keeps_nobody_from_closing_and_is_stopped_when_it_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session, starting, released = MagicMock(), threading.Event(), threading.Event()

    def started(*_: object, **__: object) -> MagicMock:
        starting.set()
        assert released.wait(60)
        return session

    monkeypatch.setattr(jobs_module, "start_session", started)
    monkeypatch.setattr(jobs_module, "_STARTS_WITHIN", 0.01)
    runner = SparkRunner(Settings())
    thread = threading.Thread(target=runner.start)
    thread.start()
    assert starting.wait(60)
    runner.close()
    session.stop.assert_not_called()
    released.set()
    thread.join()
    session.stop.assert_called_once()


@pytest.mark.parametrize("master", ["spark://host:port", "sc://host:99999999"])
def test_a_master_without_a_proper_port_is_a_wrong_setting(master: str) -> None:
    with pytest.raises(InvalidSettings) as raised:
        SparkRunner(Settings(spark=SparkSettings(master=master))).start()
    assert raised.value.key == "spark.master"


@pytest.mark.parametrize(
    ("complaint", "kind", "words"),
    [
        (ModuleNotFoundError("No module named 'grpc'"), MissingExtra, "pip install 'deltamirror[spark]'"),
        (RuntimeError("Traceback (most recent call last):\nNo module named 'deltamirror'"), MissingExtra, "executor"),
        (RuntimeError("Traceback (most recent call last):\nNo module named 'pyarrow'"), MissingExtra, "PYSPARK_PYTHON"),
        (RuntimeError("Cannot call methods on a stopped SparkContext.\nat java"), Unavailable, "spark.master"),
        (RuntimeError("[INVALID_HANDLE.SESSION_CHANGED] the server restarted"), Unavailable, "spark.master"),
        (ConnectionRefusedError("nobody"), Unavailable, "spark.master"),
        (RuntimeError("Could not parse Master URL: 'nonsense'"), InvalidSettings, "local[*]"),
        (RuntimeError("something else"), Internal, ""),
    ],
)
def test_what_spark_raises_becomes_one_of_our_errors(
    complaint: Exception, kind: type[DeltaMirrorError], words: str
) -> None:
    found = from_spark(complaint, "Spark cannot run")
    assert type(found) is kind
    assert words in found.hint
    assert "\n" not in found.message


@pytest.mark.parametrize("behind", ["", "\n\tat org.apache.spark.api.python\nDriver stacktrace:\n\tat x"])
def test_the_reason_of_a_failed_worker_is_the_last_line_of_its_traceback(behind: str) -> None:
    text = f"Thrown\nTraceback (most recent call last):\n  x\nValueError: postgresql://a:b@c is bad\n{behind}"
    with pytest.raises(Internal, match=r"ValueError: postgresql://a:\*\*\*@c is bad"), translated("run"):
        raise RuntimeError(text)
