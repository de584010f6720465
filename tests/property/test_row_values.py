"""Rows of every type, with values at the ends of their types: they come back, filters find them, delta-rs reads them.

The filters are judged row by row, in plain Python, by Spark's order: NaN is the largest number and equals itself.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamirror import Catalog
from tests.support.mirrors.local import mirror_of
from tests.support.suite.examples import long_examples

pytestmark = pytest.mark.requirement("R89")

EPOCH = date(1970, 1, 1)
FIRST, LAST = (date.min - EPOCH).days, (date.max - EPOCH).days
DAY = 86_400_000_000
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
EDGES = ["", " ", "a" * 32, "a" * 33 + "\x7f", "\x7f" * 40, "\U0010ffff" * 20, "é" * 40, "'", "NaN", "a/b=c%"]


def integers(bits: int) -> st.SearchStrategy[int]:
    bound = 2 ** (bits - 1)
    return st.sampled_from([-bound, -1, 0, 1, bound - 1]) | st.integers(-bound, bound - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    numbers = st.sampled_from([-most, -1, 0, 1, most]) | st.integers(-most, most)
    return numbers.map(lambda number: Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale)))


@dataclass(frozen=True)
class Kind:
    """A type: how values are drawn, as Arrow takes them from numbers, and how a condition spells them."""

    ddl: str
    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    spelled: Callable[[Any], str] = str
    raw: pa.DataType | None = None
    is_partition: Callable[[Any], bool] = lambda _: True

    def column(self, values: list[Any]) -> pa.Array:
        return pa.array(values, self.raw or self.arrow).cast(self.arrow)

    def plain(self, column: pa.ChunkedArray) -> list[str]:
        """Values as texts that tell them apart, the two zeros and NaN too."""
        return [repr(value) for value in column.cast(self.raw or self.arrow).to_pylist()]


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def day(number: int) -> str:
    return f"'{EPOCH + timedelta(number)}'"


def moment(number: int) -> str:
    days, rest = divmod(number, DAY)
    seconds, micros = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return f"'{EPOCH + timedelta(days)} {clock}'"


def number(value: float) -> str:
    return repr(value) if math.isfinite(value) else quoted(str(value))


def in_calendar(number: int) -> bool:
    return FIRST <= number <= LAST


DAYS = st.sampled_from([-(2**31), FIRST - 1, FIRST, LAST, LAST + 1, 2**31 - 1]) | st.integers(-10_000, 40_000)
TIMES = st.sampled_from([-(2**63), FIRST * DAY - 1, FIRST * DAY, (LAST + 1) * DAY - 1, (LAST + 1) * DAY, 2**63 - 1])
TIMES |= st.integers(-(2**50), 2**52)
TEXTS = st.sampled_from(EDGES) | st.text(CHARACTERS, max_size=40)


def is_whole_or_positive(value: Decimal) -> bool:
    return value >= 0 or value == value.to_integral_value()


def times(ddl: str, arrow: pa.DataType) -> Kind:
    return Kind(ddl, arrow, TIMES, moment, pa.int64(), lambda each: in_calendar(each // DAY))


KINDS: Mapping[str, Kind] = {
    "y": Kind("byte", pa.int8(), integers(8)),
    "s": Kind("short", pa.int16(), integers(16)),
    "i": Kind("int", pa.int32(), integers(32)),
    "l": Kind("long", pa.int64(), integers(64)),
    "f": Kind("float", pa.float32(), st.floats(width=32), number),
    "d": Kind("double", pa.float64(), st.floats(), number),
    "c": Kind("decimal(38,18)", pa.decimal128(38, 18), decimals(38, 18), str, None, is_whole_or_positive),
    "m": Kind("decimal(5,2)", pa.decimal128(5, 2), decimals(5, 2), str, None, is_whole_or_positive),
    "b": Kind("boolean", pa.bool_(), st.booleans(), lambda value: str(value).upper()),
    "t": Kind("string", pa.string(), TEXTS, quoted),
    "e": Kind("date", pa.date32(), DAYS, day, pa.int32(), in_calendar),
    "z": times("timestamp", pa.timestamp("us", "UTC")),
    "n": times("timestamp_ntz", pa.timestamp("us")),
}
UNFILTERED: Mapping[str, Kind] = {
    "x": Kind("binary", pa.binary(), st.binary(max_size=8)),
    "a": Kind("array<double>", pa.list_(pa.float64()), st.lists(st.none() | st.floats(), max_size=3)),
    "r": Kind(
        "struct<p: date, q: string>",
        pa.struct([("p", pa.date32()), ("q", pa.string())]),
        st.fixed_dictionaries({"p": st.none() | st.dates(), "q": st.none() | TEXTS}),
    ),
    "o": Kind(
        "map<string, long>",
        pa.map_(pa.string(), pa.int64()),
        st.lists(st.tuples(TEXTS, st.none() | integers(64)), max_size=2, unique_by=lambda pair: pair[0]),
    ),
}
EVERY = {**KINDS, **UNFILTERED}
SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Row = Mapping[str, Any]
Truth = bool | None


@dataclass(frozen=True)
class Condition:
    """A condition as text, and what it says of a row."""

    text: str
    holds: Callable[[Row], Truth]


def ranked(value: Any) -> Any:
    """Where a value is in Spark's order."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


