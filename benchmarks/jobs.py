"""Stock Delta Lake jobs: appends through the LogStore beside plain ones, commits over HTTP beside delta-rs."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from benchmarks import child, crowd, jobs_tasks
from benchmarks.lab import Lab, Place
from benchmarks.report import Result, Table, rate
from benchmarks.service import open_rig
from benchmarks.writers import BARE_SERVER, DELTA_RS, OVER_HTTP, HttpAccess
from deltamirror import Catalog
from deltamirror.config import MirrorSettings
from deltamirror.txnlog.access.patterns import ALL_TABLES
from deltamirror.txnlog.access.tokens import Right, issue_token
from tests.support.readers.s3_access import S3Access
from tests.support.servers.ports import held_port
from tests.support.spark.programs import answers

_STARTS_WITHIN = 60
_THREADS = (1, 8)
"""Clients in each of the processes."""
_INLINE = MirrorSettings(inline=True, inline_timeout=60.0)


def run(lab: Lab) -> Result:
    """Milliseconds of an append of one row; commits of one add a second."""
    appended = _appends(lab)
    rates = _commits(lab)
    rows = [
        (f"append of one row by Delta Spark, {store}, ms", f"{ours:.0f}", f"{plain:.0f}", f"{ours / plain:.2f} ×")
        for store, (ours, plain) in appended.items()
    ]
    rows += [_row(name, figures, rates["delta-rs"]) for name, figures in rates.items() if name != "delta-rs"]
    title = "Stock jobs through `deltamirror serve`, PostgreSQL"
    figures = {"appends": appended, "commits": rates}
    return Result("jobs", Table(title, ("", "deltamirror", "peer", "of the peer"), rows), figures)


def _row(name: str, ours: dict[str, float], theirs: dict[str, float]) -> tuple[str, str, str, str]:
    shares = f"failed {ours['failed']:.0f}, slowest client {ours['slowest']:.0%}"
    what = f"commits of one add a second, {name} ({shares}), of delta-rs"
    return what, rate(ours["rate"]), rate(theirs["rate"]), f"{ours['rate'] / theirs['rate']:.1f} ×"


def _appends(lab: Lab) -> dict[str, tuple[float, float]]:
    """By store, the median of an append through us, and of a plain one, in milliseconds."""
    count = int(lab.pick(full=60, quick=5))
    with lab.place("postgresql", catalog=False) as place, open_rig(place.url) as rig:
        roots = {"disk": f"file:{place.folder}", "S3": f"s3a://{rig.bucket}"}
        # Published at once: a job meets a table whose first version is in its log.
        with Catalog(settings=replace(rig.settings(), mirror=_INLINE)) as catalog:
            catalog.init()
            for store, root in (("disk", place.folder), ("S3", f"s3://{rig.bucket}")):
                catalog.create_table(store, location=f"{root}/ours", schema=jobs_tasks.SCHEMA)
        with _server(place, {**os.environ, **rig.environment()}) as access:
            found: dict[str, tuple[float, float]] = child.call(
                jobs_tasks.appends,
                server=access.address,
                token=access.token,
                roots=roots,
                hadoop=S3Access.of(rig.server.settings()).hadoop(rig.bucket),
                count=count,
            )
    return found


def _commits(lab: Lab) -> dict[str, Any]:
    """The figures by who commits, and by how many clients: each time with a server, and a table, of its own."""
    seconds = lab.pick(full=6.0, quick=2.0)
    found: dict[str, Any] = {}
    for threads in _THREADS:
        clients = f"{crowd.WRITERS * threads} clients"
        with (
            lab.place(OVER_HTTP.engine) as place,
            _server(place, {**os.environ, "DELTAMIRROR_CATALOG__URL": place.url}) as access,
        ):
            access.write(place)
            found[f"HTTP, {clients}"] = crowd.once(OVER_HTTP, place, seconds, threads=threads)
        with lab.place(BARE_SERVER.engine) as place, _listening("benchmarks.bare_server") as port:
            HttpAccess(port, "none").write(place)
            found[f"bare server, {clients}"] = crowd.once(BARE_SERVER, place, seconds, threads=threads)
    with lab.place(DELTA_RS.engine) as place:
        return {**found, "delta-rs": crowd.once(DELTA_RS, place, seconds)}


@contextmanager
def _server(place: Place, environment: dict[str, str]) -> Iterator[HttpAccess]:
    """`deltamirror serve`, with a token that may write to all tables."""
    with Catalog(place.url) as catalog:
        token = issue_token(catalog.database, "bench", rights=[Right.WRITE], tables=ALL_TABLES, seconds=None).text
    with _listening("deltamirror.cli", "serve", "--listen", environment=environment) as port:
        yield HttpAccess(port, token)


@contextmanager
def _listening(*module: str, environment: dict[str, str] | None = None) -> Iterator[int]:
    """The port of a module that listens at the address that is its last argument."""
    with held_port() as port:
        command = [sys.executable, "-m", *module, f"127.0.0.1:{port}"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                _wait_for(port)
                yield port
            finally:
                process.terminate()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN
    while not answers(port):
        if time.monotonic() > deadline:
            raise TimeoutError("the server does not answer")
        time.sleep(0.05)
