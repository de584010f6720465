"""A table of ours beside one of Delta Lake on Spark, to which the same is done."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltamirror import Catalog, Table
from deltamirror.errors import DeltaMirrorError
from tests.lockstep.kinds import Column, sql_name
from tests.support.readers.reader import Reader, RequestFailed
from tests.support.readers.rows import row_texts


class Disagreement(AssertionError):
    """One of both tables took a step that the other refused, or has other rows after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: what it does to our table, and which statements do the same to theirs."""

    ours: Callable[[Table], object]
    theirs: Sequence[str]
    columns: Sequence[Column] | None = None
    """The columns afterwards, where the operation changes them."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A version that both tables had, with the same rows."""

    ours: int
    theirs: int
    columns: list[Column]
    rows: list[str]


@dataclass(kw_only=True)
class Subject:
    """A table as operations see it that are drawn for it."""

    folder: Path
    """Where sources lie."""
    theirs: str
    """The table of Delta Spark, as its statements name it."""
    columns: list[Column]
    partitions: list[str]
    is_mapped: bool
    moments: list[Moment] = field(default_factory=list)
    sources: int = 0

    def source(self, rows: pa.Table) -> str:
        """Rows as a table that Spark reads."""
        self.sources += 1
        path = self.folder / f"source-{self.sources}.parquet"
        pq.write_table(rows, path)
        return f"parquet.`{path}`"


@dataclass(kw_only=True)
class Pair(Subject):
    """Both tables, and the moments at which they were equal."""

    table: Table
    spark: Reader
    checker: Reader
    """Reads their table after each step."""

    @classmethod
    def create(
        cls,
        catalog: Catalog,
        readers: tuple[Reader, Reader],
        folder: Path,
        columns: list[Column],
        partitions: list[str],
        properties: Mapping[str, str],
    ) -> "Pair":
        """Two empty tables."""
        folder.mkdir()
        schema = ", ".join(f"{sql_name(each.name)} {each.kind.sql}" for each in columns)
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
        by = f"PARTITIONED BY ({', '.join(map(sql_name, partitions))})" if partitions else ""
        given = f"TBLPROPERTIES ({pairs})" if pairs else ""
        theirs = f"delta.`{folder / 'theirs'}`"
        readers[0].sql(f"CREATE TABLE {theirs} ({schema}) USING delta {by} {given}")
        table = catalog.create_table(
            folder.name, location=folder / "ours", schema=schema, partition_by=partitions, properties=properties
        )
        return cls(
            folder=folder,
            theirs=theirs,
            columns=columns,
            partitions=partitions,
            is_mapped="delta.columnMapping.mode" in properties,
            table=table,
            spark=readers[0],
            checker=readers[1],
        )

    def take(self, step: Step) -> bool:
        """Do a step to both; whether they took it. Afterwards both have the same rows."""
        ours, theirs = _refusal(lambda: step.ours(self.table)), _refusal(lambda: self._run(step.theirs))
        if (ours is None) != (theirs is None):
            raise Disagreement(f"ours: {ours or 'took it'}\ntheirs: {theirs or 'took it'}\n{step.theirs}")
        if step.columns is not None and ours is None:
            self.columns = list(step.columns)
        self._compare(step)
        return ours is None

    def _run(self, statements: Sequence[str]) -> None:
        """Run statements; what OPTIMIZE returns, Spark does not get into Arrow, though it has done its work."""
        for statement in statements:
            try:
                self.spark.sql(statement)
            except RequestFailed as error:
                if not statement.startswith("OPTIMIZE") or "viewed as non-nullable" not in str(error):
                    raise

    def _compare(self, step: Step) -> None:
        [answer] = self.checker.rows_of([(str(self.folder / "theirs"), None)])
        ours, theirs = row_texts(self.table.to_arrow().to_pylist()), answer.get("rows", [answer.get("error")])
        if ours != theirs:
            own, others = ([each for each in ours if each not in theirs], [each for each in theirs if each not in ours])
            raise Disagreement(f"{len(ours)} and {len(theirs)} rows\nours: {own}\ntheirs: {others}\n{step.theirs}")
        newest = max(int(each.stem) for each in (self.folder / "theirs/_delta_log").glob("*.json"))
        self.moments.append(Moment(self.table.info().head, newest, self.columns, ours))


def _refusal(work: Callable[[], object]) -> str | None:
    try:
        work()
    except (DeltaMirrorError, RequestFailed) as error:
        return f"{type(error).__name__}: {error}"[:600]
    return None
