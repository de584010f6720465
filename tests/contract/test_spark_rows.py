"""DataFrames of Spark as far as no Spark is needed: how they are known, what is refused, and that nothing half is left.

``tests/interop/test_spark_rows.py`` has the same on Spark.
"""

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from deltamirror import Catalog, Table
from deltamirror.errors import (
    Conflict,
    DeltaMirrorError,
    InvalidInput,
    InvalidSchema,
    PermissionDenied,
    Transient,
    Unavailable,
)
from deltamirror.executors.access import executor_store
from deltamirror.rows import spark as spark_rows
from deltamirror.rows.sources import is_spark_frame
from deltamirror.rows.spark_batches import batches_by_rows
from tests.support.spark.frames import DataFrame, Settings, SparkSession

pytestmark = pytest.mark.requirement("R89")


def orders(*ids: int | None, day: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": [day] * len(ids), "a.b": [f"n{each}" for each in ids]})


@pytest.fixture
def table(lake: Catalog, tmp_path: Path) -> Table:
    schema = "id long not null, day string, `a.b` string"
    return lake.create_table("orders", location=tmp_path / "orders", schema=schema, partition_by=["day"])


@pytest.fixture(autouse=True)
def _task_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1_000))
    monkeypatch.setattr(spark_rows, "task_number", lambda: next(numbers))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))


def test_each_task_writes_its_own_files_and_one_commit_names_them_all(table: Table) -> None:
    rows = [orders(1, 2), orders(3, day="b"), orders(4), orders(1).slice(1)]
    table.append(DataFrame(rows))
    tasks = sorted(re.sub(r"-[0-9a-f-]{36}(?=[.])", "", add.path) for add in table.snapshot().adds())
    end = ".c000.snappy.parquet"
    assert tasks == [f"day=a/part-00000{end}", f"day=a/part-00002{end}", f"day=b/part-00001{end}"]
    assert table.to_arrow().sort_by("id") == pa.concat_tables(rows)
    assert table.info().head == 1


def test_frames_and_arrow_data_are_written_by_one_transaction_over_several_tables(
    lake: Catalog, table: Table, tmp_path: Path
) -> None:
    daily = lake.create_table("daily", location=tmp_path / "daily", schema="day string, total long")
    with lake.transaction() as tx:
        tx.append("orders", DataFrame([orders(1), orders(2)]))
        tx.overwrite("daily", pa.table({"day": ["a"], "total": [2]}))
    assert tx.result.versions == {"orders": 1, "daily": 1}
    table.overwrite(DataFrame([orders(7), orders(8, day="b")]), dynamic=True)
    table.overwrite(DataFrame([orders(9)]), replace_where="day = 'a'")
    assert sorted(table.to_arrow("id").column(0).to_pylist()) == [8, 9]
    assert daily.to_arrow().num_rows == 1


def test_a_task_that_fails_leaves_no_file_of_itself_or_of_the_others(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="'id' is NOT NULL, and 1 of"):
        table.append(DataFrame([orders(1), orders(2, None), orders(3, None)]))
    with pytest.raises(InvalidInput, match=r"rows with day = 'b', which are outside of day = 'a'"):
        table.overwrite(DataFrame([orders(1), orders(2, day="b")]), replace_where="day = 'a'")
    assert table.info().head == 0
    assert files(tmp_path) == []


def test_files_of_a_commit_that_is_refused_are_deleted(lake: Catalog, table: Table, tmp_path: Path) -> None:
    tx = lake.transaction()
    tx.overwrite("orders", DataFrame([orders(1), orders(2)]))
    table.append(orders(3))
    with pytest.raises(Conflict):
        tx.commit()
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (DataFrame([pa.table({"id": ["1"]})]), "'id' is long, the data has string"),
        (DataFrame([pa.table({"id": [1], "x": [1]})]), "'x', which the table lacks"),
        (DataFrame([pa.table({"day": ["a"]})]), "'id' is NOT NULL, and missing"),
        (DataFrame([pa.table([[1], [1]], ["id", "ID"])]), "'ID' twice"),
        (DataFrame([pa.table({})]), "no columns"),
        (DataFrame([orders(1)], isStreaming=True), "is a stream"),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_before_any_job(table: Table, given: DataFrame, message: str) -> None:
    jobs: list[Any] = []
    with pytest.raises(InvalidInput, match=message):
        table.append(replace(given, jobs=jobs))
    assert jobs == []


