"""Which lines of the log belong to one piece of work: a job of the service, a look at a log, a command."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_TRACE: Final = ContextVar("deltamirror_trace", default="")


@contextmanager
def traced() -> Iterator[None]:
    """Whatever this thread does in the block is one piece of work, with an id of its own. Also a decorator."""
    token = _TRACE.set(uuid.uuid4().hex)
    try:
        yield
    finally:
        _TRACE.reset(token)


def current_trace() -> str:
    """The id of the piece of work that this thread is at; empty outside of any."""
    return _TRACE.get()
