"""Forks of this process. A child has copies of its parent's connections and locks, and none of its other threads."""

import os
from abc import ABC, abstractmethod
from typing import Final
from weakref import WeakValueDictionary


class AtFork(ABC):
    """An object that is told of forks of this process, once it is given to ``watch``."""

    @abstractmethod
    def in_child(self) -> None:
        """In the child, before it does anything else."""


class BeforeFork(AtFork):
    """One that prepares itself for them."""

    @abstractmethod
    def before_fork(self) -> None:
        """In the thread that forks, while others go on."""


def watch(each: AtFork) -> None:
    """Tell it of forks for as long as it lives."""
    _WATCHED[id(each)] = each


def keep(*inherited: object) -> None:
    """Hold on to connections that a child inherits and does not use: their finalizers would act on its parent's."""
    _INHERITED.extend(inherited)


_WATCHED: Final[WeakValueDictionary[int, AtFork]] = WeakValueDictionary()
_INHERITED: Final[list[object]] = []


def _watched() -> list[AtFork]:
    # A copy is made at once: other threads may open catalogs meanwhile.
    return [each for found in _WATCHED.valuerefs() if (each := found()) is not None]


def _before() -> None:
    for each in _watched():
        if isinstance(each, BeforeFork):
            each.before_fork()


def _in_child() -> None:
    for each in _watched():
        each.in_child()


# No lock is held across a fork: an interruption on its way would leave it locked.
os.register_at_fork(before=_before, after_in_child=_in_child)
