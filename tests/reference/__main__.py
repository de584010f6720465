"""Write the reference logs of the project again: ``python -m tests.reference [writer …]``.

Each writer runs in a process of its own; releases of Spark that the project does not use are installed into a temporary
folder first. A writer's logs replace those that are there only when all of its histories were written.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
LOGS = HERE / "logs"
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class SparkWriter:
    """A release of Delta Lake, and the release of PySpark that it is for."""

    package: str
    pyspark: str | None = None
    """None: the one of the project."""
    only: tuple[str, ...] = ()
    """The histories that are told; none named: all that the release can do."""

    def write(self, logs: Path) -> None:
        """Write its logs."""
        with tempfile.TemporaryDirectory(prefix="pyspark-") as folder:
            python = sys.executable if self.pyspark is None else installed(self.pyspark, Path(folder))
            program = ("-m", "tests.reference.spark", "--package", self.package, "--only", ",".join(self.only))
            run(python, *program, "--logs", str(logs))


@dataclass(frozen=True)
class PlainWriter:
    """A writer that the project's own Python can import."""

    name: str

    def write(self, logs: Path) -> None:
        """Write its logs."""
        run(sys.executable, "-m", "tests.reference.plain", self.name, "--logs", str(logs))


OF_EVERY_RELEASE = (
    "df",
    "multi-part",
    "types",
    "partition-types",
    "feat",
    "deletion-vectors",
    "v2-parquet",
)
"""Histories in whose artefacts releases differ."""

WRITERS: dict[str, SparkWriter | PlainWriter] = {
    "delta-spark-4.4.0": SparkWriter("io.delta:delta-spark_4.2_2.13:4.4.0"),
    "delta-spark-4.0.1": SparkWriter("io.delta:delta-spark_2.13:4.0.1", pyspark="4.0.1", only=OF_EVERY_RELEASE),
    "delta-rs": PlainWriter("delta-rs"),
    "duckdb": PlainWriter("duckdb"),
    "sail": PlainWriter("sail"),
    "handmade": PlainWriter("handmade"),
}
"""By the folder of their logs."""


def main(names: list[str]) -> None:
    """Write the logs of these writers, or of all."""
    for name in names or WRITERS:
        print(name, flush=True)  # noqa: T201  (a program of some minutes says where it is)
        with tempfile.TemporaryDirectory(prefix="logs-") as folder:
            new = Path(folder) / name
            WRITERS[name].write(new)
            shutil.rmtree(LOGS / name, ignore_errors=True)
            shutil.copytree(new, LOGS / name)


def installed(pyspark: str, folder: Path) -> str:
    """A Python that has this release of PySpark, and nothing else."""
    uv = str(Path(sys.executable).with_name("uv"))
    run(uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv"))
    python = str(folder / "venv/bin/python")
    # Up to Python 3.11, the older ones import distutils.
    run(uv, "pip", "install", "--quiet", "--python", python, f"pyspark=={pyspark}", "setuptools<80")
    return python


def run(*command: str) -> None:
    """Run a program to its end; what fails ends this one, too."""
    # Most of what such a JVM computes is the compiler's work for code that runs a few times.
    environment = {"PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1"}
    subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, **environment})


if __name__ == "__main__":
    main(sys.argv[1:])
