"""The life of a table that stock Delta Spark writes through the LogStore, beside a plain one: both stay the same.

After each operation both have the same rows, and SQL has them, too. At the end SQL has the log that Delta Spark wrote.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from deltamirror import Catalog, Table
from deltamirror.config import Settings
from deltamirror.delta.names import LOG_DIRECTORY
from deltamirror.ops.diff.comparing import compare
from deltamirror.ops.diff.sides import location_state, table_state
from deltamirror.storage.open import store_at
from deltamirror.storage.store import Store
from deltamirror.txnlog.access.tokens import Right
from tests.lockstep.kinds import KINDS, LONG, PARTITION_KINDS, Column
from tests.lockstep.pair import Disagreement, Moment, Subject
from tests.statements.drawing import ROWS, TABLE, Statements, create_statement, draw_statements
from tests.support.interfaces.status_pages import served
from tests.support.mirrors.local import committed_files, mirror_of
from tests.support.mirrors.reconcilers import assert_clean
from tests.support.readers.reader import Reader
from tests.support.readers.rows import row_texts
from tests.support.spark.stock_jobs import TwinJob, TwinOutcome, job_settings

_IDS = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=\"path\":\")[^\"]*|(?<=\"pathOrInlineDv\":\")[^\"]*")
_NUMBERS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Lake:
    """Where the tables lie, and how they are reached."""

    catalog: Catalog
    spark: Reader
    root: str
    """The folder of both sides, as Hadoop names it."""
    folder: Path
    """On disk, for the rows that statements read."""
    settings: Settings
    hadoop: Mapping[str, str]
    """Settings of Spark that reach the store."""


def live(seed: int, steps: int, lake: Lake, told: Callable[[str], object] = str) -> Counter[str]:
    """Take some steps, then compare the logs; how often each operation was taken, or refused."""
    ours = f"{lake.root}/ours"
    with served(lake.catalog, settings=lake.settings, create_below=ours.replace("s3a://", "s3://")) as page:
        job = job_settings(page.url, page.token("job", Right.WRITE), ours)
        life = _Life(Random(seed), lake, {**lake.hadoop, **job})
        counts: Counter[str] = Counter()
        for number in range(steps):
            drawn = draw_statements(life.random, life.subject)
            told(f"seed {seed}, step {number}: {drawn.name}")
            try:
                counts[drawn.name if life.take(drawn) else f"{drawn.name} refused"] += 1
            except Disagreement as error:
                raise Disagreement(f"seed {seed}, step {number}, {drawn}: {error}") from None
        for table in lake.catalog.tables():
            _compare_logs(lake, lake.catalog.table(table.name))
        life.compare_histories()
    return counts


class _Life:
    """Both tables, and what was done to them."""

    def __init__(self, random: Random, lake: Lake, settings: Mapping[str, str]) -> None:
        self.random, self._lake, self._settings = random, lake, settings
        partitions = [f"p{number}" for number in range(random.choice((0, 1, 1)))]
        columns = [
            Column("id", LONG),
            *(Column(name, random.choice(PARTITION_KINDS)) for name in partitions),
            *(Column(f"v{number}", kind) for number, kind in enumerate(random.sample(KINDS, 5))),
        ]
        mode = random.choice(("none", "name", "id"))
        properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
        if random.random() < 0.5:
            properties["delta.enableChangeDataFeed"] = "true"
        self.subject = Subject(
            folder=lake.folder, theirs=TABLE, columns=columns, partitions=partitions, is_mapped=mode != "none"
        )
        assert self.take(Statements("create", [create_statement(columns, partitions, properties)]))

    @property
    def _table(self) -> Table:
        return self._lake.catalog.table("t")

    def take(self, drawn: Statements) -> bool:
        """Do an operation to both; whether they took it. Afterwards both have the same rows."""
        ours, plain = self._run(drawn)
        if ours != plain:
            raise Disagreement(f"ours: {ours.shown(plain)}\nplain: {plain.shown(ours)}")
        if drawn.columns is not None and not ours.refusal:
            self.subject.columns = list(drawn.columns)
        if drawn.query == ROWS:
            in_sql = row_texts(self._table.to_arrow().to_pylist())
            if in_sql != ours.rows:
                raise Disagreement(f"in SQL: {in_sql}\nin Spark: {ours.rows}")
            head = self._table.info().head
            self.subject.moments.append(Moment(head, head, list(self.subject.columns), in_sql))
        return not ours.refusal

    def compare_histories(self) -> None:
        """Every version is of the same operation on both sides, and SQL says so, too."""
        compared = ("version", "operation")
        ours, plain = self._run(Statements("history", [], query=f"DESCRIBE HISTORY {TABLE}", compared=compared))
        assert (ours, ours.refusal) == (plain, ""), f"{ours.shown(plain)}\n{plain.shown(ours)}"
        entries = [{"version": entry.version, "operation": entry.operation} for entry in self._table.history()]
        assert row_texts(entries) == ours.rows, f"{entries}\n{ours}"

    def _run(self, drawn: Statements) -> tuple[TwinOutcome, TwinOutcome]:
        folders = [f"{self._lake.root}/{side}" for side in ("ours", "plain")]
        ours, plain = self._lake.spark.run(
            TwinJob(self._settings, folders, drawn.texts, drawn.query, drawn.compared, is_streamed=drawn.is_streamed)
        )
        return ours, plain


def _compare_logs(lake: Lake, table: Table) -> None:
    """The log is the one in SQL, to the byte, and spelled as the log that Delta Spark wrote without us."""
    with mirror_of(lake.catalog, settings=lake.settings) as engine:
        engine.run(once=True)
        [status] = engine.status(table.name)
        assert (status.state, status.lag_versions, status.failed) == ("active", 0, 0), f"{status}"
        assert_clean(engine, table.name)
    store = store_at(table.location, lake.settings.storage)
    compared = compare(table_state(lake.catalog.database, table.name, None), location_state(store, None))
    assert compared.first is None, f"{compared}"
    plain = store_at(table.location.replace("/ours/", "/plain/"), lake.settings.storage)
    for name, data in committed_files(table).items():
        assert _put(store, name) == data, f"{table.name}, {name}"
        ours, theirs = _spelling(data), _spelling(_put(plain, name))
        assert ours == theirs, f"{table.name}, {name}: {ours}\n{theirs}"


def _put(store: Store, name: str) -> bytes:
    found = store.read(f"{LOG_DIRECTORY}/{name}")
    return b"" if found is None else found.data


def _spelling(commit: bytes) -> list[str]:
    """The lines of a commit but for ids and numbers, which differ from table to table."""
    return sorted(_NUMBERS.sub("0", _IDS.sub("id", line)) for line in commit.decode().splitlines())
