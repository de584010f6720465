"""Random appends, deletes, updates and merges on tables of every kind, against a model of plain Python rows.

The model has SQL's logic of three values: a condition is True, False or None, and only True counts. A step that is
refused by the model (two rows of a source for one of the table) has to be refused by the table, and changes nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from deltamirror import Catalog, Delete, DeletionVector, Insert, Table, Update
from deltamirror.errors import InvalidInput
from deltamirror.rows.predicates import SIGNS
from tests.admission.vectors import inline_vector
from tests.support.readers.rows import row_texts
from tests.support.suite.examples import long_examples

pytestmark = pytest.mark.requirement("R89")

Row = dict[str, Any]
SCHEMA = (
    "k long, a int, d double, s string, f boolean, p string, c decimal(12,3), e date, t timestamp, n timestamp_ntz, "
    "y binary, l array<int>, m map<string,int>, r struct<g: string, h: long>"
)
ARROW = pa.schema(
    [
        ("k", pa.int64()),
        ("a", pa.int32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("f", pa.bool_()),
        ("p", pa.string()),
        ("c", pa.decimal128(12, 3)),
        ("e", pa.date32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("y", pa.binary()),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("r", pa.struct([("g", pa.string()), ("h", pa.int64())])),
    ]
)
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "plain": ([], {}),
    "partitions": (["p"], {}),
    "mapped": (["p"], {"delta.columnMapping.mode": "name"}),
    "vectors": ([], {"delta.enableDeletionVectors": "true"}),
    "tracked": (["p"], {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "id"}),
}
STEPS = long_examples(150)


@dataclass(frozen=True)
class Condition:
    """A condition as a text, and as the model judges it; columns are asked for by name."""

    text: str
    of: Callable[[Row], bool | None]


def ordered(value: Any) -> Any:
    """A value in Spark's order of numbers: NaN is the largest, and equals itself; both zeros are equal."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def compared(sign: str, left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else bool(SIGNS[sign](ordered(left), ordered(right)))


def every(values: Iterator[bool | None]) -> bool | None:
    found = list(values)
    return False if False in found else None if None in found else True


def some(values: Iterator[bool | None]) -> bool | None:
    found = list(values)
    return True if True in found else None if None in found else False


def drawn_row(random: Random) -> Row:
    day = random.randrange(3)
    row: Row = {
        "k": random.randrange(30),
        "a": random.choice([-1, 0, 1, 2, 2**29]),
        "d": random.choice([math.nan, 0.0, -0.0, 1.5, -2.0]),
        "s": random.choice(["", "x", "é", "it's"]),
        "f": random.random() < 0.5,
        "p": random.choice(["u", "v w", "z/1"]),
        "c": Decimal(random.randrange(-2000, 2000)).scaleb(-3),
        "e": date(2026, 11, 16) + timedelta(day),
        "t": datetime(2026, 11, 16, tzinfo=UTC) + timedelta(hours=day),
        "n": datetime.fromisoformat("1969-12-31T23:59:59.999999") + timedelta(day),
        "y": bytes([day]),
        "l": [day, None],
        "m": [("a", day)],
        "r": {"g": "g", "h": day},
    }
    return {name: None if random.random() < 0.15 else value for name, value in row.items()}


def literal(random: Random, name: str) -> tuple[str, Any]:
    value = None
    while value is None:
        value = drawn_row(random)[name]
    if name == "d":
        return ("'NaN'" if math.isnan(value) else repr(value)), value
    quoted = name in ("s", "p", "e")
    return ("'" + str(value).replace("'", "''") + "'") if quoted else str(value), value


