"""The part that runs on executors: units in, outcomes out.

A worker process opens stores and the database itself, when the first unit asks for them: clients of stores do not
survive a fork, and credentials do not travel. It finds both in its own environment.
"""

import gc
import math
import os
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from deltamirror.config import LiveSettings, Loaded
from deltamirror.config.load import DEFAULT_ORIGIN
from deltamirror.errors import DeltaMirrorError, InvalidSettings
from deltamirror.executors.access import explained
from deltamirror.pipeline.run.execution import Resources, failed, prefetched
from deltamirror.pipeline.run.local.threads import work_on
from deltamirror.txnlog.database.access import Database
from deltamirror.txnlog.database.opening import open_database
from deltamirror.work import CommitUnit, Outcome, Stage, Unit


def run_units(items: Iterator[bytes], *, threads: int, fetches: bool, seconds: float = math.inf) -> Iterator[bytes]:
    """The outcomes of the units of a task, as they finish; commits have so many ``seconds`` together."""
    units: list[Unit] = [pickle.loads(item) for item in items]  # noqa: S301  our own driver wrote it
    for outcomes in _outcomes(units, threads=threads, fetches=fetches, seconds=seconds):
        yield from (pickle.dumps(_explained(each)) for each in outcomes)
    _keep_what_is_loaded()


def in_time(units: Iterable[Unit], seconds: float, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Unit]:
    """The units, each with what is left of the time when it is begun.

    Spark hands the outcomes of a job over when all of them are there: a unit with a long backlog would keep those of
    its neighbours for as long as it has budget. At least one version of each is tried.
    """
    end = clock() + seconds
    for unit in units:
        left = max(0.0, end - clock())
        yield replace(unit, budget=min(unit.budget, left)) if isinstance(unit, CommitUnit) else unit


def _outcomes(units: Sequence[Unit], *, threads: int, fetches: bool, seconds: float) -> Iterator[list[Outcome]]:
    try:
        _settings().check()
        resources = _resources(fetches)
    except DeltaMirrorError as error:
        yield [failed(unit, error, Stage.FETCH) for unit in units]
        return
    with resources.leases.asked_together(unit.lease for unit in units):
        timed = in_time(prefetched(units, resources), seconds)
        yield from work_on(timed, threads=threads, resources=resources)


def _explained(outcome: Outcome) -> Outcome:
    """The outcome; of an executor that has no access, with where it would find it."""
    failure = outcome.failure
    return outcome if failure is None else replace(outcome, failure=replace(failure, error=explained(failure.error)))


@lru_cache(maxsize=1)
def _keep_what_is_loaded() -> None:
    """Let no collection look at modules and statements again: Spark collects all garbage after each task, in 60 ms."""
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=1)
def _settings() -> LiveSettings:
    """Those of a worker process; Spark uses it for many tasks."""
    return LiveSettings.load(environment=os.environ)


@lru_cache(maxsize=2)
def _resources(fetches: bool) -> Resources:
    """What a worker process has."""
    return Resources.with_keys(_settings(), _database(_settings().loaded) if fetches else None, is_task=True)


def _database(loaded: Loaded) -> Database:
    if loaded.origins["catalog.url"] == DEFAULT_ORIGIN:
        raise InvalidSettings(
            "this Spark executor does not know where the catalog is: DELTAMIRROR_CATALOG__URL is not set",
            hint="set it in the environment of every executor, or set spark.lines to carried",
            key="catalog.url",
        )
    return open_database(loaded.settings.catalog)