@st.composite
def comparisons(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(list(KINDS)))
    kind = KINDS[name]
    if draw(st.integers(0, 9)) == 0:
        return Condition(f"{name} IS NULL", lambda row: row[name] is None)
    sign = draw(st.sampled_from(["=", "<>"] if kind.arrow == pa.bool_() else list(SIGNS)))
    value = draw(
        kind.values.filter(in_calendar if name == "e" else kind.is_partition if name in "zn" else lambda _: True)
    )

    def holds(row: Row) -> Truth:
        return None if row[name] is None else SIGNS[sign](ranked(row[name]), ranked(value))

    return Condition(f"{name} {sign} {kind.spelled(value)}", holds)


def negated(inner: Condition) -> Condition:
    def holds(row: Row) -> Truth:
        found = inner.holds(row)
        return None if found is None else not found

    return Condition(f"NOT ({inner.text})", holds)


def joined(pair: tuple[Condition, Condition, bool]) -> Condition:
    left, right, is_all = pair

    def holds(row: Row) -> Truth:
        found = (left.holds(row), right.holds(row))
        decided = (not is_all) in found
        return (not is_all) if decided else None if None in found else is_all

    return Condition(f"({left.text}) {'AND' if is_all else 'OR'} ({right.text})", holds)


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: inner.map(negated) | st.tuples(inner, inner, st.booleans()).map(joined),
    max_leaves=4,
)


@dataclass(frozen=True)
class Drawn:
    """The rows of a table, append by append."""

    partition: str | None
    appends: list[list[dict[str, Any]]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All of them, as they are stored: an empty text is null as the value of a partition."""
        every = (row for rows in self.appends for row in rows)
        return [{**row, "t": row["t"] or None} if self.partition == "t" else row for row in every]


@st.composite
def tables(draw: st.DrawFn) -> Drawn:
    partition = draw(st.none() | st.sampled_from(list(KINDS)))

    def values(name: str, kind: Kind) -> st.SearchStrategy[Any]:
        return st.none() | (kind.values.filter(kind.is_partition) if name == partition else kind.values)

    row = st.fixed_dictionaries({name: values(name, kind) for name, kind in EVERY.items()})
    return Drawn(partition, draw(st.lists(st.lists(row, min_size=1, max_size=4), min_size=1, max_size=3)))


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: kind.column([row[name] for row in rows]) for name, kind in EVERY.items()})


def plain(table: pa.Table) -> list[tuple[str, ...]]:
    return sorted(zip(*(kind.plain(table.column(name)) for name, kind in EVERY.items()), strict=True))


@dataclass(frozen=True)
class Lake:
    """A catalog that many examples share: each has a table of its own."""

    catalog: Catalog
    folder: Path
    numbers: Iterator[int]

    @contextmanager
    def table(self, drawn: Drawn) -> Iterator[tuple[Any, Path]]:
        name = f"t{next(self.numbers)}"
        schema = ", ".join(f"{each} {kind.ddl}" for each, kind in EVERY.items())
        by = [] if drawn.partition is None else [drawn.partition]
        table = self.catalog.create_table(name, location=self.folder / name, schema=schema, partition_by=by)
        for rows in drawn.appends:
            table.append(arrow(rows))
        yield table, self.folder / name


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("values")
    with Catalog(f"sqlite:///{folder / 'lake.db'}") as catalog:
        catalog.init()
        yield Lake(catalog, folder, count())


@settings(max_examples=long_examples(40))
@given(drawn=tables(), conditions=st.lists(CONDITIONS, min_size=4, max_size=4))
def test_rows_come_back_and_filters_find_them(lake: Lake, drawn: Drawn, conditions: list[Condition]) -> None:
    with lake.table(drawn) as (table, _):
        assert plain(table.to_arrow()) == plain(arrow(drawn.rows))
        for condition in conditions:
            wanted = [row for row in drawn.rows if condition.holds(row) is True]
            assert plain(table.to_arrow(filter=condition.text)) == plain(arrow(wanted)), condition.text


@settings(max_examples=long_examples(20))
@given(drawn=tables())
def test_delta_rs_reads_the_same_rows(lake: Lake, drawn: Drawn) -> None:
    with lake.table(drawn) as (table, folder):
        with mirror_of(lake.catalog) as engine:
            engine.mirror(table.name)
        wanted = plain(arrow(drawn.rows))
        assert plain(pa.table(deltalake.DeltaTable(folder).to_pyarrow_table())) == wanted
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder))
        assert plain(pa.table(query.execute("SELECT * FROM t").read_all())) == wanted