def leaf(random: Random, side: str) -> Condition:
    name = random.choice(["k", "a", "d", "s", "p", "c", "e", "f"])
    shown, sign = f"{side}{name}", random.choice(list(SIGNS))
    if random.random() < 0.2:
        return Condition(f"{shown} IS NULL", lambda row: row[name] is None)
    if name == "f":
        return Condition(shown, lambda row: row["f"])
    if name == "k" and random.random() < 0.5:
        return Condition(
            f"{shown} + {side}a * 2 {sign} 9",
            lambda row: compared(sign, None if None in (row["k"], row["a"]) else row["k"] + row["a"] * 2, 9),
        )
    if name == "s" and random.random() < 0.3:
        return Condition(
            f"length(coalesce({shown}, 'none') || {side}p) {sign} 4",
            lambda row: compared(
                sign, None if row["p"] is None else len(("none" if row["s"] is None else row["s"]) + row["p"]), 4
            ),
        )
    text, value = literal(random, name)
    return Condition(f"{shown} {sign} {text}", lambda row: compared(sign, row[name], value))


def condition(random: Random, side: str = "", depth: int = 2) -> Condition:
    kind = random.random()
    if depth == 0 or kind < 0.4:
        return leaf(random, side)
    if kind < 0.55:
        inner = condition(random, side, depth - 1)
        return Condition(f"NOT ({inner.text})", lambda row: None if (found := inner.of(row)) is None else not found)
    parts = [condition(random, side, depth - 1) for _ in range(2)]
    word, judge = random.choice([("AND", every), ("OR", some)])
    return Condition(
        f" {word} ".join(f"({each.text})" for each in parts), lambda row: judge(each.of(row) for each in parts)
    )


Values = dict[str, tuple[str, Callable[[Row], Any]]]
ASSIGNED: Values = {
    "a": (
        "CASE WHEN {0}a > 100 THEN 0 ELSE {0}a + 1 END",
        lambda row: None if row["a"] is None else 0 if row["a"] > 100 else row["a"] + 1,
    ),
    "d": ("{0}d * 2", lambda row: None if row["d"] is None else row["d"] * 2),
    "s": ("concat({0}s, '!')", lambda row: None if row["s"] is None else row["s"] + "!"),
    "p": ("coalesce({0}p, 'u')", lambda row: "u" if row["p"] is None else row["p"]),
    "c": (
        "{0}c * 0.5",
        lambda row: (
            None if row["c"] is None else (row["c"] * Decimal("0.5")).quantize(Decimal("0.001"), "ROUND_HALF_UP")
        ),
    ),
    "f": ("{0}k > 9", lambda row: compared(">", row["k"], 9)),
    "e": ("'2030-01-01'", lambda row: date(2030, 1, 1)),
    "r": ("NULL", lambda row: None),
}


def values(random: Random, side: str = "") -> Values:
    names = random.sample(sorted(ASSIGNED), random.randrange(1, 4))
    return {name: (ASSIGNED[name][0].replace("{0}", side), ASSIGNED[name][1]) for name in names}


def texts(found: Values) -> Mapping[str, str]:
    return {name: text for name, (text, _) in found.items()}


def updated(row: Row, found: Values, among: Row) -> Row:
    return {**row, **{name: of(among) for name, (_, of) in found.items()}}


def plain(row: Row) -> Row:
    """The empty text is null as the value of a partition; it is never drawn there."""
    return {**row, "d": None if row["d"] is None else f"{row['d'] + 0.0}"}


