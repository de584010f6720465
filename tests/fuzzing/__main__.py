"""``python -m tests.fuzzing [--seconds N] [TARGET …]``: let atheris look for bytes that a parser has no answer for.

Each target is fuzzed in a process of its own, from its seeds and from ``build/fuzzing``, where inputs that reach new
code are kept. An input that ends a target is kept there, too, as ``crash-…``.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

_CORPUS = Path(__file__).parents[2] / "build" / "fuzzing"
_ALONE = "--alone"


def main(arguments: Sequence[str]) -> int:
    """The exit status: 1 if a parser did not answer."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="what to fuzz (everything)")
    parser.add_argument("--seconds", type=int, default=60, help="for how long, each of them (60)")
    options = parser.parse_args(arguments)
    from tests.fuzzing.targets import TARGETS  # noqa: PLC0415 - a process that fuzzes instruments it first

    unknown = set(options.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    failed = [name for name in options.targets or TARGETS if not _holds(name, options.seconds)]
    sys.stdout.write(f"without an answer: {', '.join(failed)}\n" if failed else "every input has an answer\n")
    return int(bool(failed))


def _holds(name: str, seconds: int) -> bool:
    command = [sys.executable, "-m", "tests.fuzzing", _ALONE, name, f"-max_total_time={seconds}", "-timeout=20"]
    return subprocess.run(command, check=False).returncode == 0


def _fuzz(name: str, options: Sequence[str]) -> None:
    """Fuzz one target; the process ends with it."""
    atheris = import_module("atheris")  # which `make fuzz` installs, and nothing else needs
    with atheris.instrument_imports(include=["deltamirror"]):
        from tests.fuzzing.targets import TARGETS, answer  # noqa: PLC0415 - instrumented as it is imported
    target, folder = TARGETS[name], _CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup([name, *options, f"-artifact_prefix={folder}/", str(folder)], lambda data: answer(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == [_ALONE]:
        _fuzz(sys.argv[2], sys.argv[3:])
    sys.exit(main(sys.argv[1:]))
