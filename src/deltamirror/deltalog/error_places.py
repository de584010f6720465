"""Errors of code that does not know where its input comes from, with the place before their message."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from deltamirror.errors import InvalidInput, Unsupported

__all__ = ["placed"]


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Errors about the input, or about features in it that we do not know, name the place."""
    try:
        yield
    except (InvalidInput, Unsupported) as error:
        raise replace(error, message=f"{where}: {error.message}") from error
