"""A mirror service as a user starts it, on PostgreSQL and S3, and what its processes cost."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from msgspec.structs import replace

from deltamirror import Catalog
from deltamirror.config import Settings
from tests.support.readers.s3_access import S3Access
from tests.support.servers.seaweed_server import SeaweedServer, started_seaweed

__all__ = ["Rig", "cpu_seconds", "open_rig", "transactions"]

_ENDS_WITHIN = 60
_STARTS_WITHIN = 180
_WARM_UP = "warm.up"


@dataclass(frozen=True, slots=True)
class Rig:
    """A catalog, a bucket for its tables, and how a service reaches both."""

    url: str
    bucket: str
    server: SeaweedServer

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
        with subprocess.Popen(command, env=self._environment(), stderr=subprocess.DEVNULL) as process:
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

    def _environment(self) -> Mapping[str, str]:
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
    """A bucket of an S3 server that runs for this measurement alone."""
    with started_seaweed() as server:
        yield Rig(url, server.create_bucket(), server)


def cpu_seconds(pid: int) -> float:
    """What a process and those that it started have computed so far."""
    ticks = sum(_ticks(each) for each in _with_children(pid))
    return ticks / os.sysconf("SC_CLK_TCK")


def transactions(url: str) -> int:
    """How many transactions the database has seen, of all sessions."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            for child in (task / "children").read_text().split():
                yield from _with_children(int(child))


def _ticks(pid: int) -> int:
    # The name, in parentheses, may have spaces; user and system time are the 14th and 15th field, and the next two are
    # those of children that ended: Spark ends workers that have nothing to do.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))
