"""What ends a server when the process that started it is killed, and can end nothing any more."""

import subprocess
from pathlib import Path

__all__ = ["ServerGuard"]


class ServerGuard:
    """A process beside a server, which kills it and deletes its folder when this one is gone: its input ends then."""

    def __init__(self, server: int, folder: Path) -> None:
        script = 'read -r _; kill -KILL "$1"; sleep 1; rm -rf "$2"'
        quiet = subprocess.DEVNULL
        command = ["sh", "-c", script, "guard", str(server), str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def dismiss(self) -> None:
        """The server is ended in order."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
