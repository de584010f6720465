"""A Spark session from a master URL, and how much of Spark there is."""

import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import spark_partition_id

from deltamirror.errors import InvalidSettings, Unavailable
from deltamirror.executors.failures import translated

_NAME: Final = "deltamirror"
_CONNECT_SCHEME: Final = "sc://"
_ANSWER_WITHIN: Final = 10.0
_MANY: Final = 4096
_STARTING: Final = threading.Lock()
"""pyspark has one JVM and one context a process, shared by all sessions."""

_LOG: Final = Path(__file__).with_name("log4j2.properties")

# What a Spark of our own needs: it talks to this machine alone, and says nothing unless something is wrong.
_LOCAL: Final[Mapping[str, bool | float | int | str | None]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # A JVM that ran out of memory would go on with its scheduler dead, and jobs would hang.
    # Counters for `jstat` are a sixth of what an idle JVM computes.
    "spark.driver.extraJavaOptions": (
        f"-XX:+ExitOnOutOfMemoryError -XX:-UsePerfData -Dlog4j2.configurationFile={_LOG.as_uri()}"
    ),
    "spark.driver.memory": "2g",
    "spark.python.daemon.module": "deltamirror.spark.daemon",
    "spark.ui.enabled": "false",
}

# A server keeps what is uploaded, and the plans that hold it, for as long as the session lives.
_CONNECT: Final[Mapping[str, str]] = {
    "spark.connect.session.planCache.enabled": "false",
    "spark.sql.session.localRelationCacheThreshold": str(100 * 1024 * 1024),
}


def start_session(master: str, *, jobs: int) -> SparkSession:
    """The Spark at a master URL; ``local[*]`` has a slot for each core, and at least one for each of ``jobs`` at once.

    Other settings come from Spark's own configuration.
    """
    _require_answer(master)
    if master.startswith(_CONNECT_SCHEME):
        return _connected(master)
    builder = SparkSession.builder.appName(_NAME).master(_with_slots(master, jobs))
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        for name, value in {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}.items():
            os.environ.setdefault(name, value)
        builder = builder.config(map=dict(_LOCAL))
    with _STARTING, translated("start"):
        _let_go_of_ended()
        return builder.getOrCreate()


def require_server(master: str) -> None:
    """Fail at once where a Spark Connect server is gone. A cluster goes on with its jobs while its master is away."""
    if master.startswith(_CONNECT_SCHEME):
        _require_answer(master)


def is_gone(session: SparkSession) -> bool:
    """Whether the JVM of a session, or its context there, has ended. Over Spark Connect both are the server's."""
    context = getattr(session, "sparkContext", None)
    return context is not None and not _answers(lambda: context.defaultParallelism)


def slots_of(session: SparkSession) -> int:
    """How many tasks run at once."""
    # Without a context, over Spark Connect, the partitions of a range tell: there are as many as slots.
    context = getattr(session, "sparkContext", None)
    if context is not None:
        return int(context.defaultParallelism)
    return len(session.range(_MANY).select(spark_partition_id()).toArrow().column(0).unique())


def _let_go_of_ended() -> None:
    """Make pyspark forget a context, or a JVM, that has ended: it would hand out the same one for ever.

    It does not say in public which ones it has, and for the JVM there is no public way to forget it.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway  # noqa: SLF001
    if context is not None and not _answers(lambda: context.defaultParallelism):
        for _ in range(2):  # without a JVM the first one ends half way
            with suppress(Exception), warnings.catch_warnings(action="ignore"):
                context.stop()
    if gateway is not None and not _answers(lambda: gateway.jvm.System.currentTimeMillis() > 0):
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        with suppress(Exception):
            gateway.shutdown()


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except Exception:  # noqa: BLE001  pyspark, py4j and sockets have too many
        return False
    return True


def _connected(master: str) -> SparkSession:
    with translated("connect"):
        session = SparkSession.builder.remote(master).create()
        for name, value in _CONNECT.items():
            session.conf.set(name, value)
    return session


def _with_slots(master: str, jobs: int) -> str:
    return f"local[{max(os.cpu_count() or 1, jobs)}]" if master == "local[*]" else master


def _require_answer(master: str) -> None:
    """Fail within seconds where no server listens: Spark itself goes on trying for one minute, or ten."""
    places = list(_places(master))
    for host, port in places:
        with suppress(OSError), socket.create_connection((host, port), timeout=_ANSWER_WITHIN):
            return
    if places:
        raise Unavailable(
            f"no server answers at {', '.join(f'{host}:{port}' for host, port in places)}",
            hint="check that Spark runs there, and spark.master",
        )


def _places(master: str) -> list[tuple[str, int]]:
    scheme, _, rest = master.partition("://")
    default = {"spark": 7077, "sc": 15002}.get(scheme)
    if default is None:
        return []
    try:
        parts = [urlsplit(f"//{place}") for place in rest.partition("/")[0].split(",")]
        return [(part.hostname or "", part.port or default) for part in parts]
    except ValueError:
        raise InvalidSettings(
            f"spark.master does not name a host and a port: {scheme}://{rest.partition('/')[0]}",
            hint="use spark://HOST:7077 or sc://HOST:15002",
            key="spark.master",
        ) from None
