"""Where a checkpoint has typed statistics and no text, the text is made as the reference writer would have."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from deltamirror.deltalog.checkpoints import read_checkpoint
from deltamirror.deltalog.listing import read_listing
from deltamirror.deltalog.statistics import statistics_texts
from tests.support.imports.foreign_logs import assert_same_state, put_classic, state_after, store_in_memory
from tests.support.logs.checkpoint_tables import rows
from tests.support.logs.checkpoints import commit, file, first_commit


def text_of(value: object, kind: pa.DataType, *, zoned: bool = False) -> str:
    column = pa.array([{"v": value}], pa.struct([("v", kind)]))
    (text,) = statistics_texts(column, zoned=["v"] if zoned else []).to_pylist()
    return str(text)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (7, pa.int64(), "7"),
        (-7, pa.int8(), "-7"),
        (True, pa.bool_(), "true"),
        (1.1, pa.float32(), "1.1"),
        (1e8, pa.float64(), "1.0E8"),
        (1e-5, pa.float64(), "1.0E-5"),
        (-0.0, pa.float64(), "-0.0"),
        (float("nan"), pa.float64(), '"NaN"'),
        (float("-inf"), pa.float32(), '"-Infinity"'),
        (Decimal("1.50"), pa.decimal128(10, 2), "1.50"),
        (Decimal("0E-10"), pa.decimal128(20, 10), "0E-10"),
        (date(1, 1, 1), pa.date32(), '"0001-01-01"'),
        (
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            pa.timestamp("us", "UTC"),
            '"1969-12-31T23:59:59.999Z"',
        ),
        (datetime(2024, 1, 2, 3, 4, 5), pa.timestamp("us"), '"2024-01-02T03:04:05.000"'),  # noqa: DTZ001 - it has no zone
        ('a"\\\n\x1f\x7fé', pa.string(), '"a\\"\\\\\\n\\u001F\x7fé"'),
        ("", pa.string(), '""'),
        ({}, pa.struct([]), "{}"),
        ({"w": None}, pa.struct([("w", pa.int64())]), "{}"),
        ({"w,": 1, "x": 2}, pa.struct([("w,", pa.int64()), ("x", pa.int64())]), '{"w,":1,"x":2}'),
    ],
)
def test_a_value_is_written_as_the_reference_writes_it(value: object, kind: pa.DataType, expected: str) -> None:
    assert text_of(value, kind) == f'{{"v":{expected}}}'


def test_a_time_whose_type_hides_its_zone_is_in_utc() -> None:
    assert text_of(0, pa.timestamp("us"), zoned=True) == '{"v":"1970-01-01T00:00:00.000Z"}'


DAYS = (date.min.toordinal(), date.max.toordinal())
EPOCH = date(1970, 1, 1).toordinal()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_outside_of_the_years_1_to_9999_are_left_out(unit: str, zone: str | None) -> None:
    kind, day = pa.timestamp(unit, zone), 86_400 * {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    first, behind = (DAYS[0] - EPOCH) * day, (DAYS[1] + 1 - EPOCH) * day
    for number in (-(2**63), first - 1, behind, 2**63 - 1):
        assert text_of(number, kind) == "{}"
    end = "Z" if zone else ""
    assert text_of(first, kind) == f'{{"v":"0001-01-01T00:00:00.000{end}"}}'
    assert text_of(behind - 1, kind).startswith('{"v":"9999-12-31T23:59:59.')


def test_dates_outside_of_the_years_1_to_9999_are_left_out() -> None:
    """Arrow would write 10000-01-01 for +10000-01-01; at the reference writer's 0000-12-31, delta-rs fails."""
    first, last = (day - EPOCH for day in DAYS)
    for number in (-(2**31), first - 1, last + 1, 2**31 - 1):
        assert text_of(number, pa.date32()) == "{}"
    assert text_of(last, pa.date32()) == '{"v":"9999-12-31"}'


def test_what_is_null_is_left_out() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())])), ("d", pa.int64())])
    column = pa.array([None, {}, {"d": 1}, {"a": 1, "b": {}}, {"a": 1, "b": {"c": ","}, "d": 2}], kind)
    assert statistics_texts(column).to_pylist() == [
        None,
        "{}",
        '{"d":1}',
        '{"a":1,"b":{}}',
        '{"a":1,"b":{"c":","},"d":2}',
    ]


@pytest.mark.parametrize("keeps_column", [True, False])
def test_files_without_a_text_get_that_of_their_typed_statistics(keeps_column: bool) -> None:
    adds = [file("a"), file("b", stats='{"numRecords":1}'), file("c", stats=None), file("d", stats='{"numRecords":9}')]
    table = rows(state_after([first_commit(), commit(*adds)]))
    texts = [add.stats for add in adds]
    kept = [None, texts[1], None, '{"numRecords": 9}'] if keeps_column else [None] * 4
    bodies = [row["add"] for row in table.to_pylist()]
    for body, text in zip([body for body in bodies if body], kept, strict=True):
        body["stats"] = text
    place, kind = table.schema.get_field_index("add"), table.schema.field("add").type
    fields = [each for each in kind if keeps_column or each.name != "stats"]
    store = store_in_memory()
    put_classic(store, 1, table.set_column(place, "add", pa.array(bodies, pa.struct(fields))))
    found = read_checkpoint(store, read_listing(store).checkpoints[0])
    assert found.files.column("stats").to_pylist() == [texts[0], texts[1], None, kept[3] or texts[3]]


def test_texts_that_are_there_are_taken_as_they_are() -> None:
    odd = json.dumps({"numRecords": 1, "other": [1, 2]})
    state = state_after([first_commit(), commit(file("a", stats=odd), file("b"))])
    store = store_in_memory()
    put_classic(store, 1, rows(state))
    assert_same_state(read_checkpoint(store, read_listing(store).checkpoints[0]), state)
