"""A mirror service as a user starts it, on PostgreSQL and S3, and what its processes cost."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psycopg
from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.config import Settings
from tests.support.readers.s3_access import S3Access
from tests.support.servers.versity_server import VersityServer, started_versity

SERVICE: Final = "service"
JVM: Final = "Spark's JVM"
EXECUTORS: Final = "executors"

_ENDS_WITHIN = 60
_STARTS_WITHIN = 180
_WARM_UP = "warm.up"
_LOOKS_EVERY = 0.25


@dataclass(frozen=True, slots=True)
class Rig:
    """A catalog, a bucket for its tables, and how a service reaches both."""

    url: str
    bucket: str
    server: VersityServer

    @property
    def pid(self) -> int:
        """The process of the S3 server."""
        assert self.server.process is not None
        return self.server.process.pid

    def settings(self) -> Settings:
        """Those of writers."""
        settings = Settings(storage=self.server.settings())
        return replace(settings, catalog=replace(settings.catalog, url=self.url))

    def create_tables(self, names: list[str], *, schema: str, partition_by: list[str]) -> None:
        """Empty tables in the bucket."""
        with Catalog(settings=self.settings()) as catalog:
            for name in names:
                place = f"s3://{self.bucket}/{name}"
                catalog.create_table(name, location=place, schema=schema, partition_by=partition_by)

    @contextmanager
    def service(self) -> Iterator[int]:
        """`deltamirror mirror --follow` on Spark, once it has published a commit; its process id."""
        command = [str(Path(sys.executable).with_name("deltamirror")), "mirror", "--follow"]
        with subprocess.Popen(command, env=self.environment(), stderr=subprocess.DEVNULL) as process:
            try:
                self._wait_for_first_commit()
                yield process.pid
            finally:
                process.terminate()
                process.wait(_ENDS_WITHIN)

    def _wait_for_first_commit(self) -> None:
        with Catalog(settings=self.settings()) as catalog:
            catalog.create_table(_WARM_UP, location=f"s3://{self.bucket}/{_WARM_UP}", schema="id long")
            catalog.wait_until_published({_WARM_UP: 0}, seconds=_STARTS_WITHIN)

    def environment(self) -> Mapping[str, str]:
        """Of processes that work on the catalog and its tables."""
        return {
            **os.environ,
            **S3Access.of(self.server.settings()).environment(),
            "DELTAMIRROR_CATALOG__URL": self.url,
            "DELTAMIRROR_MIRROR__RUNNER": "spark",
            "DELTAMIRROR_SPARK__MASTER": "local[2]",
            "DELTAMIRROR_STORAGE__ENDPOINT": self.server.endpoint,
            "DELTAMIRROR_STORAGE__ALLOW_HTTP": "true",
        }


@contextmanager
def open_rig(url: str) -> Iterator[Rig]:
    """A bucket of an S3 server that runs for this measurement alone.

    It shares two cores with writers, database and service, which a store in production does not: of the two servers of
    the tests it is the one that costs less.
    """
    with started_versity() as server:
        yield Rig(url, server.create_bucket(), server)


class CpuMeter:
    """What processes, and those that they started, compute inside of the ``with`` block, by the names of their parts.

    They are looked at several times a second: Spark ends workers that have nothing to do, and what these have computed
    is then known to none.
    """

    def __init__(self, parts: Mapping[str, int]) -> None:
        self._parts, self._over = parts, threading.Event()
        self._before = dict(self._look())
        self._last = dict(self._before)
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> Mapping[str, float]:
        """Of the processor, by part; those of a service are its own process, Spark's JVM, and Python on executors."""
        found: Counter[str] = Counter()
        for each, last in self._last.items():
            found[each.part] += last - self._before.get(each, 0)
        return {part: ticks / os.sysconf("SC_CLK_TCK") for part, ticks in found.items()}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._last |= self._look()

    def _watch(self) -> None:
        while not self._over.wait(_LOOKS_EVERY):
            self._last |= self._look()

    def _look(self) -> Iterator[tuple["_Process", int]]:
        """Ticks by process."""
        for part, pid in self._parts.items():
            for each, of_part in _with_children(pid, part):
                with suppress(FileNotFoundError, ProcessLookupError):
                    fields = _stat(each)
                    yield _Process(of_part, each, int(fields[19])), int(fields[11]) + int(fields[12])


@dataclass(frozen=True, slots=True)
class _Process:
    """A process, which its id and the time of its start make one."""

    part: str
    pid: int
    started: int


def _stat(pid: int) -> list[str]:
    """From the third field on: the name before them, in parentheses, may have spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def server_pid(url: str) -> int:
    """The process of a PostgreSQL server on this machine that all its others are below."""
    with psycopg.connect(url) as connection:
        return int(_stat(connection.info.backend_pid)[1])


def transactions(url: str) -> int:
    """How many transactions the database has seen, of all sessions."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _with_children(pid: int, part: str) -> Iterator[tuple[int, str]]:
    """A process and all below it, with the parts that they are of."""
    with suppress(FileNotFoundError, ProcessLookupError):  # a process or thread that has ended
        if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
            part = JVM
        yield pid, part
        below = EXECUTORS if part == JVM else part
        for task in list(Path(f"/proc/{pid}/task").iterdir()):
            for child in (task / "children").read_text().split():
                yield from _with_children(int(child), below)
