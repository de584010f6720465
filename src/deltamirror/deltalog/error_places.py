"""Errors of whoever was not told where the input comes from, with the place before what they say."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deltamirror.errors import InvalidInput, Unsupported

__all__ = ["placed"]


@contextmanager
def placed(where: str) -> Iterator[None]:
    """What is wrong with the input, or beyond us in it, is said with the place."""
    try:
        yield
    except (InvalidInput, Unsupported) as error:
        raise replace(error, message=f"{where}: {error.message}") from error
