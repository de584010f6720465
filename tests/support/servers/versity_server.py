"""A second real S3 server (versitygw, over a folder) on a free loopback port, as ``scripts/versitygw.py`` built it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.ports import held_port
from tests.support.servers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from tests.support.servers.server_guard import START_TIMEOUT_SECONDS, ServerGuard

_BINARY = Path(sys.prefix) / "versitygw" / "versitygw"
_LOCKED = Path(__file__).resolve().parents[2] / "versitygw" / "go.mod"


class VersityFailedToStart(Exception):
    """The server did not come up; the message holds its log."""


@dataclass(kw_only=True)
class VersityServer(S3Server):
    """One versitygw."""

    port: int

    @property
    def endpoint(self) -> str:
        """The address of the S3 service."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **keys},
                # Its own group: Ctrl-C reaches the tests, which then stop the server in order.
                start_new_session=True,
            )
        self.guard = ServerGuard(self.process.pid, self.folder)
        self._wait_until_ready()

    def create_bucket(self) -> str:
        """Create an empty bucket, which is a folder, and return its name."""
        name = self.fresh_name()
        (self._buckets / name).mkdir()
        return name

    def delete_bucket(self, name: str) -> None:
        """Delete a bucket with all that is in it."""
        shutil.rmtree(self._buckets / name)

    def version(self) -> str:
        """The version that is locked."""
        found = re.search(r"versity/versitygw (v\S+)", _LOCKED.read_text())
        assert found
        return found[1]

    @property
    def _buckets(self) -> Path:
        return self.folder / "buckets"

    def _command(self) -> list[str | Path]:
        if not _BINARY.exists():
            raise VersityFailedToStart("versitygw is not installed; run `make test`, which builds it")
        self._buckets.mkdir(exist_ok=True)
        # ETags lie in the extended attributes of the files. In a folder beside them (--sidecar) they are written apart
        # from the bytes, and two writers may both replace one object.
        return [_BINARY, "--port", f"127.0.0.1:{self.port}", "--region", REGION, "--quiet", "posix", self._buckets]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
            try:
                urllib.request.urlopen(self.endpoint, timeout=10).close()  # noqa: S310  our own server
            except urllib.error.HTTPError as refused:
                refused.close()  # it answers those without a key, too
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        raise VersityFailedToStart(f"versitygw did not start. Its log:\n{self.log.read_text(errors='replace')}")


@contextmanager
def started_versity() -> Iterator[VersityServer]:
    """A running server, which is stopped at the end."""
    folder = Path(tempfile.mkdtemp(prefix="deltamirror-versity-"))
    with held_port() as port, VersityServer(folder=folder, port=port).running() as server:
        yield server
