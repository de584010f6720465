"""The one translator of what Spark raises: pyspark, py4j, grpc and sockets each have exceptions of their own."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from deltamirror.config import redact_text
from deltamirror.errors import (
    DeltaMirrorError,
    Internal,
    InvalidInput,
    InvalidSettings,
    MissingExtra,
    PermissionDenied,
    Transient,
    Unavailable,
)

_INSTALL: Final = "pip install 'deltamirror[spark]'"
_LONGEST: Final = 500
_OURS: Final = ("deltamirror", "msgspec", "obstore", "pyarrow")
"""Modules without which an executor has no deltamirror, or that of another Python."""

# Words of Spark, py4j and grpc by which the end of a JVM, a context, a session or a connection is known.
_GONE: Final = (
    "stopped SparkContext",
    "SparkContext was shut down",
    "SparkContext has been shutdown",
    "Job aborted because SparkContext",
    "CONNECT_SESSION",
    "INVALID_HANDLE",
    "SESSION_CLOSED",
    "SESSION_CHANGED",
    "SESSION_NOT_FOUND",
    "NO_ACTIVE_SESSION",
    "RETRIES_EXCEEDED",
    "StatusCode.UNAVAILABLE",
    "Answer from Java side is empty",
    "Error while sending or receiving",
    "All masters are unresponsive",
)

# Words of Spark by which the end of an executor, or of a Python process on it, is known.
_LOST: Final = (
    "ExecutorLostFailure",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Checkpoint block",  # of rows that it had kept
    "DATAFRAME_NOT_FOUND",
)


_OF_TASKS: Final[Mapping[str, type[DeltaMirrorError]]] = {
    each.__name__: each for each in (InvalidInput, PermissionDenied, Transient, Unavailable)
}
_RAISED: Final = re.compile(rf"deltamirror\.errors\.({'|'.join(_OF_TASKS)}): (.+)")
"""An error of ours that a task raised, in the words of Spark."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise one of our errors for whatever Spark raises inside: ``Spark cannot <doing>: …``."""
    try:
        yield
    except DeltaMirrorError:
        raise
    except Exception as error:
        raise from_spark(error, f"Spark cannot {doing}") from error


@contextmanager
def translated_query(doing: str) -> Iterator[None]:
    """The same where Spark computes rows of a caller's own: whatever is not the fault of Spark is that of the query."""
    try:
        yield
    except DeltaMirrorError:
        raise
    except Exception as error:
        raise _of_query(from_spark(error, f"Spark cannot {doing}"), str(error)) from error


def from_spark(error: Exception, what: str) -> DeltaMirrorError:
    """What an exception of Spark means."""
    text = str(error)
    described = f"{what}: {_summary(error)}"
    if isinstance(error, ImportError):
        return MissingExtra(described, hint=_INSTALL, extra="spark")
    if any(f"No module named '{name}" in text for name in _OURS):
        hint = f"install the same deltamirror in the Python of every executor, and set PYSPARK_PYTHON to it: {_INSTALL}"
        return MissingExtra(described, hint=hint, extra="spark")
    if "JAVA_GATEWAY_EXITED" in text:
        return _without_jvm(described)
    if "Master URL" in text or "INVALID_CONNECT_URL" in text:
        hint = "use local[*], spark://HOST:7077 or sc://HOST:15002"
        return InvalidSettings(described, hint=hint, key="spark.master")
    if isinstance(error, OSError) or any(sign in text for sign in _GONE):
        return Unavailable(described, hint="check that Spark runs at spark.master; the mirror tries again")
    return Internal(described)


def _of_query(found: DeltaMirrorError, text: str) -> DeltaMirrorError:
    if isinstance(found, Unavailable):
        return Unavailable(found.message, hint="nothing was committed; check that Spark runs, and write the rows again")
    if not isinstance(found, Internal):
        return found
    if (raised := _RAISED.search(found.message)) is not None:
        return _OF_TASKS[raised[1]](raised[2], hint="nothing was committed")
    if any(sign in text for sign in _LOST):
        hint = "nothing was committed; its log says why it ended, often for lack of memory; write the rows again"
        return Transient(found.message, hint=hint)
    return InvalidInput(found.message, hint="nothing was committed; correct the query that the rows come from")


def _without_jvm(described: str) -> DeltaMirrorError:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        hint = "install a Java runtime, 17 or later, and set JAVA_HOME to its folder if it is not on the PATH"
        return MissingExtra(f"{described}: there is no Java", hint=hint, extra="spark")
    return Unavailable(described, hint=f"what it wrote to standard error says why; its Java is {java}")


def _summary(error: Exception) -> str:
    """The class and the telling line: of a failed Python worker what its traceback ends with, otherwise the first."""
    _, of_worker, traceback = str(error).rpartition("Traceback (most recent call last)")
    lines = [line for line in (traceback if of_worker else str(error)).splitlines() if line.strip(" :")]
    told = next((line for line in lines if not (of_worker and line.startswith((" ", "\t")))), "")
    return redact_text(f"{type(error).__name__}: {told.strip()}")[:_LONGEST]
