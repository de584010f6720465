"""The language of conditions and values: whatever is written, it is computed, or refused in our words."""

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

from deltamirror.delta.schema import Field, StructType, from_ddl
from deltamirror.delta.schema.arrow import to_arrow
from deltamirror.errors import InvalidInput
from deltamirror.rows.changes import evaluated
from deltamirror.rows.expressions import Mismatch, assigned
from deltamirror.rows.parsing import Scope, condition_in, value_in

SCHEMA = from_ddl(
    "b byte, i int, l long, f float, d double, c decimal(10,2), k decimal(38,0), o boolean, s string, y binary, "
    "e date, t timestamp, n timestamp_ntz, a array<int>, m map<string,int>, r struct<x: int, z: string>"
)
SCOPE = Scope("table 't'", SCHEMA)
ROW = {
    "b": 127,
    "i": 2**31 - 1,
    "l": -(2**63),
    "f": math.nan,
    "d": -0.0,
    "c": Decimal("99999999.99"),
    "k": Decimal(10**38 - 1),
    "o": True,
    "s": "é x",
    "y": b"\xff",
    "e": date(2026, 11, 16),
    "t": datetime(2026, 11, 16, tzinfo=UTC),
    "n": datetime.fromisoformat("2026-11-16T00:00:00"),
    "a": [1],
    "m": [("k", None)],
    "r": {"x": 1, "z": None},
}
ROWS = pa.RecordBatch.from_pylist([ROW, dict.fromkeys(ROW)], to_arrow(SCHEMA))
ATOMS = [*ROW, "r.x", "r.z", "0", "1", "-3", "2.50", "1e3", "99999999999", "'x'", "'2026-11-16'", "''", "TRUE", "NULL"]
INFIXES = ["+", "-", "*", "/", "||", "=", "<>", "<", "<=", ">", ">=", "AND", "OR", "==", "!="]


def drawn(random: Random, depth: int) -> str:
    """A text that may or may not mean something."""
    if depth == 0 or random.random() < 0.25:
        return random.choice(ATOMS)

    def inner() -> str:
        return drawn(random, depth - 1)

    match random.randrange(10):
        case 0:
            return f"NOT {inner()}"
        case 1:
            return f"{inner()} IS {random.choice(['', 'NOT '])}NULL"
        case 2:
            return f"{inner()} {random.choice(['', 'NOT '])}IN ({inner()}, {inner()})"
        case 3:
            return f"{inner()} BETWEEN {inner()} AND {inner()}"
        case 4:
            function = random.choice(["abs", "coalesce", "concat", "length", "trim", "LENGTH", "nix"])
            return f"{function}({', '.join(inner() for _ in range(random.randrange(1, 3)))})"
        case 5:
            return f"CASE WHEN {inner()} THEN {inner()} {random.choice(['', f'ELSE {inner()} '])}END"
        case 6:
            return f"-{inner()}"
        case _:
            return f"({inner()}) {random.choice(INFIXES)} {inner()}"


@pytest.mark.requirement("R89")
def test_whatever_is_written_is_computed_or_refused_in_our_words() -> None:
    random, computed = Random(17), 0
    for _ in range(2_000):
        text = drawn(random, random.randrange(1, 4))
        try:
            condition = condition_in(text, SCOPE)
            found = evaluated(ROWS, [condition.of_rows(), condition.of_bounds()], "t")
            assert all(each.type == pa.bool_() for each in found), text
            computed += 1
        except InvalidInput:
            continue
    assert computed > 150


def test_a_value_is_one_of_its_column_or_refused() -> None:
    random, stored = Random(18), 0
    for _ in range(1_500):
        text, column = drawn(random, random.randrange(3)), random.choice(SCHEMA.fields)
        try:
            [found] = evaluated(ROWS, [assigned(value_in(text, SCOPE), column)], "t")
            assert found.type == ROWS.schema.field(column.name).type, (text, column.name)
            stored += 1
        except (InvalidInput, Mismatch):
            continue
    assert stored > 150


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("i - 1 * 2 - 1", 2**31 - 4),
        ("-(-b)", 127),
        ("c * 0.5", Decimal("50000000.00")),  # 49999999.995, rounded half up by the column
        ("l / 2", -(2.0**62)),
        ("length(s || '!')", 4),
        ("coalesce(r.z, trim('  y '))", "y"),
        ("CASE WHEN o AND NULL THEN 1 WHEN o THEN 2 END", 2),
        ("f = d OR f > 1.5", True),  # NaN is above all numbers
        ("d = 0", True),
        ("NOT (r.z = 'x')", None),
        ("b BETWEEN 127 AND 127 AND e >= '2026-11-16'", True),
        ("e = DATE '2026-11-16' AND t >= DATE'2026-11-16'", True),
        ("coalesce(e, DATE'2026-11-17')", date(2026, 11, 16)),
        (r"'a\n\t\\\'\%\q''b\101\u00e9\U0001f600\ud83d\ude00'", "a\n\t\\'\\%q'bAé😀😀"),
        ("CASE WHEN f < 1.1 THEN 1 ELSE 0 END", 0),
    ],
)
def test_values_are_those_of_spark(text: str, found: object) -> None:
    value = value_in(text, SCOPE)
    expression = (
        assigned(value, Field("c", from_ddl("c decimal(10,2)").fields[0].type)) if text.startswith("c *") else None
    )
    assert evaluated(ROWS, [expression if expression is not None else value.expression], "t")[0][0].as_py() == found


def test_a_float_is_compared_with_a_number_that_is_none_as_a_double() -> None:
    rows = pa.RecordBatch.from_pylist([{"f": 1.1}, {"f": 1.5}], to_arrow(from_ddl("f float")))
    scope = Scope("table 't'", from_ddl("f float"))
    for text, found in (("f = 1.1", [False, False]), ("f > '1.1'", [True, True]), ("f IN (1.5, 1.1)", [False, True])):
        condition = condition_in(text, scope)
        assert evaluated(rows, [condition.of_rows()], "t")[0].to_pylist() == found, text


@pytest.mark.parametrize(("text", "sign"), [("-0.0", 1), ("-0", 1), ("-0.0E0", -1), ("-(d * 0)", 1), ("-abs(d)", -1)])
def test_zero_has_a_sign_where_it_has_one_in_spark(text: str, sign: int) -> None:
    [found] = evaluated(ROWS, [assigned(value_in(text, SCOPE), SCHEMA.fields[4])], "t")
    assert (found[0].as_py(), math.copysign(1, found[0].as_py())) == (0, sign)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("s = DATE '2026-11-16'", "'2026-11-16' is no value of 's', which is string"),
        ("e = DATE 'tomorrow'", "'tomorrow' is no value of date"),
        ("s || DATE '2026-11-16' = 'x'", "is date, and not a text"),
        (r"s = '\ud83d'", "names a character that there is not"),
        (r"s = '\'", "is not expected"),
    ],
)
def test_literals_that_spark_reads_otherwise_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(problem)):
        condition_in(text, SCOPE)


def test_names_without_a_side_are_those_of_one_side() -> None:
    sides = StructType((Field("target", from_ddl("id long, x int")), Field("source", from_ddl("id long, z int"))))
    scope = Scope("table 't'", sides, ("target", "source"))
    assert condition_in("x = z AND source.id = target.id", scope).columns == {
        ("target", "x"),
        ("source", "z"),
        ("source", "id"),
        ("target", "id"),
    }
    with pytest.raises(InvalidInput, match="'id' is a column of target and source: say which one"):
        condition_in("id = 1", scope)
