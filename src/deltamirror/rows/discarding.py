"""Deleting data files again whose commit does not come about."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from deltamirror.errors import DeltaMirrorError, Internal, Transient, Unavailable


class _DataFiles(Protocol):
    def discard(self) -> None:
        """Delete them, as far as their store lets it."""


@contextmanager
def discarded_on_failure(written: Iterable[_DataFiles]) -> Iterator[None]:
    """Delete files again if anything fails inside: their commit has not begun."""
    try:
        yield
    except BaseException:
        _discard(written)
        raise


@contextmanager
def discarded_if_refused(written: Iterable[_DataFiles]) -> Iterator[None]:
    """Delete files again whose commit is refused inside.

    Not so where the outcome is not certain: vacuum finds files that no version names.
    """
    try:
        yield
    except (Transient, Unavailable, Internal):
        raise
    except DeltaMirrorError:
        _discard(written)
        raise


def _discard(written: Iterable[_DataFiles]) -> None:
    for files in written:
        files.discard()