def test_a_type_that_delta_lacks_is_refused_by_name(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    interval = '{"type":"struct","fields":[{"name":"i","type":"interval day to second","nullable":true,"metadata":{}}]}'
    frame = DataFrame([orders(1)])
    monkeypatch.setattr(DataFrame, "schema", type("S", (), {"json": staticmethod(lambda: interval)}))
    with pytest.raises(InvalidSchema, match="interval day to second"):
        table.append(frame)


def test_a_known_token_starts_no_job(table: Table, tmp_path: Path) -> None:
    jobs: list[Any] = []
    first = table.append(DataFrame([orders(1)], jobs=jobs), token="load 1")
    again = table.append(DataFrame([orders(1)], jobs=jobs), token="load 1")
    assert (again.versions, again.already_applied, len(jobs)) == (first.versions, True, 1)
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (RuntimeError("[DIVIDE_BY_ZERO] Division by zero."), InvalidInput),
        (RuntimeError("Job aborted: ExecutorLostFailure (executor 1 exited)"), Transient),
        (RuntimeError("Python worker exited unexpectedly (crashed)"), Transient),
        (RuntimeError("Cannot call methods on a stopped SparkContext."), Unavailable),
        (ConnectionRefusedError("no server"), Unavailable),
    ],
)
def test_a_job_that_fails_is_one_error_of_ours_and_nothing_is_committed(
    table: Table, raised: Exception, kind: type[DeltaMirrorError]
) -> None:
    with pytest.raises(kind, match=r"Spark cannot write the rows of table 'orders'") as caught:
        table.append(DataFrame([orders(1)], fails=raised))
    assert type(caught.value) is kind
    assert caught.value.hint.startswith("nothing was committed; ")
    assert table.info().head == 0


@pytest.mark.parametrize("kind", [InvalidInput, PermissionDenied, Transient, Unavailable])
def test_an_error_of_ours_that_a_task_raised_is_that_error(table: Table, kind: type[DeltaMirrorError]) -> None:
    traceback = f"Traceback (most recent call last):\n  File x\ndeltamirror.errors.{kind.__name__}: told by a task\n"
    with pytest.raises(kind, match=r"^told by a task$"):
        table.append(DataFrame([orders(1)], fails=RuntimeError(f"Job aborted. {traceback}")))
    assert table.info().head == 0


def test_an_executor_without_access_says_where_it_looked_for_it(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> object:
        raise PermissionDenied("the store refuses us", hint="check the keys")

    monkeypatch.setattr(spark_rows, "executor_store", refused)
    with pytest.raises(PermissionDenied) as caught:
        table.append(DataFrame([orders(1)]))
    assert "this is a Spark executor" in caught.value.hint
    assert "DELTAMIRROR_STORAGE__ACCESS_KEY_ID" in caught.value.hint


def test_files_on_a_disk_that_only_executors_have_are_not_committed(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(address: Any) -> Any:
        return executor_store(replace(address, location=f"file://{tmp_path}/other-machine"))

    monkeypatch.setattr(spark_rows, "executor_store", elsewhere)
    with pytest.raises(InvalidInput, match=r"which is not at file://.*/orders for this process") as caught:
        table.append(DataFrame([orders(1)]))
    assert "disk that all of them share" in caught.value.hint
    assert table.info().head == 0


def test_the_order_of_a_job_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("DELTAMIRROR_STORAGE__ACCESS_KEY_ID", "hunter1")
    with Catalog(f"sqlite:///{tmp_path / 'lake.db'}") as lake:
        lake.init()
        table = lake.create_table("orders", location=tmp_path / "orders", schema="id long")
        jobs: list[Any] = []
        table.append(DataFrame([pa.table({"id": [1]})], jobs=jobs))
    assert b"hunter" not in pickle.dumps(jobs)


def test_frames_are_known_without_pyspark() -> None:
    assert is_spark_frame(DataFrame([orders(1)]))
    others: list[Callable[[], object]] = [object, lambda: DataFrame, lambda: orders(1), lambda: orders(1).to_pandas()]
    assert not any(is_spark_frame(each()) for each in others)
    program = "import sys, deltamirror.catalog, deltamirror.rows.sources; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_task_outside_of_spark_has_the_number_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert TaskContext.get() is None
    assert spark_rows.task_number() == 0


def test_a_session_has_its_settings_again_after_a_write_and_after_one_that_failed(table: Table) -> None:
    session = SparkSession(Settings({"spark.app.name": "theirs"}))
    table.append(DataFrame([orders(1)], sparkSession=session))
    with pytest.raises(DeltaMirrorError):
        table.append(DataFrame([orders(None)], sparkSession=session))
    assert session.conf.getAll == {"spark.app.name": "theirs"}


def test_a_session_whose_settings_cannot_be_changed_writes_all_the_same(table: Table) -> None:
    table.append(DataFrame([orders(1)], sparkSession=SparkSession(Settings(closed=True))))
    assert table.to_arrow()["id"].to_pylist() == [1]


def test_a_setting_that_is_made_during_a_write_stays() -> None:
    session, name = SparkSession(), "spark.sql.execution.arrow.maxRecordsPerBatch"
    with batches_by_rows(session):  # type: ignore[arg-type]
        session.conf.set(name, "333")
    assert session.conf.getAll == {name: "333"}
