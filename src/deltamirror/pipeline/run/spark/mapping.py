"""A function applied to items on executors, in the order of the items."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Final, TypeVar

import pyarrow as pa

from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.run.spark.executor import rows_of
from deltamirror.pipeline.run.spark.jobs import SparkJobs

__all__ = ["answer_rows", "mapped"]

_ANSWERS: Final = "answer binary"

T = TypeVar("T")
R = TypeVar("R")


def mapped(jobs: SparkJobs, function: Callable[[T], Iterable[R]], items: Iterable[T]) -> Iterator[R]:
    """What a function finds for each item, by one job; the first error of ours is raised in the place of its item.

    The function is one of a module: executors import it.
    """
    rows = rows_of(list(enumerate(items)))
    answers = jobs.job(rows, partial(answer_rows, function), _ANSWERS)
    found = [pickle.loads(each) for some in answers for each in some]  # noqa: S301  our own executors wrote it
    for _, answer in sorted(found, key=itemgetter(0)):
        if isinstance(answer, DeltaMirrorError):
            raise answer
        yield from answer


def answer_rows(function: Callable[[T], Iterable[R]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The part that runs on executors: numbered items in, what was found for each out, or what went wrong."""
    for batch in batches:
        for row in batch.column(0):
            number, item = pickle.loads(row.as_buffer())  # noqa: S301  our own driver wrote it
            answer = pa.array([pickle.dumps((number, _answer(function, item)))], pa.binary())
            yield pa.record_batch([answer], names=["answer"])


def _answer(function: Callable[[T], Iterable[R]], item: T) -> list[R] | DeltaMirrorError:
    try:
        return list(function(item))
    except DeltaMirrorError as error:
        return error
