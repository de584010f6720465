"""Transactions from DataFrames, as a test asks the driver of a Spark for them; the part that drivers run."""

import os
import pickle
import signal
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from deltamirror import Catalog
from deltamirror.config import Settings, StorageSettings, load
from deltamirror.errors import DeltaMirrorError

__all__ = ["FrameWrite", "Result", "packed_write", "result_of", "run_write"]

Result: TypeAlias = dict[str, int] | DeltaMirrorError


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWrite:
    """Statements of SQL, whose rows one transaction writes to tables; those in ``overwrites`` are replaced."""

    catalog: str
    frames: Mapping[str, str]
    overwrites: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    storage: StorageSettings | None = None
    """How a store is reached; the driver has the keys."""
    killed_attempts: int = 0
    """How many attempts of the tasks with rows lose a Python process when they have computed them."""


def packed_write(write: FrameWrite) -> dict[str, object]:
    """The request for a driver."""
    return {"frames": b64encode(pickle.dumps(write)).decode()}


def result_of(answer: str) -> Result:
    """What came of it."""
    found: Result = pickle.loads(b64decode(answer))  # noqa: S301  a process of our own wrote it
    return found


def run_write(session: SparkSession, request: dict[str, Any]) -> str:
    """Do what a request asks: the versions of its tables, or the error."""
    write: FrameWrite = pickle.loads(b64decode(request["frames"]))  # noqa: S301  a process of our own wrote it
    try:
        result: Result = _versions(session, write)
    except DeltaMirrorError as error:
        result = error
    return b64encode(pickle.dumps(result)).decode()


def _versions(session: SparkSession, write: FrameWrite) -> dict[str, int]:
    with Catalog(write.catalog, settings=_settings(write)) as catalog, catalog.transaction() as tx:
        for table, statement in write.frames.items():
            frame = _stumbling(session.sql(statement), write.killed_attempts)
            if (options := write.overwrites.get(table)) is not None:
                tx.overwrite(table, frame, **options)
            else:
                tx.append(table, frame)
    return dict(tx.result.versions)


def _settings(write: FrameWrite) -> Settings:
    settings = load(environment=os.environ).settings
    if write.storage is None:
        return settings
    own = settings.storage
    keys = {"access_key_id": own.access_key_id, "secret_access_key": own.secret_access_key}
    return msgspec.structs.replace(settings, storage=msgspec.structs.replace(write.storage, **keys))


def _stumbling(frame: DataFrame, attempts: int) -> DataFrame:
    if not attempts:
        return frame

    def killed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # travels by value: executors lack us
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            yield batch
        context = TaskContext.get()
        if rows and context is not None and context.attemptNumber() < attempts:
            os.kill(os.getpid(), signal.SIGKILL)

    numbered = frame.toDF(*(str(number) for number in range(len(frame.columns))))
    return numbered.mapInArrow(killed, numbered.schema).toDF(*frame.columns)
