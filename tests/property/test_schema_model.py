"""Random changes of columns between appends of rows: every reader finds the rows that a model of plain Python has.

The model knows columns by numbers of its own, which renaming does not change, and which are never used twice: a row has
values by these numbers, and null in all columns that came after it.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamirror import Catalog, Table
from deltamirror.delta.schema import from_ddl
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.errors import InvalidAction, InvalidSchema
from tests.support.logs.folder import write_log
from tests.support.readers.reader import Reader
from tests.support.readers.rows import row_texts
from tests.support.suite.examples import long_examples

pytestmark = [pytest.mark.requirement("R89"), pytest.mark.requirement("R119")]

SEEDS = range(long_examples(40))
STEPS = 7
MAPPED = {"delta.columnMapping.mode": "name"}
LEAVES = {"int": lambda draw: draw.randrange(-9, 9), "string": lambda draw: draw.choice(["", "x", "long" * 9])}

Row = dict[int, Any]


@dataclass
class Column:
    """A column of the model; ``kind`` is a leaf, ``struct`` or ``array`` (of structs)."""

    number: int
    name: str
    kind: str
    below: list["Column"] = field(default_factory=list)

    @property
    def ddl(self) -> str:
        inside = f"struct<{', '.join(f'`{each.name}`: {each.ddl}' for each in self.below)}>"
        return {"struct": inside, "array": f"array<{inside}>"}.get(self.kind, self.kind)

    def drawn(self, draw: random.Random) -> Any:
        """A value of this column, by the numbers of what is inside of it."""
        if draw.random() < 0.2:
            return None
        match self.kind:
            case "struct":
                return {each.number: each.drawn(draw) for each in self.below}
            case "array":
                return [{each.number: each.drawn(draw) for each in self.below} for _ in range(draw.randrange(3))]
            case leaf:
                return LEAVES[leaf](draw)

    def shown(self, value: Any) -> Any:
        """A value as readers show it."""
        match self.kind, value:
            case "struct", Mapping():
                return shown(self.below, value)
            case "array", list():
                return [shown(self.below, each) for each in value]
            case _:
                return value


def shown(columns: list[Column], row: Mapping[int, Any]) -> dict[str, Any]:
    return {each.name: each.shown(row.get(each.number)) for each in columns}


@dataclass
class Model:
    """The table as it has to be: its columns, and its rows."""

    draw: random.Random
    is_mapped: bool
    numbers: Iterator[int] = field(default_factory=count)
    columns: list[Column] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def column(self, depth: int = 0) -> Column:
        kind = self.draw.choice(["int", "string", "struct", "array"] if depth < 2 else list(LEAVES))
        number = next(self.numbers)
        name = self.draw.choice([f"c{number}", f"C {number}.x" if self.is_mapped else f"C_{number}"])
        inside = self.draw.randrange(1, 3) if kind in ("struct", "array") else 0
        return Column(number, name, kind, [self.column(depth + 1) for _ in range(inside)])

    def expected(self) -> list[str]:
        return row_texts(shown(self.columns, row) for row in self.rows)

    def place(self) -> tuple[str, list[Column]]:
        """The columns of the table, or of a struct or array somewhere in it, with the path that leads there."""
        path, columns = "", self.columns
        while nested := [each for each in columns if each.below]:
            if self.draw.random() < 0.4:
                break
            chosen = self.draw.choice(nested)
            path += f"`{chosen.name}`.{'element.' if chosen.kind == 'array' else ''}"
            columns = chosen.below
        return path, columns

    def add(self, table: Table) -> None:
        (path, columns), added = self.place(), self.column()
        where = self.draw.randrange(len(columns) + 1)
        position = "FIRST" if where == 0 else f"AFTER `{columns[where - 1].name}`"
        columns.insert(where, added)
        table.alter(columns=f"{path}`{added.name}` {added.ddl} {position}")

    def move(self, table: Table) -> None:
        path, columns = self.place()
        moved = self.draw.choice(columns)
        columns.remove(moved)
        columns.insert(0, moved)
        table.alter(change_columns={f"{path}`{moved.name}`": "FIRST COMMENT 'moved'"})

    def rename(self, table: Table) -> None:
        path, columns = self.place()
        renamed, name = self.draw.choice(columns), f"r{next(self.numbers)}"
        table.alter(rename_columns={f"{path}`{renamed.name}`": name}, enable_column_mapping=True)
        renamed.name, self.is_mapped = name, True

    def drop(self, table: Table) -> None:
        path, columns = self.place()
        dropped = self.draw.choice(columns)
        try:
            table.alter(drop_columns=f"{path}`{dropped.name}`", enable_column_mapping=True)
        except InvalidSchema:
            assert len(columns) == 1
        except InvalidAction as refused:
            if refused.rule != "metaData.change.struct-fields":  # a file would have a struct, and no field of it
                raise
        else:
            columns.remove(dropped)
            self.is_mapped = True

    def append(self, table: Table, *, merge: bool = False) -> None:
        """Rows for all columns or for some; with ``merge``, also for one more, which comes last in its place."""
        if merge:
            self.place()[1].append(self.column())
        given = [each for each in self.columns if merge or self.draw.random() < 0.8] or self.columns
        rows = [{each.number: each.drawn(self.draw) for each in given} for _ in range(3)]
        schema = to_arrow(from_ddl(", ".join(f"`{each.name}` {each.ddl}" for each in given)))
        table.append(pa.Table.from_pylist([shown(given, row) for row in rows], schema), merge_schema=merge)
        self.rows += rows


def run(model: Model, table: Table) -> None:
    """Seven changes, each with rows after it."""
    model.append(table)
    for _ in range(STEPS):
        steps: list[Callable[[Table], None]] = [
            model.add,
            model.move,
            model.rename,
            model.drop,
            lambda made: model.append(made, merge=True),
        ]
        model.draw.choice(steps)(table)
        model.append(table)
        assert row_texts(table.to_arrow().to_pylist()) == model.expected()


def test_rows_are_those_of_the_model_after_any_changes(
    sqlite_lake: str, tmp_path: Path, delta_rs: Reader, duckdb_delta: Reader
) -> None:
    expected: dict[str, list[str]] = {}
    with Catalog(sqlite_lake) as catalog:
        for seed in SEEDS:
            draw = random.Random(f"schema {seed}")
            model = Model(draw, is_mapped=seed % 2 == 0)
            model.columns = [Column(next(model.numbers), "id", "int"), model.column(), model.column()]
            table = catalog.create_table(
                f"t{seed}",
                location=tmp_path / f"t{seed}",
                schema=", ".join(f"`{each.name}` {each.ddl}" for each in model.columns),
                properties=MAPPED if model.is_mapped else {},
            )
            run(model, table)
            head = table.info().head
            write_log(tmp_path / f"t{seed}", {version: table.commit_file(version) for version in range(head + 1)})
            expected[str(tmp_path / f"t{seed}")] = model.expected()
    for reader in (delta_rs, duckdb_delta):
        found = reader.rows_of([(location, None) for location in expected])
        for (location, rows), answer in zip(expected.items(), found, strict=True):
            assert (reader.name, location, answer) == (reader.name, location, {"rows": rows})
