"""A real Chromium from Debian's packages, driven by playwright."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.suite.inventory import record

_LOCK = Path(tempfile.gettempdir()) / "deltamirror-chromium.lock"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser; each test opens pages of its own."""
    program = _installed()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        record("server", f"Chromium {browser.version}")
        yield browser
        browser.close()


def _installed() -> str:
    """The program; installed if it is not there and we may. Two test processes do not install at once."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := shutil.which("chromium")) is None:
            _install()
            found = shutil.which("chromium")
    if found is None:
        raise RuntimeError("chromium is not installed; run `apt-get install chromium`")
    return found


def _install() -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        done = subprocess.run(["apt-get", *arguments], capture_output=True, text=True, check=False, env=quiet)
    if done.returncode != 0:
        raise RuntimeError(f"apt-get could not install chromium:\n{done.stdout}{done.stderr}")
