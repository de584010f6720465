"""A function applied to items on executors, in the order of the items."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import TypeVar

from deltamirror.errors import DeltaMirrorError
from deltamirror.pipeline.run.spark.jobs import SparkJobs

T = TypeVar("T")
R = TypeVar("R")


def mapped(jobs: SparkJobs, function: Callable[[T], Iterable[R]], items: Iterable[T]) -> Iterator[R]:
    """What a function finds for each item, by one job; the first error of ours is raised in the place of its item.

    The function is one of a module: executors import it.
    """
    answers = jobs.job([pickle.dumps(numbered) for numbered in enumerate(items)], partial(answer_items, function))
    found = [pickle.loads(each) for some in answers for each in some]  # noqa: S301  our own executors wrote it
    for _, answer in sorted(found, key=itemgetter(0)):
        if isinstance(answer, DeltaMirrorError):
            raise answer
        yield from answer


def answer_items(function: Callable[[T], Iterable[R]], items: Iterator[bytes]) -> Iterator[bytes]:
    """The part that runs on executors: numbered items in, what was found for each out, or what went wrong."""
    for each in items:
        number, item = pickle.loads(each)  # noqa: S301  our own driver wrote it
        yield pickle.dumps((number, _answer(function, item)))


def _answer(function: Callable[[T], Iterable[R]], item: T) -> list[R] | DeltaMirrorError:
    try:
        return list(function(item))
    except DeltaMirrorError as error:
        return error
