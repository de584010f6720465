"""The part that runs on executors: units in, outcomes out, as rows of Arrow data.

A worker process opens stores and the database itself, when the first unit asks for them: clients of stores do not
survive a fork, and credentials do not travel. It finds both in its own environment.
"""

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pyarrow as pa

from deltamirror.config import Loaded, load
from deltamirror.errors import InvalidSettings, PermissionDenied
from deltamirror.pipeline.crew import work_on
from deltamirror.pipeline.execution import Resources
from deltamirror.storage.clients import Credentials
from deltamirror.storage.open import StoreAddress, open_store
from deltamirror.storage.store import Store
from deltamirror.txnlog.database import Database
from deltamirror.txnlog.open import open_database
from deltamirror.work import Outcome, Unit

__all__ = ["OUTCOMES", "rows_of", "run_rows"]

OUTCOMES: Final = "outcome binary"
"""The schema of what comes back."""

_HINT: Final = (
    "this is a Spark executor, which has the rights and the environment of its own process: DELTAMIRROR_CONFIG, "
    "DELTAMIRROR_STORAGE__ACCESS_KEY_ID and DELTAMIRROR_STORAGE__SECRET_ACCESS_KEY, AWS_…, DELTAMIRROR_CATALOG__URL"
)


def rows_of(units: list[Unit]) -> pa.Table:
    """One row a unit, each in a batch of its own: what is large, Spark spreads by batches."""
    rows = [pa.array([pickle.dumps(unit)], pa.binary()) for unit in units]
    return pa.Table.from_batches([pa.record_batch([row], names=["unit"]) for row in rows])


def run_rows(batches: Iterator[pa.RecordBatch], *, threads: int, fetches: bool) -> Iterator[pa.RecordBatch]:
    """The outcomes of the units of a task, as they finish."""
    resources = _resources(fetches)
    for outcome in work_on(_units(batches), threads=threads, resources=resources):
        row = pa.array([pickle.dumps(_explained(outcome))], pa.binary())
        yield pa.record_batch([row], names=["outcome"])


def _units(batches: Iterator[pa.RecordBatch]) -> Iterator[Unit]:
    for batch in batches:
        for row in batch.column(0):
            unit: Unit = pickle.loads(row.as_buffer())  # noqa: S301  our own driver wrote it
            yield unit


def _explained(outcome: Outcome) -> Outcome:
    """The outcome; of an executor that has no access, with where it would find it."""
    failure = outcome.failure
    if failure is None or not isinstance(failure.error, PermissionDenied):
        return outcome
    hint = "; ".join(filter(None, [failure.error.hint, _HINT]))
    return replace(outcome, failure=replace(failure, error=replace(failure.error, hint=hint)))


# Caches of the worker process: Spark uses it for many tasks.


@lru_cache(maxsize=2)
def _resources(fetches: bool) -> Resources:
    return Resources(_store, _database if fetches else None)


@lru_cache(maxsize=1)
def _loaded() -> Loaded:
    return load(environment=os.environ)


def _store(address: StoreAddress) -> Store:
    return open_store(address, credentials=Credentials.of(_loaded().settings.storage))


@lru_cache(maxsize=1)
def _database() -> Database:
    loaded = _loaded()
    if loaded.origins["catalog.url"] == "default":
        raise InvalidSettings(
            "this Spark executor does not know where the catalog is: DELTAMIRROR_CATALOG__URL is not set",
            hint="set it in the environment of every executor, or set spark.lines to carried",
            key="catalog.url",
        )
    return open_database(loaded.settings.catalog)
