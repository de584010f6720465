"""A stream in batches of bounded size."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in order, ``size`` of them at a time; fewer in the last batch, and no empty one.

    >>> list(batched("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def packed(items: Iterable[T], cost: Callable[[T], float], most: float) -> Iterator[list[T]]:
    """The items in order, as many at a time as cost ``most`` together; one that costs more is by itself.

    They are taken as the batches are, and no batch is empty.

    >>> list(packed([3, 1, 2, 9, 1], cost=int, most=4))
    [[3, 1], [2], [9], [1]]
    """
    batch: list[T] = []
    total: float = 0
    for item in items:
        price = cost(item)
        if batch and total + price > most:
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += price
    if batch:
        yield batch
