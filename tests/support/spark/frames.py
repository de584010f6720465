"""A DataFrame of Spark as far as rows are written by it, without Spark: its tasks run one after the other, here."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException

from deltamirror.delta.schema import schema_string
from deltamirror.delta.schema.arrow import from_arrow

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Settings:
    """The settings of a session; it sets no others if it is ``closed``."""

    getAll: dict[str, str] = field(default_factory=dict)  # noqa: N815 - pyspark's name
    closed: bool = False

    def set(self, name: str, value: str) -> None:
        """Set one."""
        if self.closed:
            raise PySparkException(f"{name} cannot be set")
        self.getAll[name] = value

    def unset(self, name: str) -> None:
        """As if one had never been set."""
        self.getAll.pop(name, None)


@dataclass(frozen=True)
class DataFrame:
    """Some tables, each of which is one task. ``fails`` is raised in the place of the job."""

    tasks: Sequence[pa.Table]
    fails: Exception | None = None
    isStreaming: bool = False  # noqa: N815 - pyspark's name
    jobs: list[Task] | None = None
    sparkSession: "SparkSession" = field(default_factory=lambda: SparkSession())  # noqa: N815, PLW0108 - pyspark's name, and it follows

    @property
    def schema(self) -> Any:
        """The schema, as Spark tells it."""
        text = schema_string(from_arrow(self.tasks[0].schema))
        return SimpleNamespace(json=lambda: json.dumps(json.loads(text)))

    def persist(self) -> "DataFrame":
        """The same: it is kept as it is."""
        return self

    unpersist = persist

    def repartition(self, _: int) -> "DataFrame":
        """The same tasks."""
        return self

    def toDF(self, *names: str) -> "DataFrame":  # noqa: N802 - pyspark's name
        """The same with other names."""
        return replace(self, tasks=[each.rename_columns(list(names)) for each in self.tasks])

    def toArrow(self) -> pa.Table:  # noqa: N802 - pyspark's name
        """All rows."""
        if self.fails is not None:
            raise self.fails
        return pa.concat_tables(self.tasks)

    def mapInArrow(self, task: Task, _: str) -> Any:  # noqa: N802 - pyspark's name
        """What tasks make of it."""
        if self.jobs is not None:
            self.jobs.append(task)
        return SimpleNamespace(toArrow=lambda: self._collected(task))

    def _collected(self, task: Task) -> pa.Table:
        if self.fails is not None:
            raise self.fails
        found = [batch for each in self.tasks for batch in task(iter(each.to_batches()))]
        return pa.Table.from_batches(found, found[0].schema if found else pa.schema([("answer", pa.binary())]))


@dataclass(frozen=True)
class SparkSession:
    """A session that runs the tasks of its frames here."""

    conf: Settings = field(default_factory=Settings)

    def createDataFrame(self, rows: Sequence[tuple[Any, ...]], _: str) -> DataFrame:  # noqa: N802 - pyspark's name
        """A frame of one column, a task a row."""
        return DataFrame([pa.table({"files": pa.array([bytes(value)], pa.binary())}) for (value,) in rows])


SparkSession.__module__ = "pyspark.sql.session"
DataFrame.__module__ = "pyspark.sql.classic.dataframe"  # by which it is known
