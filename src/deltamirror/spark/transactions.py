"""Statements of SQL as one transaction over several tables: all of them take effect, or none."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from deltamirror.arguments import optional_text, shown
from deltamirror.errors import Conflict, DeltaMirrorError, InvalidInput, Refused, Unavailable
from deltamirror.spark.logstore import CATALOG, CATALOG_SETTING

_CLASS: Final = "io.deltamirror.spark.Transaction"
_HINTS: Final[Mapping[type[DeltaMirrorError], str]] = {Conflict: "run the whole transaction again: nothing was changed"}
_KINDS: Final[Mapping[str, type[DeltaMirrorError]]] = {
    "io.deltamirror.spark.CommitServer$Conflict": Conflict,
    "io.deltamirror.spark.CommitServer$Refused": Refused,
    "java.lang.IllegalStateException": InvalidInput,
}


class StatementsTransaction:
    """A transaction of a session. Once it is committed, ``versions`` has those of the changed tables by their names."""

    def __init__(self) -> None:
        self.versions: Mapping[str, int] = MappingProxyType({})


@contextmanager
def transaction(spark: Any, *, stage: str | None = None) -> Iterator[StatementsTransaction]:
    """Commit the statements that a session runs in this block together, when it ends; none of them if it fails.

    The session was configured with ``transactions=True``. ``stage`` is a folder that driver and executors reach, such
    as ``s3a://lake/tmp``; by default the temporary folder of the driver, which is enough for a local master.
    ``Conflict`` if a table was changed by others meanwhile.
    """
    folder = optional_text(stage, "stage")
    _require_capable(spark, folder)
    begun, result = _begun(spark, folder or Path(tempfile.gettempdir()).as_uri()), StatementsTransaction()
    try:
        yield result
        with _translated():
            result.versions = MappingProxyType({str(name): int(version) for name, version in begun.commit().items()})
    finally:
        with _translated():
            begun.close()


def _require_capable(spark: Any, stage: str | None) -> None:
    """Refuse a session in which statements would not be part of the transaction."""
    if getattr(spark, "_jsparkSession", None) is None or getattr(spark, "_jvm", None) is None:
        raise InvalidInput(
            f"spark has to be a classic SparkSession, not {shown(spark)}",
            hint="transactions run in the driver: Spark Connect has none of its own",
        )
    if spark.conf.get(CATALOG_SETTING, "") != CATALOG:
        raise InvalidInput(
            f"the session was not made for transactions: {CATALOG_SETTING} is {spark.conf.get(CATALOG_SETTING, '')!r}",
            hint="deltamirror.spark.configure(…, transactions=True) before the session starts, and no other catalog",
        )
    if stage is None and not spark.sparkContext.master.startswith("local"):
        raise InvalidInput(
            "stage is missing: on a cluster, executors read the log of an open transaction",
            hint="give a folder that driver and executors reach, such as stage='s3a://lake/tmp'",
        )


def _begun(spark: Any, folder: str) -> Any:
    """The transaction in the JVM, where classes of ``spark.jars`` have a loader of their own."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway  # noqa: SLF001 - nothing public reaches the JVM
    found = jvm.org.apache.spark.util.Utils.classForName(_CLASS, True, False)
    begin = next(method for method in found.getMethods() if method.getName() == "begin")
    arguments = gateway.new_array(jvm.Object, 2)
    arguments[0], arguments[1] = spark._jsparkSession, folder  # noqa: SLF001 - its other side
    with _translated():
        return begin.invoke(None, arguments)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise errors of the JVM as ours, with their messages."""
    try:
        yield
    except Exception as error:
        raised = getattr(error, "java_exception", None)
        if raised is None:
            raise
        cause = raised.getCause() if raised.getClass().getName().endswith("InvocationTargetException") else raised
        kind = _KINDS.get(cause.getClass().getName(), Unavailable)
        raise kind(str(cause.getMessage()), hint=_HINTS.get(kind, "")) from None
