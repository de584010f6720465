"""A real pgbouncer in front of a test's PostgreSQL server, from Debian's packages."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.servers.debian import installed
from tests.support.servers.ports import held_port
from tests.support.servers.postgres_server import (
    PASSWORD,
    START_TIMEOUT_SECONDS,
    UNPRIVILEGED_USER,
    USER,
    PostgresServer,
)


@contextmanager
def pooled(server: PostgresServer, database: str, **settings: str) -> Iterator[str]:
    """The address of a database by way of a pgbouncer with these settings."""
    program = installed("pgbouncer", package="pgbouncer")
    folder = Path(tempfile.mkdtemp(prefix="deltamirror-pgbouncer-", dir="/tmp"))
    process = None
    try:
        with held_port() as port, (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, _configured(folder, server, port, settings)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                user=UNPRIVILEGED_USER if os.geteuid() == 0 else None,
            )
            url = server.url(database).replace(f":{server.port}/", f":{port}/")
            _wait_until_ready(process, url, folder / "log")
            yield url
    finally:
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _configured(folder: Path, server: PostgresServer, port: int, settings: dict[str, str]) -> Path:
    users, file = folder / "users", folder / "pgbouncer.ini"
    users.write_text(f'"{USER}" "{PASSWORD}"\n')
    own = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "scram-sha-256",
        "auth_file": str(users),
    }
    lines = [f"{name} = {value}" for name, value in {**own, **settings}.items()]
    databases = f"[databases]\n* = host=127.0.0.1 port={server.port}\n"
    file.write_text(databases + "[pgbouncer]\n" + "\n".join(lines) + "\n")
    for path in (folder, users, file):
        path.chmod(0o755)
    return file


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"pgbouncer did not start ({error}). Its log:\n{log.read_text()}") from error
            time.sleep(0.05)
        else:
            return
