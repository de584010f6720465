"""The environment of the tests, and that what one of them does to it ends with it."""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_OF_PYTEST = "PYTEST_CURRENT_TEST"
ARCHIVE = Path(sys.prefix) / "spark-classes" / "archive.jsa"
FOR_SHORT_LIVES = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=256m -Xmn256m"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Xlog:disable"
)
"""Most of what a JVM of these tests computes is the work of compiler, collector, class loader and verifier for code
that runs a few times. With one compiler alone, a JVM has 48 MB for compiled code: a session that reads many tables
throws away and compiles again what no longer fits. A JVM that cannot use the archive, which
``tests.support.spark.class_archive`` writes, loads the classes itself."""


def pytest_configure() -> None:
    """Let every JVM that Spark starts, in whatever process, be quick to start."""
    for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(name, f"{FOR_SHORT_LIVES} -XX:SharedArchiveFile={ARCHIVE}")


def pytest_collection_finish() -> None:
    """Let no collection of garbage look at the tests themselves again: that would take a quarter of a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def environment_as_before() -> Iterator[None]:
    """Take back what commands export for the executors of Spark: as a process of its own, a command takes it along."""
    before = dict(os.environ)
    yield
    for name in {*before, *os.environ} - {_OF_PYTEST}:
        if name not in before:
            del os.environ[name]
        elif os.environ.get(name) != before[name]:
            os.environ[name] = before[name]


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Take back where a command of this process sends log lines: tests after it wait for theirs."""
    root, own = logging.getLogger(), logging.getLogger("deltamirror")
    before = (root.handlers[:], own.handlers[:], own.level, own.propagate)
    yield
    root.handlers[:], own.handlers[:] = before[0], before[1]
    own.setLevel(before[2])
    own.propagate = before[3]