@dataclass
class Life:
    """A table and its model, step by step."""

    catalog: Catalog
    table: Table
    random: Random
    rows: list[Row] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def append(self) -> None:
        added = [drawn_row(self.random) for _ in range(self.random.randrange(1, 12))]
        self.steps.append("append")
        self.table.append(pa.Table.from_pylist(added, schema=ARROW))
        self.rows += added

    def delete(self) -> None:
        where = condition(self.random)
        self.steps.append(f"delete {where.text}")
        self.table.delete(where.text)
        self.rows = [row for row in self.rows if where.of(row) is not True]

    def update(self) -> None:
        where, found = condition(self.random), values(self.random)
        self.steps.append(f"update {texts(found)} where {where.text}")
        self.table.update(texts(found), where.text)
        self.rows = [updated(row, found, row) if where.of(row) is True else row for row in self.rows]

    def vector(self) -> None:
        """Another writer deletes rows by deletion vectors."""
        adds = [each for each in self.table.snapshot().adds() if each.deletion_vector is None]
        if "delta.enableDeletionVectors" not in self.table.snapshot().metadata.configuration or not adds:
            return
        add = self.random.choice(adds)
        listed = pa.Table.from_batches(self.table.scan()).num_rows
        with self.catalog.transaction() as tx:
            tx.remove("t", [add.path])
            tx.append("t", [replace(add, deletion_vector=DeletionVector(**inline_vector([0])))])
        left = self.table.to_arrow()
        assert left.num_rows == listed - 1
        self.steps.append("vector")
        self.rows = [{**row, "m": row["m"]} for row in left.to_pylist()]

    def merge(self) -> None:
        source = [drawn_row(self.random) for _ in range(self.random.randrange(0, 8))]
        if self.random.random() < 0.8:
            source = list({row["k"]: row for row in source}.values())
        extra = condition(self.random, "target.", 0) if self.random.random() < 0.4 else None
        matched = [self._clause("target.") for _ in range(self.random.randrange(3))]
        orphans = [self._clause("target.") for _ in range(self.random.randrange(2))]
        inserts = [condition(self.random, "source.", 1) for _ in range(self.random.randrange(2))]
        if not (matched or orphans or inserts):
            return
        on = "target.k = source.k" + (f" AND {extra.text}" if extra else "")
        self.steps.append(f"merge on {on}: {matched} {orphans} {inserts}")

        def matches(row: Row, other: Row) -> bool:
            return every(iter([compared("=", row["k"], other["k"]), extra.of(row) if extra else True])) is True

        def run() -> None:
            self.table.merge(
                pa.Table.from_pylist(source, schema=ARROW),
                on,
                matched=[_spelled(*each) for each in matched],
                not_matched=[Insert(where=each.text) for each in inserts],
                not_matched_by_source=[_spelled(*each) for each in orphans],
            )

        after = self._merged(source, matches, matched, orphans, inserts)
        if after is None:
            with pytest.raises(InvalidInput, match="rows of the source match the row with k ="):
                run()
        else:
            run()
            self.rows = after

    def _clause(self, side: str) -> tuple[Condition, Values | None]:
        return condition(self.random, side, 1), values(self.random, side) if self.random.random() < 0.6 else None

    def _merged(
        self,
        source: list[Row],
        matches: Callable[[Row, Row], bool],
        matched: list[tuple[Condition, Values | None]],
        orphans: list[tuple[Condition, Values | None]],
        inserts: list[Condition],
    ) -> list[Row] | None:
        """The rows after a merge; None where it is ambiguous."""
        after: list[Row] = []
        for row in self.rows:
            found = [other for other in source if matches(row, other)]
            clauses = matched if found else orphans
            clause = next((each for each in clauses if each[0].of(row) is True), None)
            acts = clause is not None or bool(orphans or inserts)
            if len(found) > 1 and matched and acts:
                return None
            if clause is None:
                after.append(row)
            elif clause[1] is not None:
                after.append(updated(row, clause[1], row))
        new = [each for each in source if not any(matches(row, each) for row in self.rows)]
        return after + [each for each in new if any(wanted.of(each) is True for wanted in inserts)]

    def check(self) -> None:
        found = row_texts(plain(row) for row in self.table.to_arrow().to_pylist())
        assert found == row_texts(plain(row) for row in self.rows), self.steps


def _spelled(where: Condition, found: Values | None) -> Update | Delete:
    return Delete(where.text) if found is None else Update(texts(found), where.text)


@pytest.mark.parametrize("kind", KINDS)
def test_edits_do_what_a_model_of_rows_says(sqlite_lake: str, tmp_path: Path, kind: str) -> None:
    partitions, properties = KINDS[kind]
    with Catalog(sqlite_lake) as catalog:
        table = catalog.create_table(
            "t", location=tmp_path / "t", schema=SCHEMA, partition_by=partitions, properties=properties
        )
        life = Life(catalog, table, Random(f"{kind} 1"))
        life.append()
        for _ in range(STEPS):
            step = life.random.choice([life.append, life.append, life.delete, life.update, life.merge, life.vector])
            step()
            life.check()
        assert table.info().head > STEPS * 0.4
