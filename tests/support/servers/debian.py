"""Programs that tests run against, from Debian's packages."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.suite.inventory import record

_LOCK = Path(tempfile.gettempdir()) / "deltamirror-apt.lock"
_WAIT_FOR_OTHERS = "DPkg::Lock::Timeout=300"


def installed(program: str, *, package: str) -> str:
    """Where a program is; installed if it is not there and we may. Two test processes do not install at once."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := _place(program)) is None:
            _install(package)
            found = _place(program)
    if found is None:
        raise RuntimeError(f"{program} is not installed; run `apt-get install {package}`")
    shown = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    record("server", (shown.stdout or shown.stderr).partition("\n")[0])
    return found


def _place(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _install(package: str) -> None:
    """Without the service that comes with it."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        command = ["apt-get", "-o", _WAIT_FOR_OTHERS, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet)
    if done.returncode != 0:
        raise RuntimeError(f"apt-get could not install {package}:\n{done.stdout}{done.stderr}")
