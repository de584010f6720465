"""A stock Delta Lake job of the soak test: ``python -m tests.soak.driver KIND NAME FOLDER``, until ``FOLDER/stop``.

``racer`` updates rows of a partition of its own, where Delta's rules allow it beside all others, rows of one that all
share, where they do not, and appends. ``stream`` copies one table into another. ``python`` does what a racer does, by
our own writers. Each act has a name, which is its ``userMetadata``; the journal has a line before it and one with its
outcome, so that what a killed process did is known from the history.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltamirror import Catalog
from deltamirror.config import load
from deltamirror.errors import Conflict, DeltaMirrorError
from deltamirror.spark.logstore import settings_of_jobs
from tests.support.readers.delta_spark import SETTINGS

SHARED = "shared"
"""The partition in which updates may conflict."""
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_CONFLICT = ("DELTA_CONCURRENT_", "ConcurrentModification", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the processes reach tables: a file of the folder."""

    server: str
    token: str
    root: str
    """The folder of the tables, as Hadoop names it."""
    hadoop: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """Write it down."""
        values = {"server": self.server, "token": self.token, "root": self.root, "hadoop": dict(self.hadoop)}
        (folder / "plan.json").write_text(json.dumps(values))

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        """Read it again."""
        return cls(**json.loads((folder / "plan.json").read_text()))

    def session(self) -> SparkSession:
        """A driver of its own, whose tables are asked for at the server."""
        job = settings_of_jobs(server=self.server, token=self.token, schemes=["s3a"], locations=[f"{self.root}/"])
        reach = {f"spark.hadoop.{name}": value for name, value in self.hadoop.items()}
        master = SparkSession.builder.master("local[1]").appName("deltamirror-soak")
        return master.config(map={**SETTINGS, **job, **reach, "spark.driver.memory": "1g"}).getOrCreate()


@dataclass(frozen=True, slots=True)
class Act:
    """One entry of a journal: what was tried, and its outcome, empty while it is not known."""

    name: str
    kind: str
    outcome: str = ""


def acts_in(folder: Path) -> Iterator[Act]:
    """Those of all journals."""
    for path in sorted(folder.glob("*.acts")):
        yield from _read(path).values()


def _read(path: Path) -> dict[str, Act]:
    acts: dict[str, Act] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        act = Act(**json.loads(line))
        acts[act.name] = act
    return acts


class _Actor:
    """Acts until it is told to stop, and writes down how each act ended."""

    def __init__(
        self, name: str, folder: Path, kinds: Mapping[str, Callable[[str], None]], *, longest_pause: float
    ) -> None:
        self._name, self._folder, self._kinds, self._longest_pause = name, folder, kinds, longest_pause
        self._path = folder / f"{name}.acts"
        self._lots = random.Random(f"{name} {os.getpid()}")

    def run(self) -> None:
        """Go on after the acts of a process of this name that was killed."""
        number = len(_read(self._path))
        while not (self._folder / "stop").exists():
            kind = self._lots.choice(list(self._kinds))
            name = f"{self._name}-{kind}-{number}"
            self._write(Act(name, kind))
            self._write(Act(name, kind, self._outcome(kind, name)))
            number += 1
            time.sleep(self._lots.uniform(0.0, self._longest_pause))

    def _outcome(self, kind: str, name: str) -> str:
        try:
            self._kinds[kind](name)
        except Conflict:
            return "conflict"
        except (PySparkException, Py4JJavaError, DeltaMirrorError) as error:
            text = str(error)
            return "conflict" if any(each in text for each in _CONFLICT) else text[:1_000]
        return "done"

    def _write(self, act: Act) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"name": act.name, "kind": act.kind, "outcome": act.outcome}) + "\n")


def race(name: str, folder: Path) -> None:
    """Statements of a stock job."""
    plan = Plan.read(folder)
    session, table = plan.session(), f"delta.`{plan.root}/counts`"

    def run(act: str, statement: str) -> None:
        session.conf.set(_USER_METADATA, act)
        session.sql(statement).collect()

    kinds: dict[str, Callable[[str], None]] = {
        "own": lambda act: run(act, f"UPDATE {table} SET n = n + 1 WHERE p = '{name}'"),
        SHARED: lambda act: run(act, f"UPDATE {table} SET n = n + 1 WHERE p = '{SHARED}'"),
        "append": lambda act: run(act, f"INSERT INTO {table} VALUES ('rows', '{act}', 1)"),
        "event": lambda act: run(act, f"INSERT INTO delta.`{plan.root}/events` VALUES ('{act}')"),
    }
    _Actor(name, folder, kinds, longest_pause=0.3).run()


def race_in_python(name: str, folder: Path) -> None:
    """The same by our own writers."""
    with Catalog(settings=load(environment=os.environ).settings) as catalog:

        def update(act: str, partition: str) -> None:
            with catalog.transaction(user_metadata=act) as tx:
                tx.update("counts", {"n": "n + 1"}, f"p = '{partition}'")

        def append(act: str) -> None:
            with catalog.transaction(user_metadata=act) as tx:
                tx.append("counts", pa.table({"p": ["rows"], "act": [act], "n": [1]}))

        kinds = {"own": lambda act: update(act, name), SHARED: lambda act: update(act, SHARED), "append": append}
        _Actor(name, folder, kinds, longest_pause=5.0).run()  # a commit takes a job far longer


def stream(_: str, folder: Path) -> None:
    """Copy a table until there is nothing more to come."""
    plan = Plan.read(folder)
    session = plan.session()
    while True:
        is_last = (folder / "stopped").exists()
        rows = session.readStream.format("delta").option("maxFilesPerTrigger", 2).load(f"{plan.root}/events")
        query = rows.writeStream.format("delta").option("checkpointLocation", str(folder / "stream"))
        query.trigger(availableNow=True).start(f"{plan.root}/copy").awaitTermination()
        if is_last:
            return


_KINDS = {"racer": race, "python": race_in_python, "stream": stream}

if __name__ == "__main__":
    _KINDS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
