"""Statements of SQL in one transaction, in the session that tests share."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltamirror.errors import DeltaMirrorError
from deltamirror.spark import transaction
from tests.support.spark.stock_jobs import configured


@dataclass(slots=True)
class TransactionOutcome:
    """What became of a transaction."""

    versions: Mapping[str, int] = field(default_factory=dict)
    inside: list[list[Any]] = field(default_factory=list)
    """The rows of each statement."""
    outside: list[list[Any]] = field(default_factory=list)
    """The rows that another session saw before the end."""
    refusals: list[str] = field(default_factory=list)
    """Of the statements that had to be refused."""
    error: str = ""
    """What ended the block early, or refused the commit."""


@dataclass(frozen=True, slots=True)
class TransactionJob:
    """Statements of SQL in one transaction."""

    settings: Mapping[str, str]
    statements: Sequence[str]
    outside: Sequence[str] = ()
    """Queries of a session that knows nothing of the server, before the transaction ends."""
    beside: Sequence[str] = ()
    """Statements of another job of the server, before the transaction ends."""
    refused: Sequence[str] = ()
    """Statements, or paths to be loaded, that are tried in the transaction, which goes on after their errors."""
    stage: str | None = None
    cached: str | None = None
    """A query whose rows the session caches before."""

    def run(self, session: SparkSession) -> TransactionOutcome:
        """Run them one after the other."""
        outcome = TransactionOutcome()
        with configured(session, self.settings), _cached(session, self.cached):
            try:
                with transaction(session, stage=self.stage) as begun:
                    outcome.inside += [_rows(session, statement) for statement in self.statements]
                    outcome.refusals += [_refusal(session, each) for each in self.refused]
                    plain, job = session.newSession(), session.newSession()
                    outcome.outside += [_rows(plain, statement) for statement in self.outside]
                    with configured(job, self.settings):
                        for statement in self.beside:
                            job.sql(statement).collect()
                outcome.versions = dict(begun.versions)
            except (DeltaMirrorError, PySparkException, Py4JJavaError) as error:
                outcome.error = f"{type(error).__name__}: {error}"
        return outcome


@contextmanager
def _cached(session: SparkSession, query: str | None) -> Iterator[None]:
    frame = None if query is None else session.sql(query).cache()
    if frame is not None:
        frame.count()
    yield
    if frame is not None:
        frame.unpersist()


def _rows(session: SparkSession, statement: str) -> list[Any]:
    return sorted(tuple(row) for row in session.sql(statement).collect())


def _refusal(session: SparkSession, act: str) -> str:
    try:
        if act.startswith("/"):
            session.read.format("delta").load(act).collect()
        else:
            session.sql(act).collect()
    except (PySparkException, Py4JJavaError) as error:
        return str(error)
    return ""
